/* array_copy.c: linear copies to and from arrays, by an offset in bytes. */
#include "array.h"
#include "copy.h"

#define P(address) ((void *)(uintptr_t)(address))
#define DEFAULT S((CUstream)NULL)

/* `bytes` of an array from `offset` on. */
static CUresult part(CUarray handle, size_t offset, size_t bytes, char **out) {
    struct array *array;
    CUresult result = array_of(handle, &array);
    if (result)
        return result;
    size_t all = array_bytes(array);
    if (offset > all || bytes > all - offset)
        return CUDA_ERROR_INVALID_VALUE;
    *out = array->storage + offset;
    return CUDA_SUCCESS;
}

static CUresult to_array(CUarray dst, size_t offset, const void *src, enum side side, size_t bytes, CUstream stream, bool sync) {
    char *at;
    CUresult result = part(dst, offset, bytes, &at);
    return result ? result : copy_linear(at, SIDE_ARRAY, src, side, bytes, stream, sync);
}

static CUresult from_array(void *dst, enum side side, CUarray src, size_t offset, size_t bytes, CUstream stream, bool sync) {
    char *at;
    CUresult result = part(src, offset, bytes, &at);
    return result ? result : copy_linear(dst, side, at, SIDE_ARRAY, bytes, stream, sync);
}

static CUresult between(CUarray dst, size_t dst_offset, CUarray src, size_t src_offset, size_t bytes, CUstream stream) {
    char *to, *from;
    CUresult result = part(dst, dst_offset, bytes, &to);
    if (!result)
        result = part(src, src_offset, bytes, &from);
    return result ? result : copy_linear(to, SIDE_ARRAY, from, SIDE_ARRAY, bytes, stream, true);
}

PTDS(cuMemcpyHtoA_v2, (CUarray dst, size_t offset, const void *src, size_t bytes), to_array(dst, offset, src, SIDE_HOST, bytes, DEFAULT, true))
PTDS(cuMemcpyAtoH_v2, (void *dst, CUarray src, size_t offset, size_t bytes), from_array(dst, SIDE_HOST, src, offset, bytes, DEFAULT, true))
PTDS(cuMemcpyDtoA_v2, (CUarray dst, size_t offset, CUdeviceptr src, size_t bytes),
     to_array(dst, offset, P(src), SIDE_DEVICE, bytes, DEFAULT, true))
PTDS(cuMemcpyAtoD_v2, (CUdeviceptr dst, CUarray src, size_t offset, size_t bytes),
     from_array(P(dst), SIDE_DEVICE, src, offset, bytes, DEFAULT, true))
PTDS(cuMemcpyAtoA_v2, (CUarray dst, size_t dst_offset, CUarray src, size_t src_offset, size_t bytes),
     between(dst, dst_offset, src, src_offset, bytes, DEFAULT))
PTSZ(cuMemcpyHtoAAsync_v2, (CUarray dst, size_t offset, const void *src, size_t bytes, CUstream stream),
     to_array(dst, offset, src, SIDE_HOST, bytes, S(stream), false))
PTSZ(cuMemcpyAtoHAsync_v2, (void *dst, CUarray src, size_t offset, size_t bytes, CUstream stream),
     from_array(dst, SIDE_HOST, src, offset, bytes, S(stream), false))
