/* pool.c: memory pools and stream-ordered allocation. Freed memory goes back to its pool once its stream has come to the free, and
 * from the pool to the device at the next synchronisation, above the release threshold. */
#include "capture.h"
#include "pool.h"
#include "work.h"

static CUresult pool_new(struct device *device, bool builtin, struct pool **out) {
    struct pool *pool = handle_new(H_POOL);
    struct heap *heap = pool ? heap_new(device, pool) : NULL;
    if (!heap) {
        handle_free(pool);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    pool->device = device;
    pool->heap = heap;
    pool->builtin = builtin;
    for (int i = POOL_REUSE_EVENT; i <= POOL_REUSE_INTERNAL; i++)
        pool->reuse[i] = 1;
    pthread_mutex_lock(&device->heap_lock);
    pool->next = device->pools;
    device->pools = pool;
    pthread_mutex_unlock(&device->heap_lock);
    *out = pool;
    return CUDA_SUCCESS;
}

CUresult pools_open(struct device *device) {
    CUresult result = pool_new(device, true, &device->default_pool);
    device->current_pool = device->default_pool;
    return result;
}

void pools_reap(void) {
    for (int i = 0; i < sim.device_count; i++) {
        struct device *device = &sim.device[i];
        pthread_mutex_lock(&device->heap_lock);
        for (struct pool *pool = device->pools; pool; pool = pool->next) {
            heap_reap(pool->heap);
            if (pool->heap->reserved > pool->heap->threshold)
                heap_trim(pool->heap, pool->heap->threshold);
        }
        pthread_mutex_unlock(&device->heap_lock);
    }
}

void pools_trim_locked(struct device *device) {
    for (struct pool *pool = device->pools; pool; pool = pool->next) {
        heap_reap(pool->heap);
        heap_trim(pool->heap, 0);
    }
}

static CUresult pool_of(CUmemoryPool handle, struct pool **out) {
    CUresult result = sim_ready();
    if (!result && !handle_ok(H_POOL, handle))
        result = CUDA_ERROR_INVALID_VALUE;
    *out = (struct pool *)handle;
    return result;
}

ENTRY(cuDeviceGetDefaultMemPool, CUmemoryPool *out, CUdevice ordinal) {
    struct device *device;
    CUresult result = sim_device_of(ordinal, &device);
    if (result)
        return result;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUmemoryPool)device->default_pool;
    return CUDA_SUCCESS;
}

ENTRY(cuDeviceGetMemPool, CUmemoryPool *out, CUdevice ordinal) {
    struct device *device;
    CUresult result = sim_device_of(ordinal, &device);
    if (result)
        return result;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUmemoryPool)device->current_pool;
    return CUDA_SUCCESS;
}

ENTRY(cuDeviceSetMemPool, CUdevice ordinal, CUmemoryPool handle) {
    struct device *device;
    struct pool *pool;
    CUresult result = sim_device_of(ordinal, &device);
    if (!result)
        result = pool_of(handle, &pool);
    if (result)
        return result;
    if (pool->device != device)
        return CUDA_ERROR_INVALID_VALUE;
    device->current_pool = pool;
    return CUDA_SUCCESS;
}

ENTRY(cuMemPoolCreate, CUmemoryPool *out, const CUmemPoolProps *props) {
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!out || !props || props->allocType != 1)
        return CUDA_ERROR_INVALID_VALUE;
    if (props->location.type != 1 || props->handleTypes)
        return CUDA_ERROR_NOT_SUPPORTED;        /* host memory, pools shared between processes */
    struct device *device;
    struct pool *pool;
    result = sim_device_of(props->location.id, &device);
    if (!result)
        result = pool_new(device, false, &pool);
    if (!result)
        *out = (CUmemoryPool)pool;
    return result;
}

ENTRY(cuMemPoolDestroy, CUmemoryPool handle) {
    struct pool *pool;
    CUresult result = pool_of(handle, &pool);
    if (result)
        return result;
    if (pool->builtin)
        return CUDA_ERROR_INVALID_VALUE;
    struct device *device = pool->device;
    pthread_mutex_lock(&device->heap_lock);
    for (struct pool **at = &device->pools; *at; at = &(*at)->next) {
        if (*at == pool) {
            *at = pool->next;
            break;
        }
    }
    if (device->current_pool == pool)
        device->current_pool = device->default_pool;
    pthread_mutex_unlock(&device->heap_lock);
    heap_delete(pool->heap);
    handle_free(pool);
    return CUDA_SUCCESS;
}

ENTRY(cuMemPoolTrimTo, CUmemoryPool handle, size_t keep) {
    struct pool *pool;
    CUresult result = pool_of(handle, &pool);
    if (result)
        return result;
    pthread_mutex_lock(&pool->device->heap_lock);
    heap_reap(pool->heap);
    heap_trim(pool->heap, keep);
    pthread_mutex_unlock(&pool->device->heap_lock);
    return CUDA_SUCCESS;
}

ENTRY(cuMemPoolSetAttribute, CUmemoryPool handle, int attribute, void *value) {
    struct pool *pool;
    CUresult result = pool_of(handle, &pool);
    if (result)
        return result;
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    struct heap *heap = pool->heap;
    pthread_mutex_lock(&pool->device->heap_lock);
    switch (attribute) {
    case POOL_REUSE_EVENT: case POOL_REUSE_OPPORTUNISTIC: case POOL_REUSE_INTERNAL: pool->reuse[attribute] = *(int *)value != 0; break;
    case POOL_RELEASE_THRESHOLD: heap->threshold = *(cuuint64_t *)value; break;
    case POOL_RESERVED_HIGH:
    case POOL_USED_HIGH:
        if (*(cuuint64_t *)value)
            result = CUDA_ERROR_INVALID_VALUE;  /* may only be reset */
        else if (attribute == POOL_RESERVED_HIGH)
            heap->reserved_high = heap->reserved;
        else
            heap->used_high = heap->used;
        break;
    default: result = CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_unlock(&pool->device->heap_lock);
    return result;
}

ENTRY(cuMemPoolGetAttribute, CUmemoryPool handle, int attribute, void *value) {
    struct pool *pool;
    CUresult result = pool_of(handle, &pool);
    if (result)
        return result;
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    struct heap *heap = pool->heap;
    pthread_mutex_lock(&pool->device->heap_lock);
    heap_reap(heap);
    switch (attribute) {
    case POOL_REUSE_EVENT: case POOL_REUSE_OPPORTUNISTIC: case POOL_REUSE_INTERNAL: *(int *)value = pool->reuse[attribute]; break;
    case POOL_RELEASE_THRESHOLD: *(cuuint64_t *)value = heap->threshold; break;
    case POOL_RESERVED_CURRENT: *(cuuint64_t *)value = heap->reserved; break;
    case POOL_RESERVED_HIGH: *(cuuint64_t *)value = heap->reserved_high; break;
    case POOL_USED_CURRENT: *(cuuint64_t *)value = heap->used; break;
    case POOL_USED_HIGH: *(cuuint64_t *)value = heap->used_high; break;
    default: result = CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_unlock(&pool->device->heap_lock);
    return result;
}

ENTRY(cuMemPoolSetAccess, CUmemoryPool handle, const CUmemAccessDesc *list, size_t count) {
    struct pool *pool;
    CUresult result = pool_of(handle, &pool);
    for (size_t i = 0; i < count && !result; i++)
        if (!list || list[i].location.type != 1 || list[i].location.id != pool->device->ordinal || list[i].flags != 3)
            result = CUDA_ERROR_INVALID_DEVICE;         /* only the own device can have access, and it always has */
    return result;
}

ENTRY(cuMemPoolGetAccess, int *flags, CUmemoryPool handle, CUmemLocation *location) {
    struct pool *pool;
    CUresult result = pool_of(handle, &pool);
    if (result)
        return result;
    if (!flags || !location || location->type != 1)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = location->id == pool->device->ordinal ? 3 : 0;
    return CUDA_SUCCESS;
}

/* Allocates for a stream. Capturing allocations into graphs is not simulated. */
static CUresult allocate(CUdeviceptr *out, size_t bytes, struct pool *pool, CUstream handle) {
    struct stream *stream;
    CUresult result = stream_of(handle, &stream);
    if (!result)
        result = capture_blocks(stream);
    if (result)
        return result;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = 0;
    if (!bytes)
        return CUDA_ERROR_INVALID_VALUE;
    char *address;
    result = heap_alloc((pool ? pool : stream->ctx->device->current_pool)->heap, NULL, bytes, stream, &address);
    if (!result)
        *out = (CUdeviceptr)(uintptr_t)address;
    return result;
}

PTSZ(cuMemAllocAsync, (CUdeviceptr *out, size_t bytes, CUstream stream), allocate(out, bytes, NULL, S(stream)))

static CUresult allocate_from(CUdeviceptr *out, size_t bytes, CUmemoryPool handle, CUstream stream) {
    struct pool *pool;
    CUresult result = pool_of(handle, &pool);
    return result ? result : allocate(out, bytes, pool, stream);
}
PTSZ(cuMemAllocFromPoolAsync, (CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream stream), allocate_from(out, bytes, pool, S(stream)))

static CUresult free_async(CUdeviceptr address, CUstream handle) {
    struct stream *stream;
    CUresult result = stream_of(handle, &stream);
    if (!result)
        result = capture_blocks(stream);
    if (result)
        return result;
    if (!address)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sim.submit);    /* what the stream has now is what the memory waits for */
    result = work_order(stream);
    if (!result)
        result = heap_free_ordered((char *)(uintptr_t)address, stream);
    pthread_mutex_unlock(&sim.submit);
    return result;
}
PTSZ(cuMemFreeAsync, (CUdeviceptr address, CUstream stream), free_async(address, S(stream)))
