/* heap_import.c: allocations of other processes. The range of device memory that holds one is mapped at its own place in this
 * process's reservation, which nobody here can have taken: offsets are given out by the device process. */
#include <errno.h>

#include "heap.h"
#include "segment.h"

/* The segment of a foreign range, opened now if it was not. heap_lock held. */
static CUresult open_segment(struct heap *heap, uint64_t offset, uint64_t range_id, struct segment **out) {
    struct device *device = heap->device;
    if (offset % HEAP_UNIT || offset >= device->span)
        return CUDA_ERROR_INVALID_HANDLE;
    *out = device->units[offset / HEAP_UNIT];
    if (*out && (*out)->heap == heap && (*out)->offset == offset)
        return CUDA_SUCCESS;
    if (*out) {                         /* our own memory: it is what the handle names, or lies where that was */
        uint64_t id = 0, bytes;
        sim_memory_range(sim.link, device->node_index, offset, &id, &bytes);
        return id == range_id ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_INVALID_HANDLE;
    }
    int opened = segment_open(heap, offset, range_id, out);
    if (opened == -ENOENT)
        return CUDA_ERROR_INVALID_HANDLE;       /* it has been freed meanwhile */
    return opened == -ENOMEM ? CUDA_ERROR_MAP_FAILED : sim_result(opened);
}

/* Makes a block of exactly these bytes of a free one. heap_lock held. */
static struct block *carve(struct block *block, uint64_t offset, uint64_t bytes) {
    if (block->state != BLOCK_FREE || offset < block->offset || block->offset + block->bytes - offset < bytes)
        return NULL;
    if (offset > block->offset)
        block = heap_cut(block, offset - block->offset);
    if (block && block->bytes > bytes && !heap_cut(block, bytes))
        return NULL;
    return block;
}

/* The block at this place of an open segment: opened once more, or made. heap_lock held. */
static CUresult open_block(struct segment *segment, struct ctx *ctx, uint64_t offset, uint64_t bytes, uint64_t foreign) {
    struct device *device = segment->heap->device;
    uint64_t inside = offset - segment->offset;
    if (!bytes || inside >= segment->bytes || bytes > segment->bytes - inside)
        return CUDA_ERROR_INVALID_HANDLE;
    struct block *block = heap_block(device, device->base + offset);
    if (block->state == BLOCK_USED && block->offset == offset && block->foreign == foreign) {
        if (block->ctx != ctx)
            return CUDA_ERROR_INVALID_CONTEXT;          /* only one context of a process may have it open */
        block->opened++;
        return CUDA_SUCCESS;
    }
    block = carve(block, offset, (bytes + HEAP_ALIGN - 1) / HEAP_ALIGN * HEAP_ALIGN);
    if (!block)
        return CUDA_ERROR_INVALID_HANDLE;
    heap_take(block, bytes, ctx);
    block->foreign = foreign;
    block->opened = 1;
    return CUDA_SUCCESS;
}

CUresult heap_import(struct heap *heap, struct ctx *ctx, uint64_t offset, uint64_t range_id, uint64_t inside, uint64_t bytes,
                     uint64_t foreign, char **out) {
    struct device *device = heap->device;
    struct segment *segment;
    sim_lock(sim.link, &device->heap_lock);
    CUresult result = open_segment(heap, offset, range_id, &segment);
    if (!result) {
        result = open_block(segment, ctx, offset + inside, bytes, foreign);
        if (result && !segment->used)
            segment_drop(segment);
    }
    if (!result)
        *out = device->base + offset + inside;
    pthread_mutex_unlock(&device->heap_lock);
    return result;
}

CUresult heap_import_close(char *address) {
    struct device *device = heap_device(address);
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock(sim.link, &device->heap_lock);
    struct block *block = heap_block(device, address);
    bool ours = block && block->state == BLOCK_USED && block->segment->heap->kind == HEAP_IMPORTS && device->base + block->offset == address;
    if (ours && !--block->opened)
        heap_release(block);
    pthread_mutex_unlock(&device->heap_lock);
    return ours ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
