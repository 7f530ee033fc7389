/* function.c: functions (a kernel in a context) and their attributes. */
#include <string.h>

#include "image.h"
#include "sim.h"

/* What a kernel may have of dynamic shared memory unless the program asks for more. */
void function_defaults(const struct device *device, const struct gpud_kernel_desc *desc, int *attributes) {
    memset(attributes, 0, CU_FUNC_ATTRIBUTES * sizeof *attributes);
    uint32_t limit = device->info.shared_per_block;
    attributes[CU_FUNC_MAX_DYNAMIC_SHARED] = desc->static_shared_bytes < limit ? (int)(limit - desc->static_shared_bytes) : 0;
    attributes[CU_FUNC_CARVEOUT] = -1;
}

CUresult function_of(CUfunction handle, struct function **out) {
    if (handle_ok(H_FUNCTION, handle)) {
        *out = (struct function *)handle;
        return CUDA_SUCCESS;
    }
    if (!handle_ok(H_KERNEL, handle))
        return CUDA_ERROR_INVALID_HANDLE;
    struct kernel *kernel = (struct kernel *)handle;
    struct ctx *ctx;
    struct module *module;
    CUresult result = sim_current(&ctx);
    if (!result)
        result = library_module(kernel->library, ctx, &module);
    if (result)
        return result;
    *out = module->functions[kernel->index];
    return CUDA_SUCCESS;
}

/* The constant variables of a module; which kernel uses which is not known. */
static int const_bytes(const struct image *image) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < image->desc->global_count; i++)
        bytes += image->desc->globals[i].is_const ? image->desc->globals[i].bytes : 0;
    return (int)bytes;
}

CUresult function_attribute(const struct gpud_kernel_desc *desc, const struct image *image, const int *set, int attribute, int *value) {
    switch (attribute) {
    case CU_FUNC_MAX_THREADS: *value = (int)desc->max_threads; break;
    case CU_FUNC_SHARED_SIZE: *value = (int)desc->static_shared_bytes; break;
    case CU_FUNC_CONST_SIZE: *value = const_bytes(image); break;
    case CU_FUNC_LOCAL_SIZE: *value = (int)desc->local_bytes; break;
    case CU_FUNC_NUM_REGS: *value = (int)desc->registers; break;
    case CU_FUNC_PTX_VERSION: *value = (int)image->desc->ptx_version; break;
    case CU_FUNC_BINARY_VERSION: *value = (int)image->desc->target; break;
    default:
        if (attribute < 0 || attribute >= CU_FUNC_ATTRIBUTES)
            return CUDA_ERROR_INVALID_VALUE;
        *value = set[attribute];
    }
    return CUDA_SUCCESS;
}

CUresult function_set_attribute(const struct device *device, const struct gpud_kernel_desc *desc, int *set, int attribute, int value) {
    switch (attribute) {
    case CU_FUNC_MAX_DYNAMIC_SHARED:
        if (value < 0 || (uint64_t)value + desc->static_shared_bytes > device->info.shared_per_block_optin)
            return CUDA_ERROR_INVALID_VALUE;
        break;
    case CU_FUNC_CARVEOUT:
        if (value < -1 || value > 100)
            return CUDA_ERROR_INVALID_VALUE;
        break;
    case CU_FUNC_CLUSTER_WIDTH: case CU_FUNC_CLUSTER_HEIGHT: case CU_FUNC_CLUSTER_DEPTH: case CU_FUNC_NON_PORTABLE_CLUSTER:
    case CU_FUNC_CLUSTER_POLICY:
        break;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    set[attribute] = value;
    return CUDA_SUCCESS;
}

static CUresult usable(CUfunction handle, struct function **out) {
    CUresult result = sim_ready();
    if (!result)
        result = function_of(handle, out);
    return result ? result : ctx_check((*out)->module->ctx);
}

ENTRY(cuFuncGetAttribute, int *value, int attribute, CUfunction handle) {
    struct function *f;
    CUresult result = usable(handle, &f);
    if (result)
        return result;
    return value ? function_attribute(f->desc, f->module->image, f->attributes, attribute, value) : CUDA_ERROR_INVALID_VALUE;
}

ENTRY(cuFuncSetAttribute, CUfunction handle, int attribute, int value) {
    struct function *f;
    CUresult result = usable(handle, &f);
    return result ? result : function_set_attribute(f->module->ctx->device, f->desc, f->attributes, attribute, value);
}

ENTRY(cuFuncSetCacheConfig, CUfunction handle, int config) {
    struct function *f;
    CUresult result = usable(handle, &f);
    return result ? result : config < 0 || config > 3 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

ENTRY(cuFuncSetSharedMemConfig, CUfunction handle, int config) {
    struct function *f;
    CUresult result = usable(handle, &f);
    return result ? result : config < 0 || config > 2 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

ENTRY(cuFuncGetModule, CUmodule *module, CUfunction handle) {
    struct function *f;
    CUresult result = usable(handle, &f);
    if (result)
        return result;
    if (!module)
        return CUDA_ERROR_INVALID_VALUE;
    *module = (CUmodule)f->module;
    return CUDA_SUCCESS;
}

ENTRY(cuFuncGetName, const char **name, CUfunction handle) {
    struct function *f;
    CUresult result = usable(handle, &f);
    if (result)
        return result;
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    *name = f->desc->name;
    return CUDA_SUCCESS;
}

static CUresult param_info(const struct gpud_kernel_desc *desc, size_t index, size_t *offset, size_t *size) {
    if (!offset || index >= desc->param_count)
        return CUDA_ERROR_INVALID_VALUE;
    *offset = desc->params[index].offset;
    if (size)
        *size = desc->params[index].bytes;
    return CUDA_SUCCESS;
}

ENTRY(cuFuncGetParamInfo, CUfunction handle, size_t index, size_t *offset, size_t *size) {
    struct function *f;
    CUresult result = usable(handle, &f);
    return result ? result : param_info(f->desc, index, offset, size);
}

ENTRY(cuFuncIsLoaded, int *state, CUfunction handle) {
    struct function *f;
    CUresult result = usable(handle, &f);
    if (result)
        return result;
    if (!state)
        return CUDA_ERROR_INVALID_VALUE;
    *state = 1;                         /* CU_FUNCTION_LOADING_STATE_LOADED */
    return CUDA_SUCCESS;
}

ENTRY(cuFuncLoad, CUfunction handle) {
    struct function *f;
    return usable(handle, &f);
}

/* Kernels of libraries: the same, for a device instead of a context. */

static CUresult kernel_of(CUkernel handle, CUdevice ordinal, struct kernel **kernel, struct device **device, const struct gpud_kernel_desc **desc) {
    CUresult result = sim_ready();
    if (!result && device)
        result = sim_device_of(ordinal, device);
    if (result)
        return result;
    if (!handle_ok(H_KERNEL, handle))
        return CUDA_ERROR_INVALID_HANDLE;
    *kernel = (struct kernel *)handle;
    *desc = &(*kernel)->library->image->desc->kernels[(*kernel)->index];
    return CUDA_SUCCESS;
}

ENTRY(cuKernelGetAttribute, int *value, int attribute, CUkernel handle, CUdevice ordinal) {
    struct kernel *kernel;
    struct device *device;
    const struct gpud_kernel_desc *desc;
    CUresult result = kernel_of(handle, ordinal, &kernel, &device, &desc);
    if (result)
        return result;
    return value ? function_attribute(desc, kernel->library->image, kernel->attributes, attribute, value) : CUDA_ERROR_INVALID_VALUE;
}

ENTRY(cuKernelSetAttribute, int attribute, int value, CUkernel handle, CUdevice ordinal) {
    struct kernel *kernel;
    struct device *device;
    const struct gpud_kernel_desc *desc;
    CUresult result = kernel_of(handle, ordinal, &kernel, &device, &desc);
    if (!result)
        result = function_set_attribute(device, desc, kernel->attributes, attribute, value);
    if (!result)
        library_change(kernel, device, attribute);
    return result;
}

ENTRY(cuKernelSetCacheConfig, CUkernel handle, int config, CUdevice ordinal) {
    struct kernel *kernel;
    struct device *device;
    const struct gpud_kernel_desc *desc;
    CUresult result = kernel_of(handle, ordinal, &kernel, &device, &desc);
    return result ? result : config < 0 || config > 3 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

ENTRY(cuKernelGetName, const char **name, CUkernel handle) {
    struct kernel *kernel;
    const struct gpud_kernel_desc *desc;
    CUresult result = kernel_of(handle, 0, &kernel, NULL, &desc);
    if (result)
        return result;
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    *name = desc->name;
    return CUDA_SUCCESS;
}

ENTRY(cuKernelGetParamInfo, CUkernel handle, size_t index, size_t *offset, size_t *size) {
    struct kernel *kernel;
    const struct gpud_kernel_desc *desc;
    CUresult result = kernel_of(handle, 0, &kernel, NULL, &desc);
    return result ? result : param_info(desc, index, offset, size);
}

ENTRY(cuKernelGetLibrary, CUlibrary *library, CUkernel handle) {
    struct kernel *kernel;
    const struct gpud_kernel_desc *desc;
    CUresult result = kernel_of(handle, 0, &kernel, NULL, &desc);
    if (result)
        return result;
    if (!library)
        return CUDA_ERROR_INVALID_VALUE;
    *library = (CUlibrary)kernel->library;
    return CUDA_SUCCESS;
}
