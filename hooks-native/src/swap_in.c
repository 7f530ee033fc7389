/* swap_in.c: from the host slots to the device; what has no contents is only backed. Within a chunk: checksum → memory → copy → event →
 * host slot given back. On any error but a wrong checksum the chunk stays in its slot. The youngest come first. */
#include <sched.h>

#include "host_slots.h"
#include "log.h"
#include "state.h"
#include "swap.h"

#define NAP_NS GPUD_MILLISECOND     /* nobody tells when another process has given memory back to the driver */

static bool settle(struct gpud_mover *mover)
{
    struct gpud_flight flight;
    bool right = gpud_mover_wait(mover, &flight, false);

    pthread_mutex_lock(&gpud_pool_lock);
    if (right) {
        gpud_chunk_set(flight.chunk, GPUD_CHUNK_RESIDENT_DIRTY);
        flight.chunk->host = GPUD_NO_HOST;
        gpud_host_give(flight.host);
        mover->moved += flight.chunk->bytes;
    } else {
        gpud_chunk_set(flight.chunk, GPUD_CHUNK_HOST);
        gpud_chunk_strip(flight.chunk, true);   /* if not even that: it is mapped already at the next try */
    }
    gpud_mover_leave(flight.span);
    gpud_pool_publish(mover->device);
    pthread_mutex_unlock(&gpud_pool_lock);
    gpud_store(&gpud_activity()->device[mover->device].swap_done_bytes, mover->moved);
    return right;
}

/* Memory behind the chunk, where it is copied too (`copied`). Without any: first our own copies under way are waited for, then others, until `until_ns`. */
static enum gpud_swap_result back(struct gpud_mover *mover, struct gpud_chunk *chunk, bool copied, uint64_t until_ns)
{
    for (;;) {
        pthread_mutex_lock(&gpud_pool_lock);
        CUresult result = gpud_chunk_back(chunk);
        bool reached = result != CUDA_SUCCESS || !copied || gpud_chunk_reach(chunk) == CUDA_SUCCESS;
        pthread_mutex_unlock(&gpud_pool_lock);
        if (result == CUDA_SUCCESS)
            return reached ? GPUD_SWAP_DONE : GPUD_SWAP_DRIVER;
        if (result != CUDA_ERROR_OUT_OF_MEMORY)
            return GPUD_SWAP_DRIVER;
        if (gpud_mover_must_stop())
            return GPUD_SWAP_NOT_NOW;
        if (mover->count > 0) {
            if (!settle(mover))
                return GPUD_SWAP_DRIVER;
        } else if (gpud_now() >= until_ns) {
            return GPUD_SWAP_LITTLE;
        } else {
            struct timespec nap = gpud_timespec(NAP_NS);
            nanosleep(&nap, NULL);
        }
    }
}

/* The slot stays taken: what is wrong with its memory is not known. */
static void lose(struct gpud_span *span, struct gpud_chunk *chunk)
{
    gpud_log(GPUD_LOG_ERROR, GPUD_ONCE_CORRUPT, "memory of this program that was swapped to the host has changed there, and is lost: the driver "
             "answers an error where it is used; is the host's memory in order?");
    gpud_add(&gpud_activity()->errors, 1);
    pthread_mutex_lock(&gpud_pool_lock);
    gpud_chunk_set(chunk, GPUD_CHUNK_LOST);
    chunk->host = GPUD_NO_HOST;
    gpud_mover_leave(span);
    pthread_mutex_unlock(&gpud_pool_lock);
}

/* Of a chunk that is this mover's now; `was` is what it is if it stays. */
static enum gpud_swap_result bring(struct gpud_mover *mover, struct gpud_span *span, struct gpud_chunk *chunk, enum gpud_chunk_state was,
                                   uint64_t until_ns)
{
    if (was == GPUD_CHUNK_HOST && gpud_host_sum(chunk->host) != chunk->sum) {
        lose(span, chunk);
        return GPUD_SWAP_DONE;
    }
    enum gpud_swap_result result = back(mover, chunk, was == GPUD_CHUNK_HOST, until_ns);
    if (result == GPUD_SWAP_DONE && was == GPUD_CHUNK_HOST) {
        if (gpud_mover_copy(mover, span, chunk, chunk->host, false))
            return GPUD_SWAP_DONE;
        result = GPUD_SWAP_DRIVER;
    }
    pthread_mutex_lock(&gpud_pool_lock);
    if (result == GPUD_SWAP_DONE) {
        gpud_chunk_set(chunk, GPUD_CHUNK_RESIDENT_DIRTY);
        mover->moved += chunk->bytes;
    } else {
        gpud_chunk_set(chunk, was);
        gpud_chunk_strip(chunk, true);
    }
    gpud_mover_leave(span);
    pthread_mutex_unlock(&gpud_pool_lock);
    return result;
}

/* A chunk that is larger than what is left of `bytes` stays where it is. */
static enum gpud_swap_result fetch(struct gpud_mover *mover, const struct gpud_candidate *candidate, uint32_t index, uint64_t bytes,
                                   uint64_t until_ns, uint32_t *count)
{
    enum gpud_chunk_state was = GPUD_CHUNK_PINNED;

    pthread_mutex_lock(&gpud_pool_lock);
    struct gpud_span *span = gpud_mover_span(candidate);
    struct gpud_chunk *chunk = span != NULL && index < span->count ? &span->chunk[index] : NULL;
    *count = span != NULL ? span->count : 0;
    bool fits = chunk != NULL && mover->moved + mover->in_flight + chunk->bytes <= bytes;
    if (fits && ((chunk->state == GPUD_CHUNK_HOST && mover->context != NULL) || chunk->state == GPUD_CHUNK_LAZY)) {
        was = chunk->state;
        gpud_chunk_set(chunk, GPUD_CHUNK_IN_COPYING);
        span->moving++;
    }
    pthread_mutex_unlock(&gpud_pool_lock);
    return was == GPUD_CHUNK_PINNED ? GPUD_SWAP_DONE : bring(mover, span, chunk, was, until_ns);
}

static enum gpud_swap_result move(struct gpud_mover *mover, uint64_t bytes, uint64_t until_ns)
{
    enum gpud_swap_result result = GPUD_SWAP_DONE;

    pthread_mutex_lock(&gpud_pool_lock);
    bool listed = gpud_mover_list(mover);
    pthread_mutex_unlock(&gpud_pool_lock);
    if (!listed)
        return GPUD_SWAP_LITTLE;
    for (uint32_t i = mover->candidates; i-- > 0 && result == GPUD_SWAP_DONE;) {
        uint32_t count = 1;
        for (uint32_t index = 0; index < count && result == GPUD_SWAP_DONE; index++) {
            while (result == GPUD_SWAP_DONE && gpud_mover_full(mover))
                result = settle(mover) ? result : GPUD_SWAP_DRIVER;
            if (mover->moved + mover->in_flight >= bytes)
                return result;
            if (gpud_mover_must_stop())
                result = GPUD_SWAP_NOT_NOW;
            else if (result == GPUD_SWAP_DONE && gpud_mover_is_late(mover, until_ns))
                result = GPUD_SWAP_MORE;
            if (result == GPUD_SWAP_DONE)
                result = fetch(mover, &mover->candidate[i], index, bytes, until_ns, &count);
        }
    }
    return result;
}

enum gpud_swap_result gpud_swap_in(uint32_t device, uint64_t bytes, uint64_t until_ns, uint64_t *moved)
{
    struct gpud_mover mover;
    enum gpud_swap_result result = gpud_mover_begin(&mover, device, false, until_ns);

    if (result == GPUD_SWAP_LITTLE)     /* no context to copy in: nothing lacks, or memory by handles that has no contents yet */
        result = GPUD_SWAP_DONE;
    if (result == GPUD_SWAP_DONE && mover.ordinal < GPUD_POOL_DEVICES) {
        gpud_store(&gpud_activity()->device[device].swap_total_bytes, bytes);
        result = move(&mover, bytes, until_ns);
    }
    while (mover.count > 0) {
        if (!settle(&mover) && result == GPUD_SWAP_DONE)
            result = GPUD_SWAP_DRIVER;
    }
    *moved = mover.moved;
    gpud_mover_end(&mover, device, result != GPUD_SWAP_NOT_NOW);
    return result;
}
