/* heap_life.c: heaps as a whole: made, rid of a context's memory, given up. */
#include <stdlib.h>

#include "heap.h"

/* Frees what a context has of one device. */
static void release_on(struct device *device, const struct ctx *ctx) {
    sim_lock(sim.link, &device->heap_lock);
    for (struct heap *heap = device->heaps; heap; heap = heap->next) {
        for (struct segment *s = heap->segments, *next; s; s = next) {
            next = s->next;
            for (struct block *b = s->first; b;) {
                if (b->state != BLOCK_USED || b->ctx != ctx) {
                    b = b->next;
                    continue;
                }
                bool last = s->used == b->bytes && !heap->keeps;    /* then the segment and its blocks go too */
                heap_release(b);
                b = last ? NULL : s->first;
            }
        }
    }
    pthread_mutex_unlock(&device->heap_lock);
}

void heap_release_ctx(struct ctx *ctx) {
    for (int i = 0; i < sim.device_count; i++)
        release_on(&sim.device[i], ctx);        /* of other devices: what it has opened */
}

struct heap *heap_new(struct device *device, enum heap_kind kind, struct pool *pool) {
    struct heap *heap = calloc(1, sizeof *heap);
    if (!heap)
        return NULL;
    *heap = (struct heap){.device = device, .kind = kind, .pool = pool, .keeps = kind == HEAP_POOL};
    sim_lock(sim.link, &device->heap_lock);
    heap->next = device->heaps;
    device->heaps = heap;
    pthread_mutex_unlock(&device->heap_lock);
    return heap;
}

bool heap_delete_empty(struct heap *heap) {
    if (heap->segments || heap->pending)
        return false;
    struct heap **at = &heap->device->heaps;
    while (*at != heap)
        at = &(*at)->next;
    *at = heap->next;
    free(heap);
    return true;
}
