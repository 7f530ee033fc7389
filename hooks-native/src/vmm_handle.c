/* vmm_handle.c: handles of memory that the program makes itself. See vmm.h. */
#include "vmm.h"

#include <stdlib.h>
#include <string.h>
#include "pool.h"
#include "pool_span.h"
#include "real.h"
#include "state.h"
#include "stream_pool.h"
#include "swap.h"
#include "table.h"

#define KINDS 16
#define HANDLE_TYPES 0x9        /* POSIX descriptors, fabric handles */

struct entry {
    uint64_t value;
    struct gpud_span *span;
};
static struct gpud_table entries = { .size = sizeof(struct entry) };
static uint64_t last;
/* What the driver is known to make: memory may be promised without asking it. */
static CUmemAllocationProp kinds[KINDS];
static uint32_t kind_count;

static CUmemAllocationProp kind_of(const CUmemAllocationProp *prop)
{
    CUmemAllocationProp kind;

    memset(&kind, 0, sizeof kind);
    kind.type = prop->type;
    kind.requestedHandleTypes = prop->requestedHandleTypes;
    kind.location = prop->location;
    kind.allocFlags.compressionType = prop->allocFlags.compressionType;
    kind.allocFlags.gpuDirectRDMACapable = prop->allocFlags.gpuDirectRDMACapable;
    return kind;
}

static bool is_known(const CUmemAllocationProp *kind)
{
    for (uint32_t i = 0; i < kind_count; i++) {
        if (memcmp(&kinds[i], kind, sizeof *kind) == 0)
            return true;
    }
    return false;
}

static void know(const CUmemAllocationProp *kind)
{
    if (kind_count < KINDS && !is_known(kind))
        kinds[kind_count++] = *kind;
}

/* What the driver says of such memory, by a little of it. A full device does not tell; then only what every driver makes is promised. */
static CUresult ask(const CUmemAllocationProp *kind)
{
    CUmemGenericAllocationHandle handle;
    CUresult result = is_known(kind) ? CUDA_SUCCESS : real.cuMemCreate(&handle, GPUD_CHUNK_UNIT, kind, 0);

    if (result == CUDA_SUCCESS && !is_known(kind)) {
        know(kind);
        if (real.cuMemRelease(handle) != CUDA_SUCCESS && real.cuMemRelease(handle) != CUDA_SUCCESS)
            gpud_add(&gpud_activity()->errors, 1);
    }
    bool plain = kind->requestedHandleTypes <= 1 && kind->allocFlags.gpuDirectRDMACapable == 0 && kind->allocFlags.compressionType == 0;
    return result == CUDA_ERROR_OUT_OF_MEMORY && plain ? CUDA_SUCCESS : result;
}

bool gpud_vmm_takes(size_t bytes, const CUmemAllocationProp *prop, unsigned long long flags)
{
    if (bytes == 0 || bytes % GPUD_CHUNK_UNIT != 0 || prop == NULL || flags != 0 || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
        prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE || prop->location.id < 0 || prop->requestedHandleTypes & ~HANDLE_TYPES)
        return false;
    if (prop->win32HandleMetaData != NULL || prop->allocFlags.usage != 0 || prop->allocFlags.compressionType > 1 ||
        prop->allocFlags.gpuDirectRDMACapable > 1)
        return false;
    return gpud_pool_swaps((uint32_t)prop->location.id);
}

struct gpud_span *gpud_vmm_span(CUmemGenericAllocationHandle handle)
{
    const struct entry *entry = gpud_virtual(handle) ? gpud_table_find(&entries, handle) : NULL;

    return entry != NULL ? entry->span : NULL;
}

/* With a handle that the program has. Lock held. */
static struct gpud_origin *held(CUmemGenericAllocationHandle handle)
{
    struct gpud_span *span = gpud_vmm_span(handle);
    struct gpud_origin *origin = span != NULL ? span->chunk[0].origin : NULL;

    return origin != NULL && origin->handles > 0 ? origin : NULL;
}

static CUresult place(uint32_t ordinal, size_t bytes, const CUmemAllocationProp *kind, bool backed, struct gpud_span **span)
{
    CUresult result = backed ? CUDA_SUCCESS : ask(kind);
    struct gpud_origin *origin = result == CUDA_SUCCESS ? calloc(1, sizeof *origin) : NULL;

    if (origin == NULL)
        return result == CUDA_SUCCESS ? CUDA_ERROR_OUT_OF_MEMORY : result;
    origin->prop = *kind;
    origin->handles = 1;
    result = gpud_span_of_handle(ordinal, bytes, origin, backed, span);
    if (result == CUDA_SUCCESS && backed)
        know(kind);
    return result;
}

/* As gpud_pool_new. */
static CUresult make(uint32_t ordinal, size_t bytes, const CUmemAllocationProp *kind, struct gpud_span **span)
{
    bool comes_in, backed = gpud_pool_has_device(ordinal, &comes_in);
    CUresult result = place(ordinal, bytes, kind, backed, span);
    uint64_t after = 0, serial = gpud_ordered_serial;

    while (result == CUDA_ERROR_OUT_OF_MEMORY && backed && gpud_ordered_await(ordinal, &after, serial)) {
        backed = gpud_pool_has_device(ordinal, &comes_in);
        result = place(ordinal, bytes, kind, backed, span);
    }
    if (result == CUDA_ERROR_OUT_OF_MEMORY && comes_in) {
        backed = false;
        result = place(ordinal, bytes, kind, false, span);
    }
    if (result == CUDA_SUCCESS && !backed)
        gpud_shut(gpud_load(&gpud_slot_of[ordinal]));
    return result;
}

CUresult gpud_vmm_create(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *prop)
{
    const CUmemAllocationProp kind = kind_of(prop);
    uint32_t ordinal = (uint32_t)prop->location.id;
    struct gpud_span *span = NULL;

    gpud_bind(&gpud_thread);        /* its context is one to copy in */
    pthread_mutex_lock(&gpud_pool_lock);
    CUresult result = make(ordinal, bytes, &kind, &span);
    if (result == CUDA_SUCCESS) {
        uint64_t value = GPUD_VIRTUAL_MARK << 48 | ++last;
        struct entry *entry = gpud_table_put(&entries, value);
        if (entry != NULL) {
            entry->span = span;
            *handle = span->chunk[0].origin->value = value;
        } else {
            gpud_span_drop(span, false);
            result = CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    gpud_pool_publish(gpud_load(&gpud_slot_of[ordinal]));
    pthread_mutex_unlock(&gpud_pool_lock);
    return result;
}

void gpud_vmm_settle(struct gpud_chunk *chunk)
{
    const struct gpud_origin *origin = chunk->origin;
    uint32_t device = gpud_load(&gpud_slot_of[chunk->ordinal]);

    if (origin->handles == 0 && origin->views == NULL) {
        struct entry *entry = gpud_table_find(&entries, origin->value);
        struct gpud_span *span = entry->span;
        gpud_table_drop(entry);
        gpud_span_drop(span, false);
    }
    gpud_pool_publish(device);
}

CUresult gpud_vmm_release(CUmemGenericAllocationHandle handle)
{
    pthread_mutex_lock(&gpud_pool_lock);
    struct gpud_origin *origin = held(handle);
    if (origin != NULL) {
        origin->handles--;
        gpud_vmm_settle(&gpud_vmm_span(handle)->chunk[0]);
    }
    pthread_mutex_unlock(&gpud_pool_lock);
    return origin != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult gpud_vmm_properties(CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle)
{
    CUresult result = CUDA_ERROR_INVALID_VALUE;

    pthread_mutex_lock(&gpud_pool_lock);
    const struct gpud_origin *origin = held(handle);
    if (prop != NULL && origin != NULL) {
        const struct gpud_chunk *chunk = &gpud_vmm_span(handle)->chunk[0];
        *prop = origin->prop;
        result = CUDA_SUCCESS;
        if (chunk->has_handle && real.cuMemGetAllocationPropertiesFromHandle != NULL)
            result = real.cuMemGetAllocationPropertiesFromHandle(prop, chunk->piece != NULL ? chunk->piece[0] : chunk->handle);
    }
    pthread_mutex_unlock(&gpud_pool_lock);
    return result;
}

void gpud_vmm_handles_forget(void)
{
    gpud_table_forget(&entries);
    kind_count = 0;
}
