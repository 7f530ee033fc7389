/* pool_attribute.c: which pool is current, what is asked of and set for pools, and which devices may use their memory. */
#include "capture.h"
#include "missing.h"
#include "peer.h"
#include "pool.h"
#include "view.h"

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

static CUresult make_current(struct device *device, CUmemoryPool handle) {
    struct pool *pool;
    CUresult result = pool_of(handle, &pool);
    if (result)
        return result;
    if (pool->device != device || pool->imported)
        return CUDA_ERROR_INVALID_VALUE;
    device->current_pool = pool;
    return CUDA_SUCCESS;
}

ENTRY(cuDeviceSetMemPool, CUdevice ordinal, CUmemoryPool handle) {
    struct device *device;
    CUresult result = sim_device_of(ordinal, &device);
    return result ? result : make_current(device, handle);
}

/* The device of a location whose pools are simulated. */
static CUresult place(const CUmemLocation *location, int type, struct device **out) {
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!location || (type != ALLOCATION_PINNED && type != ALLOCATION_MANAGED))
        return CUDA_ERROR_INVALID_VALUE;
    if (type == ALLOCATION_MANAGED)
        return MISSING(POOL_MANAGED);
    if (location->type == LOCATION_HOST || location->type == LOCATION_HOST_NUMA)
        return MISSING(POOL_HOST);
    return location->type == LOCATION_DEVICE ? sim_device_of(location->id, out) : CUDA_ERROR_INVALID_VALUE;
}

ENTRY(cuMemGetDefaultMemPool, CUmemoryPool *out, CUmemLocation *location, int type) {
    struct device *device;
    CUresult result = place(location, type, &device);
    if (!result && !out)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *out = (CUmemoryPool)device->default_pool;
    return result;
}

ENTRY(cuMemGetMemPool, CUmemoryPool *out, CUmemLocation *location, int type) {
    struct device *device;
    CUresult result = place(location, type, &device);
    if (!result && !out)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *out = (CUmemoryPool)device->current_pool;
    return result;
}

ENTRY(cuMemSetMemPool, CUmemLocation *location, int type, CUmemoryPool pool) {
    struct device *device;
    CUresult result = place(location, type, &device);
    return result ? result : make_current(device, pool);
}

ENTRY(cuMemPoolTrimTo, CUmemoryPool handle, size_t keep) {
    struct pool *pool;
    CUresult result = pool_of(handle, &pool);
    if (result)
        return result;
    sim_lock(sim.link, &pool->device->heap_lock);
    heap_reap(pool->heap);
    heap_trim(pool->heap, keep, true);
    pthread_mutex_unlock(&pool->device->heap_lock);
    return CUDA_SUCCESS;
}

ENTRY(cuMemPoolSetAttribute, CUmemoryPool handle, int attribute, void *value) {
    struct pool *pool;
    CUresult result = pool_of(handle, &pool);
    if (!result)
        result = capture_unsafe();
    if (result)
        return result;
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    struct heap *heap = pool->heap;
    sim_lock(sim.link, &pool->device->heap_lock);
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
    if (!result)
        result = capture_unsafe();
    if (result)
        return result;
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    struct heap *heap = pool->heap;
    sim_lock(sim.link, &pool->device->heap_lock);
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

/* One descriptor of cuMemPoolSetAccess: the pool's own device always has access. */
static CUresult check_access(const struct pool *pool, const CUmemAccessDesc *desc) {
    struct device *device;
    if (desc->location.type != LOCATION_DEVICE
        || (desc->flags != ACCESS_NONE && desc->flags != ACCESS_READ && desc->flags != ACCESS_READWRITE))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = sim_device_of(desc->location.id, &device);
    if (result)
        return result;
    if (device == pool->device)
        return desc->flags == ACCESS_READWRITE ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    return peer_possible(device, pool->device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

ENTRY(cuMemPoolSetAccess, CUmemoryPool handle, const CUmemAccessDesc *list, size_t count) {
    struct pool *pool;
    CUresult result = pool_of(handle, &pool);
    if (!result && count && !list)
        result = CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count && !result; i++)
        result = check_access(pool, &list[i]);
    if (result)
        return result;
    sim_lock(sim.link, &pool->device->heap_lock);
    for (size_t i = 0; i < count; i++)
        pool->heap->access[list[i].location.id] = list[i].flags;
    pthread_mutex_unlock(&pool->device->heap_lock);
    view_changed();
    return CUDA_SUCCESS;
}

ENTRY(cuMemPoolGetAccess, int *flags, CUmemoryPool handle, CUmemLocation *location) {
    struct pool *pool;
    struct device *device;
    CUresult result = pool_of(handle, &pool);
    if (result)
        return result;
    if (!flags || !location || location->type != LOCATION_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    result = sim_device_of(location->id, &device);
    if (!result)
        *flags = device == pool->device ? ACCESS_READWRITE : pool->heap->access[location->id];
    return result;
}
