/* graph_add.c: new nodes of all kinds. */
#include "graph.h"
#include "missing.h"

/* A node of this type behind those of the list; its work is still to come. */
static CUresult begin(CUgraphNode *out, CUgraph handle, const CUgraphNode *list, size_t count, int type, struct node **made) {
    struct graph *graph;
    struct nodes from;
    CUresult result = graph_of(handle, &graph);
    if (result)
        return result;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    result = graph_list(graph, list, count, &from);
    if (result)
        return result;
    struct node *node = node_new(graph, type);
    bool good = node && node_link_all(&from, node);
    nodes_end(&from);
    if (node && !good)
        node_delete(node);
    *made = node;
    return good ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult end(CUgraphNode *out, struct node *node, CUresult result) {
    if (result)
        node_delete(node);
    else
        *out = (CUgraphNode)node;
    return result;
}

#define ADD(type, call) \
    struct node *node; \
    CUresult result = begin(out, graph, list, count, type, &node); \
    return result ? result : end(out, node, call)
#define WHERE CUgraphNode *out, CUgraph graph, const CUgraphNode *list, size_t count

ENTRY(cuGraphAddKernelNode, WHERE, const CUDA_KERNEL_NODE_PARAMS *params) { ADD(NODE_KERNEL, node_set_kernel(node, params, false)); }
ENTRY(cuGraphAddKernelNode_v2, WHERE, const CUDA_KERNEL_NODE_PARAMS *params) { ADD(NODE_KERNEL, node_set_kernel(node, params, true)); }
ENTRY(cuGraphAddMemcpyNode, WHERE, const CUDA_MEMCPY3D *params, CUcontext ctx) { ADD(NODE_MEMCPY, node_set_memcpy(node, params, ctx)); }
ENTRY(cuGraphAddMemsetNode, WHERE, const CUDA_MEMSET_NODE_PARAMS_v2 *params, CUcontext ctx) {
    ADD(NODE_MEMSET, node_set_memset(node, params, ctx));
}
ENTRY(cuGraphAddHostNode, WHERE, const CUDA_HOST_NODE_PARAMS *params) { ADD(NODE_HOST, node_set_host(node, params)); }
ENTRY(cuGraphAddEventRecordNode, WHERE, CUevent event) { ADD(NODE_EVENT_RECORD, node_set_event(node, event)); }
ENTRY(cuGraphAddEventWaitNode, WHERE, CUevent event) { ADD(NODE_WAIT_EVENT, node_set_event(node, event)); }
ENTRY(cuGraphAddEmptyNode, WHERE) { ADD(NODE_EMPTY, CUDA_SUCCESS); }

/* Puts a copy of a graph into the node. */
static CUresult embed(struct node *node, CUgraph handle) {
    struct graph *child;
    CUresult result = graph_of(handle, &child);
    if (result)
        return result;
    for (const struct graph *g = node->graph; g; g = g->owner ? g->owner->graph : NULL)
        if (g == child)
            return CUDA_ERROR_INVALID_VALUE;    /* within itself */
    node->child = graph_copy(child);
    if (!node->child)
        return CUDA_ERROR_OUT_OF_MEMORY;
    node->child->owner = node;
    return CUDA_SUCCESS;
}
ENTRY(cuGraphAddChildGraphNode, WHERE, CUgraph child) { ADD(NODE_GRAPH, embed(node, child)); }

static CUresult add(WHERE, CUgraphNodeParams *params) {
    CUresult ready = sim_ready();
    if (ready)
        return ready;
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    if (params->type < NODE_KERNEL || params->type > 13)
        return CUDA_ERROR_INVALID_VALUE;
    if (params->type > NODE_EVENT_RECORD)
        return MISSING(GRAPH_NODE_TYPE);
    if (params->type == NODE_GRAPH && params->graph.ownership)
        return MISSING(GRAPH_CHILD_MOVED);
    struct node *node;
    CUresult result = begin(out, graph, list, count, params->type, &node);
    if (result)
        return result;
    result = end(out, node, params->type == NODE_GRAPH ? embed(node, params->graph.graph) : node_set(node, params));
    if (!result && params->type == NODE_GRAPH)
        params->graph.graph = (CUgraph)node->child;     /* the one that is in the node now */
    return result;
}
ENTRY(cuGraphAddNode, WHERE, CUgraphNodeParams *params) { return add(out, graph, list, count, params); }
ENTRY(cuGraphAddNode_v2, CUgraphNode *out, CUgraph graph, const CUgraphNode *list, const CUgraphEdgeData *data, size_t count, CUgraphNodeParams *params) {
    CUresult result = edges_plain(data, count);
    return result ? result : add(out, graph, list, count, params);
}
