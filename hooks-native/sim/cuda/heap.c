/* heap.c: allocation of device memory within segments. Small requests share segments of 2 MiB, so an allocation costs
 * neither a mapping nor a message of its own; capacity is what segments take, as on the hardware. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "heap.h"
#include "managed.h"
#include "pool.h"
#include "segment.h"

#define SMALL_LIMIT (1ull << 20)

static uint64_t round_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

struct block *heap_cut(struct block *block, uint64_t bytes) {
    struct block *rest = calloc(1, sizeof *rest);
    if (!rest)
        return NULL;
    *rest = (struct block){.segment = block->segment, .offset = block->offset + bytes, .bytes = block->bytes - bytes,
                           .prev = block, .next = block->next};
    if (rest->next)
        rest->next->prev = rest;
    block->next = rest;
    block->bytes = bytes;
    return rest;
}

/* Makes a used or pending block free, joined with free neighbours; a heap that keeps none gives an empty segment back. */
void heap_release(struct block *block) {
    struct segment *segment = block->segment;
    struct heap *heap = segment->heap;
    segment->used -= block->bytes;
    heap->used -= block->bytes;
    managed_free(block->managed);
    block->managed = NULL;
    block->state = BLOCK_FREE;
    block->ctx = NULL;
    struct block *next = block->next, *prev = block->prev;
    if (next && next->state == BLOCK_FREE) {
        block->bytes += next->bytes;
        block->next = next->next;
        if (block->next)
            block->next->prev = block;
        free(next);
    }
    if (prev && prev->state == BLOCK_FREE) {
        prev->bytes += block->bytes;
        prev->next = block->next;
        if (prev->next)
            prev->next->prev = prev;
        free(block);
    }
    if (!segment->used && !heap->keeps)
        segment_drop(segment);
}

void heap_take(struct block *block, uint64_t asked, struct ctx *ctx) {
    struct heap *heap = block->segment->heap;
    *block = (struct block){.prev = block->prev, .next = block->next, .segment = block->segment, .offset = block->offset,
                            .bytes = block->bytes, .asked = asked, .state = BLOCK_USED, .ctx = ctx,
                            .id = atomic_fetch_add(&sim.ids, 1) + 1};
    block->segment->used += block->bytes;
    heap->used += block->bytes;
    if (heap->used > heap->used_high)
        heap->used_high = heap->used;
}

/* The smallest free block that holds `bytes`, among segments of the right kind. */
static struct block *best_fit(struct heap *heap, uint64_t bytes, bool small) {
    struct block *best = NULL;
    for (struct segment *s = heap->segments; s; s = s->next) {
        if (s->small != small || s->bytes - s->used < bytes)
            continue;
        for (struct block *b = s->first; b; b = b->next) {
            if (b->state != BLOCK_FREE || b->bytes < bytes || (best && best->bytes <= b->bytes))
                continue;
            best = b;
            if (b->bytes == bytes)
                return b;
        }
    }
    return best;
}

static bool fits(const struct block *block, uint64_t bytes) { return block->bytes >= bytes && block->bytes <= 2 * bytes + HEAP_UNIT; }

/* Takes a block that was freed in stream order where the new owner's work runs after the free in any case. */
static struct block *reuse_pending(struct heap *heap, uint64_t bytes, const struct reuse *reuse) {
    for (struct block **at = &heap->pending; *at; at = &(*at)->pending_next) {
        struct block *b = *at;
        bool after = false;
        for (unsigned i = 0; i < reuse->count && !after; i++)
            after = b->queue == reuse->follows[i].queue && b->ticket <= reuse->follows[i].ticket;
        if (!after || !fits(b, bytes))
            continue;
        *at = b->pending_next;
        b->segment->used -= b->bytes;
        heap->used -= b->bytes;
        b->state = BLOCK_FREE;
        return b;
    }
    return NULL;
}

void heap_reap(struct heap *heap) {
    struct block **at = &heap->pending;
    while (*at) {
        struct block *b = *at;
        if (!sim_reached(sim.link, b->queue, b->ticket)) {
            at = &b->pending_next;
            continue;
        }
        *at = b->pending_next;
        heap_release(b);
    }
}

/* Waits for the oldest pending block of the device with the lock released. False when there is none. */
static bool wait_pending_locked(struct device *device) {
    struct block *oldest = NULL;
    for (struct heap *heap = device->heaps; heap; heap = heap->next)
        for (struct block *b = heap->pending; b; b = b->pending_next)
            if (!oldest || b->ticket < oldest->ticket)
                oldest = b;
    if (!oldest)
        return false;
    uint32_t queue = oldest->queue;
    uint64_t ticket = oldest->ticket;
    pthread_mutex_unlock(&device->heap_lock);
    int waited = sim_wait(sim.link, queue, ticket);
    sim_lock(sim.link, &device->heap_lock);
    return waited == 0;
}

bool heap_wait_pending(struct device *device) {
    sim_lock(sim.link, &device->heap_lock);
    bool waited = wait_pending_locked(device);
    for (struct heap *heap = device->heaps; waited && heap; heap = heap->next)
        heap_reap(heap);
    pthread_mutex_unlock(&device->heap_lock);
    return waited;
}

/* A pending block that would do once its queue has come there. */
static struct stream_follow wanted(const struct heap *heap, uint64_t bytes) {
    for (struct block *b = heap->pending; b; b = b->pending_next)
        if (fits(b, bytes))
            return (struct stream_follow){b->queue, b->ticket};
    return (struct stream_follow){0, 0};
}

/* A free block of `bytes`, from what the heap has or from a segment more. heap_lock held. */
static CUresult find_block(struct heap *heap, uint64_t bytes, struct reuse *reuse, struct block **out) {
    bool small = bytes <= SMALL_LIMIT, trimmed = false;
    uint64_t more = round_up(bytes, HEAP_UNIT);
    for (;;) {
        if (!reuse || reuse->opportunistic)
            heap_reap(heap);
        *out = best_fit(heap, bytes, small);
        if (!*out && reuse)
            *out = reuse_pending(heap, bytes, reuse);
        if (*out)
            return CUDA_SUCCESS;
        bool room = !heap->limit || more <= heap->limit - heap->reserved;
        CUresult result = room ? sim_result(segment_new(heap, more, small, out)) : CUDA_ERROR_OUT_OF_MEMORY;
        if (result != CUDA_ERROR_OUT_OF_MEMORY)
            return result;
        /* No capacity: first what pools hold in reserve, then what streams are about to free. */
        if (!trimmed) {
            trimmed = true;
            pools_trim_locked(heap->device);
            continue;
        }
        if (reuse) {
            reuse->wanted = wanted(heap, bytes);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        if (!wait_pending_locked(heap->device))
            return CUDA_ERROR_OUT_OF_MEMORY;
        trimmed = false;
    }
}

CUresult heap_alloc(struct heap *heap, struct ctx *ctx, uint64_t asked, struct reuse *reuse, char **out) {
    struct device *device = heap->device;
    if (asked > device->span)
        return CUDA_ERROR_OUT_OF_MEMORY;
    uint64_t bytes = round_up(asked, HEAP_ALIGN);
    struct block *block;
    sim_lock(sim.link, &device->heap_lock);
    CUresult result = find_block(heap, bytes, reuse, &block);
    if (!result) {
        if (block->bytes - bytes >= HEAP_ALIGN)
            heap_cut(block, bytes);     /* without host memory it stays whole */
        heap_take(block, asked, ctx);
        *out = device->base + block->offset;
    }
    pthread_mutex_unlock(&device->heap_lock);
    return result;
}

/* The live block that starts at `address`; on success the device's lock is held. */
static CUresult locked_start(const char *address, struct block **out) {
    struct device *device = heap_device(address);
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock(sim.link, &device->heap_lock);
    struct block *b = heap_block(device, address);
    if (b && b->state == BLOCK_USED && device->base + b->offset == address) {
        *out = b;
        return CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&device->heap_lock);
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult heap_free(char *address) {
    struct block *block;
    CUresult result = locked_start(address, &block);
    if (result)
        return result;
    struct device *device = block->segment->heap->device;
    if (block->opened > 1)              /* imported more than once: freed as often */
        block->opened--;
    else
        heap_release(block);
    pthread_mutex_unlock(&device->heap_lock);
    return CUDA_SUCCESS;
}

CUresult heap_free_ordered(char *address, struct stream *stream) {
    struct block *block;
    CUresult result = locked_start(address, &block);
    if (result)
        return result;
    struct heap *heap = block->segment->heap;
    if (block->opened > 1) {
        block->opened--;
    } else {
        block->state = BLOCK_PENDING;
        block->queue = stream->queue;
        block->ticket = stream->last;
        block->pending_next = heap->pending;
        heap->pending = block;
    }
    if (!heap->pool || heap->pool->reuse[POOL_REUSE_OPPORTUNISTIC])
        heap_reap(heap);
    pthread_mutex_unlock(&heap->device->heap_lock);
    return CUDA_SUCCESS;
}

void heap_trim(struct heap *heap, uint64_t keep, bool least) {
    for (struct segment *s = heap->segments, *next; s && heap->reserved > keep; s = next) {
        next = s->next;
        if (!s->used && (!least || heap->reserved - s->bytes >= keep))
            segment_drop(s);
    }
}
