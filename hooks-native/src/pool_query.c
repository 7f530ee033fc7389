/* pool_query.c: what the program asks about its addresses, answered for its own allocation: the driver knows of chunks only, and of none
 * where they are not on the device. And peers, and counts. */
#include "host_slots.h"
#include "pointer.h"
#include "pool.h"
#include "pool_span.h"
#include "real.h"
#include "state.h"
#include "stream_pool.h"
#include "swap.h"

#define ACCESS_READWRITE 3

static bool find(CUdeviceptr at, struct gpud_found *found, struct gpud_span *span)
{
    pthread_mutex_lock(&gpud_pool_lock);
    bool owned = gpud_pool_find(at, found) && !found->freeing;
    if (owned)
        *span = *found->span;       /* without its chunks */
    pthread_mutex_unlock(&gpud_pool_lock);
    return owned;
}

CUresult gpud_pool_range(CUdeviceptr *base, size_t *bytes, CUdeviceptr at)
{
    struct gpud_found found;
    struct gpud_span span;

    if (!find(at, &found, &span))
        return CUDA_ERROR_NOT_FOUND;
    if (base != NULL)
        *base = found.at;
    if (bytes != NULL)
        *bytes = found.bytes;
    return CUDA_SUCCESS;
}

static struct gpud_pointer pointer_of(CUdeviceptr at, const struct gpud_found *found, const struct gpud_span *span)
{
    return (struct gpud_pointer){ .at = at, .id = found->id, .start = found->at, .bytes = found->bytes, .mapping = span->at,
                                  .mapping_bytes = span->bytes, .context = span->context, .in_context = !found->ordered,
                                  .ordered = found->ordered, .ordinal = span->ordinal, .access = ACCESS_READWRITE };
}

CUresult gpud_pool_attribute(void *data, int attribute, CUdeviceptr at)
{
    struct gpud_found found;
    struct gpud_span span;

    if (data == NULL || !find(at, &found, &span))
        return CUDA_ERROR_INVALID_VALUE;
    struct gpud_pointer pointer = pointer_of(at, &found, &span);
    return gpud_pointer_attribute(data, attribute, &pointer);
}

CUresult gpud_pool_attributes(unsigned int count, int *attributes, void **data, CUdeviceptr at)
{
    struct gpud_found found;
    struct gpud_span span;

    if (!find(at, &found, &span))
        return CUDA_ERROR_INVALID_VALUE;
    struct gpud_pointer pointer = pointer_of(at, &found, &span);
    return gpud_pointer_attributes(count, attributes, data, &pointer);
}

void gpud_pool_peer(CUcontext peer, bool may)
{
    struct gpud_thread *thread = &gpud_thread;
    CUcontext popped;
    CUdevice ordinal = -1;

    gpud_bind(thread);
    if (peer == NULL || real.cuCtxPushCurrent_v2(peer) != CUDA_SUCCESS)
        return;
    if (real.cuCtxGetDevice(&ordinal) != CUDA_SUCCESS)
        ordinal = -1;
    real.cuCtxPopCurrent_v2(&popped);
    if ((uint32_t)ordinal >= GPUD_POOL_DEVICES || thread->ordinal >= GPUD_POOL_DEVICES)
        return;
    pthread_mutex_lock(&gpud_pool_lock);
    gpud_chunk_peer((uint32_t)ordinal, thread->ordinal, may);
    for (uint32_t i = 0; i < gpud_span_count(); i++) {
        struct gpud_span *span = gpud_span_nth(i);
        for (uint32_t k = 0; k < span->count && span->ordinal == (uint32_t)ordinal; k++) {
            if (span->chunk[k].mapped && gpud_chunk_access(&span->chunk[k]) != CUDA_SUCCESS)
                gpud_add(&gpud_activity()->errors, 1);
        }
    }
    pthread_mutex_unlock(&gpud_pool_lock);
}

struct gpud_pool_counts gpud_pool_counts(uint32_t device)
{
    struct gpud_pool_counts counts = { 0 };

    for (uint32_t ordinal = 0; ordinal < GPUD_POOL_DEVICES; ordinal++) {
        if (gpud_load(&gpud_slot_of[ordinal]) != device)
            continue;
        uint64_t *of = gpud_chunk_bytes[ordinal], spare = gpud_load(&gpud_chunk_spare[ordinal]);
        counts.pinned += gpud_load(&of[GPUD_CHUNK_PINNED]);
        counts.resident += gpud_load(&of[GPUD_CHUNK_RESIDENT_DIRTY]) + gpud_load(&of[GPUD_CHUNK_RESIDENT_CLEAN]) +
                           gpud_load(&of[GPUD_CHUNK_OUT_COPYING]) + gpud_load(&of[GPUD_CHUNK_IN_COPYING]) + spare;
        counts.idle += gpud_load(&gpud_span_idle[ordinal]) + spare;
        counts.host += gpud_load(&of[GPUD_CHUNK_HOST]);
        counts.lazy += gpud_load(&of[GPUD_CHUNK_LAZY]);
        counts.lost += gpud_load(&of[GPUD_CHUNK_LOST]);
    }
    return counts;
}

uint64_t gpud_pool_resident(uint32_t device)
{
    pthread_mutex_lock(&gpud_pool_lock);
    struct gpud_pool_counts counts = gpud_pool_counts(device);
    pthread_mutex_unlock(&gpud_pool_lock);
    return counts.resident;
}

uint64_t gpud_pool_largest(uint32_t device)
{
    uint64_t most = GPUD_CHUNK_LARGEST;

    pthread_mutex_lock(&gpud_pool_lock);
    for (uint32_t i = 0; i < gpud_span_count(); i++) {
        const struct gpud_span *span = gpud_span_nth(i);
        if (span->use == GPUD_SPAN_HANDLE && gpud_load(&gpud_slot_of[span->ordinal]) == device && span->bytes > most)
            most = span->bytes;
    }
    pthread_mutex_unlock(&gpud_pool_lock);
    return most;
}

uint64_t gpud_pool_lacks(uint32_t device)
{
    pthread_mutex_lock(&gpud_pool_lock);
    struct gpud_pool_counts counts = gpud_pool_counts(device);
    pthread_mutex_unlock(&gpud_pool_lock);
    return counts.host + counts.lazy;
}

static bool swaps(uint32_t device)
{
    return gpud_load_acquire(&gpud_managed) && gpud_load(&gpud_control()->device[device].memory_flags) & GPUD_MEMORY_SWAP;
}

/* What is in no use is kept for the next allocation only where nothing lacks memory: it would count as on the device, beside what has to come
 * in. And only while memory is swapped: nobody asks for it otherwise. */
static void trim(uint32_t device)
{
    struct gpud_pool_counts counts = gpud_pool_counts(device);

    if (counts.idle == 0 || (swaps(device) && counts.host + counts.lazy == 0))
        return;
    for (uint32_t ordinal = 0; ordinal < GPUD_POOL_DEVICES; ordinal++) {
        if (gpud_load(&gpud_slot_of[ordinal]) == device)
            gpud_span_trim(ordinal, UINT64_MAX);
    }
}

void gpud_pool_tidy(uint32_t device)
{
    if (swaps(device) || gpud_pool_counts(device).idle == 0)
        return;
    gpud_add_total(&gpud_asking, 1);
    /* Not beside an open capture either: what the driver makes of an unmap then is not known. The end of the last one wakes the keeper. */
    if (!gpud_load_total(&gpud_exiting) && !gpud_load_total(&gpud_ending) && gpud_load_total(&gpud_captures) == 0) {
        pthread_mutex_lock(&gpud_pool_lock);
        gpud_pool_publish(device);
        pthread_mutex_unlock(&gpud_pool_lock);
    }
    gpud_sub_total(&gpud_asking, 1);
}

bool gpud_pool_give_idle(uint32_t ordinal)
{
    bool given = false;

    if (ordinal < GPUD_POOL_DEVICES && (gpud_load(&gpud_span_idle[ordinal]) != 0 || gpud_load(&gpud_chunk_spare[ordinal]) != 0)) {
        pthread_mutex_lock(&gpud_pool_lock);
        given = gpud_span_trim(ordinal, UINT64_MAX) != 0;
        gpud_pool_publish(gpud_load(&gpud_slot_of[ordinal]));
        pthread_mutex_unlock(&gpud_pool_lock);
    }
    return given;
}

void gpud_pool_publish(uint32_t device)
{
    if (device < GPUD_MAX_DEVICES)
        trim(device);
    gpud_pool_write(device);
}

void gpud_pool_write(uint32_t device)
{
    if (device >= GPUD_MAX_DEVICES)
        return;
    struct gpud_pool_counts counts = gpud_pool_counts(device);
    struct gpud_activity_device *activity = &gpud_activity()->device[device];
    gpud_store(&activity->resident_bytes, counts.resident);
    gpud_store(&activity->host_bytes, counts.host);
    gpud_store(&activity->lazy_bytes, counts.lazy);
    gpud_store(&activity->pins[GPUD_PIN_OUTSIDE], counts.pinned);
    gpud_store(&activity->lost_bytes, counts.lost);
    gpud_store(&activity->slots_bytes, gpud_load(&gpud_host_bytes));
    gpud_store(&activity->unpinned_bytes, gpud_load(&gpud_host_unpinned));
}
