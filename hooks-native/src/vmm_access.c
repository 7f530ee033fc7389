/* vmm_access.c: who may use the program's own mappings, and what it asks about them. What is on the device the driver answers for; of the
 * rest it sees reserved addresses, and it is answered here as the driver would. See vmm.h. */
#include "vmm.h"

#include "pointer.h"
#include "pool_span.h"
#include "real.h"
#include "state.h"
#include "swap.h"

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

/* False: the driver knows, or it is not there at all; then the lock is held still, so that it does not leave before the driver has answered. In
 * pieces the driver knows only these. */
static bool find(uint64_t at, struct gpud_pointer *pointer)
{
    pthread_mutex_lock(&gpud_pool_lock);
    const struct gpud_view *view = gpud_vmm_view(at);
    if (view == NULL || (view->mapped && view->chunk->piece == NULL))
        return false;
    const struct gpud_origin *origin = view->chunk->origin;
    uint32_t current = gpud_thread.ordinal;
    *pointer = (struct gpud_pointer){ .at = at, .id = gpud_vmm_span(origin->value)->id, .start = view->at, .bytes = view->bytes,
                                      .mapping = view->at, .mapping_bytes = view->bytes, .ordinal = view->chunk->ordinal,
                                      .access = current < GPUD_MAX_DEVICES ? view->access[current] : 0,
                                      .handle_types = (unsigned int)origin->prop.requestedHandleTypes };
    gpud_vmm_reservation(at, &pointer->start, &pointer->bytes);
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
    struct gpud_pointer pointer;

    if (!find(at, &pointer))
        return found(real.cuMemGetAddressRange_v2(base, bytes, at));
    if (base != NULL)
        *base = pointer.mapping;
    if (bytes != NULL)
        *bytes = pointer.mapping_bytes;
    return CUDA_SUCCESS;
}

CUresult gpud_vmm_attribute(void *data, int attribute, CUdeviceptr at)
{
    struct gpud_pointer pointer;

    gpud_bind(&gpud_thread);
    if (!find(at, &pointer))
        return found(real.cuPointerGetAttribute(data, attribute, at));
    return data == NULL ? CUDA_ERROR_INVALID_VALUE : gpud_pointer_attribute(data, attribute, &pointer);
}

CUresult gpud_vmm_attributes(unsigned int count, int *attributes, void **data, CUdeviceptr at)
{
    struct gpud_pointer pointer;

    gpud_bind(&gpud_thread);
    if (!find(at, &pointer))
        return found(real.cuPointerGetAttributes(count, attributes, data, at));
    return gpud_pointer_attributes(count, attributes, data, &pointer);
}
