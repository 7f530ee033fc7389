/* memory.c: linear device memory: allocation, what an address is, how much is left. */
#include "capture.h"
#include "where.h"

static CUresult allocate(CUdeviceptr *out, size_t bytes) {
    struct ctx *ctx;
    CUresult result = capture_allows(&ctx);
    if (result)
        return result;
    if (!out || !bytes)
        return CUDA_ERROR_INVALID_VALUE;
    char *address;
    result = heap_alloc(ctx->device->plain, ctx, bytes, NULL, &address);
    if (!result)
        *out = (CUdeviceptr)(uintptr_t)address;
    return result;
}

ENTRY(cuMemAlloc_v2, CUdeviceptr *out, size_t bytes) { return allocate(out, bytes); }

ENTRY(cuMemAllocPitch_v2, CUdeviceptr *out, size_t *pitch, size_t width, size_t height, unsigned element) {
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!out || !pitch || !width || !height || (element != 4 && element != 8 && element != 16) || width > 0x7fffffff)
        return CUDA_ERROR_INVALID_VALUE;
    size_t row = (width + HEAP_ALIGN - 1) / HEAP_ALIGN * HEAP_ALIGN;
    if (height > SIZE_MAX / row)
        return CUDA_ERROR_OUT_OF_MEMORY;
    result = allocate(out, row * height);
    if (!result)
        *pitch = row;
    return result;
}

ENTRY(cuMemFree_v2, CUdeviceptr address) {
    struct ctx *ctx;
    CUresult result = capture_allows(&ctx);
    if (result || !address)
        return result;
    struct range range;
    if (!heap_find((void *)(uintptr_t)address, &range) || (uintptr_t)range.start != address || range.heap->kind == HEAP_IMPORTS)
        return CUDA_ERROR_INVALID_VALUE;        /* what cuIpcOpenMemHandle gave goes by cuIpcCloseMemHandle */
    result = ctx_synchronise(range.ctx ? range.ctx : ctx);      /* work may still use it */
    return result ? result : heap_free(range.start);
}

ENTRY(cuMemGetAddressRange_v2, CUdeviceptr *base, size_t *size, CUdeviceptr address) {
    struct ctx *ctx;
    struct where where;
    CUresult result = sim_current(&ctx);
    if (result)
        return result;
    if (!where_find((void *)(uintptr_t)address, &where) || where.kind == WHERE_RESERVED)
        return CUDA_ERROR_NOT_FOUND;
    if (base)
        *base = (CUdeviceptr)(uintptr_t)where.start;
    if (size)
        *size = where.bytes;
    return CUDA_SUCCESS;
}

ENTRY(cuMemGetInfo_v2, size_t *free_bytes, size_t *total_bytes) {
    struct ctx *ctx;
    CUresult result = sim_current(&ctx);
    if (result)
        return result;
    if (!free_bytes && !total_bytes)
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t left, total;
    result = sim_result(sim_memory_info(sim.link, ctx->device->node_index, &left, &total));
    if (result)
        return result;
    if (free_bytes)
        *free_bytes = left;
    if (total_bytes)
        *total_bytes = total;
    return CUDA_SUCCESS;
}
