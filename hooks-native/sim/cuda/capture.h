/* capture.h: streams being captured into graphs; see capture.c. */
#ifndef SIM_CUDA_CAPTURE_H
#define SIM_CUDA_CAPTURE_H

#include "graph.h"

struct capture {
    struct capture *next;
    struct stream *origin;
    struct stream *streams;         /* all that take part, by stream->next_captured */
    struct graph *graph;
    bool given;                     /* the graph is the program's, which began to capture into it */
    pthread_t thread;
    int mode, status;
    uint64_t id;
};

extern __thread int capture_thread_mode;        /* CUstreamCaptureMode of the calling thread */

/* All with the submit lock held, unless said otherwise. They do nothing (captured: false) while nothing is captured. */
CUresult capture_work(struct stream *stream, struct work *work, bool *captured);        /* takes the work over if captured */
CUresult capture_graph(struct stream *stream, const struct graph *graph, bool *captured);
CUresult capture_record(struct stream *stream, struct event *event, bool external, bool *captured);
CUresult capture_wait(struct stream *stream, struct event *event, bool external, bool *captured);
bool capture_begin(struct capture *capture);    /* false: no memory */
bool capture_end(struct capture *capture);      /* lets its streams go; true: all that they had was joined. The caller frees it */
/* Of the legacy stream: the capture of a blocking stream of its context, because of which it may not be used. Else NULL. */
struct capture *capture_implicit(const struct stream *stream);
extern struct capture *captures;
extern _Atomic int captures_active;     /* how many: the fast way out, without the lock */

/* Without the lock. */
CUresult capture_unsafe(void);                  /* a call that the capture mode forbids: ends captures, answers the error */
CUresult capture_allows(struct ctx **ctx);      /* the current context, for such a call */
CUresult capture_blocks(struct stream *stream); /* a call that may not name a capturing stream */
CUresult capture_event(const struct event *event);      /* a call that asks for an event, which may not be a captured one */
CUresult capture_context(const struct ctx *ctx);        /* a call that waits for all of a context, in whatever mode */
void capture_abandon(struct stream *stream);    /* the stream goes */

#endif
