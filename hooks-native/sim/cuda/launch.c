/* launch.c: cuLaunchKernel and its relatives. The launching thread checks, copies the parameters, and tells the device process;
 * the rest is the compute thread's. */
#include <string.h>

#include "image.h"
#include "launch.h"
#include "missing.h"

/* The limits of grid, block and shared memory, in the order and with the codes that the documentation gives. */
static CUresult check_shape(const struct function *f, const struct launch_shape *s) {
    static const unsigned grid_limit[3] = {0x7fffffff, 65535, 65535}, block_limit[3] = {1024, 1024, 64};
    uint64_t threads = 1;
    for (int i = 0; i < 3; i++) {
        if (!s->grid[i] || !s->block[i] || s->grid[i] > grid_limit[i] || s->block[i] > block_limit[i])
            return CUDA_ERROR_INVALID_VALUE;
        threads *= s->block[i];
    }
    const struct device *device = f->module->ctx->device;
    if (threads > 1024 || threads > f->desc->max_threads)
        return CUDA_ERROR_INVALID_VALUE;
    if (s->shared > (unsigned)f->attributes[CU_FUNC_MAX_DYNAMIC_SHARED])
        return CUDA_ERROR_INVALID_VALUE;
    unsigned resident = occupancy_blocks(device, f->desc, (unsigned)threads, s->shared);
    if (!resident)
        return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    uint64_t blocks = (uint64_t)s->grid[0] * s->grid[1] * s->grid[2];
    if (s->cooperative && blocks > (uint64_t)resident * device->info.sm_count)
        return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
    return CUDA_SUCCESS;
}

/* Copies parameters given as one buffer. */
static CUresult copy_extra(void **extra, void *to, size_t bytes) {
    const void *buffer = NULL;
    const size_t *size = NULL;
    for (; *extra; extra += 2) {
        uintptr_t key = (uintptr_t)*extra;
        if (key == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[1];
        else if (key == CU_LAUNCH_PARAM_BUFFER_SIZE)
            size = extra[1];
        else
            return CUDA_ERROR_INVALID_VALUE;
    }
    if (!bytes)
        return CUDA_SUCCESS;
    if (!buffer || !size || *size < bytes)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(to, buffer, bytes);
    return CUDA_SUCCESS;
}

static CUresult copy_params(const struct gpud_kernel_desc *desc, void **params, void **extra, void *to) {
    if (params && extra)
        return CUDA_ERROR_INVALID_VALUE;
    if (extra)
        return copy_extra(extra, to, desc->param_bytes);
    if (desc->param_count && !params)
        return CUDA_ERROR_INVALID_VALUE;
    for (uint32_t i = 0; i < desc->param_count; i++) {
        if (!params[i])
            return CUDA_ERROR_INVALID_VALUE;
        memcpy((char *)to + desc->params[i].offset, params[i], desc->params[i].bytes);
    }
    return CUDA_SUCCESS;
}

CUresult launch_work(const struct function *f, const struct launch_shape *s, void **params, void **extra, struct work **out) {
    CUresult result = check_shape(f, s);
    if (result)
        return result;
    struct work *work = work_new(WORK_KERNEL);
    if (!work)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct kernel_work *k = &work->kernel;
    k->function = f;
    k->function_id = f->handle.id;
    k->cooperative = s->cooperative;
    k->desc = f->desc;
    k->image = image_hold(f->module->image);
    k->blocks = (uint64_t)s->grid[0] * s->grid[1] * s->grid[2];
    const struct sim_device_info *info = &f->module->ctx->device->info;
    k->launch = (struct gpud_launch){{s->grid[0], s->grid[1], s->grid[2]}, {s->block[0], s->block[1], s->block[2]}, s->shared, 32,
                                     info->sm_count, 0, f->module->globals};
    result = work_params(work, f->desc->param_bytes) ? copy_params(f->desc, params, extra, k->params) : CUDA_ERROR_OUT_OF_MEMORY;
    if (result) {
        work_free(work);
        return result;
    }
    work->ctx = f->module->ctx;
    work->command = (struct sim_command){.kind = SIM_KERNEL, .name_id = f->name_id, .blocks = k->blocks,
                                         .threads_per_block = s->block[0] * s->block[1] * s->block[2],
                                         .shared_bytes = s->shared + f->desc->static_shared_bytes};
    *out = work;
    return CUDA_SUCCESS;
}

CUresult launch_into(CUfunction handle, const struct launch_shape *shape, CUstream stream_handle, void **params, void **extra) {
    struct stream *stream;
    struct function *function;
    struct work *work;
    CUresult result = stream_of(stream_handle, &stream);
    if (!result)
        result = function_of(handle, &function);
    if (result)
        return result;
    if (function->module->ctx != stream->ctx)
        return CUDA_ERROR_INVALID_HANDLE;
    result = launch_work(function, shape, params, extra, &work);
    return result ? result : work_submit(stream, work, NULL);
}

static CUresult launch(CUfunction f, const struct launch_shape *shape, CUstream stream, void **params, void **extra) {
    return launch_into(f, shape, stream, params, extra);
}
#define SHAPE(cooperative) (&(struct launch_shape){{gx, gy, gz}, {bx, by, bz}, shared, cooperative})

PTSZ(cuLaunchKernel,
     (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, CUstream stream,
      void **params, void **extra),
     launch(f, SHAPE(false), S(stream), params, extra))

PTSZ(cuLaunchCooperativeKernel,
     (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, CUstream stream,
      void **params),
     launch(f, SHAPE(true), S(stream), params, NULL))

static CUresult launch_ex(const CUlaunchConfig *c, CUfunction f, CUstream stream, void **params, void **extra) {
    struct launch_shape shape = {{c->gridDimX, c->gridDimY, c->gridDimZ}, {c->blockDimX, c->blockDimY, c->blockDimZ}, c->sharedMemBytes, false};
    if (c->numAttrs && !c->attrs)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < c->numAttrs; i++) {
        const CUlaunchAttribute *a = &c->attrs[i];
        if (a->id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
            shape.cooperative = a->value.number != 0;
        if (a->id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION && (uint64_t)a->value.dim.x * a->value.dim.y * a->value.dim.z > 1)
            return MISSING(LAUNCH_CLUSTERS);
    }
    return launch(f, &shape, stream, params, extra);
}
PTSZ(cuLaunchKernelEx, (const CUlaunchConfig *config, CUfunction f, void **params, void **extra),
     config ? launch_ex(config, f, S(config->hStream), params, extra) : sim_ready() ? sim_ready() : CUDA_ERROR_INVALID_VALUE)

ENTRY(cuLaunchCooperativeKernelMultiDevice, CUDA_LAUNCH_PARAMS *list, unsigned count, unsigned flags) {
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!list || !count || flags & ~3u)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++) {
        struct stream *stream, *other;
        if (!list[i].hStream || list[i].hStream == CU_STREAM_LEGACY || list[i].hStream == CU_STREAM_PER_THREAD)
            return CUDA_ERROR_INVALID_HANDLE;
        result = stream_of(list[i].hStream, &stream);
        for (unsigned j = 0; j < i && !result; j++) {
            result = stream_of(list[j].hStream, &other);
            if (!result && other->ctx->device == stream->ctx->device)
                result = CUDA_ERROR_INVALID_DEVICE;
        }
        if (result)
            return result;
    }
    for (unsigned i = 0; i < count && !result; i++) {
        const CUDA_LAUNCH_PARAMS *p = &list[i];
        struct launch_shape shape = {{p->gridDimX, p->gridDimY, p->gridDimZ}, {p->blockDimX, p->blockDimY, p->blockDimZ}, p->sharedMemBytes, true};
        result = launch(p->function, &shape, p->hStream, p->kernelParams, NULL);
    }
    return result;
}
