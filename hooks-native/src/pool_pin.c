/* pool_pin.c: memory of the pool's that somebody outside is given: by a handle of it (cuMemRetainAllocationHandle), for RDMA, or bound to a
 * multicast object. It never leaves the device after that, and is never recycled. */
#include "launch.h"
#include "pool.h"
#include "pool_span.h"
#include "state.h"
#include "swap.h"
#include "vmm.h"

/* Chunks of the span that overlap the bytes: from *index on; NULL: no more. */
static struct gpud_chunk *next_in(struct gpud_span *span, uint32_t *index, uint64_t at, uint64_t bytes)
{
    while (*index < span->count) {
        struct gpud_chunk *chunk = &span->chunk[(*index)++];
        if (chunk->at < at + bytes && at < chunk->at + chunk->bytes)
            return chunk;
    }
    return NULL;
}

void gpud_pool_pin(uint64_t at, uint64_t bytes, bool more)
{
    uint32_t index = 0;

    pthread_mutex_lock(&gpud_pool_lock);
    struct gpud_span *span = gpud_span_at(at);
    for (struct gpud_chunk *chunk = NULL; span != NULL && (chunk = next_in(span, &index, at, bytes)) != NULL;) {
        if (more)
            gpud_chunk_pin(chunk);      /* what has no memory just now is left alone */
        else
            gpud_chunk_unpin(chunk);
    }
    if (span != NULL)
        gpud_pool_publish(gpud_load(&gpud_slot_of[span->ordinal]));
    pthread_mutex_unlock(&gpud_pool_lock);
}

bool gpud_pool_pins(const struct gpud_found *found)
{
    uint32_t index = 0;

    for (struct gpud_chunk *chunk; (chunk = next_in(found->span, &index, found->at, found->bytes)) != NULL;) {
        if (chunk->pins != 0)
            return true;
    }
    return false;
}

uint64_t gpud_pool_number(uint64_t at, uint64_t (*new_number)(void))
{
    uint32_t index = 0;
    uint64_t number = 0;

    pthread_mutex_lock(&gpud_pool_lock);
    struct gpud_span *span = gpud_span_at(at);
    struct gpud_chunk *chunk = span != NULL ? next_in(span, &index, at, 1) : NULL;
    if (chunk != NULL)
        number = chunk->number = chunk->number != 0 ? chunk->number : new_number();
    pthread_mutex_unlock(&gpud_pool_lock);
    return number;
}

/* Like a memset that writes nothing: it waits for the device, and keeps it until gpud_pinned; so all of the pool's memory is there. */
struct gpud_pin gpud_pins(uint64_t at, uint64_t bytes)
{
    struct gpud_pin pin = { .at = at, .bytes = bytes, .owned = gpud_pool_owns(at) || gpud_vmm_covers(at, bytes) };

    if (pin.owned) {
        pin.counted = gpud_sets(NULL, 0);
        gpud_pool_pin(at, bytes, true);
        gpud_vmm_pin(at, bytes, true);
    }
    return pin;
}

void gpud_pinned(const struct gpud_pin *pin, CUresult result)
{
    if (!pin->owned)
        return;
    if (result != CUDA_SUCCESS) {
        gpud_pool_pin(pin->at, pin->bytes, false);
        gpud_vmm_pin(pin->at, pin->bytes, false);
    }
    gpud_copied(pin->counted, result);
}
