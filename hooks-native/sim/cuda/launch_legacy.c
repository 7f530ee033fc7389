/* launch_legacy.c: launches in the manner of CUDA 3: block shape, parameters and shared memory are set on the function first. */
#include <stdlib.h>
#include <string.h>

#include "launch.h"

#define PARAM_ROOM 4096

static CUresult plain_function(CUfunction handle, struct function **out) {
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!handle_ok(H_FUNCTION, handle))
        return CUDA_ERROR_INVALID_HANDLE;
    *out = (struct function *)handle;
    return ctx_check((*out)->module->ctx);
}

ENTRY(cuFuncSetBlockShape, CUfunction handle, int x, int y, int z) {
    struct function *f;
    CUresult result = plain_function(handle, &f);
    if (result)
        return result;
    if (x < 1 || y < 1 || z < 1 || x > 1024 || y > 1024 || z > 64 || (int64_t)x * y * z > (int64_t)f->desc->max_threads)
        return CUDA_ERROR_INVALID_VALUE;
    f->block[0] = (unsigned)x;
    f->block[1] = (unsigned)y;
    f->block[2] = (unsigned)z;
    return CUDA_SUCCESS;
}

ENTRY(cuFuncSetSharedSize, CUfunction handle, unsigned bytes) {
    struct function *f;
    CUresult result = plain_function(handle, &f);
    if (result)
        return result;
    if (bytes > (unsigned)f->attributes[CU_FUNC_MAX_DYNAMIC_SHARED])
        return CUDA_ERROR_INVALID_VALUE;
    f->legacy_shared = bytes;
    return CUDA_SUCCESS;
}

ENTRY(cuParamSetSize, CUfunction handle, unsigned bytes) {
    struct function *f;
    CUresult result = plain_function(handle, &f);
    if (result)
        return result;
    if (bytes > PARAM_ROOM)
        return CUDA_ERROR_INVALID_VALUE;
    f->legacy_size = bytes;
    return CUDA_SUCCESS;
}

static CUresult set(CUfunction handle, int offset, const void *from, unsigned bytes) {
    struct function *f;
    CUresult result = plain_function(handle, &f);
    if (result)
        return result;
    if (offset < 0 || (unsigned)offset > PARAM_ROOM || bytes > PARAM_ROOM - (unsigned)offset || (bytes && !from))
        return CUDA_ERROR_INVALID_VALUE;
    if (!f->legacy_params)
        f->legacy_params = calloc(1, PARAM_ROOM);
    if (!f->legacy_params)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(f->legacy_params + offset, from, bytes);
    return CUDA_SUCCESS;
}

ENTRY(cuParamSeti, CUfunction f, int offset, unsigned value) { return set(f, offset, &value, sizeof value); }
ENTRY(cuParamSetf, CUfunction f, int offset, float value) { return set(f, offset, &value, sizeof value); }
ENTRY(cuParamSetv, CUfunction f, int offset, void *from, unsigned bytes) { return set(f, offset, from, bytes); }

static CUresult launch(CUfunction handle, int width, int height, CUstream stream) {
    struct function *f;
    CUresult result = plain_function(handle, &f);
    if (result)
        return result;
    if (width < 1 || height < 1 || !f->block[0])
        return CUDA_ERROR_INVALID_VALUE;
    if (f->legacy_size < f->desc->param_bytes || (f->desc->param_bytes && !f->legacy_params))
        return CUDA_ERROR_INVALID_VALUE;
    size_t size = f->legacy_size;
    void *extra[] = {(void *)CU_LAUNCH_PARAM_BUFFER_POINTER, f->legacy_params, (void *)CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
    struct launch_shape shape = {{(unsigned)width, (unsigned)height, 1}, {f->block[0], f->block[1], f->block[2]}, f->legacy_shared, false};
    return launch_into(handle, &shape, stream, NULL, extra);
}

ENTRY(cuLaunch, CUfunction f) { return launch(f, 1, 1, CU_STREAM_LEGACY); }
ENTRY(cuLaunchGrid, CUfunction f, int width, int height) { return launch(f, width, height, CU_STREAM_LEGACY); }
ENTRY(cuLaunchGridAsync, CUfunction f, int width, int height, CUstream stream) {
    return launch(f, width, height, stream ? stream : CU_STREAM_LEGACY);
}
