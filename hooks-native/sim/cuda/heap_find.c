/* heap_find.c: what is at an address of a device's range. */
#include "heap.h"

struct block *heap_block(struct device *device, const void *address) {
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

bool heap_change(const void *address, void (*change)(struct block *block, void *data), void *data) {
    struct device *device = heap_device(address);
    if (!device)
        return false;
    sim_lock(sim.link, &device->heap_lock);
    struct block *b = heap_block(device, address);
    bool found = b && b->state == BLOCK_USED && !b->hidden && (const char *)address < device->base + b->offset + b->asked;
    if (found)
        change(b, data);
    pthread_mutex_unlock(&device->heap_lock);
    return found;
}

static void describe(struct block *b, void *data) {
    struct range *out = data;
    struct segment *segment = b->segment;
    struct device *device = segment->heap->device;
    *out = (struct range){.start = device->base + b->offset, .bytes = b->asked, .segment_start = device->base + segment->offset,
                          .segment_bytes = segment->bytes, .ctx = b->ctx, .device = device, .heap = segment->heap, .id = b->id,
                          .opened = b->opened, .sync = b->sync, .managed = b->managed};
}

bool heap_find(const void *address, struct range *out) { return heap_change(address, describe, out); }

bool heap_covers(const void *address, uint64_t bytes) {
    struct range range;
    return heap_find(address, &range) && bytes <= range.bytes - (uint64_t)((const char *)address - range.start);
}
