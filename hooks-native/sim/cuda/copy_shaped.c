/* copy_shaped.c: two- and three-dimensional copies of linear memory. Arrays are not simulated. */
#include "copy.h"

#define P(address) ((char *)(uintptr_t)(address))

/* One side of a shaped copy: its address and what it must be. */
static CUresult side_of(int type, const void *host, CUdeviceptr device, const char **address, enum side *side) {
    switch (type) {
    case CU_MEMORYTYPE_HOST: *address = host; *side = SIDE_HOST; return CUDA_SUCCESS;
    case CU_MEMORYTYPE_DEVICE: *address = P(device); *side = SIDE_DEVICE; return CUDA_SUCCESS;
    case CU_MEMORYTYPE_UNIFIED: *address = P(device); *side = SIDE_ANY; return CUDA_SUCCESS;
    case CU_MEMORYTYPE_ARRAY:
        sim_say("copies of CUDA arrays are not simulated");
        return CUDA_ERROR_NOT_SUPPORTED;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult copy3d(const CUDA_MEMCPY3D *c, CUstream stream, bool sync) {
    const char *src, *dst;
    struct copy_plan plan = {.width = c->WidthInBytes, .height = c->Height, .depth = c->Depth,
                             .src_pitch = c->srcPitch ? c->srcPitch : c->srcXInBytes + c->WidthInBytes,
                             .dst_pitch = c->dstPitch ? c->dstPitch : c->dstXInBytes + c->WidthInBytes};
    CUresult result = side_of(c->srcMemoryType, c->srcHost, c->srcDevice, &src, &plan.src_side);
    if (!result)
        result = side_of(c->dstMemoryType, c->dstHost, c->dstDevice, &dst, &plan.dst_side);
    if (result)
        return result;
    if (!src || !dst)
        return CUDA_ERROR_INVALID_VALUE;
    plan.src_plane = plan.src_pitch * (c->srcHeight ? c->srcHeight : c->srcY + c->Height);
    plan.dst_plane = plan.dst_pitch * (c->dstHeight ? c->dstHeight : c->dstY + c->Height);
    plan.src = src + c->srcZ * plan.src_plane + c->srcY * plan.src_pitch + c->srcXInBytes;
    plan.dst = (char *)(uintptr_t)dst + c->dstZ * plan.dst_plane + c->dstY * plan.dst_pitch + c->dstXInBytes;
    return copy_run(&plan, stream, sync);
}

static CUresult copy2d(const CUDA_MEMCPY2D *c, CUstream stream, bool sync) {
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!c)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_MEMCPY3D three = {.srcXInBytes = c->srcXInBytes, .srcY = c->srcY, .srcMemoryType = c->srcMemoryType, .srcHost = c->srcHost,
                           .srcDevice = c->srcDevice, .srcPitch = c->srcPitch, .dstXInBytes = c->dstXInBytes, .dstY = c->dstY,
                           .dstMemoryType = c->dstMemoryType, .dstHost = c->dstHost, .dstDevice = c->dstDevice, .dstPitch = c->dstPitch,
                           .WidthInBytes = c->WidthInBytes, .Height = c->Height, .Depth = 1};
    return copy3d(&three, stream, sync);
}

static CUresult checked3d(const CUDA_MEMCPY3D *c, CUstream stream, bool sync) {
    CUresult result = sim_ready();
    if (result)
        return result;
    return c ? copy3d(c, stream, sync) : CUDA_ERROR_INVALID_VALUE;
}

PTDS(cuMemcpy2D_v2, (const CUDA_MEMCPY2D *copy), copy2d(copy, S((CUstream)NULL), true))
PTDS(cuMemcpy2DUnaligned_v2, (const CUDA_MEMCPY2D *copy), copy2d(copy, S((CUstream)NULL), true))
PTSZ(cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *copy, CUstream stream), copy2d(copy, S(stream), false))
PTDS(cuMemcpy3D_v2, (const CUDA_MEMCPY3D *copy), checked3d(copy, S((CUstream)NULL), true))
PTSZ(cuMemcpy3DAsync_v2, (const CUDA_MEMCPY3D *copy, CUstream stream), checked3d(copy, S(stream), false))
