/* copy_shaped.c: two- and three-dimensional copies of linear memory and of arrays. */
#include <string.h>

#include "array.h"
#include "copy.h"

#define P(address) ((char *)(uintptr_t)(address))

/* One side of a shaped copy: where it begins, and how far rows and planes are apart. */
struct shaped { const char *at; enum side side; size_t pitch, plane; };

/* `x`, `y`, `z`: where in the side the copy begins; `height`: its rows in a plane, 0: as many as are copied. */
static CUresult side_of(int type, const void *host, CUdeviceptr device, CUarray handle, size_t pitch, size_t height, size_t x, size_t y,
                        size_t z, const CUDA_MEMCPY3D *c, struct shaped *out) {
    switch (type) {
    case CU_MEMORYTYPE_HOST: *out = (struct shaped){host, SIDE_HOST, 0, 0}; break;
    case CU_MEMORYTYPE_DEVICE: *out = (struct shaped){P(device), SIDE_DEVICE, 0, 0}; break;
    case CU_MEMORYTYPE_UNIFIED: *out = (struct shaped){P(device), SIDE_ANY, 0, 0}; break;
    case CU_MEMORYTYPE_ARRAY: {
        struct array *array;
        CUresult result = array_of(handle, &array);
        if (result)
            return result;
        if (x > array->row || c->WidthInBytes > array->row - x || y > array->rows || c->Height > array->rows - y || z > array->planes
            || c->Depth > array->planes - z)
            return CUDA_ERROR_INVALID_VALUE;
        *out = (struct shaped){array->storage + z * array->row * array->rows + y * array->row + x, SIDE_ARRAY, array->row,
                               array->row * array->rows};
        return CUDA_SUCCESS;
    }
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    if (!out->at || (pitch && (c->Height > 1 || c->Depth > 1) && (x > pitch || c->WidthInBytes > pitch - x)))
        return CUDA_ERROR_INVALID_VALUE;
    out->pitch = pitch ? pitch : x + c->WidthInBytes;
    out->plane = out->pitch * (height ? height : y + c->Height);
    out->at += z * out->plane + y * out->pitch + x;
    return CUDA_SUCCESS;
}

CUresult copy_plan3d(const CUDA_MEMCPY3D *c, struct copy_plan *out) {
    struct shaped src, dst;
    if (c->srcLOD || c->dstLOD)
        return CUDA_ERROR_INVALID_VALUE;        /* a level of a mipmapped array is an array of its own */
    CUresult result = side_of(c->srcMemoryType, c->srcHost, c->srcDevice, c->srcArray, c->srcPitch, c->srcHeight, c->srcXInBytes, c->srcY,
                              c->srcZ, c, &src);
    if (!result)
        result = side_of(c->dstMemoryType, c->dstHost, c->dstDevice, c->dstArray, c->dstPitch, c->dstHeight, c->dstXInBytes, c->dstY,
                         c->dstZ, c, &dst);
    if (!result)
        *out = (struct copy_plan){(char *)(uintptr_t)dst.at, src.at, dst.side, src.side, c->WidthInBytes, c->Height, c->Depth, dst.pitch,
                                  src.pitch, dst.plane, src.plane};
    return result;
}

static CUresult copy3d(const CUDA_MEMCPY3D *c, CUstream stream, bool sync) {
    struct copy_plan plan;
    CUresult result = copy_plan3d(c, &plan);
    return result ? result : copy_run(&plan, stream, sync);
}

static CUresult copy2d(const CUDA_MEMCPY2D *c, CUstream stream, bool sync) {
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!c)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_MEMCPY3D three = {.srcXInBytes = c->srcXInBytes, .srcY = c->srcY, .srcMemoryType = c->srcMemoryType, .srcHost = c->srcHost,
                           .srcDevice = c->srcDevice, .srcArray = c->srcArray, .srcPitch = c->srcPitch, .dstXInBytes = c->dstXInBytes, .dstY = c->dstY,
                           .dstMemoryType = c->dstMemoryType, .dstHost = c->dstHost, .dstDevice = c->dstDevice,
                           .dstArray = c->dstArray, .dstPitch = c->dstPitch,
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

/* A context that a side is said to be in; an array knows its own. */
static bool context_ok(CUcontext handle, int type) { return type == CU_MEMORYTYPE_ARRAY || handle_ok(H_CONTEXT, handle); }

static CUresult peer3d(const CUDA_MEMCPY3D_PEER *c, CUstream stream, bool sync) {
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!c)
        return CUDA_ERROR_INVALID_VALUE;
    if (!context_ok(c->srcContext, c->srcMemoryType) || !context_ok(c->dstContext, c->dstMemoryType))
        return CUDA_ERROR_INVALID_CONTEXT;
    CUDA_MEMCPY3D three;                /* but for the contexts they are the same */
    _Static_assert(sizeof three == sizeof *c, "the forms differ");
    memcpy(&three, c, sizeof three);
    return copy3d(&three, stream, sync);
}
PTDS(cuMemcpy3DPeer, (const CUDA_MEMCPY3D_PEER *copy), peer3d(copy, S((CUstream)NULL), true))
PTSZ(cuMemcpy3DPeerAsync, (const CUDA_MEMCPY3D_PEER *copy, CUstream stream), peer3d(copy, S(stream), false))
