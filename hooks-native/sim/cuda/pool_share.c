/* pool_share.c: pools of other processes: a descriptor stands for a pool, and 64 bytes name one of its allocations. An imported pool
 * allocates nothing itself; what is imported from it is held by this process too until it is freed here. */
#include <errno.h>
#include <string.h>

#include "missing.h"
#include "pool.h"

/* What CUmemPoolPtrExportData holds. */
struct pointer { uint64_t magic, pool, offset, range_id, inside, bytes, foreign, spare; };
_Static_assert(sizeof(struct pointer) == sizeof(CUmemPoolPtrExportData), "it fills the data");
#define POINTER_MAGIC 0x7465726469787470ull

ENTRY(cuMemPoolExportToShareableHandle, void *out, CUmemoryPool handle, int type, unsigned long long flags) {
    struct pool *pool;
    CUresult result = pool_of(handle, &pool);
    if (result)
        return result;
    if (!out || flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (type == HANDLE_WIN32 || type == HANDLE_WIN32_KMT || type == HANDLE_FABRIC)
        return MISSING(EXPORT_HANDLES);
    if (type != HANDLE_FD || !(pool->handle_types & HANDLE_FD) || pool->imported)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock(sim.link, &pool->device->heap_lock);
    int fd = sim_pool_export(sim.link, pool->device->node_index, &pool->shared);
    pthread_mutex_unlock(&pool->device->heap_lock);
    if (fd < 0)
        return sim_result(fd);
    memcpy(out, &fd, sizeof fd);
    return CUDA_SUCCESS;
}

ENTRY(cuMemPoolImportFromShareableHandle, CUmemoryPool *out, void *from, int type, unsigned long long flags) {
    CUresult result = sim_ready();
    if (result)
        return result;
    if (type == HANDLE_WIN32 || type == HANDLE_WIN32_KMT || type == HANDLE_FABRIC)
        return MISSING(IMPORT_HANDLES);
    if (!out || type != HANDLE_FD || flags)
        return CUDA_ERROR_INVALID_VALUE;
    uint32_t node_index;
    uint64_t number;
    int error = sim_pool_import(sim.link, (int)(intptr_t)from, &node_index, &number);
    if (error)
        return error == -ENOENT ? CUDA_ERROR_INVALID_VALUE : sim_result(error);
    struct device *device = device_of_node(node_index);
    if (!device)
        return CUDA_ERROR_NOT_SUPPORTED;        /* a device that this process may not see */
    struct pool *pool;
    result = pool_new(device, false, &pool);
    if (result)
        return result;
    pool->shared = number;
    pool->imported = true;
    pool->heap->keeps = false;
    *out = (CUmemoryPool)pool;
    return CUDA_SUCCESS;
}

ENTRY(cuMemPoolExportPointer, CUmemPoolPtrExportData *out, CUdeviceptr address) {
    struct range range;
    char *at = (char *)(uintptr_t)address;
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!out || !heap_find(at, &range) || range.start != at || !range.heap->pool || range.heap->pool->imported || !range.heap->pool->shared)
        return CUDA_ERROR_INVALID_VALUE;        /* only memory of a pool that is exported */
    struct pointer pointer = {.magic = POINTER_MAGIC, .pool = range.heap->pool->shared, .inside = (uint64_t)(at - range.segment_start),
                              .offset = (uint64_t)(range.segment_start - range.device->base), .bytes = range.bytes, .foreign = range.id};
    uint64_t segment_bytes;
    result = sim_result(sim_memory_range(sim.link, range.device->node_index, pointer.offset, &pointer.range_id, &segment_bytes));
    if (!result)
        memcpy(out, &pointer, sizeof pointer);
    return result;
}

ENTRY(cuMemPoolImportPointer, CUdeviceptr *out, CUmemoryPool handle, CUmemPoolPtrExportData *data) {
    struct pool *pool;
    struct pointer pointer;
    char *at;
    CUresult result = pool_of(handle, &pool);
    if (result)
        return result;
    if (!out || !data)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&pointer, data, sizeof pointer);
    if (pointer.magic != POINTER_MAGIC || !pool->imported || pointer.pool != pool->shared)
        return CUDA_ERROR_INVALID_VALUE;
    result = heap_import(pool->heap, NULL, pointer.offset, pointer.range_id, pointer.inside, pointer.bytes, pointer.foreign, &at);
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        return result;
    if (result)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUdeviceptr)(uintptr_t)at;
    return CUDA_SUCCESS;
}
