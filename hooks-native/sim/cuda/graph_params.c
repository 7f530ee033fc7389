/* graph_params.c: what a node does, from parameters as the API gives them; and back. */
#include <stdlib.h>
#include <string.h>

#include "copy.h"
#include "graph.h"
#include "launch.h"

/* Puts new work into a node, in the place of what it had. */
static void replace(struct node *node, struct work *work) {
    work_free(node->work);
    node->work = work;
    free(node->params);
    node->params = NULL;
}

/* The function that the parameters name: itself, or a library's kernel in a context (NULL: the current one). */
static CUresult named(const CUDA_KERNEL_NODE_PARAMS *p, bool v2, struct function **out) {
    if (p->func || !v2)
        return function_of(p->func, out);
    if (!handle_ok(H_KERNEL, p->kern))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!p->ctx)
        return function_of((CUfunction)p->kern, out);
    struct module *module;
    CUresult result = ctx_check((struct ctx *)p->ctx);
    if (!result)
        result = library_module(((struct kernel *)p->kern)->library, (struct ctx *)p->ctx, &module);
    if (!result)
        *out = module->functions[((struct kernel *)p->kern)->index];
    return result;
}

CUresult node_set_kernel(struct node *node, const CUDA_KERNEL_NODE_PARAMS *p, bool v2) {
    struct function *function;
    struct work *work;
    if (!p || (node->cooperative && p->extra))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = named(p, v2, &function);
    if (result)
        return result;
    struct launch_shape shape = {{p->gridDimX, p->gridDimY, p->gridDimZ}, {p->blockDimX, p->blockDimY, p->blockDimZ}, p->sharedMemBytes,
                                 node->cooperative};
    result = launch_work(function, &shape, p->kernelParams, p->extra, &work);
    if (result)
        return result;
    work->kernel.kern = p->func || !v2 ? NULL : p->kern;
    replace(node, work);
    return CUDA_SUCCESS;
}

static CUresult usable(CUcontext ctx) { return ctx ? ctx_check((struct ctx *)ctx) : CUDA_ERROR_INVALID_VALUE; }

CUresult node_set_memcpy(struct node *node, const CUDA_MEMCPY3D *p, CUcontext ctx) {
    struct copy_plan plan;
    struct work *work;
    bool wait;
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = usable(ctx);
    if (!result)
        result = copy_plan3d(p, &plan);
    if (!result)
        result = copy_make(&plan, (struct ctx *)ctx, false, &work, &wait);
    if (result || !work)
        return result ? result : CUDA_ERROR_INVALID_VALUE;      /* nothing to copy */
    CUDA_MEMCPY3D *kept = malloc(sizeof *kept);
    if (!kept) {
        work_free(work);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *kept = *p;
    free(node->copy);
    node->copy = kept;
    work->ctx = (struct ctx *)ctx;
    work->copy.snapshot = false;        /* a graph reads its source at each launch */
    replace(node, work);
    return CUDA_SUCCESS;
}

CUresult node_set_memset(struct node *node, const CUDA_MEMSET_NODE_PARAMS_v2 *p, CUcontext ctx) {
    struct work *work;
    bool locked;
    if (!p || !p->width || !p->height || (p->elementSize != 1 && p->elementSize != 2 && p->elementSize != 4))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = usable(ctx);
    if (!result)
        result = set_make(&(struct set_work){(char *)(uintptr_t)p->dst, p->pitch, p->width, p->height, p->elementSize, p->value},
                          (struct ctx *)ctx, &work, &locked);
    if (result)
        return result;
    work->ctx = (struct ctx *)ctx;
    replace(node, work);
    return CUDA_SUCCESS;
}

CUresult node_set_host(struct node *node, const CUDA_HOST_NODE_PARAMS *p) {
    if (!p || !p->fn)
        return CUDA_ERROR_INVALID_VALUE;
    struct work *work = work_new(WORK_CALL);
    if (!work)
        return CUDA_ERROR_OUT_OF_MEMORY;
    work->call = (struct call_work){.fn = p->fn, .data = p->userData};
    work->command.kind = SIM_MEMSET;
    replace(node, work);
    return CUDA_SUCCESS;
}

CUresult node_set_event(struct node *node, CUevent handle) {
    struct event *event = (struct event *)handle;
    if (!handle_ok(H_EVENT, event))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = ctx_check(event->ctx);
    if (result)
        return result;
    node->event = event;
    node->event_id = event->handle.id;
    return CUDA_SUCCESS;
}

CUresult node_set(struct node *node, const CUgraphNodeParams *p) {
    if (!p || p->type != node->type)
        return CUDA_ERROR_INVALID_VALUE;
    switch (p->type) {
    case NODE_KERNEL: return node_set_kernel(node, &p->kernel, true);
    case NODE_MEMCPY: return node_set_memcpy(node, &p->memcpy.copyParams, p->memcpy.copyCtx);
    case NODE_MEMSET: return node_set_memset(node, &p->memset, p->memset.ctx);
    case NODE_HOST: return node_set_host(node, &p->host);
    case NODE_WAIT_EVENT: case NODE_EVENT_RECORD: return node_set_event(node, p->eventWait);
    case NODE_EMPTY: return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
}

bool node_take(struct node *node, const struct node *from) {
    struct work *work = from->work ? work_clone(from->work) : NULL;
    CUDA_MEMCPY3D *copy = from->copy ? malloc(sizeof *copy) : NULL;
    char (*attributes)[64] = from->attributes ? malloc(NODE_ATTRIBUTES * sizeof *attributes) : NULL;
    if ((from->work && !work) || (from->copy && !copy) || (from->attributes && !attributes)) {
        work_free(work);
        free(copy);
        free(attributes);
        return false;
    }
    if (copy)
        *copy = *from->copy;
    if (attributes)
        memcpy(attributes, from->attributes, NODE_ATTRIBUTES * sizeof *attributes);
    replace(node, work);
    free(node->copy);
    free(node->attributes);
    node->copy = copy;
    node->attributes = attributes;
    node->attributes_set = from->attributes_set;
    node->event = from->event;
    node->event_id = from->event_id;
    node->priority = from->priority;
    node->cooperative = from->cooperative;
    return true;
}

/* The node, if it is of this type and the caller has given a place for the answer. */
static CUresult typed(CUgraphNode handle, int type, const void *place, struct node **out) {
    CUresult result = node_of(handle, out);
    return result ? result : place && (*out)->type == type ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult get_kernel(CUgraphNode handle, CUDA_KERNEL_NODE_PARAMS *out, bool v2) {
    struct node *node;
    CUresult result = typed(handle, NODE_KERNEL, out, &node);
    if (result)
        return result;
    const struct kernel_work *k = &node->work->kernel;
    if (!node->params)
        node->params = calloc(k->desc->param_count + 1u, sizeof *node->params);
    if (!node->params)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < k->desc->param_count; i++)
        node->params[i] = (char *)k->params + k->desc->params[i].offset;
    out->func = k->kern && v2 ? NULL : (CUfunction)k->function;
    out->gridDimX = k->launch.grid[0];
    out->gridDimY = k->launch.grid[1];
    out->gridDimZ = k->launch.grid[2];
    out->blockDimX = k->launch.block[0];
    out->blockDimY = k->launch.block[1];
    out->blockDimZ = k->launch.block[2];
    out->sharedMemBytes = k->launch.dynamic_shared_bytes;
    out->kernelParams = node->params;
    out->extra = NULL;
    if (v2) {
        out->kern = k->kern;
        out->ctx = (CUcontext)node->work->ctx;
    }
    return CUDA_SUCCESS;
}
ENTRY(cuGraphKernelNodeGetParams, CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *out) { return get_kernel(node, out, false); }
ENTRY(cuGraphKernelNodeGetParams_v2, CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *out) { return get_kernel(node, out, true); }

/* What a captured copy would be called with. */
static void describe(const struct copy_work *c, CUDA_MEMCPY3D *out) {
    *out = (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_UNIFIED, .srcDevice = (CUdeviceptr)(uintptr_t)c->src, .srcPitch = c->src_pitch,
                           .srcHeight = c->src_pitch ? c->src_plane / c->src_pitch : 0, .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                           .dstDevice = (CUdeviceptr)(uintptr_t)c->dst, .dstPitch = c->dst_pitch,
                           .dstHeight = c->dst_pitch ? c->dst_plane / c->dst_pitch : 0, .WidthInBytes = c->width, .Height = c->height,
                           .Depth = c->depth};
}

ENTRY(cuGraphMemcpyNodeGetParams, CUgraphNode handle, CUDA_MEMCPY3D *out) {
    struct node *node;
    CUresult result = typed(handle, NODE_MEMCPY, out, &node);
    if (result)
        return result;
    if (node->copy)
        *out = *node->copy;
    else
        describe(&node->work->copy, out);
    return CUDA_SUCCESS;
}

ENTRY(cuGraphMemsetNodeGetParams, CUgraphNode handle, CUDA_MEMSET_NODE_PARAMS_v2 *out) {
    struct node *node;
    CUresult result = typed(handle, NODE_MEMSET, out, &node);
    if (result)
        return result;
    const struct set_work *s = &node->work->set;
    CUDA_MEMSET_NODE_PARAMS_v2 found = {(CUdeviceptr)(uintptr_t)s->dst, s->pitch, s->value, s->size, s->width, s->height, NULL};
    memcpy(out, &found, offsetof(CUDA_MEMSET_NODE_PARAMS_v2, ctx));     /* this form has no context */
    return CUDA_SUCCESS;
}

ENTRY(cuGraphHostNodeGetParams, CUgraphNode handle, CUDA_HOST_NODE_PARAMS *out) {
    struct node *node;
    CUresult result = typed(handle, NODE_HOST, out, &node);
    if (!result)
        *out = (CUDA_HOST_NODE_PARAMS){node->work->call.fn, node->work->call.data};
    return result;
}

static CUresult get_event(CUgraphNode handle, int type, CUevent *out) {
    struct node *node;
    CUresult result = typed(handle, type, out, &node);
    if (!result)
        *out = (CUevent)node->event;
    return result;
}
ENTRY(cuGraphEventRecordNodeGetEvent, CUgraphNode node, CUevent *out) { return get_event(node, NODE_EVENT_RECORD, out); }
ENTRY(cuGraphEventWaitNodeGetEvent, CUgraphNode node, CUevent *out) { return get_event(node, NODE_WAIT_EVENT, out); }

ENTRY(cuGraphChildGraphNodeGetGraph, CUgraphNode handle, CUgraph *out) {
    struct node *node;
    CUresult result = typed(handle, NODE_GRAPH, out, &node);
    if (!result)
        *out = (CUgraph)node->child;
    return result;
}
