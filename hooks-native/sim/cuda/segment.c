/* segment.c: the mapping of device memory. The whole range of a device is reserved once without access; a segment is mapped over
 * its part of it, and access is taken away again when it goes. Mappings are not inherited by fork(): a child has no business
 * with them and would keep the memory alive. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "segment.h"

CUresult heap_device_open(struct device *device) {
    pthread_mutex_init(&device->heap_lock, NULL);
    device->memory_fd = sim_memory_fd(sim.link, device->node_index);
    device->span = (device->info.total_bytes + HEAP_UNIT - 1) / HEAP_UNIT * HEAP_UNIT;
    char *raw = mmap(NULL, device->span + HEAP_UNIT, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (raw == MAP_FAILED)
        return CUDA_ERROR_OPERATING_SYSTEM;
    device->base = (char *)(((uintptr_t)raw + HEAP_UNIT - 1) / HEAP_UNIT * HEAP_UNIT);
    device->units = mmap(NULL, device->span / HEAP_UNIT * sizeof *device->units, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (device->units == MAP_FAILED) {
        munmap(raw, device->span + HEAP_UNIT);
        device->base = NULL;
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    device->plain = heap_new(device, NULL);
    return device->plain ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

/* Takes access to a part of the range away, without giving up the reservation. */
static void seal(const struct device *device, uint64_t offset, uint64_t bytes) {
    mmap(device->base + offset, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

int segment_new(struct heap *heap, uint64_t bytes, bool small, struct block **block) {
    struct device *device = heap->device;
    struct segment *segment = calloc(1, sizeof *segment);
    struct block *first = calloc(1, sizeof *first);
    uint64_t offset = 0;
    int result = segment && first ? 0 : -ENOMEM;
    if (!result)
        result = sim_memory_alloc(sim.link, device->node_index, bytes, HEAP_UNIT, &offset);
    if (!result) {
        void *at = offset + bytes <= device->span
                       ? mmap(device->base + offset, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, device->memory_fd, (off_t)offset)
                       : MAP_FAILED;
        if (at == MAP_FAILED) {
            sim_memory_free(sim.link, device->node_index, offset);
            result = -ENOMEM;
        } else {
            madvise(at, bytes, MADV_DONTFORK);
            madvise(at, bytes, MADV_DONTDUMP);
        }
    }
    if (result) {
        free(segment);
        free(first);
        return result;
    }
    *first = (struct block){.segment = segment, .offset = offset, .bytes = bytes};
    *segment = (struct segment){.heap = heap, .next = heap->segments, .first = first, .offset = offset, .bytes = bytes, .small = small};
    if (segment->next)
        segment->next->prev = segment;
    heap->segments = segment;
    for (uint64_t unit = offset / HEAP_UNIT; unit < (offset + bytes) / HEAP_UNIT; unit++)
        device->units[unit] = segment;
    heap->reserved += bytes;
    if (heap->reserved > heap->reserved_high)
        heap->reserved_high = heap->reserved;
    *block = first;
    return 0;
}

void segment_drop(struct segment *segment) {
    struct heap *heap = segment->heap;
    struct device *device = heap->device;
    for (uint64_t unit = segment->offset / HEAP_UNIT; unit < (segment->offset + segment->bytes) / HEAP_UNIT; unit++)
        device->units[unit] = NULL;
    seal(device, segment->offset, segment->bytes);
    sim_memory_free(sim.link, device->node_index, segment->offset);
    if (segment->prev)
        segment->prev->next = segment->next;
    else
        heap->segments = segment->next;
    if (segment->next)
        segment->next->prev = segment->prev;
    heap->reserved -= segment->bytes;
    for (struct block *b = segment->first, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    free(segment);
}
