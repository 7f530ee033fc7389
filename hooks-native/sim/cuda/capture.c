/* capture.c: stream capture: who is capturing, what goes into the graph, and which calls end a capture with an error. */
#include <stdlib.h>

#include "capture.h"

static struct capture *captures;        /* submit lock */
static _Atomic int active;              /* how many: the fast way out */
static __thread int thread_mode = CAPTURE_GLOBAL;

/* Some blocking stream of the context is captured, so the legacy stream may not be used. */
static struct capture *implicit(const struct stream *stream) {
    if (!stream->legacy)
        return NULL;
    for (struct capture *c = captures; c; c = c->next)
        if (c->origin->ctx == stream->ctx && !(c->origin->flags & CU_STREAM_NON_BLOCKING))
            return c;
    return NULL;
}

CUresult capture_work(struct stream *stream, struct work *work, bool *captured) {
    if (!active)
        return CUDA_SUCCESS;
    struct capture *capture = implicit(stream);
    if (capture) {
        capture->status = CAPTURE_INVALIDATED;
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    capture = stream->capture;
    if (!capture)
        return CUDA_SUCCESS;
    if (capture->status == CAPTURE_INVALIDATED)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    static const int types[] = {[WORK_KERNEL] = 0, [WORK_COPY] = 1, [WORK_SET] = 2, [WORK_CALL] = 3};
    work->ctx = stream->ctx;
    if (work->kind == WORK_COPY)
        work->copy.snapshot = false;    /* a graph reads its source at each launch */
    if (!graph_append(capture->graph, work, types[work->kind], NULL))
        return CUDA_ERROR_OUT_OF_MEMORY;
    stream->capture_count++;
    stream->capture_joined = false;
    *captured = true;
    return CUDA_SUCCESS;
}

CUresult capture_record(struct stream *stream, struct event *event, bool *captured) {
    if (!active)
        return CUDA_SUCCESS;
    struct capture *capture = implicit(stream);
    if (capture) {
        capture->status = CAPTURE_INVALIDATED;
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    capture = stream->capture;
    if (!capture)
        return CUDA_SUCCESS;
    if (capture->status == CAPTURE_INVALIDATED)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    event->capture_id = capture->id;
    event->capture_stream = stream;
    event->capture_at = stream->capture_count;
    *captured = true;
    return CUDA_SUCCESS;
}

CUresult capture_wait(struct stream *stream, struct event *event, bool *captured) {
    if (!active)
        return event->capture_id ? CUDA_ERROR_CAPTURED_EVENT : CUDA_SUCCESS;
    struct capture *of_event = captures;
    while (of_event && of_event->id != event->capture_id)
        of_event = of_event->next;
    struct capture *own = stream->capture;
    if (own && own->status == CAPTURE_INVALIDATED)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (!of_event) {
        if (!own)
            return event->capture_id ? CUDA_ERROR_CAPTURED_EVENT : CUDA_SUCCESS;
        own->status = CAPTURE_INVALIDATED;      /* depends on work outside the graph */
        return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    if (own && own != of_event) {
        own->status = of_event->status = CAPTURE_INVALIDATED;
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    if (stream->legacy) {
        of_event->status = CAPTURE_INVALIDATED;
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    if (!own) {
        stream->capture = of_event;
        stream->capture_count = 0;
        stream->capture_joined = true;
    }
    if (event->capture_stream != stream && event->capture_stream->capture_count == event->capture_at)
        event->capture_stream->capture_joined = true;
    *captured = true;
    return CUDA_SUCCESS;
}

CUresult capture_unsafe(struct ctx *ctx) {
    (void)ctx;
    if (!active || thread_mode == CAPTURE_RELAXED)
        return CUDA_SUCCESS;
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&sim.submit);
    for (struct capture *c = captures; c; c = c->next) {
        bool own = pthread_equal(c->thread, pthread_self());
        if (own ? c->mode == CAPTURE_RELAXED : c->mode != CAPTURE_GLOBAL || thread_mode != CAPTURE_GLOBAL)
            continue;
        c->status = CAPTURE_INVALIDATED;
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    pthread_mutex_unlock(&sim.submit);
    return result;
}

CUresult capture_blocks(struct stream *stream) {
    if (!active)
        return CUDA_SUCCESS;
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&sim.submit);
    struct capture *capture = implicit(stream);
    if (capture)
        result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    else if ((capture = stream->capture))
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (capture)
        capture->status = CAPTURE_INVALIDATED;
    pthread_mutex_unlock(&sim.submit);
    return result;
}

/* Takes a capture off the list and lets its streams go; submit lock held. True when all streams had been joined. */
static bool finish(struct capture *capture) {
    bool joined = true;
    struct ctx *ctx = capture->origin->ctx;
    pthread_mutex_lock(&ctx->lock);
    for (struct stream *s = ctx->streams; s; s = s->next) {
        if (s->capture != capture)
            continue;
        joined = joined && (s == capture->origin || s->capture_joined);
        s->capture = NULL;
    }
    pthread_mutex_unlock(&ctx->lock);
    for (struct capture **at = &captures; *at; at = &(*at)->next) {
        if (*at == capture) {
            *at = capture->next;
            break;
        }
    }
    atomic_fetch_sub(&active, 1);
    return joined;
}

void capture_abandon(struct stream *stream) {
    if (!active)
        return;
    pthread_mutex_lock(&sim.submit);
    struct capture *capture = stream->capture;
    if (capture && capture->origin == stream) {
        finish(capture);
        graph_delete(capture->graph);
        free(capture);
    } else if (capture) {
        capture->status = CAPTURE_INVALIDATED;
    }
    pthread_mutex_unlock(&sim.submit);
}

static CUresult begin(CUstream handle, int mode) {
    struct stream *stream;
    CUresult result = stream_of(handle, &stream);
    if (result)
        return result;
    if (mode < CAPTURE_GLOBAL || mode > CAPTURE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    if (stream->legacy)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    struct capture *capture = calloc(1, sizeof *capture);
    struct graph *graph = capture ? graph_new() : NULL;
    if (!graph) {
        free(capture);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    pthread_mutex_lock(&sim.submit);
    if (stream->capture) {
        pthread_mutex_unlock(&sim.submit);
        graph_delete(graph);
        free(capture);
        return CUDA_ERROR_ILLEGAL_STATE;
    }
    *capture = (struct capture){captures, stream, graph, pthread_self(), mode, CAPTURE_ACTIVE, graph->handle.id};
    captures = capture;
    stream->capture = capture;
    stream->capture_count = 0;
    stream->capture_joined = true;
    atomic_fetch_add(&active, 1);
    pthread_mutex_unlock(&sim.submit);
    return CUDA_SUCCESS;
}
PTSZ(cuStreamBeginCapture, (CUstream stream), begin(S(stream), CAPTURE_GLOBAL))
PTSZ(cuStreamBeginCapture_v2, (CUstream stream, int mode), begin(S(stream), mode))

static CUresult end(CUstream handle, CUgraph *out) {
    struct stream *stream;
    CUresult result = stream_of(handle, &stream);
    if (result)
        return result;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = NULL;
    pthread_mutex_lock(&sim.submit);
    struct capture *capture = stream->capture;
    if (!capture)
        result = CUDA_ERROR_ILLEGAL_STATE;
    else if (capture->origin != stream)
        result = CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    else if (capture->mode != CAPTURE_RELAXED && !pthread_equal(capture->thread, pthread_self()))
        result = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    if (result) {
        pthread_mutex_unlock(&sim.submit);
        return result;
    }
    bool joined = finish(capture);
    pthread_mutex_unlock(&sim.submit);
    if (capture->status == CAPTURE_INVALIDATED)
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    else if (!joined)
        result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    if (result)
        graph_delete(capture->graph);
    else
        *out = (CUgraph)capture->graph;
    free(capture);
    return result;
}
PTSZ(cuStreamEndCapture, (CUstream stream, CUgraph *graph), end(S(stream), graph))

/* The state of a stream's capture; any of the outputs may be NULL. */
static CUresult info(CUstream handle, int *status, cuuint64_t *id, CUgraph *graph, size_t *dependencies) {
    struct stream *stream;
    CUresult result = stream_of(handle, &stream);
    if (result)
        return result;
    if (!status)
        return CUDA_ERROR_INVALID_VALUE;
    *status = CAPTURE_NONE;
    if (!active)
        return CUDA_SUCCESS;
    pthread_mutex_lock(&sim.submit);
    struct capture *capture = stream->capture;
    if (implicit(stream))
        result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    if (capture) {
        *status = capture->status;
        if (id)
            *id = capture->id;
        if (graph)
            *graph = (CUgraph)capture->graph;
        if (dependencies)
            *dependencies = 0;
    }
    pthread_mutex_unlock(&sim.submit);
    return result;
}
PTSZ(cuStreamIsCapturing, (CUstream stream, int *status), info(S(stream), status, NULL, NULL, NULL))
PTSZ(cuStreamGetCaptureInfo, (CUstream stream, int *status, cuuint64_t *id), info(S(stream), status, id, NULL, NULL))
/* The nodes that the next one would depend on are not told: a graph here is a sequence. */
PTSZ(cuStreamGetCaptureInfo_v2,
     (CUstream stream, int *status, cuuint64_t *id, CUgraph *graph, const CUgraphNode **nodes, size_t *count),
     ((void)(nodes && (*nodes = NULL)), info(S(stream), status, id, graph, count)))
PTSZ(cuStreamGetCaptureInfo_v3,
     (CUstream stream, int *status, cuuint64_t *id, CUgraph *graph, const CUgraphNode **nodes, const void **edges, size_t *count),
     ((void)(nodes && (*nodes = NULL)), (void)(edges && (*edges = NULL)), info(S(stream), status, id, graph, count)))

ENTRY(cuThreadExchangeStreamCaptureMode, int *mode) {
    if (!mode || *mode < CAPTURE_GLOBAL || *mode > CAPTURE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    int old = thread_mode;
    thread_mode = *mode;
    *mode = old;
    return CUDA_SUCCESS;
}
