/* vmm.c: the entry points of virtual memory management that deal with addresses. */
#include <unistd.h>

#include "peer.h"
#include "space.h"
#include "view.h"

ENTRY(cuMemAddressReserve, CUdeviceptr *out, size_t bytes, size_t align, CUdeviceptr hint, unsigned long long flags) {
    CUresult result = sim_ready();
    if (result)
        return result;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (!out || !bytes || bytes % page || align & (align - 1) || hint % page || flags)
        return CUDA_ERROR_INVALID_VALUE;
    char *start = NULL;
    sim_lock(sim.link, &space_lock);
    result = space_reserve(bytes, align > SPACE_UNIT ? align : SPACE_UNIT, (void *)(uintptr_t)hint, &start);
    pthread_mutex_unlock(&space_lock);
    if (!result)
        *out = (uintptr_t)start;
    return result;
}

ENTRY(cuMemAddressFree, CUdeviceptr start, size_t bytes) {
    CUresult result = sim_ready();
    if (result)
        return result;
    sim_lock(sim.link, &space_lock);
    result = space_unreserve((char *)(uintptr_t)start, bytes);
    pthread_mutex_unlock(&space_lock);
    return result;
}

ENTRY(cuMemMap, CUdeviceptr start, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags) {
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!bytes || bytes % SPACE_UNIT || start % SPACE_UNIT || offset || flags)
        return CUDA_ERROR_INVALID_VALUE;        /* an offset is not possible with the real driver either */
    char *at = (char *)(uintptr_t)start;
    sim_lock(sim.link, &space_lock);
    struct physical *physical = physical_of(handle);
    struct area *area = space_area(at);
    if (!physical || bytes > physical->bytes || !area || bytes > (uint64_t)(area->start + area->bytes - at))
        result = CUDA_ERROR_INVALID_VALUE;
    else
        result = space_map(area, at, bytes, physical);
    pthread_mutex_unlock(&space_lock);
    return result;
}

ENTRY(cuMemUnmap, CUdeviceptr start, size_t bytes) {
    CUresult result = sim_ready();
    if (result)
        return result;
    size_t count;
    sim_lock(sim.link, &space_lock);
    struct mapping *first = bytes ? space_run((char *)(uintptr_t)start, bytes, &count) : NULL;
    if (first)
        space_unmap(first, count);
    pthread_mutex_unlock(&space_lock);
    return first ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* May this location have access to the memory of the mapping? */
static CUresult check_access(const CUmemAccessDesc *desc, const struct mapping *mapping) {
    const struct device *device = mapping->physical->device;
    if (desc->flags != ACCESS_NONE && desc->flags != ACCESS_READ && desc->flags != ACCESS_READWRITE)
        return CUDA_ERROR_INVALID_VALUE;
    switch (desc->location.type) {
    case LOCATION_DEVICE: {
        struct device *from;
        CUresult result = sim_device_of(desc->location.id, &from);
        return result || !device || device == from || peer_possible(from, device) ? result : CUDA_ERROR_INVALID_DEVICE;
    }
    case LOCATION_HOST: case LOCATION_HOST_NUMA: return device ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
}

ENTRY(cuMemSetAccess, CUdeviceptr start, size_t bytes, const CUmemAccessDesc *list, size_t count) {
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!bytes || !list || !count)
        return CUDA_ERROR_INVALID_VALUE;
    size_t mappings = 0;
    sim_lock(sim.link, &space_lock);
    struct mapping *first = space_run((char *)(uintptr_t)start, bytes, &mappings);
    result = first ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count && !result; i++)
        for (size_t k = 0; k < mappings && !result; k++)
            result = check_access(&list[i], &first[k]);
    for (size_t k = 0; k < mappings && !result; k++) {
        for (size_t i = 0; i < count; i++)
            *(list[i].location.type == LOCATION_DEVICE ? &first[k].access[list[i].location.id] : &first[k].host) = (unsigned char)list[i].flags;
        result = space_protect(&first[k], space_protection(&first[k]));
    }
    view_changed();
    pthread_mutex_unlock(&space_lock);
    return result;
}

ENTRY(cuMemGetAccess, unsigned long long *out, const CUmemLocation *location, CUdeviceptr address) {
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!out || !location)
        return CUDA_ERROR_INVALID_VALUE;
    struct device *device;
    bool host = location->type == LOCATION_HOST || location->type == LOCATION_HOST_NUMA;
    result = host ? CUDA_SUCCESS : location->type == LOCATION_DEVICE ? sim_device_of(location->id, &device) : CUDA_ERROR_INVALID_VALUE;
    if (result)
        return result;
    const char *at = (const char *)(uintptr_t)address;
    sim_lock(sim.link, &space_lock);
    struct area *area = space_area(at);
    struct mapping *mapping = area ? space_mapping(area, at) : NULL;
    if (mapping)
        *out = host ? mapping->host : mapping->access[location->id];
    pthread_mutex_unlock(&space_lock);
    return mapping ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
