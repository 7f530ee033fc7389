/* stream_pool.c: see stream_pool.h. What is freed in stream order waits in a list, with an event behind the free. */
#include "stream_pool.h"

#include <stdlib.h>
#include "pool.h"
#include "presence.h"
#include "real.h"
#include "slab.h"
#include "state.h"
#include "swap.h"

#define LOOKS 8                     /* events asked by an allocation in passing */
#define EVERY_LOOK UINT32_MAX

struct pending {
    uint64_t at, id, size;          /* size: as rounded, what fits there */
    uint64_t serial;                /* later ones have larger ones */
    CUcontext context;
    CUstream stream;                /* GPUD_NO_STREAM: it is gone */
    CUevent event;
    uint32_t ordinal, thread;       /* thread: of CU_STREAM_PER_THREAD */
    bool pinned;                    /* somebody outside has its memory: nobody else gets it */
};

static struct pending *list;
static uint32_t count, room;
uint64_t gpud_ordered_serial;

static uint64_t rounded(uint64_t bytes)
{
    uint64_t unit = bytes <= GPUD_SLAB_LARGEST ? GPUD_SLAB_ALIGN : GPUD_CHUNK_UNIT;
    return (bytes + unit - 1) / unit * unit;
}

/* Off the list, its event to the spare ones. What it stood for is the caller's. */
static struct pending take_off(uint32_t index)
{
    struct pending taken = list[index];

    count--;
    for (uint32_t i = index; i < count; i++)
        list[i] = list[i + 1];
    gpud_ordered_totals[taken.ordinal].waiting -= taken.size;
    gpud_event_put_away(taken.context, taken.event);
    return taken;
}

/* Has its stream come past the free? */
static bool passed(const struct pending *pending)
{
    return gpud_event_query(pending->context, pending->event) == CUDA_SUCCESS;
}

/* Gives back what streams have come past, after so many looks at most. Another thread may be ending another context: only who swaps, or has
 * no memory, looks beyond its own. */
static uint64_t sweep(uint32_t ordinal, uint32_t most)
{
    uint64_t given = 0;
    uint32_t looks = 0;

    for (uint32_t i = 0; i < count && looks < most;) {
        struct gpud_found found;
        if (list[i].ordinal != ordinal || (most != EVERY_LOOK && list[i].context != gpud_thread.context) || (looks++, !passed(&list[i]))) {
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

uint64_t gpud_ordered_reclaim(uint32_t ordinal, bool all)
{
    return sweep(ordinal, all ? EVERY_LOOK : LOOKS);
}

bool gpud_ordered_await(uint32_t ordinal, uint64_t *after, uint64_t last)
{
    const struct pending *next = NULL;

    if (sweep(ordinal, EVERY_LOOK) > 0)
        return true;
    for (uint32_t i = count; i-- > 0;) {
        if (list[i].ordinal == ordinal && list[i].serial > *after && list[i].serial <= last)
            next = &list[i];
    }
    if (next == NULL)
        return false;
    *after = next->serial;
    gpud_event_await(next->context, next->event);
    sweep(ordinal, EVERY_LOOK);
    return true;
}

/* One of the size whose memory the stream may use from here on; its index, or `count`. */
static uint32_t find_reusable(uint32_t ordinal, CUcontext context, uint64_t size, CUstream stream, uint32_t thread)
{
    uint32_t other = count;

    for (uint32_t i = 0; i < count; i++) {
        if (list[i].ordinal != ordinal || list[i].context != context || list[i].size != size || list[i].pinned)
            continue;
        if (list[i].stream == stream && (stream != CU_STREAM_PER_THREAD || list[i].thread == thread))
            return i;
        other = other == count ? i : other;
    }
    if (other == count || (!gpud_ordered_totals[ordinal].no_opportunistic && passed(&list[other])))
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

/* An event behind the free, and the memory waits for it; false: none can be had. */
static bool leave(const struct gpud_found *found, CUstream stream)
{
    CUcontext context = gpud_thread.context;
    CUevent event = make_room() ? gpud_event_in(context) : NULL;

    if (event == NULL)
        return false;
    if (real.cuEventRecord(event, stream) != CUDA_SUCCESS) {
        gpud_event_put_away(context, event);
        return false;
    }
    list[count++] = (struct pending){ .at = found->at, .id = found->id, .size = rounded(found->bytes), .serial = ++gpud_ordered_serial,
                                      .context = context, .stream = stream, .event = event, .ordinal = found->span->ordinal,
                                      .thread = gpud_thread.id, .pinned = gpud_pool_pins(found) };
    gpud_ordered_totals[found->span->ordinal].waiting += rounded(found->bytes);
    return true;
}

/* The stream is waited for instead, the lock given up meanwhile: nobody else finds the allocation, which is marked; but its context may go. */
static CUresult leave_after(const struct gpud_found *found, CUstream stream)
{
    struct gpud_found now;

    pthread_mutex_unlock(&gpud_pool_lock);
    CUresult result = real.cuStreamSynchronize(stream);
    pthread_mutex_lock(&gpud_pool_lock);
    if (!gpud_pool_find(found->at, &now) || now.id != found->id)
        return result;
    if (result == CUDA_SUCCESS)
        gpud_pool_release(&now);
    else
        gpud_pool_mark(&now, found->ordered, false, found->bytes);
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
        gpud_pool_mark(&found, found.ordered, true, found.bytes);
        result = leave(&found, stream) ? CUDA_SUCCESS : leave_after(&found, stream);
        if (result == CUDA_SUCCESS && found.ordered)
            gpud_ordered_count(ordinal, -(int64_t)found.bytes);
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
    gpud_events_gone(context);
}

void gpud_ordered_forget(void)
{
    list = NULL;
    count = room = 0;
    gpud_events_forget();
    for (uint32_t i = 0; i < GPUD_POOL_DEVICES; i++)
        gpud_ordered_totals[i] = (struct gpud_totals){ 0 };
}
