/* vmm_access.c: who may use the program's own mappings, and what it asks about them. What is on the device the driver answers for; of the
 * rest it sees reserved addresses, and it is answered here as the driver would. See vmm.h. */
#include "vmm.h"

#include <string.h>
#include "pool_span.h"
#include "real.h"
#include "state.h"
#include "swap.h"

enum { A_CONTEXT = 1, A_MEMORY_TYPE, A_DEVICE_POINTER, A_HOST_POINTER, A_P2P_TOKENS, A_SYNC_MEMOPS, A_BUFFER_ID, A_IS_MANAGED,
       A_DEVICE_ORDINAL, A_LEGACY_IPC, A_RANGE_START, A_RANGE_SIZE, A_MAPPED, A_HANDLE_TYPES, A_RDMA, A_ACCESS_FLAGS, A_MEMPOOL,
       A_MAPPING_SIZE, A_MAPPING_BASE, A_BLOCK_ID, A_DECOMPRESS };
#define MEMORYTYPE_DEVICE 2
#define ACCESS_READ 1

static bool is_here(const struct gpud_view *view)
{
    return view->chunk == NULL || view->mapped;
}

static CUresult check_device(int id)
{
    int count = 0;

    if (real.cuDeviceGetCount == NULL || real.cuDeviceGetCount(&count) != CUDA_SUCCESS)
        count = GPUD_MAX_DEVICES;
    return id >= 0 && id < count && id < GPUD_MAX_DEVICES ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

/* Rights to memory that is away. */
static CUresult check(const CUmemAccessDesc *desc, uint32_t ordinal)
{
    int can = 0;

    if (desc->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        (desc->flags != 0 && desc->flags != ACCESS_READ && desc->flags != CU_MEM_ACCESS_READWRITE))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = check_device(desc->location.id);
    if (result != CUDA_SUCCESS || desc->location.id == (int)ordinal)
        return result;
    if (real.cuDeviceCanAccessPeer == NULL || real.cuDeviceCanAccessPeer(&can, desc->location.id, (CUdevice)ordinal) != CUDA_SUCCESS)
        can = 0;
    return can ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

/* The driver has taken it, or would. A right that cannot be given again after the memory was away keeps it where it is. */
static void remember(struct gpud_view *view, const CUmemAccessDesc *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const CUmemLocation *location = &list[i].location;
        if (location->type == CU_MEM_LOCATION_TYPE_DEVICE && location->id >= 0 && location->id < GPUD_MAX_DEVICES)
            view->access[location->id] = (uint8_t)list[i].flags;
        else
            gpud_chunk_pin(view->chunk);
    }
    if (view->mapped)
        view->reachable = true;
}

/* One of several has failed: these rights as they were. */
static void restore(const struct gpud_view *view, const CUmemAccessDesc *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        CUmemAccessDesc before = { list[i].location, 0 };
        if (before.location.type != CU_MEM_LOCATION_TYPE_DEVICE || before.location.id < 0 || before.location.id >= GPUD_MAX_DEVICES)
            continue;
        before.flags = view->access[before.location.id];
        if (real.cuMemSetAccess(view->at, view->bytes, &before, 1) != CUDA_SUCCESS)
            gpud_add(&gpud_activity()->errors, 1);
    }
}

static CUresult set_each(uint32_t first, uint32_t views, const CUmemAccessDesc *list, size_t count)
{
    CUresult result = CUDA_SUCCESS;
    uint32_t done = 0;

    for (; done < views && result == CUDA_SUCCESS; done++) {
        const struct gpud_view *view = gpud_vmm_nth(first + done);
        if (is_here(view))
            result = real.cuMemSetAccess(view->at, view->bytes, list, count);
    }
    for (uint32_t i = 0; i + 1 < done && result != CUDA_SUCCESS; i++) {
        const struct gpud_view *view = gpud_vmm_nth(first + i);
        if (view->chunk != NULL && view->mapped)
            restore(view, list, count);
    }
    return result;
}

CUresult gpud_vmm_set_access(uint64_t at, uint64_t bytes, const CUmemAccessDesc *list, size_t count)
{
    uint32_t first, views;
    bool here = true;

    pthread_mutex_lock(&gpud_pool_lock);
    CUresult result = list != NULL && count != 0 && gpud_vmm_run(at, bytes, &first, &views) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    for (uint32_t i = 0; result == CUDA_SUCCESS && i < views; i++) {
        const struct gpud_view *view = gpud_vmm_nth(first + i);
        if (is_here(view))
            continue;
        here = false;
        for (size_t k = 0; k < count && result == CUDA_SUCCESS; k++)
            result = check(&list[k], view->chunk->ordinal);
    }
    if (result == CUDA_SUCCESS)
        result = here ? real.cuMemSetAccess(at, bytes, list, count) : set_each(first, views, list, count);
    for (uint32_t i = 0; result == CUDA_SUCCESS && i < views; i++) {
        if (gpud_vmm_nth(first + i)->chunk != NULL)
            remember(gpud_vmm_nth(first + i), list, count);
    }
    pthread_mutex_unlock(&gpud_pool_lock);
    return result;
}

static CUresult access_away(unsigned long long *flags, const CUmemLocation *location, const struct gpud_view *view)
{
    CUresult result = CUDA_SUCCESS;

    if (location->type == CU_MEM_LOCATION_TYPE_DEVICE)
        result = check_device(location->id);
    if (result == CUDA_SUCCESS)
        *flags = location->type == CU_MEM_LOCATION_TYPE_DEVICE ? view->access[location->id] : 0;
    return result;
}

CUresult gpud_vmm_get_access(unsigned long long *flags, const CUmemLocation *location, uint64_t at)
{
    CUresult result = CUDA_ERROR_INVALID_VALUE;

    pthread_mutex_lock(&gpud_pool_lock);
    const struct gpud_view *view = gpud_vmm_view(at);
    if (view != NULL && flags != NULL && location != NULL)
        result = view->mapped ? real.cuMemGetAccess(flags, location, at) : access_away(flags, location, view);
    pthread_mutex_unlock(&gpud_pool_lock);
    return result;
}

/* What is to be told of it, without the lock. */
struct told {
    struct gpud_view view;
    uint64_t start, bytes, id;
    uint32_t ordinal;
    int handle_types;
};

/* False: the driver knows, or it is not there at all; then the lock is held still, so that it does not leave before the driver has answered. In
 * pieces the driver knows only these. */
static bool find(uint64_t at, struct told *told)
{
    pthread_mutex_lock(&gpud_pool_lock);
    const struct gpud_view *view = gpud_vmm_view(at);
    if (view == NULL || (view->mapped && view->chunk->piece == NULL))
        return false;
    const struct gpud_origin *origin = view->chunk->origin;
    *told = (struct told){ .view = *view, .start = view->at, .bytes = view->bytes, .ordinal = view->chunk->ordinal,
                           .id = gpud_vmm_span(origin->value)->id, .handle_types = origin->prop.requestedHandleTypes };
    gpud_vmm_reservation(at, &told->start, &told->bytes);
    pthread_mutex_unlock(&gpud_pool_lock);
    return true;
}

/* After find: the driver's answer. */
static CUresult found(CUresult result)
{
    pthread_mutex_unlock(&gpud_pool_lock);
    return result;
}

CUresult gpud_vmm_range(CUdeviceptr *base, size_t *bytes, CUdeviceptr at)
{
    struct told told;

    if (!find(at, &told))
        return found(real.cuMemGetAddressRange_v2(base, bytes, at));
    if (base != NULL)
        *base = told.view.at;
    if (bytes != NULL)
        *bytes = told.view.bytes;
    return CUDA_SUCCESS;
}

#define PUT(type, value)                    \
    do {                                    \
        type put_ = (type)(value);          \
        memcpy(data, &put_, sizeof put_);   \
        return CUDA_SUCCESS;                \
    } while (0)

static CUresult answer(void *data, int attribute, CUdeviceptr at, const struct told *told)
{
    uint32_t current = gpud_thread.ordinal;

    switch (attribute) {
    case A_MEMORY_TYPE: PUT(unsigned int, MEMORYTYPE_DEVICE);
    case A_DEVICE_POINTER: PUT(CUdeviceptr, at);
    case A_BUFFER_ID: case A_BLOCK_ID: PUT(unsigned long long, told->id);
    case A_SYNC_MEMOPS: case A_IS_MANAGED: case A_LEGACY_IPC: case A_RDMA: case A_DECOMPRESS: PUT(unsigned char, 0);
    case A_DEVICE_ORDINAL: PUT(int, told->ordinal);
    case A_RANGE_START: PUT(CUdeviceptr, told->start);
    case A_RANGE_SIZE: PUT(size_t, told->bytes);
    case A_MAPPED: PUT(unsigned char, 1);
    case A_HANDLE_TYPES: PUT(unsigned long long, told->handle_types);
    case A_ACCESS_FLAGS: PUT(unsigned int, current < GPUD_MAX_DEVICES ? told->view.access[current] : 0);
    case A_MEMPOOL: PUT(CUmemoryPool, NULL);
    case A_MAPPING_SIZE: PUT(size_t, told->view.bytes);
    case A_MAPPING_BASE: PUT(CUdeviceptr, told->view.at);
    default: return CUDA_ERROR_INVALID_VALUE;   /* it is of no context; host pointers, tokens for RDMA */
    }
}

CUresult gpud_vmm_attribute(void *data, int attribute, CUdeviceptr at)
{
    struct told told;

    gpud_bind(&gpud_thread);
    if (!find(at, &told))
        return found(real.cuPointerGetAttribute(data, attribute, at));
    return data == NULL ? CUDA_ERROR_INVALID_VALUE : answer(data, attribute, at, &told);
}

/* How many bytes an attribute has, to give 0 for what it is not known for. */
static size_t width(int attribute)
{
    return attribute == A_P2P_TOKENS ? 16 : 8;
}

CUresult gpud_vmm_attributes(unsigned int count, int *attributes, void **data, CUdeviceptr at)
{
    struct told told;

    gpud_bind(&gpud_thread);
    if (!find(at, &told))
        return found(real.cuPointerGetAttributes(count, attributes, data, at));
    if (count == 0 || attributes == NULL || data == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned int i = 0; i < count; i++) {
        if (data[i] == NULL || attributes[i] < A_CONTEXT || attributes[i] > A_DECOMPRESS)
            return CUDA_ERROR_INVALID_VALUE;
        if (answer(data[i], attributes[i], at, &told) != CUDA_SUCCESS)
            memset(data[i], 0, width(attributes[i]));
    }
    return CUDA_SUCCESS;
}
