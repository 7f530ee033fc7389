/* swap_out.c: from the device to the host slots. Within a chunk: host room → copy → event → checksum → unmap → handle back. On any
 * error the chunk stays resident. */
#include "swap.h"

#include "host_slots.h"
#include "state.h"
#include "stream_pool.h"

/* The copy has ended (`right`) or failed. True if the chunk has left the device. */
static bool settle(struct gpud_mover *mover, const struct gpud_flight *flight, bool right)
{
    struct gpud_chunk *chunk = flight->chunk;
    uint64_t sum = right ? gpud_host_sum(flight->host) : 0;
    bool left = false;

    pthread_mutex_lock(&gpud_pool_lock);
    if (right && gpud_chunk_strip(chunk, false) == CUDA_SUCCESS) {
        chunk->host = flight->host;
        chunk->sum = sum;
        gpud_chunk_set(chunk, GPUD_CHUNK_HOST);
        mover->moved += chunk->bytes;
        left = true;
    } else {
        gpud_chunk_set(chunk, GPUD_CHUNK_RESIDENT_DIRTY);
        gpud_host_give(flight->host);
    }
    gpud_mover_leave(flight->span);
    gpud_pool_publish(mover->device);
    pthread_mutex_unlock(&gpud_pool_lock);
    gpud_store(&gpud_activity()->device[mover->device].swap_done_bytes, mover->moved);
    return left;
}

static bool settle_oldest(struct gpud_mover *mover)
{
    struct gpud_flight flight;
    bool right = gpud_mover_wait(mover, &flight, true);
    return settle(mover, &flight, right);
}

/* Sends the chunk off, if it is still there to be sent. */
static enum gpud_swap_result send(struct gpud_mover *mover, const struct gpud_candidate *candidate, uint32_t index)
{
    uint32_t host = GPUD_NO_HOST;

    pthread_mutex_lock(&gpud_pool_lock);
    struct gpud_span *span = gpud_mover_span(candidate);
    struct gpud_chunk *chunk = span != NULL && index < span->count ? &span->chunk[index] : NULL;
    bool wanted = chunk != NULL && chunk->state == GPUD_CHUNK_RESIDENT_DIRTY, fits = wanted && gpud_host_lack(chunk->bytes) == 0;
    bool reached = fits && gpud_chunk_reach(chunk) == CUDA_SUCCESS;
    if (reached) {
        gpud_chunk_set(chunk, GPUD_CHUNK_OUT_COPYING);
        span->moving++;
    }
    pthread_mutex_unlock(&gpud_pool_lock);
    if (!reached)
        return fits ? GPUD_SWAP_DRIVER : wanted ? GPUD_SWAP_NO_HOST : GPUD_SWAP_DONE;
    bool room = gpud_host_take(chunk->bytes, &host);
    if (room && gpud_mover_copy(mover, span, chunk, host, true))
        return GPUD_SWAP_DONE;
    pthread_mutex_lock(&gpud_pool_lock);
    gpud_chunk_set(chunk, GPUD_CHUNK_RESIDENT_DIRTY);
    gpud_mover_leave(span);
    pthread_mutex_unlock(&gpud_pool_lock);
    if (room)
        gpud_host_give(host);
    return room ? GPUD_SWAP_DRIVER : GPUD_SWAP_NO_HOST;
}

/* How many chunks the candidate has; 0: it is gone. */
static uint32_t chunks_of(const struct gpud_candidate *candidate)
{
    pthread_mutex_lock(&gpud_pool_lock);
    const struct gpud_span *span = gpud_mover_span(candidate);
    uint32_t count = span != NULL ? span->count : 0;
    pthread_mutex_unlock(&gpud_pool_lock);
    return count;
}

static enum gpud_swap_result move(struct gpud_mover *mover, uint64_t bytes, uint64_t until_ns)
{
    enum gpud_swap_result result = GPUD_SWAP_DONE;
    bool full = false;

    pthread_mutex_lock(&gpud_pool_lock);
    bool listed = gpud_mover_list(mover);
    pthread_mutex_unlock(&gpud_pool_lock);
    for (uint32_t i = 0; listed && i < mover->candidates && result == GPUD_SWAP_DONE; i++) {
        uint32_t count = chunks_of(&mover->candidate[i]);
        for (uint32_t index = 0; index < count && result == GPUD_SWAP_DONE; index++) {
            while (result == GPUD_SWAP_DONE && (gpud_mover_full(mover) || (mover->count > 0 && mover->moved + mover->in_flight >= bytes)))
                result = settle_oldest(mover) ? result : GPUD_SWAP_DRIVER;
            if (result == GPUD_SWAP_DONE && mover->moved >= bytes)
                return result;
            if (gpud_mover_must_stop())
                result = GPUD_SWAP_NOT_NOW;
            else if (result == GPUD_SWAP_DONE && gpud_mover_is_late(mover, until_ns))
                result = GPUD_SWAP_MORE;
            if (result == GPUD_SWAP_DONE)
                result = send(mover, &mover->candidate[i], index);
            if (result == GPUD_SWAP_NO_HOST && gpud_host_lack(GPUD_CHUNK_UNIT) == 0) {
                full = true;        /* for this one: a handle may be of any size, and what is smaller still fits */
                result = GPUD_SWAP_DONE;
            }
        }
    }
    return full && result == GPUD_SWAP_DONE ? GPUD_SWAP_NO_HOST : result;
}

enum gpud_swap_result gpud_swap_out(uint32_t device, uint64_t bytes, uint64_t until_ns, uint64_t *moved)
{
    struct gpud_mover mover;
    enum gpud_swap_result result = gpud_mover_begin(&mover, device, true, until_ns);

    if (mover.ordinal < GPUD_POOL_DEVICES && result != GPUD_SWAP_NOT_NOW) {
        pthread_mutex_lock(&gpud_pool_lock);
        gpud_ordered_reclaim(mover.ordinal, true);
        mover.moved = gpud_span_trim(mover.ordinal, bytes);
        pthread_mutex_unlock(&gpud_pool_lock);
    }
    if (result == GPUD_SWAP_DONE && mover.moved < bytes) {
        gpud_store(&gpud_activity()->device[device].swap_total_bytes, bytes);
        result = move(&mover, bytes, until_ns);
    }
    while (mover.count > 0) {
        if (!settle_oldest(&mover) && result == GPUD_SWAP_DONE)
            result = GPUD_SWAP_DRIVER;
    }
    *moved = mover.moved;
    if (mover.moved >= bytes)
        result = GPUD_SWAP_DONE;
    else if (result == GPUD_SWAP_DONE)
        result = GPUD_SWAP_LITTLE;
    else if (result == GPUD_SWAP_DRIVER && gpud_mover_is_broken(&mover))
        result = GPUD_SWAP_BROKEN;
    gpud_mover_end(&mover, device, result != GPUD_SWAP_NOT_NOW);
    return result;
}
