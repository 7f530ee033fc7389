/* capture.h: streams being captured into graphs, and graphs. A graph is kept as the sequence in which its nodes were made, which
 * is a valid order of its dependencies; it is replayed in that order in one stream. */
#ifndef SIM_CUDA_CAPTURE_H
#define SIM_CUDA_CAPTURE_H

#include "work.h"

struct node {
    struct handle handle;
    struct graph *graph;
    struct node *next;
    int type;                       /* CUgraphNodeType */
    struct work *work;              /* NULL: an empty node */
};

struct graph {
    struct handle handle;
    struct node *first, **last;
    size_t count;
    struct keeping *keeping;        /* user_object.h */
};

struct exec {
    struct handle handle;
    struct work **work;
    size_t count;
    struct keeping *keeping;
};

struct capture {
    struct capture *next;
    struct stream *origin;
    struct graph *graph;
    pthread_t thread;
    int mode, status;
    uint64_t id;
};

/* All with the submit lock held, unless said otherwise. They do nothing (captured: false) while nothing is captured. */
CUresult capture_work(struct stream *stream, struct work *work, bool *captured);        /* takes the work over if captured */
CUresult capture_record(struct stream *stream, struct event *event, bool *captured);
CUresult capture_wait(struct stream *stream, struct event *event, bool *captured);

/* Without the lock. */
CUresult capture_unsafe(struct ctx *ctx);       /* a call that the capture mode forbids: ends captures, answers the error */
CUresult capture_blocks(struct stream *stream); /* a call that may not name a capturing stream */
void capture_abandon(struct stream *stream);    /* the stream goes */

/* graph.c */
struct graph *graph_new(void);
void graph_delete(struct graph *graph);
bool graph_append(struct graph *graph, struct work *work, int type, struct node **out);         /* takes the work over if true */

#endif
