/* capture_api.c: beginning, ending and looking at a stream's capture. */
#include <stdlib.h>

#include "capture.h"

static CUresult begin(CUstream handle, int mode, struct graph *given, const struct nodes *set) {
    struct stream *stream;
    CUresult result = stream_of(handle, &stream);
    if (result)
        return result;
    if (mode < CAPTURE_GLOBAL || mode > CAPTURE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    if (stream->legacy)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    struct capture *capture = calloc(1, sizeof *capture);
    struct graph *graph = !capture ? NULL : given ? given : graph_new();
    if (!graph) {
        free(capture);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *capture = (struct capture){.origin = stream, .graph = graph, .given = given != NULL, .thread = pthread_self(), .mode = mode,
                                .status = CAPTURE_ACTIVE, .id = atomic_fetch_add(&sim.ids, 1) + 1};
    pthread_mutex_lock(&sim.submit);
    if (stream->capture || graph->capturing)
        result = CUDA_ERROR_ILLEGAL_STATE;
    else if (!capture_begin(capture))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    for (uint32_t i = 0; set && i < set->count && !result; i++)
        if (!nodes_add(stream->capture_set, set->list[i])) {
            capture_end(capture);
            result = CUDA_ERROR_OUT_OF_MEMORY;
        }
    pthread_mutex_unlock(&sim.submit);
    if (result) {
        if (!given)
            graph_delete(graph);
        free(capture);
    }
    return result;
}
PTSZ(cuStreamBeginCapture, (CUstream stream), begin(S(stream), CAPTURE_GLOBAL, NULL, NULL))
PTSZ(cuStreamBeginCapture_v2, (CUstream stream, int mode), begin(S(stream), mode, NULL, NULL))

static CUresult begin_to(CUstream stream, CUgraph handle, const CUgraphNode *list, const CUgraphEdgeData *data, size_t count, int mode) {
    struct graph *graph;
    struct nodes set;
    CUresult result = graph_of(handle, &graph);
    if (!result)
        result = edges_plain(data, count);
    if (!result)
        result = graph_list(graph, list, count, &set);
    if (result)
        return result;
    result = begin(stream, mode, graph, &set);
    nodes_end(&set);
    return result;
}
PTSZ(cuStreamBeginCaptureToGraph,
     (CUstream stream, CUgraph graph, const CUgraphNode *list, const CUgraphEdgeData *data, size_t count, int mode),
     begin_to(S(stream), graph, list, data, count, mode))

static CUresult end(CUstream handle, CUgraph *out) {
    struct stream *stream;
    CUresult result = stream_of(handle, &stream);
    if (result)
        return result;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = NULL;
    bool joined = true;
    pthread_mutex_lock(&sim.submit);
    struct capture *capture = stream->capture;
    if (!capture)
        result = CUDA_ERROR_ILLEGAL_STATE;
    else if (capture->origin != stream)
        result = CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    else if (capture->mode != CAPTURE_RELAXED && !pthread_equal(capture->thread, pthread_self()))
        result = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    else
        joined = capture_end(capture);
    pthread_mutex_unlock(&sim.submit);
    if (result)
        return result;
    if (capture->status == CAPTURE_INVALIDATED)
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    else if (!joined)
        result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    if (!result)
        *out = (CUgraph)capture->graph;
    else if (!capture->given)
        graph_delete(capture->graph);
    free(capture);
    return result;
}
PTSZ(cuStreamEndCapture, (CUstream stream, CUgraph *graph), end(S(stream), graph))

/* What the forms of cuStreamGetCaptureInfo answer; all but the status may be NULL. */
struct info { int *status; cuuint64_t *id; CUgraph *graph; const CUgraphNode **nodes; const CUgraphEdgeData **edges; size_t *count; };

static CUresult info(CUstream handle, struct info out) {
    struct stream *stream;
    CUresult result = stream_of(handle, &stream);
    if (result)
        return result;
    if (!out.status || (out.edges && !out.nodes))
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sim.submit);
    const struct capture *capture = stream->capture;
    *out.status = capture ? capture->status : CAPTURE_NONE;
    if (captures_active && capture_implicit(stream))
        result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    if (capture && out.id)
        *out.id = capture->id;
    if (capture && out.graph)
        *out.graph = (CUgraph)capture->graph;
    if (capture && out.nodes)
        *out.nodes = (const CUgraphNode *)stream->capture_set->list;
    if (capture && out.edges)
        *out.edges = NULL;              /* none has data */
    if (capture && out.count)
        *out.count = stream->capture_set->count;
    pthread_mutex_unlock(&sim.submit);
    return result;
}
PTSZ(cuStreamIsCapturing, (CUstream stream, int *status), info(S(stream), (struct info){.status = status}))
PTSZ(cuStreamGetCaptureInfo, (CUstream stream, int *status, cuuint64_t *id), info(S(stream), (struct info){.status = status, .id = id}))
PTSZ(cuStreamGetCaptureInfo_v2, (CUstream stream, int *status, cuuint64_t *id, CUgraph *graph, const CUgraphNode **nodes, size_t *count),
     info(S(stream), (struct info){status, id, graph, nodes, NULL, count}))
PTSZ(cuStreamGetCaptureInfo_v3,
     (CUstream stream, int *status, cuuint64_t *id, CUgraph *graph, const CUgraphNode **nodes, const CUgraphEdgeData **edges, size_t *count),
     info(S(stream), (struct info){status, id, graph, nodes, edges, count}))

static CUresult update(CUstream handle, const CUgraphNode *list, const CUgraphEdgeData *data, size_t count, unsigned flags) {
    struct stream *stream;
    struct nodes set = {0};
    CUresult result = stream_of(handle, &stream);
    if (!result)
        result = flags > CAPTURE_SET_DEPENDENCIES ? CUDA_ERROR_INVALID_VALUE : edges_plain(data, count);
    if (result)
        return result;
    pthread_mutex_lock(&sim.submit);
    struct capture *capture = stream->capture;
    if (!capture)
        result = CUDA_ERROR_ILLEGAL_STATE;
    else if (capture->status == CAPTURE_INVALIDATED)
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    else
        result = graph_list(capture->graph, list, count, &set);
    if (!result && flags == CAPTURE_SET_DEPENDENCIES)
        stream->capture_set->count = 0;
    for (uint32_t i = 0; i < set.count && !result; i++)
        if (!nodes_add(stream->capture_set, set.list[i]))
            result = CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_unlock(&sim.submit);
    nodes_end(&set);
    return result;
}
PTSZ(cuStreamUpdateCaptureDependencies, (CUstream stream, CUgraphNode *list, size_t count, unsigned flags),
     update(S(stream), list, NULL, count, flags))
PTSZ(cuStreamUpdateCaptureDependencies_v2, (CUstream stream, CUgraphNode *list, const CUgraphEdgeData *data, size_t count, unsigned flags),
     update(S(stream), list, data, count, flags))

ENTRY(cuThreadExchangeStreamCaptureMode, int *mode) {
    if (!mode || *mode < CAPTURE_GLOBAL || *mode > CAPTURE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    int old = capture_thread_mode;
    capture_thread_mode = *mode;
    *mode = old;
    return CUDA_SUCCESS;
}
