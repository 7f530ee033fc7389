/* pointer.c: cuPointerGetAttribute(s): what is known of an address. */
#include <string.h>

#include "heap.h"

enum { A_CONTEXT = 1, A_MEMORY_TYPE, A_DEVICE_POINTER, A_HOST_POINTER, A_P2P_TOKENS, A_SYNC_MEMOPS, A_BUFFER_ID, A_IS_MANAGED,
       A_DEVICE_ORDINAL, A_LEGACY_IPC, A_RANGE_START, A_RANGE_SIZE, A_MAPPED, A_HANDLE_TYPES, A_RDMA, A_ACCESS_FLAGS, A_MEMPOOL,
       A_MAPPING_SIZE, A_MAPPING_BASE, A_BLOCK_ID, A_DECOMPRESS, A_END };

/* Device and page-locked host memory in one form. */
struct known { bool host; char *start; uint64_t bytes, id; struct ctx *ctx; struct device *device; struct pool *pool; bool managed; };

static bool look_up(CUdeviceptr address, struct known *out) {
    struct range range;
    void *start;
    size_t bytes;
    unsigned flags;
    const void *p = (const void *)(uintptr_t)address;
    if (heap_find(p, &range)) {
        *out = (struct known){false, range.start, range.bytes, range.id, range.ctx, range.device, range.pool, range.managed};
        return true;
    }
    if (!host_find(p, &start, &bytes, &flags))
        return false;
    struct ctx *ctx = ctx_top();
    *out = (struct known){true, start, bytes, (uint64_t)(uintptr_t)start, ctx, ctx ? ctx->device : &sim.device[0], NULL, false};
    return true;
}

#define PUT(type, value) do { type put = (type)(value); memcpy(data, &put, sizeof put); return CUDA_SUCCESS; } while (0)

static CUresult attribute(void *data, int which, CUdeviceptr address, const struct known *k) {
    switch (which) {
    case A_CONTEXT:
        if (!k->ctx)
            return CUDA_ERROR_INVALID_VALUE;    /* memory of a pool belongs to no context */
        PUT(CUcontext, (CUcontext)k->ctx);
    case A_MEMORY_TYPE: PUT(unsigned, k->host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
    case A_DEVICE_POINTER: PUT(CUdeviceptr, address);
    case A_HOST_POINTER:
        if (!k->host && !k->managed)
            return CUDA_ERROR_INVALID_VALUE;
        PUT(void *, (uintptr_t)address);
    case A_SYNC_MEMOPS: PUT(unsigned char, 0);
    case A_BUFFER_ID: PUT(unsigned long long, k->id);
    case A_IS_MANAGED: PUT(unsigned char, k->managed);
    case A_DEVICE_ORDINAL: PUT(int, k->device->ordinal);
    case A_LEGACY_IPC: PUT(unsigned char, 0);
    case A_RANGE_START: PUT(CUdeviceptr, (uintptr_t)k->start);
    case A_RANGE_SIZE: PUT(size_t, k->bytes);
    case A_MAPPED: PUT(unsigned char, 1);
    case A_HANDLE_TYPES: PUT(unsigned long long, 0);
    case A_RDMA: PUT(unsigned char, 0);
    case A_ACCESS_FLAGS: PUT(unsigned, 3);
    case A_MEMPOOL: PUT(CUmemoryPool, (CUmemoryPool)k->pool);
    case A_MAPPING_SIZE: PUT(size_t, k->bytes);
    case A_MAPPING_BASE: PUT(CUdeviceptr, (uintptr_t)k->start);
    case A_BLOCK_ID: PUT(unsigned long long, k->id);
    case A_DECOMPRESS: PUT(unsigned char, 0);
    case A_P2P_TOKENS: return CUDA_ERROR_NOT_SUPPORTED;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
}

ENTRY(cuPointerGetAttribute, void *data, int which, CUdeviceptr address) {
    struct ctx *ctx;
    struct known known;
    CUresult result = sim_current(&ctx);
    if (result)
        return result;
    if (!data || !look_up(address, &known))
        return CUDA_ERROR_INVALID_VALUE;
    return attribute(data, which, address, &known);
}

/* How many bytes an attribute has, to give 0 for what is not known. */
static size_t width(int which) {
    switch (which) {
    case A_MEMORY_TYPE: case A_DEVICE_ORDINAL: case A_ACCESS_FLAGS: return 4;
    case A_SYNC_MEMOPS: case A_IS_MANAGED: case A_LEGACY_IPC: case A_MAPPED: case A_RDMA: case A_DECOMPRESS: return 1;
    default: return which == A_P2P_TOKENS ? 16 : 8;
    }
}

ENTRY(cuPointerGetAttributes, unsigned count, int *which, void **data, CUdeviceptr address) {
    struct ctx *ctx;
    CUresult result = sim_current(&ctx);
    if (result)
        return result;
    if (!count || !which || !data)
        return CUDA_ERROR_INVALID_VALUE;
    struct known known;
    bool is_known = look_up(address, &known);
    for (unsigned i = 0; i < count; i++) {
        if (!data[i] || which[i] < A_CONTEXT || which[i] >= A_END)
            return CUDA_ERROR_INVALID_VALUE;
        /* Unlike the singular form, this one answers for any address. */
        if (is_known && !attribute(data[i], which[i], address, &known))
            continue;
        memset(data[i], 0, width(which[i]));
        if (which[i] == A_DEVICE_ORDINAL && !is_known) {
            int none = -2;
            memcpy(data[i], &none, sizeof none);
        }
    }
    return CUDA_SUCCESS;
}

ENTRY(cuPointerSetAttribute, const void *value, int which, CUdeviceptr address) {
    struct ctx *ctx;
    struct known known;
    CUresult result = sim_current(&ctx);
    if (result)
        return result;
    return value && which == A_SYNC_MEMOPS && look_up(address, &known) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
