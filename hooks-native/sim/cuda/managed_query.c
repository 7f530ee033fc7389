/* managed_query.c: cuMemRangeGetAttribute(s): what holds for all of a range of managed memory. */
#include <string.h>

#include "heap.h"
#include "managed.h"

/* What all pieces of the range agree on. */
struct summary {
    uint64_t start, bytes;
    bool found, read_mostly, one_preferred, one_prefetched;
    CUmemLocation preferred, prefetched;
    uint32_t accessed_by;
};

static bool same(CUmemLocation a, CUmemLocation b) { return a.type == b.type && a.id == b.id; }

static void summarise(struct block *block, void *data) {
    struct summary *s = data;
    uint64_t start = s->start - (uint64_t)(uintptr_t)(block->segment->heap->device->base + block->offset);
    if (!block->managed || !s->bytes || s->bytes > block->asked - start)
        return;
    for (struct piece *p = managed_pieces(block->managed); p && p->start < start + s->bytes; p = p->next) {
        if (p->end <= start)
            continue;
        if (!s->found)
            *s = (struct summary){s->start, s->bytes, true, true, true, true, p->preferred, p->prefetched, ~0u};
        s->read_mostly = s->read_mostly && p->read_mostly;
        s->one_preferred = s->one_preferred && same(s->preferred, p->preferred);
        s->one_prefetched = s->one_prefetched && same(s->prefetched, p->prefetched);
        s->accessed_by &= p->accessed_by;
    }
}

static CUmemLocation agreed(CUmemLocation location, bool one) { return one ? location : (CUmemLocation){LOCATION_NONE, 0}; }

/* A location as one number. */
static int number_of(CUmemLocation location) {
    return location.type == LOCATION_DEVICE ? location.id : location.type == LOCATION_HOST ? CU_DEVICE_CPU : CU_DEVICE_INVALID;
}

static CUresult list_devices(int *out, size_t room, uint32_t accessed_by) {
    size_t count = 0;
    if (accessed_by & PIECE_HOST && count < room)
        out[count++] = CU_DEVICE_CPU;
    for (int i = 0; i < sim.device_count && count < room; i++)
        if (accessed_by & 1u << i)
            out[count++] = i;
    while (count < room)
        out[count++] = CU_DEVICE_INVALID;
    return CUDA_SUCCESS;
}

static CUresult answer(void *data, size_t size, int attribute, const struct summary *s) {
    if (!data || !size || size % 4 || (attribute != CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY && size != 4))
        return CUDA_ERROR_INVALID_VALUE;
    CUmemLocation preferred = agreed(s->preferred, s->one_preferred), prefetched = agreed(s->prefetched, s->one_prefetched);
    int value;
    switch (attribute) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY: value = s->read_mostly; break;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION: value = number_of(preferred); break;
    case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY: return list_devices(data, size / 4, s->accessed_by);
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION: value = number_of(prefetched); break;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE: value = preferred.type; break;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID: value = preferred.id; break;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE: value = prefetched.type; break;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID: value = prefetched.id; break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    memcpy(data, &value, sizeof value);
    return CUDA_SUCCESS;
}

static CUresult look_at(CUdeviceptr address, size_t bytes, struct summary *s) {
    CUresult result = sim_ready();
    *s = (struct summary){.start = address, .bytes = bytes};
    if (result)
        return result;
    heap_change((void *)(uintptr_t)address, summarise, s);
    return s->found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

ENTRY(cuMemRangeGetAttribute, void *data, size_t size, int attribute, CUdeviceptr address, size_t bytes) {
    struct summary s;
    CUresult result = look_at(address, bytes, &s);
    return result ? result : answer(data, size, attribute, &s);
}

ENTRY(cuMemRangeGetAttributes, void **data, size_t *sizes, int *attributes, size_t count, CUdeviceptr address, size_t bytes) {
    struct summary s;
    CUresult result = look_at(address, bytes, &s);
    if (!result && (!data || !sizes || !attributes || !count))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count && !result; i++)
        result = answer(data[i], sizes[i], attributes[i], &s);
    return result;
}
