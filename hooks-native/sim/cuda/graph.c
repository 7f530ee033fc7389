/* graph.c: graphs as sequences of work, instantiated as copies and replayed in one stream. */
#include <stdlib.h>

#include "capture.h"
#include "launch.h"
#include "user_object.h"

struct graph *graph_new(void) {
    struct graph *graph = handle_new(H_GRAPH);
    if (graph)
        graph->last = &graph->first;
    return graph;
}

void graph_delete(struct graph *graph) {
    for (struct node *node = graph->first, *next; node; node = next) {
        next = node->next;
        work_free(node->work);
        handle_free(node);
    }
    keeping_end(&graph->keeping);
    handle_free(graph);
}

bool graph_append(struct graph *graph, struct work *work, int type, struct node **out) {
    struct node *node = handle_new(H_NODE);
    if (!node)
        return false;
    node->graph = graph;
    node->work = work;
    node->type = type;
    *graph->last = node;
    graph->last = &node->next;
    graph->count++;
    if (out)
        *out = node;
    return true;
}

static CUresult graph_of(CUgraph handle, struct graph **out) {
    CUresult result = sim_ready();
    *out = (struct graph *)handle;
    if (!result && !handle_ok(H_GRAPH, handle))
        result = CUDA_ERROR_INVALID_VALUE;
    return result;
}

ENTRY(cuGraphCreate, CUgraph *out, unsigned flags) {
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!out || flags)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUgraph)graph_new();
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

ENTRY(cuGraphDestroy, CUgraph handle) {
    struct graph *graph;
    CUresult result = graph_of(handle, &graph);
    if (!result)
        graph_delete(graph);
    return result;
}

/* A node's place in the sequence must come after what it depends on: nodes are appended, so that holds if they are ours. */
static CUresult check_dependencies(const struct graph *graph, const CUgraphNode *list, size_t count) {
    if (count && !list)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++)
        if (!handle_ok(H_NODE, list[i]) || ((struct node *)list[i])->graph != graph)
            return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

static CUresult add(CUgraphNode *out, struct graph *graph, struct work *work, int type) {
    struct node *node;
    if (!graph_append(graph, work, type, &node)) {
        work_free(work);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = (CUgraphNode)node;
    return CUDA_SUCCESS;
}

static CUresult add_kernel(CUgraphNode *out, CUgraph handle, const CUgraphNode *list, size_t count, const CUDA_KERNEL_NODE_PARAMS *p, bool v2) {
    struct graph *graph;
    CUresult result = graph_of(handle, &graph);
    if (!result)
        result = !out || !p ? CUDA_ERROR_INVALID_VALUE : check_dependencies(graph, list, count);
    if (result)
        return result;
    struct function *function;
    result = function_of(p->func || !v2 ? p->func : (CUfunction)p->kern, &function);
    if (result)
        return result;
    struct launch_shape shape = {{p->gridDimX, p->gridDimY, p->gridDimZ}, {p->blockDimX, p->blockDimY, p->blockDimZ}, p->sharedMemBytes, false};
    struct work *work;
    result = launch_work(function, &shape, p->kernelParams, p->extra, &work);
    return result ? result : add(out, graph, work, 0);
}

ENTRY(cuGraphAddKernelNode, CUgraphNode *out, CUgraph graph, const CUgraphNode *list, size_t count, const CUDA_KERNEL_NODE_PARAMS *params) {
    return add_kernel(out, graph, list, count, params, false);
}
ENTRY(cuGraphAddKernelNode_v2, CUgraphNode *out, CUgraph graph, const CUgraphNode *list, size_t count, const CUDA_KERNEL_NODE_PARAMS *params) {
    return add_kernel(out, graph, list, count, params, true);
}

ENTRY(cuGraphAddEmptyNode, CUgraphNode *out, CUgraph handle, const CUgraphNode *list, size_t count) {
    struct graph *graph;
    CUresult result = graph_of(handle, &graph);
    if (!result)
        result = !out ? CUDA_ERROR_INVALID_VALUE : check_dependencies(graph, list, count);
    return result ? result : add(out, graph, NULL, 5);
}

ENTRY(cuGraphGetNodes, CUgraph handle, CUgraphNode *nodes, size_t *count) {
    struct graph *graph;
    CUresult result = graph_of(handle, &graph);
    if (result)
        return result;
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    size_t room = nodes ? *count : 0, i = 0;
    for (struct node *node = graph->first; node && i < room; node = node->next)
        nodes[i++] = (CUgraphNode)node;
    if (nodes)
        for (size_t rest = i; rest < room; rest++)
            nodes[rest] = NULL;
    *count = nodes ? i : graph->count;
    return CUDA_SUCCESS;
}

ENTRY(cuGraphNodeGetType, CUgraphNode handle, int *type) {
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!type || !handle_ok(H_NODE, handle))
        return CUDA_ERROR_INVALID_VALUE;
    *type = ((struct node *)handle)->type;
    return CUDA_SUCCESS;
}

static void exec_delete(struct exec *exec) {
    for (size_t i = 0; i < exec->count; i++)
        work_free(exec->work[i]);
    free(exec->work);
    keeping_end(&exec->keeping);
    handle_free(exec);
}

static CUresult instantiate(CUgraphExec *out, CUgraph handle) {
    struct graph *graph;
    CUresult result = graph_of(handle, &graph);
    if (result)
        return result;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    struct exec *exec = handle_new(H_EXEC);
    if (!exec)
        return CUDA_ERROR_OUT_OF_MEMORY;
    exec->work = calloc(graph->count + 1, sizeof *exec->work);
    for (struct node *node = graph->first; node && exec->work; node = node->next) {
        if (!node->work)
            continue;
        struct work *copy = work_clone(node->work);
        if (!copy) {
            exec_delete(exec);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        exec->work[exec->count++] = copy;
    }
    if (!exec->work || !keeping_copy(&exec->keeping, graph->keeping)) {
        exec_delete(exec);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = (CUgraphExec)exec;
    return CUDA_SUCCESS;
}

/* The two oldest forms report the failing node and a log; nothing fails here that concerns a node. */
static CUresult instantiate_logged(CUgraphExec *out, CUgraph graph, CUgraphNode *node, char *log, size_t size) {
    if (node)
        *node = NULL;
    if (log && size)
        log[0] = 0;
    return instantiate(out, graph);
}
ENTRY(cuGraphInstantiate, CUgraphExec *out, CUgraph graph, CUgraphNode *node, char *log, size_t size) {
    return instantiate_logged(out, graph, node, log, size);
}
ENTRY(cuGraphInstantiate_v2, CUgraphExec *out, CUgraph graph, CUgraphNode *node, char *log, size_t size) {
    return instantiate_logged(out, graph, node, log, size);
}
ENTRY(cuGraphInstantiateWithFlags, CUgraphExec *out, CUgraph graph, unsigned long long flags) {
    return flags & ~15ull ? CUDA_ERROR_INVALID_VALUE : instantiate(out, graph);
}

static CUresult instantiate_params(CUgraphExec *out, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params) {
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    params->hErrNode_out = NULL;
    CUresult result = params->flags & ~15ull ? CUDA_ERROR_INVALID_VALUE : instantiate(out, graph);
    params->result_out = result ? 1 : 0;
    return result;
}
PTSZ(cuGraphInstantiateWithParams, (CUgraphExec *out, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params),
     ((void)PER_THREAD, instantiate_params(out, graph, params)))

ENTRY(cuGraphExecDestroy, CUgraphExec handle) {
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!handle_ok(H_EXEC, handle))
        return CUDA_ERROR_INVALID_VALUE;
    exec_delete((struct exec *)handle);
    return CUDA_SUCCESS;
}

static CUresult launch(CUgraphExec handle, CUstream stream_handle, bool run) {
    struct stream *stream;
    CUresult result = stream_of(stream_handle, &stream);
    if (result)
        return result;
    struct exec *exec = (struct exec *)handle;
    if (!handle_ok(H_EXEC, exec))
        return CUDA_ERROR_INVALID_VALUE;
    if (!run)
        return CUDA_SUCCESS;
    pthread_mutex_lock(&sim.submit);
    for (size_t i = 0; i < exec->count && !result; i++) {
        struct work *work = work_clone(exec->work[i]);
        bool captured = false;
        result = work ? capture_work(stream, work, &captured) : CUDA_ERROR_OUT_OF_MEMORY;
        if (result)
            work_free(work);
        else if (!captured)
            result = work_push(stream, work, NULL);
    }
    pthread_mutex_unlock(&sim.submit);
    return result;
}
PTSZ(cuGraphLaunch, (CUgraphExec exec, CUstream stream), launch(exec, S(stream), true))
PTSZ(cuGraphUpload, (CUgraphExec exec, CUstream stream), launch(exec, S(stream), false))
