/* where.c: addresses of all kinds: device heaps, mapped physical memory, reserved addresses, page-locked host memory. */
#include "peer.h"
#include "space.h"
#include "where.h"

static void of_heap(const struct range *r, struct where *out) {
    const struct heap *heap = r->heap;
    *out = (struct where){.kind = WHERE_HEAP, .device = r->device, .start = r->start, .bytes = r->bytes, .reserved = r->start,
                          .reserved_bytes = r->bytes, .backing = r->segment_start, .backing_bytes = r->segment_bytes, .id = r->id,
                          .backing_id = r->id, .ctx = r->ctx, .pool = heap->pool, .managed = r->managed != NULL,
                          .legacy_ipc = heap->kind == HEAP_PLAIN, .imported = r->opened != 0, .sync = r->sync,
                          .handle_types = heap->pool ? heap->pool->handle_types : 0};
    struct ctx *now = ctx_top();
    for (int i = 0; i < sim.device_count; i++) {
        bool own = &sim.device[i] == r->device || out->managed || (r->ctx && r->ctx->device == &sim.device[i]);
        bool peer = heap->kind == HEAP_PLAIN && now && now->device == &sim.device[i] && peer_enabled(now, r->device);
        out->access[i] = own || peer ? ACCESS_READWRITE : heap->kind == HEAP_POOL ? heap->access[i] : ACCESS_NONE;
    }
}

static void of_mapping(const struct area *area, const struct mapping *m, struct where *out) {
    *out = (struct where){.kind = WHERE_MAPPED, .device = m->physical->device, .start = m->start, .bytes = m->bytes,
                          .reserved = area->start, .reserved_bytes = area->bytes, .backing = m->start, .backing_bytes = m->bytes,
                          .id = m->id, .backing_id = m->physical->id, .sync = m->sync,
                          .handle_types = m->physical->prop.requestedHandleTypes};
    for (int i = 0; i < sim.device_count; i++)
        out->access[i] = m->access[i];
}

bool where_find(const void *address, struct where *out) {
    struct range range;
    void *start;
    size_t bytes;
    unsigned flags;
    if (heap_find(address, &range)) {
        of_heap(&range, out);
        return true;
    }
    sim_lock(sim.link, &space_lock);
    struct area *area = space_area(address);
    struct mapping *mapping = area ? space_mapping(area, address) : NULL;
    if (mapping)
        of_mapping(area, mapping, out);
    else if (area)
        *out = (struct where){.kind = WHERE_RESERVED, .start = area->start, .bytes = area->bytes, .reserved = area->start,
                              .reserved_bytes = area->bytes, .backing = area->start, .id = (uintptr_t)area->start};
    pthread_mutex_unlock(&space_lock);
    if (area)
        return true;
    if (!host_find(address, &start, &bytes, &flags))
        return false;
    *out = (struct where){.kind = WHERE_HOST, .start = start, .bytes = bytes, .reserved = start, .reserved_bytes = bytes, .backing = start,
                          .backing_bytes = bytes, .id = (uintptr_t)start, .backing_id = (uintptr_t)start, .ctx = ctx_top()};
    for (int i = 0; i < sim.device_count; i++)
        out->access[i] = ACCESS_READWRITE;
    return true;
}

bool where_device(const void *address, struct device **device) {
    struct device *found = heap_device(address);
    bool any = found != NULL;
    if (!any) {
        sim_lock(sim.link, &space_lock);
        struct area *area = space_area(address);
        struct mapping *mapping = area ? space_mapping(area, address) : NULL;
        any = area != NULL;
        found = mapping ? mapping->physical->device : NULL;
        pthread_mutex_unlock(&space_lock);
    }
    if (device)
        *device = found;
    return any;
}

/* The device itself may use the memory, or the one that runs the work. */
static bool allowed(const struct mapping *mapping, const struct ctx *ctx, bool write) {
    int access = mapping->access[ctx->device->ordinal];
    if (mapping->physical->device)
        access |= mapping->access[mapping->physical->device->ordinal];
    return write ? access == ACCESS_READWRITE : access & ACCESS_READ;
}

bool where_covers(const void *address, uint64_t bytes, const struct ctx *ctx, bool write) {
    if (heap_device(address))
        return heap_covers(address, bytes);
    bool covered = false;
    sim_lock(sim.link, &space_lock);
    struct area *area = space_area(address);
    const char *at = address, *end = at + bytes;
    if (area && bytes <= (uint64_t)(area->start + area->bytes - at)) {
        struct mapping *m = space_mapping(area, at), *last = area->mappings + area->count;
        while (m && m < last && m->start <= at && allowed(m, ctx, write)) {
            at = m->start + m->bytes;
            covered = at >= end;
            m = covered ? NULL : m + 1;
        }
    }
    pthread_mutex_unlock(&space_lock);
    return covered;
}

static void read_sync(struct block *block, void *data) { *(bool *)data = block->sync; }
static void write_sync(struct block *block, void *data) { block->sync = *(bool *)data; }

/* The mapping at an address; `set`: changes its attribute. */
static bool mapping_sync(const void *address, const bool *set, bool *get) {
    sim_lock(sim.link, &space_lock);
    struct area *area = space_area(address);
    struct mapping *mapping = area ? space_mapping(area, address) : NULL;
    if (mapping && set)
        mapping->sync = *set;
    if (mapping && get)
        *get = mapping->sync;
    pthread_mutex_unlock(&space_lock);
    return mapping != NULL;
}

bool where_sync(const void *address) {
    bool sync = false;
    return (heap_change(address, read_sync, &sync) || mapping_sync(address, NULL, &sync)) && sync;
}

bool where_set_sync(const void *address, bool sync) { return heap_change(address, write_sync, &sync) || mapping_sync(address, &sync, NULL); }
