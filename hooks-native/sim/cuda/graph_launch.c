/* graph_launch.c: instances of graphs: making, launching, ending. A launch puts the steps of the plan into streams: the one that it is
 * launched into, which waits for all others at the end, and streams of the instance's own for what runs side by side. */
#include <stdlib.h>

#include "capture.h"
#include "graph.h"
#include "missing.h"
#include "user_object.h"

static bool lane_alive(const struct lane *lane) {
    return handle_ok(H_STREAM, lane->stream) && lane->stream->handle.id == lane->stream_id;
}

void exec_delete(struct exec *exec) {
    for (uint32_t i = 0; i < exec->lane_count; i++) {
        struct lane *lane = &exec->lanes[i];
        if (lane_alive(lane))
            stream_destroy(lane->stream);
        pthread_mutex_lock(&sim.submit);
        if (lane->mark)
            event_retire(lane->mark, lane->mark_ticket);
        pthread_mutex_unlock(&sim.submit);
    }
    pthread_mutex_lock(&sim.submit);
    if (exec->mark)
        event_retire(exec->mark, exec->ticket);
    pthread_mutex_unlock(&sim.submit);
    plan_end(exec);
    if (exec->graph)
        graph_delete(exec->graph);
    handle_free(exec);
}

static CUresult instantiate(CUgraphExec *out, CUgraph handle, cuuint64_t flags, struct node **bad) {
    struct graph *graph;
    CUresult result = graph_of(handle, &graph);
    if (result)
        return result;
    if (!out || graph->capturing || flags & ~15ull || (flags & INSTANTIATE_AUTO_FREE && flags & INSTANTIATE_DEVICE_LAUNCH))
        return CUDA_ERROR_INVALID_VALUE;
    if (flags & INSTANTIATE_DEVICE_LAUNCH)
        return MISSING(GRAPH_DEVICE_LAUNCH);
    struct exec *exec = handle_new(H_EXEC);
    if (!exec)
        return CUDA_ERROR_OUT_OF_MEMORY;
    exec->flags = flags & ~(cuuint64_t)INSTANTIATE_UPLOAD;
    exec->graph = graph_copy(graph);
    result = exec->graph ? plan_make(exec, bad) : CUDA_ERROR_OUT_OF_MEMORY;
    if (result) {
        /* The caller knows its own nodes, not our copies. */
        while (*bad && (*bad)->graph != exec->graph)
            *bad = (*bad)->graph->owner;
        uint64_t id = *bad ? (*bad)->origin : 0;
        *bad = graph->first;
        while (*bad && (*bad)->handle.id != id)
            *bad = (*bad)->next;
        exec_delete(exec);
        return result;
    }
    *out = (CUgraphExec)exec;
    return CUDA_SUCCESS;
}

/* The two oldest forms tell the failing node and have room for a text. */
static CUresult instantiate_logged(CUgraphExec *out, CUgraph graph, CUgraphNode *node, char *log, size_t size) {
    struct node *bad = NULL;
    CUresult result = instantiate(out, graph, 0, &bad);
    if (node)
        *node = (CUgraphNode)bad;
    if (log && size)
        log[0] = 0;
    return result;
}
ENTRY(cuGraphInstantiate, CUgraphExec *out, CUgraph graph, CUgraphNode *node, char *log, size_t size) {
    return instantiate_logged(out, graph, node, log, size);
}
ENTRY(cuGraphInstantiate_v2, CUgraphExec *out, CUgraph graph, CUgraphNode *node, char *log, size_t size) {
    return instantiate_logged(out, graph, node, log, size);
}
ENTRY(cuGraphInstantiateWithFlags, CUgraphExec *out, CUgraph graph, unsigned long long flags) {
    struct node *bad = NULL;
    return flags & INSTANTIATE_UPLOAD ? CUDA_ERROR_INVALID_VALUE : instantiate(out, graph, flags, &bad);
}

/* The stream of a lane for a launch into `stream`: that one itself for the first, where it fits. */
static CUresult lane_stream(struct exec *exec, uint32_t index, struct stream *into, struct stream **out) {
    struct lane *lane = &exec->lanes[index];
    struct ctx *ctx = lane->ctx ? lane->ctx : into->ctx;
    int priority = lane->priority == LANE_OF_STREAM ? into->priority : lane->priority;
    *out = into;
    if (!index && ctx == into->ctx && priority == into->priority)
        return CUDA_SUCCESS;
    if (lane_alive(lane) && lane->stream->ctx == ctx && lane->stream->priority == priority) {
        *out = lane->stream;
        return CUDA_SUCCESS;
    }
    CUresult result = ctx_check(ctx);
    if (result)
        return result;
    if (lane_alive(lane))
        stream_destroy(lane->stream);   /* what it has still runs */
    lane->stream = NULL;
    result = stream_new(ctx, CU_STREAM_NON_BLOCKING, priority, out);
    if (!result) {
        lane->stream = *out;
        lane->stream_id = (*out)->handle.id;
    }
    return result;
}

/* What may fail is asked first, so that a launch is whole or not at all. */
static CUresult check(const struct exec *exec) {
    for (uint32_t i = 0; i < exec->step_count; i++) {
        const struct node *node = exec->steps[i].node;
        if (!node || node->disabled)
            continue;
        if (node->type == NODE_KERNEL) {
            const struct kernel_work *k = &node->work->kernel;
            if (!handle_ok(H_FUNCTION, k->function) || k->function->handle.id != k->function_id)
                return CUDA_ERROR_INVALID_HANDLE;       /* its module was unloaded */
        }
        if (node->event && (!handle_ok(H_EVENT, node->event) || node->event->handle.id != node->event_id))
            return CUDA_ERROR_INVALID_HANDLE;
        CUresult result = node_ctx(node) ? ctx_check(node_ctx(node)) : CUDA_SUCCESS;
        if (result)
            return result;
    }
    return CUDA_SUCCESS;
}

static CUresult record(uint32_t *event, const struct stream *of, struct stream *stream, uint64_t *ticket) {
    if (!*event) {
        CUresult result = sim_result(sim_event_create(sim.link, of->ctx->device->node_index, event));
        if (result)
            return result;
    }
    return work_command(stream, &(struct sim_command){.kind = SIM_RECORD, .event = *event}, ticket);
}

/* What the node of a step does. */
static CUresult act(const struct node *node, struct stream *stream) {
    if (!node || node->disabled)
        return CUDA_SUCCESS;
    if (node->type == NODE_EVENT_RECORD)
        return event_record(node->event, stream);
    if (node->type == NODE_WAIT_EVENT)
        return work_wait_event(stream, node->event);
    if (!node->work)
        return CUDA_SUCCESS;
    struct work *work = work_clone(node->work);
    return work ? work_push(stream, work, NULL) : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Submit lock held. `streams`: of the lanes. */
static CUresult submit(struct exec *exec, struct stream *into, struct stream *const *streams) {
    uint64_t begin = 0;
    CUresult result = work_order(into);
    if (!result && exec->ticket && exec->queue != into->queue && !sim_reached(sim.link, exec->queue, exec->ticket))
        result = work_wait(into, exec->mark, exec->ticket, exec->queue);        /* one launch at a time */
    for (uint32_t i = 0; i < exec->lane_count && !result && !begin; i++)
        if (streams[i] != into)
            result = record(&exec->mark, into, into, &begin);
    for (uint32_t i = 0; i < exec->step_count && !result; i++) {
        struct step *step = &exec->steps[i];
        struct lane *lane = &exec->lanes[step->lane];
        struct stream *stream = streams[step->lane];
        if (step->root && stream != into)
            result = work_wait(stream, exec->mark, begin, into->queue);
        for (uint32_t w = 0; w < step->wait_count && !result; w++) {
            const struct step *before = &exec->steps[exec->waits[step->first_wait + w]];
            result = work_wait(stream, exec->lanes[before->lane].mark, before->ticket, streams[before->lane]->queue);
        }
        if (!result)
            result = act(step->node, stream);
        if (!result && step->mark && (!step->leaf || exec->lane_count > 1 || stream != into)) {
            result = record(&lane->mark, into, stream, &step->ticket);
            lane->mark_ticket = step->ticket;
        }
    }
    for (uint32_t i = 0; i < exec->step_count && !result; i++)
        if (exec->steps[i].leaf && streams[exec->steps[i].lane] != into)
            result = work_wait(into, exec->lanes[exec->steps[i].lane].mark, exec->steps[i].ticket, streams[exec->steps[i].lane]->queue);
    if (!result)
        result = record(&exec->mark, into, into, &exec->ticket);
    exec->queue = into->queue;
    return result;
}

static CUresult launch(CUgraphExec handle, CUstream stream_handle, bool run) {
    struct exec *exec = (struct exec *)handle;
    struct stream *stream;
    CUresult result = stream_of(stream_handle, &stream);
    if (result)
        return result;
    if (!handle_ok(H_EXEC, exec))
        return CUDA_ERROR_INVALID_VALUE;
    bool captured = false;
    if (run) {
        pthread_mutex_lock(&sim.submit);
        result = capture_graph(stream, exec->graph, &captured);
        pthread_mutex_unlock(&sim.submit);
    }
    if (result || captured)
        return result;
    result = check(exec);
    struct stream **streams = calloc(exec->lane_count + 1u, sizeof *streams);
    if (!streams)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < exec->lane_count && !result; i++)
        result = lane_stream(exec, i, stream, &streams[i]);
    if (!result && run) {
        pthread_mutex_lock(&sim.submit);
        result = submit(exec, stream, streams);
        pthread_mutex_unlock(&sim.submit);
    }
    free(streams);
    return result;
}
PTSZ(cuGraphLaunch, (CUgraphExec exec, CUstream stream), launch(exec, S(stream), true))
/* Makes the streams that it will need. */
PTSZ(cuGraphUpload, (CUgraphExec exec, CUstream stream), launch(exec, S(stream), false))

static CUresult instantiate_params(CUgraphExec *out, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params, bool per_thread) {
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    struct node *bad = NULL;
    result = instantiate(out, graph, params->flags, &bad);
    params->hErrNode_out = (CUgraphNode)bad;
    params->result_out = !result ? INSTANTIATED : bad ? INSTANTIATE_INVALID_STRUCTURE : INSTANTIATE_ERROR;
    if (!result && params->flags & INSTANTIATE_UPLOAD) {
        CUstream stream = params->hUploadStream;
        result = launch(*out, stream ? stream : per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY, false);
        if (result)
            exec_delete((struct exec *)*out);
    }
    return result;
}
PTSZ(cuGraphInstantiateWithParams, (CUgraphExec *out, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params),
     instantiate_params(out, graph, params, PER_THREAD))

ENTRY(cuGraphExecDestroy, CUgraphExec handle) {
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!handle_ok(H_EXEC, handle))
        return CUDA_ERROR_INVALID_VALUE;
    exec_delete((struct exec *)handle);
    return CUDA_SUCCESS;
}

ENTRY(cuGraphExecGetFlags, CUgraphExec handle, cuuint64_t *flags) {
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!handle_ok(H_EXEC, handle) || !flags)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = ((struct exec *)handle)->flags;
    return CUDA_SUCCESS;
}
