/* pool_query.c: what the program asks about its addresses, answered for its own allocation: the driver knows of chunks only, and of none
 * where they are not on the device. And peers, and counts. */
#include <string.h>

#include "host_slots.h"
#include "pool.h"
#include "pool_span.h"
#include "real.h"
#include "state.h"
#include "stream_pool.h"
#include "swap.h"

enum { A_CONTEXT = 1, A_MEMORY_TYPE, A_DEVICE_POINTER, A_HOST_POINTER, A_P2P_TOKENS, A_SYNC_MEMOPS, A_BUFFER_ID, A_IS_MANAGED,
       A_DEVICE_ORDINAL, A_LEGACY_IPC, A_RANGE_START, A_RANGE_SIZE, A_MAPPED, A_HANDLE_TYPES, A_RDMA, A_ACCESS_FLAGS, A_MEMPOOL,
       A_MAPPING_SIZE, A_MAPPING_BASE, A_BLOCK_ID, A_DECOMPRESS };
#define MEMORYTYPE_DEVICE 2
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

#define PUT(type, value)                    \
    do {                                    \
        type put_ = (type)(value);          \
        memcpy(data, &put_, sizeof put_);   \
        return CUDA_SUCCESS;                \
    } while (0)

static CUresult answer(void *data, int attribute, CUdeviceptr at, const struct gpud_found *found, const struct gpud_span *span)
{
    switch (attribute) {
    case A_CONTEXT:
        if (found->ordered)
            return CUDA_ERROR_INVALID_VALUE;    /* memory of pools belongs to no context */
        PUT(CUcontext, span->context);
    case A_MEMORY_TYPE: PUT(unsigned int, MEMORYTYPE_DEVICE);
    case A_DEVICE_POINTER: PUT(CUdeviceptr, at);
    case A_SYNC_MEMOPS:     /* where it is set the memory stays, and the driver knows it */
        if (real.cuPointerGetAttribute != NULL && real.cuPointerGetAttribute(data, attribute, at) == CUDA_SUCCESS)
            return CUDA_SUCCESS;
        PUT(unsigned char, 0);
    case A_BUFFER_ID: case A_BLOCK_ID: PUT(unsigned long long, found->id);
    case A_IS_MANAGED: case A_LEGACY_IPC: case A_RDMA: case A_DECOMPRESS: PUT(unsigned char, 0);
    case A_DEVICE_ORDINAL: PUT(int, span->ordinal);
    case A_RANGE_START: PUT(CUdeviceptr, found->at);
    case A_RANGE_SIZE: PUT(size_t, found->bytes);
    case A_MAPPED: PUT(unsigned char, 1);
    case A_HANDLE_TYPES: PUT(unsigned long long, 0);
    case A_ACCESS_FLAGS: PUT(unsigned int, ACCESS_READWRITE);
    case A_MEMPOOL: PUT(CUmemoryPool, found->ordered ? gpud_pool_default(span->ordinal) : NULL);
    case A_MAPPING_SIZE: PUT(size_t, span->bytes);
    case A_MAPPING_BASE: PUT(CUdeviceptr, span->at);
    default: return CUDA_ERROR_INVALID_VALUE;   /* host pointers, tokens for RDMA */
    }
}

CUresult gpud_pool_attribute(void *data, int attribute, CUdeviceptr at)
{
    struct gpud_found found;
    struct gpud_span span;

    if (data == NULL || !find(at, &found, &span))
        return CUDA_ERROR_INVALID_VALUE;
    return answer(data, attribute, at, &found, &span);
}

/* How many bytes an attribute has, to give 0 for what it is not known for. */
static size_t width(int attribute)
{
    return attribute == A_P2P_TOKENS ? 16 : 8;
}

CUresult gpud_pool_attributes(unsigned int count, int *attributes, void **data, CUdeviceptr at)
{
    struct gpud_found found;
    struct gpud_span span;

    if (count == 0 || attributes == NULL || data == NULL || !find(at, &found, &span))
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned int i = 0; i < count; i++) {
        if (data[i] == NULL || attributes[i] < A_CONTEXT || attributes[i] > A_DECOMPRESS)
            return CUDA_ERROR_INVALID_VALUE;
        if (answer(data[i], attributes[i], at, &found, &span) != CUDA_SUCCESS)
            memset(data[i], 0, width(attributes[i]));
    }
    return CUDA_SUCCESS;
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
