/* segment.c: the mapping of device memory. The whole range of a device is reserved once without access; a segment is mapped over
 * its part of it, and access is taken away again when it goes. Mappings are not inherited by fork(): a child has no business
 * with them and would keep the memory alive. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "file_limit.h"
#include "segment.h"
#include "view.h"

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
    device->plain = heap_new(device, HEAP_PLAIN, NULL);
    device->managed = heap_new(device, HEAP_MANAGED, NULL);
    device->imports = heap_new(device, HEAP_IMPORTS, NULL);
    return device->plain && device->managed && device->imports ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

bool segment_map(int fd, void *at, uint64_t offset, uint64_t bytes, int protection) {
    if (mmap(at, bytes, protection, MAP_SHARED | MAP_FIXED, fd, (off_t)offset) == MAP_FAILED)
        return false;
    madvise(at, bytes, MADV_DONTFORK);
    madvise(at, bytes, MADV_DONTDUMP);
    return true;
}

static bool write_all(const struct device *device, const char *at, const void *data, uint64_t bytes) {
    static const char zeroes[4096];
    off_t offset = (off_t)(at - device->base);
    for (uint64_t done = 0; done < bytes;) {
        uint64_t most = bytes - done < sizeof zeroes ? bytes - done : sizeof zeroes;
        ssize_t n = pwrite(device->memory_fd, data ? (const char *)data + done : zeroes, data ? bytes - done : most, offset + (off_t)done);
        if (n < 0 && errno != EINTR)
            return false;
        done += n > 0 ? (uint64_t)n : 0;
    }
    return true;
}

bool segment_write(const struct device *device, const char *at, const void *data, uint64_t bytes) {
    sigset_t before;
    file_limit_begin(&before);
    bool good = write_all(device, at, data, bytes);
    file_limit_end(&before, !good);
    return good;
}

void segment_seal(void *at, uint64_t bytes) {
    mmap(at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

/* Maps a range that this process holds, as a segment with one free block. Lets go of the range if that fails. */
static int add(struct heap *heap, uint64_t offset, uint64_t bytes, bool small, struct segment **out) {
    struct device *device = heap->device;
    struct segment *segment = calloc(1, sizeof *segment);
    struct block *first = calloc(1, sizeof *first);
    if (!segment || !first || offset + bytes > device->span
        || !segment_map(device->memory_fd, device->base + offset, offset, bytes, PROT_READ | PROT_WRITE)) {
        sim_memory_free(sim.link, device->node_index, offset);
        free(segment);
        free(first);
        return -ENOMEM;
    }
    *first = (struct block){.segment = segment, .offset = offset, .bytes = bytes};
    *segment = (struct segment){.heap = heap, .next = heap->segments, .first = first, .offset = offset, .bytes = bytes, .small = small,
                                .protection = PROT_READ | PROT_WRITE};
    if (segment->next)
        segment->next->prev = segment;
    heap->segments = segment;
    for (uint64_t unit = offset / HEAP_UNIT; unit < (offset + bytes) / HEAP_UNIT; unit++)
        device->units[unit] = segment;
    heap->reserved += bytes;
    if (heap->reserved > heap->reserved_high)
        heap->reserved_high = heap->reserved;
    view_changed();
    *out = segment;
    return 0;
}

int segment_new(struct heap *heap, uint64_t bytes, bool small, struct block **block) {
    struct segment *segment;
    uint64_t offset = 0;
    int result = sim_memory_alloc(sim.link, heap->device->node_index, bytes, HEAP_UNIT, &offset);
    if (!result)
        result = add(heap, offset, bytes, small, &segment);
    if (!result)
        *block = segment->first;
    return result;
}

int segment_open(struct heap *heap, uint64_t offset, uint64_t range_id, struct segment **out) {
    uint64_t bytes;
    int result = sim_memory_open(sim.link, heap->device->node_index, offset, range_id, &bytes);
    return result ? result : add(heap, offset, bytes, false, out);
}

void segment_drop(struct segment *segment) {
    struct heap *heap = segment->heap;
    struct device *device = heap->device;
    for (uint64_t unit = segment->offset / HEAP_UNIT; unit < (segment->offset + segment->bytes) / HEAP_UNIT; unit++)
        device->units[unit] = NULL;
    segment_seal(device->base + segment->offset, segment->bytes);
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
