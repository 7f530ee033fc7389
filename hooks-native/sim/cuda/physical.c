/* physical.c: memory without an address: made, shared with other processes by descriptors, and given back when the program, its
 * mappings, and whoever else has it have let go. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "file_limit.h"
#include "missing.h"
#include "space.h"

struct physical *physical_of(CUmemGenericAllocationHandle handle) {
    struct physical *physical = (struct physical *)(uintptr_t)handle;
    return handle_ok(H_PHYSICAL, physical) && physical->references ? physical : NULL;
}

void physical_drop(struct physical *physical) {
    if (physical->references || physical->mappings)
        return;
    if (physical->device)
        sim_memory_free(sim.link, physical->device->node_index, physical->offset);
    else
        close(physical->fd);
    handle_free(physical);
}

static struct physical *physical_new(struct device *device, uint64_t offset, uint64_t bytes, int fd, const CUmemAllocationProp *prop) {
    struct physical *physical = handle_new(H_PHYSICAL);
    if (!physical)
        return NULL;
    physical->device = device;
    physical->offset = offset;
    physical->bytes = bytes;
    physical->fd = fd;
    physical->id = atomic_fetch_add(&sim.ids, 1) + 1;
    physical->references = 1;
    physical->prop = *prop;
    physical->prop.allocFlags.compressionType = 0;      /* a hint: it is never compressed */
    return physical;
}

/* What cuMemCreate and the granularity take; `device` is NULL for host memory. */
static CUresult check(const CUmemAllocationProp *prop, struct device **device) {
    *device = NULL;
    if (!prop || prop->win32HandleMetaData)
        return CUDA_ERROR_INVALID_VALUE;
    if (prop->type == ALLOCATION_MANAGED)
        return MISSING(CREATE_MANAGED);
    if (prop->type != ALLOCATION_PINNED || prop->requestedHandleTypes & ~(HANDLE_FD | HANDLE_WIN32 | HANDLE_WIN32_KMT | HANDLE_FABRIC))
        return CUDA_ERROR_INVALID_VALUE;
    switch (prop->location.type) {
    case LOCATION_DEVICE: {
        CUresult result = sim_device_of(prop->location.id, device);
        if (result)
            return result;
        break;
    }
    case LOCATION_HOST:
        if (prop->requestedHandleTypes)
            return CUDA_ERROR_INVALID_VALUE;
        break;
    case LOCATION_HOST_NUMA:
        if (prop->location.id)
            return CUDA_ERROR_INVALID_DEVICE;           /* there is one node of host memory */
        break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    if (prop->requestedHandleTypes & ~HANDLE_FD)
        return MISSING(CREATE_HANDLES);
    if (prop->requestedHandleTypes && !*device)
        return MISSING(CREATE_HOST_SHARED);
    if (prop->allocFlags.gpuDirectRDMACapable || prop->allocFlags.usage)
        return MISSING(CREATE_SPECIAL);
    return CUDA_SUCCESS;
}

ENTRY(cuMemGetAllocationGranularity, size_t *out, const CUmemAllocationProp *prop, int option) {
    struct device *device;
    CUresult result = sim_ready();
    if (!result)
        result = out && (option == 0 || option == 1) ? check(prop, &device) : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *out = SPACE_UNIT;
    return result;
}

/* A file in memory, or -1: a limit of this process (descriptors, sizes of files) does not let it. */
static int host_file(size_t bytes) {
    sigset_t before;
    int fd = memfd_create("gpud-sim-host", MFD_CLOEXEC);
    if (fd < 0)
        return -1;
    file_limit_begin(&before);
    bool failed = ftruncate(fd, (off_t)bytes) != 0;
    file_limit_end(&before, failed);
    if (!failed)
        return fd;
    sim_say("no host memory of %zu bytes: %s%s", bytes, strerror(errno), errno == EFBIG ? "; raise the limit on file sizes (ulimit -f)" : "");
    close(fd);
    return -1;
}

ENTRY(cuMemCreate, CUmemGenericAllocationHandle *out, size_t bytes, const CUmemAllocationProp *prop, unsigned long long flags) {
    struct device *device;
    CUresult result = sim_ready();
    if (!result)
        result = out && !flags ? check(prop, &device) : CUDA_ERROR_INVALID_VALUE;
    if (result)
        return result;
    if (!bytes || bytes % SPACE_UNIT)
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t offset = 0;
    int fd = -1;
    if (device) {
        fd = device->memory_fd;
        int error = sim_memory_alloc(sim.link, device->node_index, bytes, SPACE_UNIT, &offset);
        if (error)
            return sim_result(error);
    } else {
        fd = host_file(bytes);
        if (fd < 0)
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    struct physical *physical = physical_new(device, offset, bytes, fd, prop);
    if (!physical) {
        if (device)
            sim_memory_free(sim.link, device->node_index, offset);
        else
            close(fd);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = (uintptr_t)physical;
    return CUDA_SUCCESS;
}

ENTRY(cuMemRelease, CUmemGenericAllocationHandle handle) {
    CUresult result = sim_ready();
    if (result)
        return result;
    sim_lock(sim.link, &space_lock);
    struct physical *physical = physical_of(handle);
    if (physical) {
        physical->references--;
        physical_drop(physical);
    }
    pthread_mutex_unlock(&space_lock);
    return physical ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

ENTRY(cuMemRetainAllocationHandle, CUmemGenericAllocationHandle *out, void *address) {
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock(sim.link, &space_lock);
    struct area *area = space_area(address);
    struct mapping *mapping = area ? space_mapping(area, address) : NULL;
    if (mapping) {
        mapping->physical->references++;
        *out = (uintptr_t)mapping->physical;
    }
    pthread_mutex_unlock(&space_lock);
    return mapping ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

ENTRY(cuMemGetAllocationPropertiesFromHandle, CUmemAllocationProp *out, CUmemGenericAllocationHandle handle) {
    CUresult result = sim_ready();
    if (result)
        return result;
    sim_lock(sim.link, &space_lock);
    struct physical *physical = physical_of(handle);
    if (out && physical)
        *out = physical->prop;
    pthread_mutex_unlock(&space_lock);
    return out && physical ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

ENTRY(cuMemExportToShareableHandle, void *out, CUmemGenericAllocationHandle handle, int type, unsigned long long flags) {
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!out || flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (type == HANDLE_WIN32 || type == HANDLE_WIN32_KMT || type == HANDLE_FABRIC)
        return MISSING(EXPORT_HANDLES);
    sim_lock(sim.link, &space_lock);
    struct physical *physical = physical_of(handle);
    if (type != HANDLE_FD || !physical || !(physical->prop.requestedHandleTypes & HANDLE_FD)) {
        result = CUDA_ERROR_INVALID_VALUE;
    } else {
        int fd = sim_memory_export(sim.link, physical->device->node_index, physical->offset);
        if (fd < 0)
            result = sim_result(fd);
        else
            memcpy(out, &fd, sizeof fd);
    }
    pthread_mutex_unlock(&space_lock);
    return result;
}

ENTRY(cuMemImportFromShareableHandle, CUmemGenericAllocationHandle *out, void *from, int type) {
    CUresult result = sim_ready();
    if (result)
        return result;
    if (type == HANDLE_WIN32 || type == HANDLE_WIN32_KMT || type == HANDLE_FABRIC)
        return MISSING(IMPORT_HANDLES);
    if (!out || type != HANDLE_FD)
        return CUDA_ERROR_INVALID_VALUE;
    uint32_t node_index;
    uint64_t offset, bytes;
    int error = sim_memory_import(sim.link, (int)(intptr_t)from, &node_index, &offset, &bytes);
    if (error)
        return error == -ENOENT ? CUDA_ERROR_INVALID_VALUE : sim_result(error);
    struct device *device = device_of_node(node_index);
    CUmemAllocationProp prop = {.type = ALLOCATION_PINNED, .requestedHandleTypes = HANDLE_FD,
                                .location = {LOCATION_DEVICE, device ? device->ordinal : 0}};
    struct physical *physical = device ? physical_new(device, offset, bytes, device->memory_fd, &prop) : NULL;
    if (!physical) {
        sim_memory_free(sim.link, node_index, offset);
        return device ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_NOT_SUPPORTED;    /* a device this process may not see */
    }
    *out = (uintptr_t)physical;
    return CUDA_SUCCESS;
}
