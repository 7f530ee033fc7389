/* context.c: contexts and each thread's stack of them. */
#include <stdlib.h>
#include <string.h>

#include "array.h"
#include "capture.h"
#include "compute.h"
#include "heap.h"
#include "missing.h"
#include "peer.h"
#include "pool.h"

#define STACK 64

static __thread struct ctx *stack[STACK];
static __thread int depth;

static struct ctx *contexts;            /* the active ones */
static pthread_mutex_t contexts_lock = PTHREAD_MUTEX_INITIALIZER;       /* taken before the lock of a context */

struct ctx *ctx_top(void) { return depth ? stack[depth - 1] : NULL; }

CUresult ctx_check(struct ctx *ctx) {
    if (!handle_ok(H_CONTEXT, ctx))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return ctx->active ? ctx_error(ctx) : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

void contexts_each(void (*visit)(struct ctx *ctx, void *data), void *data) {
    pthread_mutex_lock(&contexts_lock);
    for (struct ctx *ctx = contexts; ctx; ctx = ctx->next)
        visit(ctx, data);
    pthread_mutex_unlock(&contexts_lock);
}

bool ctx_flags_ok(unsigned flags) {
    unsigned scheduling = flags & CU_CTX_SCHED_MASK;    /* at most one of its bits */
    return !(flags & ~(unsigned)CU_CTX_FLAGS_MASK) && !(scheduling & (scheduling - 1));
}

CUresult ctx_new(struct device *device, unsigned flags, unsigned api, bool primary, struct ctx **out) {
    struct ctx *ctx = handle_new(H_CONTEXT);
    if (!ctx)
        return CUDA_ERROR_OUT_OF_MEMORY;
    ctx->device = device;
    ctx->flags = flags | CU_CTX_MAP_HOST;
    ctx->api_version = api;
    ctx->primary = primary;
    pthread_mutex_init(&ctx->lock, NULL);
    CUresult result = ctx_open(ctx);
    if (result) {
        handle_free(ctx);
        return result;
    }
    *out = ctx;
    return CUDA_SUCCESS;
}

CUresult ctx_open(struct ctx *ctx) {
    static const size_t limits[16] = {1024, 1 << 20, 8 << 20, 2, 2048, 64, 0};
    memcpy(ctx->limits, limits, sizeof limits);
    CUresult result = sim_result(sim_context_create(sim.link, ctx->device->node_index, &ctx->sim_context));
    if (result)
        return result;
    struct stream *legacy;
    result = stream_new(ctx, 0, SIM_LOWEST_PRIORITY, &legacy);
    if (result) {
        sim_context_destroy(sim.link, ctx->sim_context);
        return result;
    }
    legacy->legacy = true;
    ctx->legacy = legacy;
    ctx->legacy_last = 0;
    ctx->error = CUDA_SUCCESS;
    ctx->fault = CUDA_SUCCESS;
    ctx->active = true;
    pthread_mutex_lock(&contexts_lock);
    ctx->next = contexts;
    ctx->link = &contexts;
    if (ctx->next)
        ctx->next->link = &ctx->next;
    contexts = ctx;
    pthread_mutex_unlock(&contexts_lock);
    return CUDA_SUCCESS;
}

void ctx_teardown(struct ctx *ctx) {
    ctx_synchronise(ctx);
    ctx->active = false;
    compute_drain(ctx);                 /* a context that a fault has ended is done before its work is */
    pthread_mutex_lock(&contexts_lock);
    *ctx->link = ctx->next;
    if (ctx->next)
        ctx->next->link = ctx->link;
    pthread_mutex_unlock(&contexts_lock);
    while (ctx->modules)
        module_unload(ctx->modules);
    while (ctx->events)
        event_destroy(ctx->events);
    ctx->legacy = NULL;
    while (ctx->streams)
        stream_destroy(ctx->streams);
    streams_reap();
    arrays_release(ctx);
    heap_release_ctx(ctx);
    peer_forget(ctx);
    pools_reap();
    sim_context_destroy(sim.link, ctx->sim_context);
}

CUresult ctx_synchronise(struct ctx *ctx) {
    struct { uint32_t queue; uint64_t last; } *list = NULL;
    size_t count = 0, room = 0;
    pthread_mutex_lock(&ctx->lock);
    for (struct stream *s = ctx->streams; s; s = s->next)
        room++;
    list = room ? calloc(room, sizeof *list) : NULL;
    for (struct stream *s = ctx->streams; s && list; s = s->next) {
        list[count].queue = s->queue;
        list[count++].last = s->last;
    }
    pthread_mutex_unlock(&ctx->lock);
    CUresult result = room && !list ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
    for (size_t i = 0; i < count && !result; i++)
        if (list[i].last)
            result = sim_result(sim_wait(sim.link, list[i].queue, list[i].last));
    free(list);
    streams_drain(ctx);
    if (!result)
        result = ctx_error(ctx);
    pools_reap();
    return result;
}

/* Makes a fresh context current. */
static CUresult create(CUcontext *out, unsigned flags, CUdevice ordinal, unsigned api) {
    struct device *device;
    CUresult result = sim_device_of(ordinal, &device);
    if (result)
        return result;
    if (!out || !ctx_flags_ok(flags) || depth == STACK)
        return CUDA_ERROR_INVALID_VALUE;
    struct ctx *ctx;
    result = ctx_new(device, flags, api, false, &ctx);
    if (result)
        return result;
    stack[depth++] = ctx;
    *out = (CUcontext)ctx;
    return CUDA_SUCCESS;
}

ENTRY(cuCtxCreate_v2, CUcontext *out, unsigned flags, CUdevice device) { return create(out, flags, device, 3020); }

ENTRY(cuCtxCreate_v3, CUcontext *out, void *affinity, int count, unsigned flags, CUdevice device) {
    if (count || affinity)
        return MISSING(CONTEXT_PART);
    return create(out, flags, device, 3020);
}

ENTRY(cuCtxCreate_v4, CUcontext *out, CUctxCreateParams *params, unsigned flags, CUdevice device) {
    if (params && (params->numExecAffinityParams || params->cigParams))
        return MISSING(CONTEXT_PART);
    return create(out, flags, device, 3020);
}

static CUresult destroy(CUcontext handle) {
    struct ctx *ctx = (struct ctx *)handle;
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!handle_ok(H_CONTEXT, ctx) || ctx->primary)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (ctx_top() == ctx)
        depth--;
    ctx_teardown(ctx);
    handle_free(ctx);
    return CUDA_SUCCESS;
}

ENTRY(cuCtxDestroy, CUcontext ctx) { return destroy(ctx); }
ENTRY(cuCtxDestroy_v2, CUcontext ctx) { return destroy(ctx); }

static CUresult push(CUcontext handle) {
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!handle_ok(H_CONTEXT, handle) || depth == STACK)
        return CUDA_ERROR_INVALID_CONTEXT;
    stack[depth++] = (struct ctx *)handle;
    return CUDA_SUCCESS;
}

ENTRY(cuCtxPushCurrent, CUcontext ctx) { return push(ctx); }
ENTRY(cuCtxPushCurrent_v2, CUcontext ctx) { return push(ctx); }

static CUresult pop(CUcontext *out) {
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!depth)
        return CUDA_ERROR_INVALID_CONTEXT;
    depth--;
    if (out)
        *out = (CUcontext)stack[depth];
    return CUDA_SUCCESS;
}

ENTRY(cuCtxPopCurrent, CUcontext *out) { return pop(out); }
ENTRY(cuCtxPopCurrent_v2, CUcontext *out) { return pop(out); }

ENTRY(cuCtxSetCurrent, CUcontext handle) {
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!handle) {
        if (depth)
            depth--;
        return CUDA_SUCCESS;
    }
    if (!handle_ok(H_CONTEXT, handle))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!depth)
        depth = 1;
    stack[depth - 1] = (struct ctx *)handle;
    return CUDA_SUCCESS;
}

ENTRY(cuCtxGetCurrent, CUcontext *out) {
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUcontext)ctx_top();
    return CUDA_SUCCESS;
}

static CUresult device_of(CUdevice *out, struct ctx *ctx) {
    if (!ctx || !handle_ok(H_CONTEXT, ctx))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = ctx->device->ordinal;
    return CUDA_SUCCESS;
}

ENTRY(cuCtxGetDevice, CUdevice *out) {
    CUresult result = sim_ready();
    return result ? result : device_of(out, ctx_top());
}

ENTRY(cuCtxGetDevice_v2, CUdevice *out, CUcontext ctx) {
    CUresult result = sim_ready();
    return result ? result : device_of(out, ctx ? (struct ctx *)ctx : ctx_top());
}

static CUresult synchronise(struct ctx *ctx) {
    CUresult result = ctx ? ctx_check(ctx) : CUDA_ERROR_INVALID_CONTEXT;
    if (!result)
        result = capture_context(ctx);
    return result ? result : ctx_synchronise(ctx);
}

ENTRY(cuCtxSynchronize, void) {
    CUresult result = sim_ready();
    return result ? result : synchronise(ctx_top());
}

ENTRY(cuCtxSynchronize_v2, CUcontext ctx) {
    CUresult result = sim_ready();
    return result ? result : synchronise(ctx ? (struct ctx *)ctx : ctx_top());
}
