/* context_info.c: settings and facts of the current context. Limits and preferences are kept and answered; they change nothing. */
#include "sim.h"

ENTRY(cuCtxGetFlags, unsigned *flags) {
    struct ctx *ctx;
    CUresult result = sim_current(&ctx);
    if (result)
        return result;
    if (!flags)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = ctx->flags;
    return CUDA_SUCCESS;
}

ENTRY(cuCtxSetFlags, unsigned flags) {
    struct ctx *ctx;
    CUresult result = sim_current(&ctx);
    if (result)
        return result;
    if (!ctx_flags_ok(flags))
        return CUDA_ERROR_INVALID_VALUE;
    ctx->flags = flags | CU_CTX_MAP_HOST;
    return CUDA_SUCCESS;
}

ENTRY(cuCtxGetId, CUcontext handle, unsigned long long *id) {
    CUresult result = sim_ready();
    if (result)
        return result;
    struct ctx *ctx = handle ? (struct ctx *)handle : ctx_top();
    if (!ctx || !handle_ok(H_CONTEXT, ctx))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!id)
        return CUDA_ERROR_INVALID_VALUE;
    *id = ctx->handle.id;
    return CUDA_SUCCESS;
}

ENTRY(cuCtxGetApiVersion, CUcontext handle, unsigned *version) {
    CUresult result = sim_ready();
    if (result)
        return result;
    struct ctx *ctx = handle ? (struct ctx *)handle : ctx_top();
    if (!ctx || !handle_ok(H_CONTEXT, ctx))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    *version = ctx->api_version;
    return CUDA_SUCCESS;
}

ENTRY(cuCtxGetStreamPriorityRange, int *least, int *greatest) {
    struct ctx *ctx;
    CUresult result = sim_current(&ctx);
    if (result)
        return result;
    if (least)
        *least = SIM_LOWEST_PRIORITY;
    if (greatest)
        *greatest = SIM_HIGHEST_PRIORITY;
    return CUDA_SUCCESS;
}

ENTRY(cuCtxGetLimit, size_t *value, int limit) {
    struct ctx *ctx;
    CUresult result = sim_current(&ctx);
    if (result)
        return result;
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    if (limit < 0 || limit > 6)
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    *value = ctx->limits[limit];
    return CUDA_SUCCESS;
}

ENTRY(cuCtxSetLimit, int limit, size_t value) {
    struct ctx *ctx;
    CUresult result = sim_current(&ctx);
    if (result)
        return result;
    if (limit < 0 || limit > 6)
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    ctx->limits[limit] = value;
    return CUDA_SUCCESS;
}

ENTRY(cuCtxGetCacheConfig, int *config) {
    struct ctx *ctx;
    CUresult result = sim_current(&ctx);
    if (result)
        return result;
    if (!config)
        return CUDA_ERROR_INVALID_VALUE;
    *config = ctx->cache_config;
    return CUDA_SUCCESS;
}

ENTRY(cuCtxSetCacheConfig, int config) {
    struct ctx *ctx;
    CUresult result = sim_current(&ctx);
    if (result)
        return result;
    if (config < 0 || config > 3)
        return CUDA_ERROR_INVALID_VALUE;
    ctx->cache_config = config;
    return CUDA_SUCCESS;
}

ENTRY(cuCtxGetSharedMemConfig, int *config) {
    struct ctx *ctx;
    CUresult result = sim_current(&ctx);
    if (result)
        return result;
    if (!config)
        return CUDA_ERROR_INVALID_VALUE;
    *config = ctx->shared_config;
    return CUDA_SUCCESS;
}

ENTRY(cuCtxSetSharedMemConfig, int config) {
    struct ctx *ctx;
    CUresult result = sim_current(&ctx);
    if (result)
        return result;
    if (config < 0 || config > 2)
        return CUDA_ERROR_INVALID_VALUE;
    ctx->shared_config = config;
    return CUDA_SUCCESS;
}

ENTRY(cuCtxResetPersistingL2Cache, void) {
    struct ctx *ctx;
    return sim_current(&ctx);
}

ENTRY(cuCtxAttach, CUcontext *out, unsigned flags) {
    struct ctx *ctx;
    CUresult result = sim_current(&ctx);
    if (result)
        return result;
    if (!out || flags)
        return CUDA_ERROR_INVALID_VALUE;
    ctx->attached++;
    *out = (CUcontext)ctx;
    return CUDA_SUCCESS;
}

ENTRY(cuCtxDetach, CUcontext handle) {
    struct ctx *ctx = (struct ctx *)handle;
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!handle_ok(H_CONTEXT, ctx) || !ctx->attached)
        return CUDA_ERROR_INVALID_CONTEXT;
    ctx->attached--;
    return CUDA_SUCCESS;
}
