/* stream_pool.c: see stream_pool.h. What is freed in stream order waits in a list, with an event behind the free. */
#include "stream_pool.h"

#include <stdlib.h>
#include "pool.h"
#include "presence.h"
#include "real.h"
#include "slab.h"
#include "state.h"
#include "swap.h"

#define EVENT_DISABLE_TIMING 2
#define LOOKS 8                     /* events asked by an allocation in passing */
#define SPARE_EVENTS 64

struct pending {
    uint64_t at, id, size;          /* size: as rounded, what fits there */
    CUcontext context;
    CUstream stream;                /* GPUD_NO_STREAM: it is gone */
    CUevent event;
    uint32_t ordinal, thread;       /* thread: of CU_STREAM_PER_THREAD */
};

static struct pending *list;
static uint32_t count, room;
static struct { CUcontext context; CUevent event; } spare[SPARE_EVENTS];
static uint32_t spare_count;
static uint64_t rounded(uint64_t bytes)
{
    uint64_t unit = bytes <= GPUD_SLAB_LARGEST ? GPUD_SLAB_ALIGN : GPUD_CHUNK_UNIT;
    return (bytes + unit - 1) / unit * unit;
}

static CUevent event_in(CUcontext context)
{
    CUevent event = NULL;
    for (uint32_t i = spare_count; i-- > 0;) {
        if (spare[i].context == context) {
            event = spare[i].event;
            spare[i] = spare[--spare_count];
            return event;
        }
    }
    return real.cuEventCreate != NULL && real.cuEventCreate(&event, EVENT_DISABLE_TIMING) == CUDA_SUCCESS ? event : NULL;
}

/* Off the list, its event to the spare ones. What it stood for is the caller's. */
static struct pending take_off(uint32_t index)
{
    struct pending taken = list[index];

    count--;
    for (uint32_t i = index; i < count; i++)
        list[i] = list[i + 1];
    gpud_ordered_totals[taken.ordinal].waiting -= taken.size;
    if (spare_count < SPARE_EVENTS) {
        spare[spare_count].context = taken.context;
        spare[spare_count++].event = taken.event;
    } else {
        real.cuEventDestroy_v2(taken.event);
    }
    return taken;
}

/* Has its stream come past the free? Its context is made current for the question. */
static bool passed(const struct pending *pending, bool wait)
{
    CUcontext current = NULL;
    bool other = real.cuCtxGetCurrent == NULL || real.cuCtxGetCurrent(&current) != CUDA_SUCCESS || current != pending->context;

    if (other && real.cuCtxPushCurrent_v2(pending->context) != CUDA_SUCCESS)
        return false;
    CUresult result = wait ? real.cuEventSynchronize(pending->event) : real.cuEventQuery(pending->event);
    if (other)
        real.cuCtxPopCurrent_v2(&current);
    return result == CUDA_SUCCESS;
}

uint64_t gpud_ordered_reclaim(uint32_t ordinal, bool wait)
{
    uint64_t given = 0;
    uint32_t looks = 0;

    for (uint32_t i = 0; i < count && (wait || looks < LOOKS);) {
        struct gpud_found found;
        /* Another thread may be ending another context: only who swaps, or has no memory, looks beyond its own. */
        if (list[i].ordinal != ordinal || (!wait && list[i].context != gpud_thread.context) || (looks++, !passed(&list[i], wait))) {
            i++;
            continue;
        }
        struct pending taken = take_off(i);
        given += taken.size;
        if (gpud_pool_find(taken.at, &found) && found.id == taken.id)
            gpud_pool_release(&found);
    }
    return given;
}

/* One of the size whose memory the stream may use from here on; its index, or `count`. */
static uint32_t find_reusable(uint32_t ordinal, CUcontext context, uint64_t size, CUstream stream, uint32_t thread)
{
    uint32_t other = count;

    for (uint32_t i = 0; i < count; i++) {
        if (list[i].ordinal != ordinal || list[i].context != context || list[i].size != size)
            continue;
        if (list[i].stream == stream && (stream != CU_STREAM_PER_THREAD || list[i].thread == thread))
            return i;
        other = other == count ? i : other;
    }
    if (other == count || (!gpud_ordered_totals[ordinal].no_opportunistic && passed(&list[other], false)))
        return other;
    if (!gpud_ordered_totals[ordinal].no_internal && real.cuStreamWaitEvent(stream, list[other].event, 0) == CUDA_SUCCESS)
        return other;
    return count;
}

static bool reuse(CUdeviceptr *at, size_t bytes, CUstream stream)
{
    const struct gpud_thread *thread = &gpud_thread;
    uint32_t index = find_reusable(thread->ordinal, thread->context, rounded(bytes), stream, thread->id);
    struct gpud_found found;

    if (index == count)
        return false;
    struct pending taken = take_off(index);
    if (!gpud_pool_find(taken.at, &found) || found.id != taken.id)
        return false;
    gpud_pool_mark(&found, true, false, bytes);
    found.span->touched = ++gpud_span_clock;
    *at = taken.at;
    return true;
}

CUresult gpud_pool_alloc_ordered(CUdeviceptr *at, size_t bytes, CUstream stream, int per_thread)
{
    const struct gpud_thread *thread = &gpud_thread;

    pthread_mutex_lock(&gpud_pool_lock);
    CUresult result = CUDA_SUCCESS;
    if (!reuse(at, bytes, gpud_stream_named(stream, per_thread))) {
        gpud_ordered_reclaim(thread->ordinal, false);
        result = gpud_pool_new(thread->ordinal, thread->context, bytes, true, at);
    }
    if (result == CUDA_SUCCESS)
        gpud_ordered_count(thread->ordinal, (int64_t)bytes);
    gpud_pool_publish(thread->device);
    pthread_mutex_unlock(&gpud_pool_lock);
    return result;
}

static bool make_room(void)
{
    if (count < room)
        return true;
    struct pending *grown = realloc(list, (room == 0 ? 64 : room * 2) * sizeof *grown);
    if (grown == NULL)
        return false;
    list = grown;
    room = room == 0 ? 64 : room * 2;
    return true;
}

/* An event behind the free; where none can be had, the stream is waited for. */
static CUresult leave(const struct gpud_found *found, CUstream stream)
{
    CUcontext context = gpud_thread.context;
    CUevent event = make_room() ? event_in(context) : NULL;

    if (event != NULL && real.cuEventRecord(event, stream) == CUDA_SUCCESS) {
        gpud_pool_mark(found, true, true, found->bytes);
        list[count++] = (struct pending){ found->at, found->id, rounded(found->bytes), context, stream, event, found->span->ordinal,
                                          gpud_thread.id };
        gpud_ordered_totals[found->span->ordinal].waiting += rounded(found->bytes);
        return CUDA_SUCCESS;
    }
    if (event != NULL)
        real.cuEventDestroy_v2(event);
    CUresult result = real.cuStreamSynchronize(stream);
    if (result == CUDA_SUCCESS)
        gpud_pool_release(found);
    return result;
}

CUresult gpud_pool_free_ordered(CUdeviceptr at, CUstream stream, int per_thread)
{
    struct gpud_thread *thread = &gpud_thread;
    struct gpud_found found;

    gpud_bind(thread);
    stream = gpud_stream_named(stream, per_thread);
    if (gpud_is_capturing(stream))
        return CUDA_ERROR_INVALID_VALUE;        /* only a graph's own allocations can be freed in it */
    pthread_mutex_lock(&gpud_pool_lock);
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    if (gpud_pool_find(at, &found) && found.at == at && !found.freeing) {
        uint32_t ordinal = found.span->ordinal;
        uint64_t bytes = found.bytes;
        result = leave(&found, stream);
        if (result == CUDA_SUCCESS && found.ordered)
            gpud_ordered_count(ordinal, -(int64_t)bytes);
    }
    pthread_mutex_unlock(&gpud_pool_lock);
    return result;
}

void gpud_pool_stream_gone(CUstream stream)
{
    pthread_mutex_lock(&gpud_pool_lock);
    for (uint32_t i = 0; i < count; i++) {
        if (list[i].stream == stream)
            list[i].stream = GPUD_NO_STREAM;
    }
    pthread_mutex_unlock(&gpud_pool_lock);
}

void gpud_ordered_context_gone(CUcontext context)
{
    for (uint32_t i = count; i-- > 0;) {
        struct pending gone = list[i];
        struct gpud_found found;
        if (gone.context != context)
            continue;
        gpud_ordered_totals[gone.ordinal].waiting -= gone.size;
        for (uint32_t k = i; k + 1 < count; k++)
            list[k] = list[k + 1];
        count--;
        /* Freed in this context, allocated in another one: what stood before the free has ended. */
        if (gpud_pool_find(gone.at, &found) && found.id == gone.id && found.span->context != context)
            gpud_pool_release(&found);
    }
    for (uint32_t i = spare_count; i-- > 0;) {
        if (spare[i].context == context)
            spare[i] = spare[--spare_count];
    }
}

void gpud_ordered_forget(void)
{
    list = NULL;
    count = room = spare_count = 0;
    for (uint32_t i = 0; i < GPUD_POOL_DEVICES; i++)
        gpud_ordered_totals[i] = (struct gpud_totals){ 0 };
}
