/* set.c: the memset family. All forms return at once, as for device memory with the real driver, unless the memory or the context
 * says that synchronous ones always wait. */
#include "capture.h"
#include "where.h"
#include "work.h"

CUresult set_make(const struct set_work *set, struct ctx *ctx, struct work **out, bool *locked) {
    CUdeviceptr dst = (CUdeviceptr)(uintptr_t)set->dst;
    size_t pitch = set->pitch, width = set->width, height = set->height;
    unsigned size = set->size;
    char *at = (char *)(uintptr_t)dst;
    void *start;
    size_t room;
    unsigned flags;
    if (width > SIZE_MAX / size / height || (height > 1 && pitch < width * size) || dst % size)
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t bytes = (uint64_t)pitch * (height - 1) + width * size;
    *locked = host_find(at, &start, &room, &flags) && bytes <= room - (size_t)(at - (char *)start);
    if (!*locked && !where_covers(at, bytes, ctx, true))
        return CUDA_ERROR_INVALID_VALUE;
    struct work *work = work_new(WORK_SET);
    if (!work)
        return CUDA_ERROR_OUT_OF_MEMORY;
    work->set = *set;
    work->command.kind = SIM_MEMSET;
    work->command.bytes = (uint64_t)width * size * height;
    *out = work;
    return CUDA_SUCCESS;
}

static CUresult set(CUdeviceptr dst, size_t pitch, unsigned size, uint32_t value, size_t width, size_t height, CUstream handle, bool sync) {
    struct stream *stream;
    struct work *work;
    bool locked, captured;
    CUresult result = stream_of(handle, &stream);
    if (!result && sync)
        result = capture_unsafe();
    if (result || !width || !height)
        return result;
    char *at = (char *)(uintptr_t)dst;
    result = set_make(&(struct set_work){at, pitch, width, height, size, value}, stream->ctx, &work, &locked);
    if (result)
        return result;
    result = work_submit(stream, work, &captured);
    bool wait = sync && (locked || stream->ctx->flags & CU_CTX_SYNC_MEMOPS || where_sync(at));
    return result || !wait || captured ? result : stream_synchronise(stream);
}

#define DEFAULT S((CUstream)NULL)
PTDS(cuMemsetD8_v2, (CUdeviceptr dst, unsigned char value, size_t count), set(dst, 0, 1, value, count, 1, DEFAULT, true))
PTDS(cuMemsetD16_v2, (CUdeviceptr dst, unsigned short value, size_t count), set(dst, 0, 2, value, count, 1, DEFAULT, true))
PTDS(cuMemsetD32_v2, (CUdeviceptr dst, unsigned value, size_t count), set(dst, 0, 4, value, count, 1, DEFAULT, true))
PTDS(cuMemsetD2D8_v2, (CUdeviceptr dst, size_t pitch, unsigned char value, size_t width, size_t height),
     set(dst, pitch, 1, value, width, height, DEFAULT, true))
PTDS(cuMemsetD2D16_v2, (CUdeviceptr dst, size_t pitch, unsigned short value, size_t width, size_t height),
     set(dst, pitch, 2, value, width, height, DEFAULT, true))
PTDS(cuMemsetD2D32_v2, (CUdeviceptr dst, size_t pitch, unsigned value, size_t width, size_t height),
     set(dst, pitch, 4, value, width, height, DEFAULT, true))
PTSZ(cuMemsetD8Async, (CUdeviceptr dst, unsigned char value, size_t count, CUstream stream), set(dst, 0, 1, value, count, 1, S(stream), false))
PTSZ(cuMemsetD16Async, (CUdeviceptr dst, unsigned short value, size_t count, CUstream stream),
     set(dst, 0, 2, value, count, 1, S(stream), false))
PTSZ(cuMemsetD32Async, (CUdeviceptr dst, unsigned value, size_t count, CUstream stream), set(dst, 0, 4, value, count, 1, S(stream), false))
PTSZ(cuMemsetD2D8Async, (CUdeviceptr dst, size_t pitch, unsigned char value, size_t width, size_t height, CUstream stream),
     set(dst, pitch, 1, value, width, height, S(stream), false))
PTSZ(cuMemsetD2D16Async, (CUdeviceptr dst, size_t pitch, unsigned short value, size_t width, size_t height, CUstream stream),
     set(dst, pitch, 2, value, width, height, S(stream), false))
PTSZ(cuMemsetD2D32Async, (CUdeviceptr dst, size_t pitch, unsigned value, size_t width, size_t height, CUstream stream),
     set(dst, pitch, 4, value, width, height, S(stream), false))
