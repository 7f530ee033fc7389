/* pointer.c: cuPointerGetAttribute(s): what is known of an address. */
#include <string.h>

#include "missing.h"
#include "where.h"

enum { A_CONTEXT = 1, A_MEMORY_TYPE, A_DEVICE_POINTER, A_HOST_POINTER, A_P2P_TOKENS, A_SYNC_MEMOPS, A_BUFFER_ID, A_IS_MANAGED,
       A_DEVICE_ORDINAL, A_LEGACY_IPC, A_RANGE_START, A_RANGE_SIZE, A_MAPPED, A_HANDLE_TYPES, A_RDMA, A_ACCESS_FLAGS, A_MEMPOOL,
       A_MAPPING_SIZE, A_MAPPING_BASE, A_BLOCK_ID, A_DECOMPRESS, A_END };

#define PUT(type, value) do { type put = (type)(value); memcpy(data, &put, sizeof put); return CUDA_SUCCESS; } while (0)

/* Where it is reached from the device (the same) or the host: reserved addresses and memory that is not theirs are not. */
static bool reached(const struct where *w, bool host) {
    if (w->kind == WHERE_RESERVED)
        return false;
    return !host || w->managed || !w->device;
}

static CUresult attribute(void *data, int which, CUdeviceptr address, const struct where *w, const struct ctx *ctx) {
    switch (which) {
    case A_CONTEXT:
        if (!w->ctx)
            return CUDA_ERROR_INVALID_VALUE;    /* memory of pools, and mapped memory, belongs to no context */
        PUT(CUcontext, (CUcontext)w->ctx);
    case A_MEMORY_TYPE:
        if (w->kind == WHERE_RESERVED)
            return CUDA_ERROR_INVALID_VALUE;
        PUT(unsigned, w->device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST);
    case A_DEVICE_POINTER: case A_HOST_POINTER:
        if (!reached(w, which == A_HOST_POINTER))
            return CUDA_ERROR_INVALID_VALUE;
        PUT(CUdeviceptr, address);
    case A_SYNC_MEMOPS: PUT(unsigned char, w->sync);
    case A_BUFFER_ID: PUT(unsigned long long, w->id);
    case A_IS_MANAGED: PUT(unsigned char, w->managed);
    case A_DEVICE_ORDINAL:
        if (w->kind == WHERE_RESERVED)
            return CUDA_ERROR_INVALID_VALUE;
        PUT(int, w->device ? w->device->ordinal : ctx->device->ordinal);
    case A_LEGACY_IPC: PUT(unsigned char, w->legacy_ipc);
    case A_RANGE_START: PUT(CUdeviceptr, (uintptr_t)w->reserved);
    case A_RANGE_SIZE: PUT(size_t, w->reserved_bytes);
    case A_MAPPED: PUT(unsigned char, w->kind != WHERE_RESERVED);
    case A_HANDLE_TYPES: PUT(unsigned long long, w->handle_types);
    case A_RDMA: PUT(unsigned char, 0);
    case A_ACCESS_FLAGS: PUT(unsigned, w->access[ctx->device->ordinal]);
    case A_MEMPOOL: PUT(CUmemoryPool, (CUmemoryPool)w->pool);
    case A_MAPPING_SIZE: PUT(size_t, w->backing_bytes);
    case A_MAPPING_BASE: PUT(CUdeviceptr, (uintptr_t)w->backing);
    case A_BLOCK_ID: PUT(unsigned long long, w->backing_id);
    case A_DECOMPRESS: PUT(unsigned char, 0);
    case A_P2P_TOKENS: return MISSING(POINTER_TOKENS);
    default: return CUDA_ERROR_INVALID_VALUE;
    }
}

ENTRY(cuPointerGetAttribute, void *data, int which, CUdeviceptr address) {
    struct ctx *ctx;
    struct where where;
    CUresult result = sim_current(&ctx);
    if (result)
        return result;
    if (!data || !where_find((void *)(uintptr_t)address, &where))
        return CUDA_ERROR_INVALID_VALUE;
    return attribute(data, which, address, &where, ctx);
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
    struct where where;
    bool is_known = where_find((void *)(uintptr_t)address, &where);
    for (unsigned i = 0; i < count; i++) {
        if (!data[i] || which[i] < A_CONTEXT || which[i] >= A_END)
            return CUDA_ERROR_INVALID_VALUE;
        /* Unlike the singular form, this one answers for any address. */
        if (is_known && !attribute(data[i], which[i], address, &where, ctx))
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
    struct where where;
    const void *at = (void *)(uintptr_t)address;
    CUresult result = sim_current(&ctx);
    if (result)
        return result;
    if (!value || which != A_SYNC_MEMOPS || !where_find(at, &where) || where.kind == WHERE_RESERVED)
        return CUDA_ERROR_INVALID_VALUE;
    unsigned on;
    memcpy(&on, value, sizeof on);
    if (on && where_set_sync(at, true))
        return ctx_synchronise(where.ctx ? where.ctx : ctx);    /* what was begun before counts too */
    where_set_sync(at, false);          /* host memory is synchronised in any case */
    return CUDA_SUCCESS;
}
