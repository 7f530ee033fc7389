/* swap.c: the mover: streams and events of our own, and the copies under way. */
#include "swap.h"

#include <stdlib.h>
#include "contexts.h"
#include "host_slots.h"
#include "pool.h"
#include "real.h"
#include "state.h"

#define PIECE (32 * GPUD_MIB)
#define IN_FLIGHT (128 * GPUD_MIB)      /* enough for the bus; more would only make a context's end wait */
#define STREAM_NON_BLOCKING 1
#define EVENT_OF_OURS 3                 /* blocking synchronisation, no timing */
#define CAPTURE_MODE_RELAXED 2

struct gpud_swap_stats gpud_swap_stats;
static pthread_mutex_t busy = PTHREAD_MUTEX_INITIALIZER;

/* Kept from swap to swap, per ordinal; they die with their context. */
static struct kept {
    CUcontext context;
    CUstream stream[2];
    CUevent event[GPUD_MOVER_RING];
} keeps[GPUD_POOL_DEVICES];

bool gpud_mover_must_stop(void)
{
    return gpud_load_total(&gpud_ending) != 0 || gpud_load_total(&gpud_exiting) != 0;
}

/* Of the allocations on the device: where our streams are already, else any. Memory by handles goes with none: any in which the program works. */
static CUcontext context_of(uint32_t ordinal)
{
    CUcontext context = keeps[ordinal].context;
    bool handles = false;

    pthread_mutex_lock(&gpud_pool_lock);
    for (uint32_t i = 0; i < gpud_span_count() && context == NULL; i++) {
        const struct gpud_span *span = gpud_span_nth(i);
        if (span->ordinal == ordinal)
            context = span->context;
        handles |= span->ordinal == ordinal && span->use == GPUD_SPAN_HANDLE;
    }
    pthread_mutex_unlock(&gpud_pool_lock);
    for (uint32_t i = 0; handles && context == NULL && (context = gpud_context_next(ordinal, &i)) != NULL;)
        context = gpud_context_lives(context) ? context : NULL;
    return context;
}

/* The context is current. What could be made stays, so the next try goes on from there. */
static bool make(struct kept *kept)
{
    for (uint32_t i = 0; i < 2; i++) {
        if (kept->stream[i] == NULL && real.cuStreamCreate(&kept->stream[i], STREAM_NON_BLOCKING) != CUDA_SUCCESS)
            return false;
    }
    for (uint32_t i = 0; i < GPUD_MOVER_RING; i++) {
        if (kept->event[i] == NULL && real.cuEventCreate(&kept->event[i], EVENT_OF_OURS) != CUDA_SUCCESS)
            return false;
    }
    return true;
}

/* What is captured may name memory that leaves, and the driver looks at it then. What comes in is in no capture's way: this thread's mode is
 * relaxed, where the driver has modes. */
static bool captures_forbid(bool out)
{
    return gpud_load_total(&gpud_captures) != 0 && (out || real.cuThreadExchangeStreamCaptureMode == NULL);
}

static void exchange_mode(struct gpud_mover *mover)
{
    if (real.cuThreadExchangeStreamCaptureMode != NULL)
        real.cuThreadExchangeStreamCaptureMode(&mover->mode);
}

enum gpud_swap_result gpud_mover_begin(struct gpud_mover *mover, uint32_t device, bool out, uint64_t until_ns)
{
    *mover = (struct gpud_mover){ .device = device, .ordinal = GPUD_POOL_DEVICES, .mode = CAPTURE_MODE_RELAXED };
    pthread_mutex_lock(&busy);
    gpud_add_total(&gpud_asking, 1);
    for (uint32_t ordinal = 0; ordinal < GPUD_POOL_DEVICES && mover->ordinal == GPUD_POOL_DEVICES; ordinal++) {
        if (gpud_load(&gpud_slot_of[ordinal]) == device)
            mover->ordinal = ordinal;
    }
    if (mover->ordinal == GPUD_POOL_DEVICES)
        return GPUD_SWAP_LITTLE;
    if (gpud_mover_must_stop() || captures_forbid(out))
        return GPUD_SWAP_NOT_NOW;
    struct kept *kept = &keeps[mover->ordinal];
    exchange_mode(mover);
    CUcontext context = context_of(mover->ordinal);
    if (context == NULL || real.cuCtxPushCurrent_v2(context) != CUDA_SUCCESS) {
        exchange_mode(mover);
        return context == NULL ? GPUD_SWAP_LITTLE : GPUD_SWAP_DRIVER;      /* LITTLE: no allocation, nothing to copy */
    }
    mover->context = kept->context = context;
    if (!make(kept))
        return GPUD_SWAP_DRIVER;
    if (!gpud_host_register(context, until_ns))
        return GPUD_SWAP_MORE;
    for (uint32_t i = 0; i < 2; i++)
        mover->stream[i] = kept->stream[i];
    for (uint32_t i = 0; i < GPUD_MOVER_RING; i++)
        mover->event[i] = kept->event[i];
    return GPUD_SWAP_DONE;
}

bool gpud_mover_is_broken(const struct gpud_mover *mover)
{
    CUresult result = mover->context != NULL && real.cuStreamQuery != NULL ? real.cuStreamQuery(keeps[mover->ordinal].stream[0]) : CUDA_SUCCESS;

    return CUDA_ERROR_BREAKS(result);
}

void gpud_mover_end(struct gpud_mover *mover, uint32_t device, bool may_ask)
{
    CUcontext popped;

    pthread_mutex_lock(&gpud_pool_lock);
    if (may_ask)
        gpud_pool_publish(device);
    else
        gpud_pool_write(device);
    pthread_mutex_unlock(&gpud_pool_lock);
    if (mover->context != NULL) {
        exchange_mode(mover);
        real.cuCtxPopCurrent_v2(&popped);
    }
    free(mover->candidate);
    gpud_sub_total(&gpud_asking, 1);
    pthread_mutex_unlock(&busy);
}

static int by_age(const void *a, const void *b)
{
    const struct gpud_candidate *one = a, *other = b;
    return one->touched < other->touched ? -1 : one->touched > other->touched;
}

bool gpud_mover_list(struct gpud_mover *mover)
{
    free(mover->candidate);
    mover->candidates = 0;
    mover->candidate = malloc((gpud_span_count() + 1) * sizeof *mover->candidate);
    if (mover->candidate == NULL)
        return false;
    for (uint32_t i = 0; i < gpud_span_count(); i++) {
        const struct gpud_span *span = gpud_span_nth(i);
        if (span->ordinal == mover->ordinal && span->use != GPUD_SPAN_FREE && !span->gone)
            mover->candidate[mover->candidates++] = (struct gpud_candidate){ span->touched, span->at, span->id };
    }
    qsort(mover->candidate, mover->candidates, sizeof *mover->candidate, by_age);
    return true;
}

struct gpud_span *gpud_mover_span(const struct gpud_candidate *candidate)
{
    struct gpud_span *span = gpud_span_at(candidate->at);
    return span != NULL && span->id == candidate->id ? span : NULL;
}

bool gpud_mover_full(const struct gpud_mover *mover)
{
    return mover->count == GPUD_MOVER_RING || (mover->count >= 2 && mover->in_flight >= IN_FLIGHT);
}

bool gpud_mover_is_late(const struct gpud_mover *mover, uint64_t until_ns)
{
    return until_ns != 0 && mover->moved + mover->in_flight != 0 && gpud_now() >= until_ns;
}

static void note_pieces(const struct gpud_mover *mover, bool out)
{
    uint64_t pieces = 0;
    for (uint32_t i = 0; i < mover->count; i++)
        pieces += mover->flight[(mover->first + i) % GPUD_MOVER_RING].pieces;
    if (pieces > gpud_swap_stats.most[!out])
        gpud_store(&gpud_swap_stats.most[!out], pieces);
}

bool gpud_mover_copy(struct gpud_mover *mover, struct gpud_span *span, struct gpud_chunk *chunk, uint32_t host, bool out)
{
    uint32_t place = (mover->first + mover->count) % GPUD_MOVER_RING, unit = host, pieces = 0;
    CUstream stream = mover->stream[place % 2];
    CUresult result = CUDA_SUCCESS;

    for (uint64_t done = 0; done < chunk->bytes && result == CUDA_SUCCESS; pieces++) {
        struct gpud_stretch piece = gpud_host_stretch(&unit, PIECE);
        result = out ? real.cuMemcpyDtoHAsync_v2(piece.at, chunk->at + done, piece.bytes, stream)
                     : real.cuMemcpyHtoDAsync_v2(chunk->at + done, piece.at, piece.bytes, stream);
        done += piece.bytes;
    }
    if (result == CUDA_SUCCESS)
        result = real.cuEventRecord(mover->event[place], stream);
    if (result != CUDA_SUCCESS) {
        real.cuStreamSynchronize(stream);   /* those that are under way still use the host's memory and the device's */
        return false;
    }
    mover->flight[place] = (struct gpud_flight){ span, chunk, host, pieces };
    mover->count++;
    mover->in_flight += chunk->bytes;
    gpud_add(&gpud_swap_stats.pieces[!out], pieces);
    note_pieces(mover, out);
    return true;
}

bool gpud_mover_wait(struct gpud_mover *mover, struct gpud_flight *flight, bool out)
{
    uint32_t place = mover->first;
    bool right = real.cuEventSynchronize(mover->event[place]) == CUDA_SUCCESS;

    if (!right)     /* not even that is known: nothing of the stream may run any more */
        real.cuStreamSynchronize(mover->stream[place % 2]);
    *flight = mover->flight[place];
    mover->first = (place + 1) % GPUD_MOVER_RING;
    mover->count--;
    mover->in_flight -= flight->chunk->bytes;
    if (right)
        gpud_add(&gpud_swap_stats.bytes[!out], flight->chunk->bytes);
    return right;
}

void gpud_mover_leave(struct gpud_span *span)
{
    span->moving--;
    if (span->gone && span->moving == 0)
        gpud_span_drop(span, false);
}

void gpud_swap_context_gone(uint32_t ordinal, CUcontext context)
{
    if (keeps[ordinal].context == context)
        keeps[ordinal] = (struct kept){ 0 };
    gpud_host_context_gone(context);
}

CUcontext gpud_swap_context(uint32_t ordinal)
{
    return keeps[ordinal].context;
}

void gpud_swap_forget(void)
{
    busy = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    for (uint32_t ordinal = 0; ordinal < GPUD_POOL_DEVICES; ordinal++)
        keeps[ordinal] = (struct kept){ 0 };
    gpud_swap_stats = (struct gpud_swap_stats){ 0 };
}
