/* managed.c: managed memory. It lies in the memory of the device it was allocated for and is the host's at the same time, so it does
 * not migrate; what programs advise is kept and answered, and prefetching takes the time of a copy. */
#include <stdlib.h>
#include <string.h>

#include "capture.h"
#include "heap.h"
#include "managed.h"

#define PAGE 4096ull

struct managed { uint64_t bytes; struct piece *first; };

struct managed *managed_new(uint64_t bytes) {
    struct managed *managed = calloc(1, sizeof *managed);
    struct piece *whole = calloc(1, sizeof *whole);
    if (!managed || !whole) {
        free(managed);
        free(whole);
        return NULL;
    }
    whole->end = managed->bytes = (bytes + PAGE - 1) / PAGE * PAGE;
    managed->first = whole;
    return managed;
}

void managed_free(struct managed *managed) {
    for (struct piece *p = managed ? managed->first : NULL, *next; p; p = next) {
        next = p->next;
        free(p);
    }
    free(managed);
}

struct piece *managed_pieces(struct managed *managed) { return managed->first; }

/* Lets a piece begin at `at`. False: no host memory. */
static bool cut_at(struct managed *managed, uint64_t at) {
    struct piece *p = managed->first;
    while (p && at >= p->end)
        p = p->next;
    if (!p || p->start == at)
        return true;
    struct piece *rest = malloc(sizeof *rest);
    if (!rest)
        return false;
    *rest = *p;
    rest->start = p->end = at;
    p->next = rest;
    return true;
}

struct piece *managed_cut(struct managed *managed, uint64_t start, uint64_t end) {
    end = (end + PAGE - 1) / PAGE * PAGE;
    if (!cut_at(managed, start / PAGE * PAGE) || !cut_at(managed, end))
        return NULL;
    struct piece *p = managed->first;
    while (p->end <= start)
        p = p->next;
    return p;
}

static void attach(struct block *block, void *data) { block->managed = data; }

ENTRY(cuMemAllocManaged, CUdeviceptr *out, size_t bytes, unsigned flags) {
    struct ctx *ctx;
    CUresult result = capture_allows(&ctx);
    if (result)
        return result;
    if (!out || !bytes || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
        return CUDA_ERROR_INVALID_VALUE;
    struct managed *managed = managed_new(bytes);
    char *address;
    result = managed ? heap_alloc(ctx->device->managed, ctx, bytes, NULL, &address) : CUDA_ERROR_OUT_OF_MEMORY;
    if (result) {
        managed_free(managed);
        return result;
    }
    heap_change(address, attach, managed);
    *out = (CUdeviceptr)(uintptr_t)address;
    return CUDA_SUCCESS;
}

/* One change to the pieces of a range, under the heap's lock. */
struct change {
    uint64_t start, bytes;
    int advice;                         /* 0: prefetch */
    CUmemLocation location;
    uint64_t moved;                     /* prefetch: bytes that were not there */
    CUresult result;
};

static uint32_t bit_of(CUmemLocation location) { return location.type == LOCATION_DEVICE ? 1u << location.id : PIECE_HOST; }

static void apply(struct piece *p, struct change *c) {
    const CUmemLocation none = {LOCATION_NONE, 0};
    switch (c->advice) {
    case 0:
        if (p->prefetched.type != c->location.type || p->prefetched.id != c->location.id)
            c->moved += p->end - p->start;
        p->prefetched = c->location;
        break;
    case CU_MEM_ADVISE_SET_READ_MOSTLY: p->read_mostly = true; break;
    case CU_MEM_ADVISE_UNSET_READ_MOSTLY: p->read_mostly = false; break;
    case CU_MEM_ADVISE_SET_PREFERRED_LOCATION: p->preferred = c->location; break;
    case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION: p->preferred = none; break;
    case CU_MEM_ADVISE_SET_ACCESSED_BY: p->accessed_by |= bit_of(c->location); break;
    default: p->accessed_by &= ~bit_of(c->location);
    }
}

static void change(struct block *block, void *data) {
    struct change *c = data;
    uint64_t start = c->start - (uint64_t)(uintptr_t)(block->segment->heap->device->base + block->offset);
    if (!block->managed || !c->bytes || c->bytes > block->asked - start)
        return;
    uint64_t end = start + c->bytes;
    struct piece *p = managed_cut(block->managed, start, end);
    c->result = p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    for (; p && p->start < end; p = p->next)
        apply(p, c);
}

static CUresult change_range(struct change *c) {
    c->result = CUDA_ERROR_INVALID_VALUE;
    heap_change((void *)(uintptr_t)c->start, change, c);
    return c->result;
}

/* A location as the pieces keep it: a device of the process, or the host. */
static CUresult place_of(CUmemLocation *location) {
    struct device *device;
    switch (location->type) {
    case LOCATION_DEVICE: return sim_device_of(location->id, &device);
    case LOCATION_HOST_NUMA:
        if (location->id)
            return CUDA_ERROR_INVALID_DEVICE;           /* there is one node of host memory */
        break;
    case LOCATION_HOST: case LOCATION_HOST_NUMA_CURRENT: break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    *location = (CUmemLocation){LOCATION_HOST, 0};
    return CUDA_SUCCESS;
}

/* A location as the first forms of these calls give it. */
static CUmemLocation of_ordinal(CUdevice device) {
    return device == CU_DEVICE_CPU ? (CUmemLocation){LOCATION_HOST, 0} : (CUmemLocation){LOCATION_DEVICE, device};
}

static CUresult advise(CUdeviceptr address, size_t bytes, int advice, CUmemLocation location) {
    CUresult result = sim_ready();
    if (result)
        return result;
    if (advice < CU_MEM_ADVISE_SET_READ_MOSTLY || advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY)
        return CUDA_ERROR_INVALID_VALUE;
    if (advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION || advice >= CU_MEM_ADVISE_SET_ACCESSED_BY)
        result = place_of(&location);
    struct change c = {.start = address, .bytes = bytes, .advice = advice, .location = location};
    return result ? result : change_range(&c);
}

ENTRY(cuMemAdvise, CUdeviceptr address, size_t bytes, int advice, CUdevice device) {
    return advise(address, bytes, advice, of_ordinal(device));
}
ENTRY(cuMemAdvise_v2, CUdeviceptr address, size_t bytes, int advice, CUmemLocation location) {
    return advise(address, bytes, advice, location);
}

static CUresult prefetch(CUdeviceptr address, size_t bytes, CUmemLocation location, unsigned flags, CUstream handle) {
    struct stream *stream;
    CUresult result = stream_of(handle, &stream);
    if (!result)
        result = capture_blocks(stream);
    if (!result)
        result = flags ? CUDA_ERROR_INVALID_VALUE : place_of(&location);
    struct change c = {.start = address, .bytes = bytes, .location = location};
    if (!result)
        result = change_range(&c);
    if (result || !c.moved)
        return result;
    struct work *work = work_new(WORK_SET);             /* of no rows: it takes its time and changes nothing */
    if (!work)
        return CUDA_ERROR_OUT_OF_MEMORY;
    work->command.kind = location.type == LOCATION_DEVICE ? SIM_COPY_H2D : SIM_COPY_D2H;
    work->command.bytes = c.moved;
    return work_submit(stream, work, NULL);
}
PTSZ(cuMemPrefetchAsync, (CUdeviceptr address, size_t bytes, CUdevice device, CUstream stream),
     prefetch(address, bytes, of_ordinal(device), 0, S(stream)))
PTSZ(cuMemPrefetchAsync_v2, (CUdeviceptr address, size_t bytes, CUmemLocation location, unsigned flags, CUstream stream),
     prefetch(address, bytes, location, flags, S(stream)))

static CUresult attach_stream(CUstream handle, CUdeviceptr address, size_t bytes, unsigned flags) {
    struct stream *stream;
    struct range range;
    CUresult result = stream_of(handle, &stream);
    if (result)
        return result;
    /* The whole of a managed allocation. It is visible to all streams at any time here, whatever it is attached to. */
    bool whole = heap_find((void *)(uintptr_t)address, &range) && range.managed && (uintptr_t)range.start == address
                 && (!bytes || bytes == range.bytes);
    return whole && (flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST || flags == CU_MEM_ATTACH_SINGLE)
               ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
PTSZ(cuStreamAttachMemAsync, (CUstream stream, CUdeviceptr address, size_t bytes, unsigned flags),
     attach_stream(S(stream), address, bytes, flags))
