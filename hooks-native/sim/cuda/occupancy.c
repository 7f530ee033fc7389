/* occupancy.c: how many blocks of a kernel fit on one multiprocessor, from the profile's limits. */
#include "sim.h"

#define REGISTERS 65536u

static unsigned least(unsigned a, unsigned b) { return a < b ? a : b; }

unsigned occupancy_blocks(const struct device *device, const struct gpud_kernel_desc *desc, unsigned threads, size_t dynamic_shared) {
    const struct sim_device_info *info = &device->info;
    if (!threads || threads > 1024 || threads > desc->max_threads)
        return 0;
    unsigned warps = (threads + 31) / 32, blocks = least(info->blocks_per_sm, info->threads_per_sm / (warps * 32));
    unsigned registers = desc->registers ? (desc->registers < 255 ? desc->registers : 255) : 1;
    blocks = least(blocks, REGISTERS / ((registers + 7) / 8 * 8 * warps * 32));
    uint64_t shared = desc->static_shared_bytes + (uint64_t)dynamic_shared;
    if (shared > info->shared_per_block_optin)
        return 0;
    if (shared)
        blocks = least(blocks, (unsigned)(info->shared_per_sm / ((shared + 127) / 128 * 128)));
    return blocks;
}

static CUresult usable(CUfunction handle, struct function **out) {
    CUresult result = sim_ready();
    if (!result)
        result = function_of(handle, out);
    return result ? result : ctx_check((*out)->module->ctx);
}

static CUresult active_blocks(int *count, CUfunction handle, int threads, size_t shared, unsigned flags) {
    struct function *f;
    CUresult result = usable(handle, &f);
    if (result)
        return result;
    if (!count || threads <= 0 || flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    *count = (int)occupancy_blocks(f->module->ctx->device, f->desc, (unsigned)threads, shared);
    return CUDA_SUCCESS;
}

ENTRY(cuOccupancyMaxActiveBlocksPerMultiprocessor, int *count, CUfunction f, int threads, size_t shared) {
    return active_blocks(count, f, threads, shared, 0);
}
ENTRY(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, int *count, CUfunction f, int threads, size_t shared, unsigned flags) {
    return active_blocks(count, f, threads, shared, flags);
}

/* The block size (a multiple of the warp) with the most resident threads, the larger of equals. */
static CUresult potential(int *grid, int *block, CUfunction handle, CUoccupancyB2DSize shared_of, size_t shared, int limit, unsigned flags) {
    struct function *f;
    CUresult result = usable(handle, &f);
    if (result)
        return result;
    if (!grid || !block || limit < 0 || flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    unsigned most = least(f->desc->max_threads, 1024), best_threads = 0, best_block = 0, best_count = 0;
    if (limit)
        most = least(most, (unsigned)limit);
    for (unsigned threads = (most + 31) / 32 * 32; threads; threads -= 32) {
        unsigned size = least(threads, most);
        unsigned count = occupancy_blocks(f->module->ctx->device, f->desc, size, shared_of ? shared_of((int)size) : shared);
        if (count * size <= best_threads)
            continue;
        best_threads = count * size;
        best_block = size;
        best_count = count;
    }
    if (!best_block)
        return CUDA_ERROR_INVALID_VALUE;
    *block = (int)best_block;
    *grid = (int)(best_count * f->module->ctx->device->info.sm_count);
    return CUDA_SUCCESS;
}

ENTRY(cuOccupancyMaxPotentialBlockSize, int *grid, int *block, CUfunction f, CUoccupancyB2DSize shared_of, size_t shared, int limit) {
    return potential(grid, block, f, shared_of, shared, limit, 0);
}
ENTRY(cuOccupancyMaxPotentialBlockSizeWithFlags, int *grid, int *block, CUfunction f, CUoccupancyB2DSize shared_of, size_t shared, int limit,
      unsigned flags) {
    return potential(grid, block, f, shared_of, shared, limit, flags);
}

ENTRY(cuOccupancyAvailableDynamicSMemPerBlock, size_t *bytes, CUfunction handle, int blocks, int threads) {
    struct function *f;
    CUresult result = usable(handle, &f);
    if (result)
        return result;
    if (!bytes || blocks <= 0 || threads <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    const struct device *device = f->module->ctx->device;
    size_t each = device->info.shared_per_sm / (unsigned)blocks / 128 * 128;
    if (each > device->info.shared_per_block_optin)
        each = device->info.shared_per_block_optin;
    if (occupancy_blocks(device, f->desc, (unsigned)threads, 0) < (unsigned)blocks || each < f->desc->static_shared_bytes)
        return CUDA_ERROR_INVALID_VALUE;
    *bytes = each - f->desc->static_shared_bytes;
    return CUDA_SUCCESS;
}
