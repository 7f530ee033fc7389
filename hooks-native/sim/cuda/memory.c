/* memory.c: linear device memory: allocation, what an address is, how much is left. */
#include "capture.h"
#include "heap.h"

static CUresult allocate(CUdeviceptr *out, size_t bytes, bool managed) {
    struct ctx *ctx;
    CUresult result = sim_current(&ctx);
    if (!result)
        result = capture_unsafe(ctx);
    if (result)
        return result;
    if (!out || !bytes)
        return CUDA_ERROR_INVALID_VALUE;
    char *address;
    result = heap_alloc(ctx->device->plain, ctx, bytes, NULL, &address);
    if (result)
        return result;
    if (managed)
        heap_set_managed(address);
    *out = (CUdeviceptr)(uintptr_t)address;
    return CUDA_SUCCESS;
}

ENTRY(cuMemAlloc_v2, CUdeviceptr *out, size_t bytes) { return allocate(out, bytes, false); }

/* Device memory is host memory here, so managed memory needs nothing more; it does not migrate. */
ENTRY(cuMemAllocManaged, CUdeviceptr *out, size_t bytes, unsigned flags) {
    if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)
        return CUDA_ERROR_INVALID_VALUE;
    return allocate(out, bytes, true);
}

ENTRY(cuMemAllocPitch_v2, CUdeviceptr *out, size_t *pitch, size_t width, size_t height, unsigned element) {
    if (!out || !pitch || !width || !height || (element != 4 && element != 8 && element != 16) || width > 0x7fffffff)
        return sim_ready() ? CUDA_ERROR_NOT_INITIALIZED : CUDA_ERROR_INVALID_VALUE;
    size_t row = (width + HEAP_ALIGN - 1) / HEAP_ALIGN * HEAP_ALIGN;
    if (height > SIZE_MAX / row)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = allocate(out, row * height, false);
    if (!result)
        *pitch = row;
    return result;
}

ENTRY(cuMemFree_v2, CUdeviceptr address) {
    struct ctx *ctx;
    CUresult result = sim_current(&ctx);
    if (!result)
        result = capture_unsafe(ctx);
    if (result || !address)
        return result;
    struct range range;
    if (!heap_find((void *)(uintptr_t)address, &range) || (uintptr_t)range.start != address)
        return CUDA_ERROR_INVALID_VALUE;
    result = ctx_synchronise(range.ctx ? range.ctx : ctx);      /* work may still use it */
    return result ? result : heap_free(range.start);
}

ENTRY(cuMemGetAddressRange_v2, CUdeviceptr *base, size_t *size, CUdeviceptr address) {
    struct ctx *ctx;
    CUresult result = sim_current(&ctx);
    if (result)
        return result;
    struct range range;
    void *start;
    size_t bytes;
    unsigned flags;
    if (heap_find((void *)(uintptr_t)address, &range)) {
        start = range.start;
        bytes = range.bytes;
    } else if (!host_find((void *)(uintptr_t)address, &start, &bytes, &flags)) {
        return CUDA_ERROR_NOT_FOUND;
    }
    if (base)
        *base = (CUdeviceptr)(uintptr_t)start;
    if (size)
        *size = bytes;
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

/* Advice and prefetching change nothing where memory does not migrate, but addresses are checked. */
static CUresult advise(CUdeviceptr address, size_t bytes) {
    CUresult result = sim_ready();
    if (result)
        return result;
    return bytes && heap_covers((void *)(uintptr_t)address, bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

ENTRY(cuMemAdvise, CUdeviceptr address, size_t bytes, int advice, CUdevice device) {
    (void)device;
    return advice < 1 || advice > 6 ? CUDA_ERROR_INVALID_VALUE : advise(address, bytes);
}
ENTRY(cuMemAdvise_v2, CUdeviceptr address, size_t bytes, int advice, CUmemLocation location) {
    (void)location;
    return advice < 1 || advice > 6 ? CUDA_ERROR_INVALID_VALUE : advise(address, bytes);
}

static CUresult prefetch(CUdeviceptr address, size_t bytes, CUstream handle) {
    struct stream *stream;
    CUresult result = stream_of(handle, &stream);
    return result ? result : advise(address, bytes);
}
PTSZ(cuMemPrefetchAsync, (CUdeviceptr address, size_t bytes, CUdevice device, CUstream stream),
     ((void)device, prefetch(address, bytes, S(stream))))
PTSZ(cuMemPrefetchAsync_v2, (CUdeviceptr address, size_t bytes, CUmemLocation location, unsigned flags, CUstream stream),
     ((void)location, (void)flags, prefetch(address, bytes, S(stream))))
