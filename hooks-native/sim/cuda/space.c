/* space.c: reserved addresses, sorted, and what is mapped in each, sorted. A mapping shares pages with the device's memory (or a
 * file of its own) and is not inherited by fork(); a reservation has no access at all. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "segment.h"
#include "space.h"
#include "view.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

pthread_mutex_t space_lock = PTHREAD_MUTEX_INITIALIZER;
static struct area **areas;             /* by address */
static size_t area_count, area_room;

/* The first reservation that ends behind `address`. */
static size_t area_index(const char *address) {
    size_t low = 0, high = area_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (areas[middle]->start + areas[middle]->bytes <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct area *space_area(const void *address) {
    size_t at = area_index(address);
    return at < area_count && (const char *)address >= areas[at]->start ? areas[at] : NULL;
}

/* Addresses without access: at the hint if they are free there, else anywhere. */
static bool take_addresses(struct area *area, uint64_t align, char *hint) {
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void *at = MAP_FAILED;
    if (hint && (uintptr_t)hint % align == 0)
        at = mmap(hint, area->bytes, PROT_NONE, flags | MAP_FIXED_NOREPLACE, -1, 0);
    if (at != MAP_FAILED && at != hint) {
        munmap(at, area->bytes);        /* a kernel that takes the flag for a hint */
        at = MAP_FAILED;
    }
    area->raw_bytes = area->bytes;
    if (at == MAP_FAILED) {
        if (area->bytes > UINT64_MAX / 2 || align > UINT64_MAX / 4)
            return false;
        area->raw_bytes = area->bytes + align;
        at = mmap(NULL, area->raw_bytes, PROT_NONE, flags, -1, 0);
        if (at == MAP_FAILED)
            return false;
    }
    area->raw = at;
    area->start = (char *)(((uintptr_t)at + align - 1) / align * align);
    return true;
}

CUresult space_reserve(uint64_t bytes, uint64_t align, void *hint, char **out) {
    struct area *area = calloc(1, sizeof *area);
    if (!area)
        return CUDA_ERROR_OUT_OF_MEMORY;
    area->bytes = bytes;
    if (area_count == area_room) {
        size_t room = area_room ? area_room * 2 : 16;
        struct area **grown = realloc(areas, room * sizeof *grown);
        if (!grown) {
            free(area);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        areas = grown;
        area_room = room;
    }
    if (!take_addresses(area, align, hint)) {
        free(area);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    size_t at = area_index(area->start);
    memmove(areas + at + 1, areas + at, (area_count - at) * sizeof *areas);
    areas[at] = area;
    area_count++;
    *out = area->start;
    return CUDA_SUCCESS;
}

CUresult space_unreserve(const char *start, uint64_t bytes) {
    struct area *area = space_area(start);
    if (!area || area->start != start || area->bytes != bytes || area->count)
        return CUDA_ERROR_INVALID_VALUE;
    size_t at = area_index(start);
    memmove(areas + at, areas + at + 1, (area_count - at - 1) * sizeof *areas);
    area_count--;
    munmap(area->raw, area->raw_bytes);
    free(area->mappings);
    free(area);
    return CUDA_SUCCESS;
}

/* The first mapping of a reservation that ends behind `address`. */
static size_t mapping_index(const struct area *area, const char *address) {
    size_t low = 0, high = area->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (area->mappings[middle].start + area->mappings[middle].bytes <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct mapping *space_mapping(const struct area *area, const void *address) {
    size_t at = mapping_index(area, address);
    return at < area->count && (const char *)address >= area->mappings[at].start ? &area->mappings[at] : NULL;
}

struct mapping *space_run(const char *start, uint64_t bytes, size_t *count) {
    struct area *area = space_area(start);
    if (!area || bytes > (uint64_t)(area->start + area->bytes - start))
        return NULL;
    size_t first = mapping_index(area, start), at = first;
    const char *next = start;
    while (at < area->count && area->mappings[at].start == next && next < start + bytes)
        next += area->mappings[at++].bytes;
    *count = at - first;
    return next == start + bytes && at > first ? &area->mappings[first] : NULL;
}

CUresult space_map(struct area *area, char *start, uint64_t bytes, struct physical *physical) {
    size_t at = mapping_index(area, start);
    if (at < area->count && area->mappings[at].start < start + bytes)
        return CUDA_ERROR_INVALID_VALUE;        /* something is mapped there */
    if (area->count == area->room) {
        size_t room = area->room ? area->room * 2 : 8;
        struct mapping *grown = realloc(area->mappings, room * sizeof *grown);
        if (!grown)
            return CUDA_ERROR_OUT_OF_MEMORY;
        area->mappings = grown;
        area->room = room;
    }
    if (!segment_map(physical->fd, start, physical->offset, bytes, PROT_NONE))
        return CUDA_ERROR_OUT_OF_MEMORY;
    memmove(area->mappings + at + 1, area->mappings + at, (area->count - at) * sizeof *area->mappings);
    area->mappings[at] = (struct mapping){.start = start, .bytes = bytes, .physical = physical, .protection = PROT_NONE,
                                          .id = atomic_fetch_add(&sim.ids, 1) + 1};
    area->count++;
    physical->mappings++;
    return CUDA_SUCCESS;
}

void space_unmap(struct mapping *first, size_t count) {
    struct area *area = space_area(first->start);
    size_t at = (size_t)(first - area->mappings);
    segment_seal(first->start, (uint64_t)(first[count - 1].start + first[count - 1].bytes - first->start));
    for (size_t i = 0; i < count; i++) {
        first[i].physical->mappings--;
        physical_drop(first[i].physical);
    }
    memmove(area->mappings + at, area->mappings + at + count, (area->count - at - count) * sizeof *area->mappings);
    area->count -= count;
}

int space_protection(const struct mapping *mapping) {
    int access = mapping->host;
    for (int i = 0; i < sim.device_count; i++)
        access |= mapping->access[i];
    return (access & ACCESS_READ ? PROT_READ : 0) | (access == ACCESS_READWRITE ? PROT_WRITE : 0);
}

CUresult space_protect(struct mapping *mapping, int protection) {
    if (mapping->protection == protection)
        return CUDA_SUCCESS;
    if (mprotect(mapping->start, mapping->bytes, protection))
        return CUDA_ERROR_OUT_OF_MEMORY;        /* the kernel has no more areas for this process */
    mapping->protection = protection;
    return CUDA_SUCCESS;
}

void space_each(void (*visit)(struct mapping *mapping, void *data), void *data) {
    for (size_t i = 0; i < area_count; i++)
        for (size_t k = 0; k < areas[i]->count; k++)
            visit(&areas[i]->mappings[k], data);
}
