/* graph_set.c: changing what the nodes of a graph do, or those of an instance of it. */
#include <stdlib.h>
#include <string.h>

#include "graph.h"
#include "missing.h"

static CUresult typed(CUgraphNode handle, int type, struct node **out) {
    CUresult result = node_of(handle, out);
    return result ? result : (*out)->type == type ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult set_kernel(CUgraphNode handle, const CUDA_KERNEL_NODE_PARAMS *params, bool v2) {
    struct node *node;
    CUresult result = typed(handle, NODE_KERNEL, &node);
    return result ? result : node_set_kernel(node, params, v2);
}
ENTRY(cuGraphKernelNodeSetParams, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params) { return set_kernel(node, params, false); }
ENTRY(cuGraphKernelNodeSetParams_v2, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params) { return set_kernel(node, params, true); }

ENTRY(cuGraphMemcpyNodeSetParams, CUgraphNode handle, const CUDA_MEMCPY3D *params) {
    struct node *node;
    CUresult result = typed(handle, NODE_MEMCPY, &node);
    return result ? result : node_set_memcpy(node, params, (CUcontext)node->work->ctx);
}

ENTRY(cuGraphMemsetNodeSetParams, CUgraphNode handle, const CUDA_MEMSET_NODE_PARAMS_v2 *params) {
    struct node *node;
    CUresult result = typed(handle, NODE_MEMSET, &node);
    return result ? result : node_set_memset(node, params, (CUcontext)node->work->ctx);
}

ENTRY(cuGraphHostNodeSetParams, CUgraphNode handle, const CUDA_HOST_NODE_PARAMS *params) {
    struct node *node;
    CUresult result = typed(handle, NODE_HOST, &node);
    return result ? result : node_set_host(node, params);
}

static CUresult set_event(CUgraphNode handle, int type, CUevent event) {
    struct node *node;
    CUresult result = typed(handle, type, &node);
    return result ? result : node_set_event(node, event);
}
ENTRY(cuGraphEventRecordNodeSetEvent, CUgraphNode node, CUevent event) { return set_event(node, NODE_EVENT_RECORD, event); }
ENTRY(cuGraphEventWaitNodeSetEvent, CUgraphNode node, CUevent event) { return set_event(node, NODE_WAIT_EVENT, event); }

ENTRY(cuGraphNodeSetParams, CUgraphNode handle, CUgraphNodeParams *params) {
    struct node *node;
    CUresult result = node_of(handle, &node);
    return result ? result : node_set(node, params);
}

/* The same for an instance. What it will do is made in a node apart, and taken over if the instance may change so far. */

/* The instance, its own copy of a node of the graph that it was made of, and an empty node of that type. */
static CUresult begin(CUgraphExec handle, CUgraphNode node_handle, int type, struct node **own, struct node *made) {
    struct exec *exec = (struct exec *)handle;
    struct node *node;
    CUresult result = node_of(node_handle, &node);
    if (result)
        return result;
    if (!handle_ok(H_EXEC, exec) || (type >= 0 && node->type != type))
        return CUDA_ERROR_INVALID_VALUE;
    *own = graph_copy_of(exec->graph, node->handle.id, true);
    if (!*own)
        return CUDA_ERROR_INVALID_VALUE;
    *made = (struct node){.type = node->type, .cooperative = (*own)->cooperative, .priority = (*own)->priority};
    return CUDA_SUCCESS;
}

static CUresult end(struct node *own, struct node *made, CUresult result) {
    if (!result && node_change(own, made, 0))
        result = CUDA_ERROR_INVALID_VALUE;
    bool plain = made->type != NODE_MEMCPY || (made->work && made->work->copy.height == 1 && made->work->copy.depth == 1);
    if (!result && !plain)
        result = CUDA_ERROR_INVALID_VALUE;      /* copies of more than one dimension stay as they are */
    made->attributes = own->attributes;         /* these stay */
    made->attributes_set = own->attributes_set;
    if (!result && !node_take(own, made))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    work_free(made->work);
    free(made->copy);
    return result;
}

#define EXEC_SET(type, call) \
    struct node *own, made; \
    CUresult result = begin(exec, node, type, &own, &made); \
    return result ? result : end(own, &made, call)

ENTRY(cuGraphExecKernelNodeSetParams, CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params) {
    EXEC_SET(NODE_KERNEL, node_set_kernel(&made, params, false));
}
ENTRY(cuGraphExecKernelNodeSetParams_v2, CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params) {
    EXEC_SET(NODE_KERNEL, node_set_kernel(&made, params, true));
}
ENTRY(cuGraphExecMemcpyNodeSetParams, CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *params, CUcontext ctx) {
    EXEC_SET(NODE_MEMCPY, node_set_memcpy(&made, params, ctx));
}
ENTRY(cuGraphExecMemsetNodeSetParams, CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS_v2 *params, CUcontext ctx) {
    EXEC_SET(NODE_MEMSET, node_set_memset(&made, params, ctx));
}
ENTRY(cuGraphExecHostNodeSetParams, CUgraphExec exec, CUgraphNode node, const CUDA_HOST_NODE_PARAMS *params) {
    EXEC_SET(NODE_HOST, node_set_host(&made, params));
}
ENTRY(cuGraphExecEventRecordNodeSetEvent, CUgraphExec exec, CUgraphNode node, CUevent event) {
    EXEC_SET(NODE_EVENT_RECORD, node_set_event(&made, event));
}
ENTRY(cuGraphExecEventWaitNodeSetEvent, CUgraphExec exec, CUgraphNode node, CUevent event) {
    EXEC_SET(NODE_WAIT_EVENT, node_set_event(&made, event));
}

static CUresult set_child(CUgraphExec exec, CUgraphNode node, CUgraph child) {
    struct node *own, made, *bad, *bad_from;
    struct graph *graph;
    CUresult result = graph_of(child, &graph);
    if (!result)
        result = begin(exec, node, NODE_GRAPH, &own, &made);
    if (result)
        return result;
    return graph_update(own->child, graph, ((struct exec *)exec)->flags, &bad, &bad_from) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
ENTRY(cuGraphExecChildGraphNodeSetParams, CUgraphExec exec, CUgraphNode node, CUgraph child) { return set_child(exec, node, child); }

ENTRY(cuGraphExecNodeSetParams, CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *params) {
    if (params && params->type == NODE_GRAPH)
        return set_child(exec, node, params->graph.graph);
    EXEC_SET(params ? params->type : -1, node_set(&made, params));
}

/* Only what uses the device can be switched off. */
static CUresult switchable(CUgraphExec exec, CUgraphNode node, struct node **own) {
    struct node made;
    CUresult result = begin(exec, node, -1, own, &made);
    return result ? result : (*own)->type <= NODE_MEMSET ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

ENTRY(cuGraphNodeSetEnabled, CUgraphExec exec, CUgraphNode node, unsigned enabled) {
    struct node *own;
    CUresult result = switchable(exec, node, &own);
    if (!result)
        own->disabled = !enabled;
    return result;
}

ENTRY(cuGraphNodeGetEnabled, CUgraphExec exec, CUgraphNode node, unsigned *enabled) {
    struct node *own;
    CUresult result = switchable(exec, node, &own);
    if (result)
        return result;
    if (!enabled)
        return CUDA_ERROR_INVALID_VALUE;
    *enabled = !own->disabled;
    return CUDA_SUCCESS;
}

/* Attributes of kernel nodes. The priority and whether a launch is cooperative mean something here; hints are kept and answered. */

static CUresult attributed(CUgraphNode handle, int id, const void *value, struct node **node) {
    CUresult result = typed(handle, NODE_KERNEL, node);
    return result ? result : id > 0 && id < NODE_ATTRIBUTES && value ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

ENTRY(cuGraphKernelNodeGetAttribute, CUgraphNode handle, int id, void *value) {
    struct node *node;
    CUresult result = attributed(handle, id, value, &node);
    if (result)
        return result;
    int number = id == CU_LAUNCH_ATTRIBUTE_PRIORITY ? node->priority : node->cooperative;
    if (id == CU_LAUNCH_ATTRIBUTE_PRIORITY || id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
        memcpy(value, &number, sizeof number);
    else if (node->attributes_set >> id & 1)
        memcpy(value, node->attributes[id], sizeof node->attributes[id]);
    else
        memset(value, 0, sizeof node->attributes[id]);
    return CUDA_SUCCESS;
}

ENTRY(cuGraphKernelNodeSetAttribute, CUgraphNode handle, int id, const void *value) {
    struct node *node;
    CUresult result = attributed(handle, id, value, &node);
    if (result)
        return result;
    unsigned number[3];
    memcpy(number, value, sizeof number);
    if (id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION && (uint64_t)number[0] * number[1] * number[2] > 1)
        return MISSING(GRAPH_CLUSTERS);
    if (id == CU_LAUNCH_ATTRIBUTE_PRIORITY)
        node->priority = (int)number[0];
    if (id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
        node->cooperative = number[0] != 0;
    if (!node->attributes)
        node->attributes = calloc(NODE_ATTRIBUTES, sizeof *node->attributes);
    if (!node->attributes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(node->attributes[id], value, sizeof node->attributes[id]);
    node->attributes_set |= 1u << id;
    return CUDA_SUCCESS;
}

ENTRY(cuGraphKernelNodeCopyAttributes, CUgraphNode dst_handle, CUgraphNode src_handle) {
    struct node *dst, *src;
    CUresult result = typed(dst_handle, NODE_KERNEL, &dst);
    if (!result)
        result = typed(src_handle, NODE_KERNEL, &src);
    if (result)
        return result;
    if (node_ctx(dst) != node_ctx(src))
        return CUDA_ERROR_INVALID_VALUE;
    if (src->attributes) {
        if (!dst->attributes)
            dst->attributes = malloc(NODE_ATTRIBUTES * sizeof *dst->attributes);
        if (!dst->attributes)
            return CUDA_ERROR_OUT_OF_MEMORY;
        memcpy(dst->attributes, src->attributes, NODE_ATTRIBUTES * sizeof *dst->attributes);
    }
    dst->attributes_set = src->attributes ? src->attributes_set : 0;
    dst->priority = src->priority;
    dst->cooperative = src->cooperative;
    return CUDA_SUCCESS;
}
