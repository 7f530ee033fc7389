/* heap.c: allocation of device memory within segments. Small requests share segments of 2 MiB, so an allocation costs
 * neither a mapping nor a message of its own; capacity is what segments take, as on the hardware. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "heap.h"
#include "segment.h"
#include "pool.h"

#define SMALL_LIMIT (1ull << 20)

static uint64_t round_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

/* Cuts `block` to `bytes`, leaving the rest as a free block. Without host memory the block stays whole. */
static void cut(struct block *block, uint64_t bytes) {
    if (block->bytes - bytes < HEAP_ALIGN)
        return;
    struct block *rest = calloc(1, sizeof *rest);
    if (!rest)
        return;
    *rest = (struct block){.segment = block->segment, .offset = block->offset + bytes, .bytes = block->bytes - bytes,
                           .prev = block, .next = block->next};
    if (rest->next)
        rest->next->prev = rest;
    block->next = rest;
    block->bytes = bytes;
}

/* Makes a used or pending block free, joined with free neighbours; an empty segment of the plain heap is given back. */
static void release(struct block *block) {
    struct segment *segment = block->segment;
    struct heap *heap = segment->heap;
    segment->used -= block->bytes;
    heap->used -= block->bytes;
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
    if (!segment->used && !heap->pool)
        segment_drop(segment);
}

static void take(struct block *block, uint64_t bytes, uint64_t asked, struct ctx *ctx) {
    struct heap *heap = block->segment->heap;
    cut(block, bytes);
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

/* Takes a block that was freed in stream order by the same stream: what runs there next runs after the free. */
static struct block *reuse_pending(struct heap *heap, uint64_t bytes, const struct stream *stream) {
    for (struct block **at = &heap->pending; *at; at = &(*at)->pending_next) {
        struct block *b = *at;
        if (b->queue != stream->queue || b->bytes < bytes || b->bytes > 2 * bytes + HEAP_UNIT)
            continue;
        *at = b->pending_next;
        b->segment->used -= b->bytes;
        heap->used -= b->bytes;
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
        release(b);
    }
}

/* Waits for the oldest pending block with the lock released. False when there is none. */
static bool wait_pending(struct heap *heap) {
    struct block *oldest = heap->pending;
    if (!oldest)
        return false;
    while (oldest->pending_next)
        oldest = oldest->pending_next;
    uint32_t queue = oldest->queue;
    uint64_t ticket = oldest->ticket;
    pthread_mutex_unlock(&heap->device->heap_lock);
    int waited = sim_wait(sim.link, queue, ticket);
    pthread_mutex_lock(&heap->device->heap_lock);
    return waited == 0;
}

CUresult heap_alloc(struct heap *heap, struct ctx *ctx, uint64_t asked, struct stream *stream, char **out) {
    struct device *device = heap->device;
    if (asked > device->span)
        return CUDA_ERROR_OUT_OF_MEMORY;
    bool small = asked <= SMALL_LIMIT, trimmed = false;
    uint64_t bytes = round_up(asked, HEAP_ALIGN);
    CUresult result = CUDA_SUCCESS;
    struct block *block = NULL;
    pthread_mutex_lock(&device->heap_lock);
    for (;;) {
        heap_reap(heap);
        block = best_fit(heap, bytes, small);
        if (!block && stream)
            block = reuse_pending(heap, bytes, stream);
        if (block)
            break;
        int made = segment_new(heap, round_up(bytes, HEAP_UNIT), small, &block);
        if (!made)
            break;
        result = sim_result(made);
        if (result != CUDA_ERROR_OUT_OF_MEMORY)
            break;
        /* No capacity: first what pools hold in reserve, then what streams are about to free. */
        if (!trimmed) {
            trimmed = true;
            pools_trim_locked(device);
            continue;
        }
        if (!wait_pending(heap))
            break;
        trimmed = false;
    }
    if (block) {
        result = CUDA_SUCCESS;
        take(block, bytes, asked, ctx);
        *out = device->base + block->offset;
    }
    pthread_mutex_unlock(&device->heap_lock);
    return result;
}

/* The block that holds an address, or NULL; heap_lock held. */
static struct block *block_at(struct device *device, const void *address) {
    uint64_t offset = (uint64_t)((const char *)address - device->base);
    struct segment *segment = device->units[offset / HEAP_UNIT];
    for (struct block *b = segment ? segment->first : NULL; b; b = b->next)
        if (offset >= b->offset && offset < b->offset + b->bytes)
            return b;
    return NULL;
}

struct device *heap_device(const void *address) {
    for (int i = 0; i < sim.device_count; i++) {
        struct device *device = &sim.device[i];
        if (device->base && (const char *)address >= device->base && (const char *)address < device->base + device->span)
            return device;
    }
    return NULL;
}

bool heap_find(const void *address, struct range *out) {
    struct device *device = heap_device(address);
    if (!device)
        return false;
    pthread_mutex_lock(&device->heap_lock);
    struct block *b = block_at(device, address);
    bool found = b && b->state == BLOCK_USED && (const char *)address < device->base + b->offset + b->asked;
    if (found)
        *out = (struct range){device->base + b->offset, b->asked, b->ctx, device, b->segment->heap->pool, b->id, b->managed};
    pthread_mutex_unlock(&device->heap_lock);
    return found;
}

bool heap_covers(const void *address, uint64_t bytes) {
    struct range range;
    return heap_find(address, &range) && bytes <= range.bytes - (uint64_t)((const char *)address - range.start);
}

void heap_set_managed(char *address) {
    struct device *device = heap_device(address);
    pthread_mutex_lock(&device->heap_lock);
    block_at(device, address)->managed = true;
    pthread_mutex_unlock(&device->heap_lock);
}

/* The live block that starts at `address`; on success the device's lock is held. */
static CUresult locked_start(const char *address, struct block **out) {
    struct device *device = heap_device(address);
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&device->heap_lock);
    struct block *b = block_at(device, address);
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
    release(block);
    pthread_mutex_unlock(&device->heap_lock);
    return CUDA_SUCCESS;
}

CUresult heap_free_ordered(char *address, struct stream *stream) {
    struct block *block;
    CUresult result = locked_start(address, &block);
    if (result)
        return result;
    struct heap *heap = block->segment->heap;
    block->state = BLOCK_PENDING;
    block->queue = stream->queue;
    block->ticket = stream->last;
    block->pending_next = heap->pending;
    heap->pending = block;
    heap_reap(heap);
    pthread_mutex_unlock(&heap->device->heap_lock);
    return CUDA_SUCCESS;
}

void heap_trim(struct heap *heap, uint64_t keep) {
    for (struct segment *s = heap->segments, *next; s && heap->reserved > keep; s = next) {
        next = s->next;
        if (!s->used)
            segment_drop(s);
    }
}

void heap_release_ctx(struct device *device, struct ctx *ctx) {
    pthread_mutex_lock(&device->heap_lock);
    for (struct segment *s = device->plain ? device->plain->segments : NULL, *next; s; s = next) {
        next = s->next;
        for (struct block *b = s->first; b;) {
            if (b->state != BLOCK_USED || b->ctx != ctx) {
                b = b->next;
                continue;
            }
            bool last = s->used == b->bytes;        /* then release() drops the segment and its blocks */
            release(b);
            b = last ? NULL : s->first;
        }
    }
    pthread_mutex_unlock(&device->heap_lock);
}

struct heap *heap_new(struct device *device, struct pool *pool) {
    struct heap *heap = calloc(1, sizeof *heap);
    if (heap)
        *heap = (struct heap){.device = device, .pool = pool};
    return heap;
}

void heap_delete(struct heap *heap) {
    struct device *device = heap->device;
    pthread_mutex_lock(&device->heap_lock);
    while (wait_pending(heap))
        heap_reap(heap);
    while (heap->segments)
        segment_drop(heap->segments);
    pthread_mutex_unlock(&device->heap_lock);
    free(heap);
}
