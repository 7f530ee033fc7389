/* copy.c: linear copies. What kind a copy is follows from its addresses. As with the real driver: into pageable host memory a copy
 * returns when it is done; from it, when the source has been read; between devices' memory at once, unless the memory or the context
 * says that synchronous copies always wait. A copy between two devices goes over the bus. */
#include "capture.h"
#include "copy.h"
#include "where.h"

/* One end of a copy: is it pageable or page-locked host memory, or whose device memory? */
struct end { bool on_device, locked; struct device *device; };

static bool page_locked(const void *address) {
    void *start;
    size_t bytes;
    unsigned flags;
    return host_find(address, &start, &bytes, &flags);
}

/* Is the side what the caller says, and all of it within one allocation if it is on a device? */
static CUresult resolve(const char *at, enum side side, uint64_t bytes, const struct ctx *ctx, bool write, struct end *end) {
    *end = (struct end){0};
    if (!at)
        return CUDA_ERROR_INVALID_VALUE;
    bool known = where_device(at, &end->device);
    end->on_device = end->device != NULL;
    end->locked = known || page_locked(at);
    /* Page-locked memory has a device address too, the same. */
    if (side == SIDE_DEVICE && !end->locked)
        return CUDA_ERROR_INVALID_VALUE;
    return side != SIDE_ARRAY && known && !where_covers(at, bytes, ctx, write) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static uint64_t extent(const struct copy_plan *p, size_t pitch, size_t plane) {
    return (uint64_t)(p->depth - 1) * plane + (uint64_t)(p->height - 1) * pitch + p->width;
}

static uint32_t kind_of(const struct end *dst, const struct end *src) {
    if (dst->on_device && src->on_device)
        return dst->device == src->device ? SIM_COPY_D2D : SIM_COPY_D2H;
    return dst->on_device ? SIM_COPY_H2D : SIM_COPY_D2H;
}

CUresult copy_make(const struct copy_plan *p, struct ctx *ctx, bool sync, struct work **out, bool *wait) {
    struct end dst, src;
    *out = NULL;
    *wait = false;
    if (!p->width || !p->height || !p->depth)
        return CUDA_SUCCESS;
    if ((p->height > 1 || p->depth > 1) && (p->dst_pitch < p->width || p->src_pitch < p->width))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = resolve(p->dst, p->dst_side, extent(p, p->dst_pitch, p->dst_plane), ctx, true, &dst);
    if (!result)
        result = resolve(p->src, p->src_side, extent(p, p->src_pitch, p->src_plane), ctx, false, &src);
    if (result)
        return result;
    struct work *work = work_new(WORK_COPY);
    if (!work)
        return CUDA_ERROR_OUT_OF_MEMORY;
    bool always = sync && (ctx->flags & CU_CTX_SYNC_MEMOPS || where_sync(p->dst) || where_sync(p->src));
    *wait = !dst.locked || always || (sync && !(dst.on_device && src.on_device));
    work->copy = (struct copy_work){p->dst, p->src, p->width, p->height, p->depth, p->dst_pitch, p->src_pitch, p->dst_plane, p->src_plane,
                                    !src.locked && !*wait, NULL};
    work->command.kind = kind_of(&dst, &src);
    work->command.bytes = (uint64_t)p->width * p->height * p->depth;
    *out = work;
    return CUDA_SUCCESS;
}

CUresult copy_run(const struct copy_plan *p, CUstream handle, bool sync) {
    struct stream *stream;
    struct work *work;
    bool wait, captured;
    CUresult result = stream_of(handle, &stream);
    if (!result && sync)
        result = capture_unsafe();
    if (!result)
        result = copy_make(p, stream->ctx, sync, &work, &wait);
    if (result || !work)
        return result;
    result = work_submit(stream, work, &captured);
    return result || !wait || captured ? result : stream_synchronise(stream);
}

CUresult copy_linear(void *dst, enum side dst_side, const void *src, enum side src_side, size_t bytes, CUstream stream, bool sync) {
    struct copy_plan plan = {dst, src, dst_side, src_side, bytes, 1, 1, bytes, bytes, bytes, bytes};
    return copy_run(&plan, stream, sync);
}

#define P(address) ((void *)(uintptr_t)(address))
#define DEFAULT S((CUstream)NULL)

PTDS(cuMemcpyHtoD_v2, (CUdeviceptr dst, const void *src, size_t bytes), copy_linear(P(dst), SIDE_DEVICE, src, SIDE_HOST, bytes, DEFAULT, true))
PTDS(cuMemcpyDtoH_v2, (void *dst, CUdeviceptr src, size_t bytes), copy_linear(dst, SIDE_HOST, P(src), SIDE_DEVICE, bytes, DEFAULT, true))
PTDS(cuMemcpyDtoD_v2, (CUdeviceptr dst, CUdeviceptr src, size_t bytes),
     copy_linear(P(dst), SIDE_DEVICE, P(src), SIDE_DEVICE, bytes, DEFAULT, true))
PTDS(cuMemcpy, (CUdeviceptr dst, CUdeviceptr src, size_t bytes), copy_linear(P(dst), SIDE_ANY, P(src), SIDE_ANY, bytes, DEFAULT, true))
PTSZ(cuMemcpyHtoDAsync_v2, (CUdeviceptr dst, const void *src, size_t bytes, CUstream stream),
     copy_linear(P(dst), SIDE_DEVICE, src, SIDE_HOST, bytes, S(stream), false))
PTSZ(cuMemcpyDtoHAsync_v2, (void *dst, CUdeviceptr src, size_t bytes, CUstream stream),
     copy_linear(dst, SIDE_HOST, P(src), SIDE_DEVICE, bytes, S(stream), false))
PTSZ(cuMemcpyDtoDAsync_v2, (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream),
     copy_linear(P(dst), SIDE_DEVICE, P(src), SIDE_DEVICE, bytes, S(stream), false))
PTSZ(cuMemcpyAsync, (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream),
     copy_linear(P(dst), SIDE_ANY, P(src), SIDE_ANY, bytes, S(stream), false))

static CUresult peer(CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src, CUcontext src_ctx, size_t bytes, CUstream stream, bool sync) {
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!handle_ok(H_CONTEXT, dst_ctx) || !handle_ok(H_CONTEXT, src_ctx))
        return CUDA_ERROR_INVALID_CONTEXT;
    return copy_linear(P(dst), SIDE_DEVICE, P(src), SIDE_DEVICE, bytes, stream, sync);
}
PTDS(cuMemcpyPeer, (CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src, CUcontext src_ctx, size_t bytes),
     peer(dst, dst_ctx, src, src_ctx, bytes, DEFAULT, true))
PTSZ(cuMemcpyPeerAsync, (CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src, CUcontext src_ctx, size_t bytes, CUstream stream),
     peer(dst, dst_ctx, src, src_ctx, bytes, S(stream), false))
