/* module.c: modules: an image in a context, with its variables in device memory. */
#include <stdlib.h>
#include <string.h>

#include "capture.h"
#include "heap.h"
#include "image.h"
#include "segment.h"
#include "work.h"

static void unlink_module(struct module *module) {
    pthread_mutex_lock(&module->ctx->lock);
    *module->link = module->next;
    if (module->next)
        module->next->link = module->link;
    pthread_mutex_unlock(&module->ctx->lock);
}

/* Frees all but the place in the context's list. */
static void release(struct module *module) {
    for (uint32_t i = 0; module->functions && i < module->image->desc->kernel_count; i++) {
        if (module->functions[i])
            free(module->functions[i]->legacy_params);
        handle_free(module->functions[i]);
    }
    free(module->functions);
    free(module->globals);
    if (module->storage)
        heap_free(module->storage);
    image_drop(module->image);
    handle_free(module);
}

/* Puts the variables into one allocation of device memory and fills them. The memory is fresh, so no work uses it yet. */
static CUresult place_globals(struct module *module) {
    const struct gpud_module_desc *desc = module->image->desc;
    module->globals = calloc(desc->global_count + 1, sizeof *module->globals);
    if (!module->globals)
        return CUDA_ERROR_OUT_OF_MEMORY;
    uint64_t total = 0;
    for (uint32_t i = 0; i < desc->global_count; i++) {
        uint64_t align = desc->globals[i].align ? desc->globals[i].align : 1;
        align = align < 16 ? 16 : align;
        total = (total + align - 1) / align * align;
        module->globals[i] = (void *)(uintptr_t)total;
        total += desc->globals[i].bytes;
    }
    if (!total)
        return CUDA_SUCCESS;
    CUresult result = heap_alloc(module->ctx->device->plain, module->ctx, total, NULL, &module->storage);
    for (uint32_t i = 0; i < desc->global_count && !result; i++) {
        char *at = module->storage + (uintptr_t)module->globals[i];
        module->globals[i] = at;
        if (!segment_write(module->ctx->device, at, desc->globals[i].initial, desc->globals[i].bytes))
            result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    return result;
}

static CUresult make_functions(struct module *module) {
    const struct gpud_module_desc *desc = module->image->desc;
    module->functions = calloc(desc->kernel_count + 1, sizeof *module->functions);
    if (!module->functions)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < desc->kernel_count; i++) {
        struct function *f = module->functions[i] = handle_new(H_FUNCTION);
        if (!f)
            return CUDA_ERROR_OUT_OF_MEMORY;
        f->module = module;
        f->desc = &desc->kernels[i];
        f->name_id = sim_name(sim.link, f->desc->name);
        function_defaults(module->ctx->device, f->desc, f->attributes);
    }
    return CUDA_SUCCESS;
}

CUresult module_load(struct ctx *ctx, struct image *image, struct library *library, struct module **out) {
    struct module *module = handle_new(H_MODULE);
    if (!module) {
        image_drop(image);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    module->ctx = ctx;
    module->image = image;
    module->library = library;
    CUresult result = place_globals(module);
    if (!result)
        result = make_functions(module);
    if (result) {
        release(module);
        return result;
    }
    pthread_mutex_lock(&ctx->lock);
    module->next = ctx->modules;
    module->link = &ctx->modules;
    if (module->next)
        module->next->link = &module->next;
    ctx->modules = module;
    pthread_mutex_unlock(&ctx->lock);
    *out = module;
    return CUDA_SUCCESS;
}

void module_unload(struct module *module) {
    ctx_synchronise(module->ctx);       /* kernels of it may be in streams */
    unlink_module(module);
    release(module);
}

static CUresult load(CUmodule *out, const void *data, size_t size, unsigned count, int *options, void **values) {
    struct ctx *ctx;
    CUresult result = capture_allows(&ctx);
    if (result)
        return result;
    if (!out || !data || (count && (!options || !values)))
        return CUDA_ERROR_INVALID_VALUE;
    struct jit jit;
    struct image *image;
    struct module *module;
    jit_open(&jit, count, options, values);
    result = image_load(data, size, &jit, &image);
    if (!result)
        result = module_load(ctx, image, NULL, &module);
    if (!result)
        *out = (CUmodule)module;
    return result;
}

ENTRY(cuModuleLoadData, CUmodule *out, const void *image) { return load(out, image, 0, 0, NULL, NULL); }
ENTRY(cuModuleLoadDataEx, CUmodule *out, const void *image, unsigned count, int *options, void **values) {
    return load(out, image, 0, count, options, values);
}
ENTRY(cuModuleLoadFatBinary, CUmodule *out, const void *image) { return load(out, image, 0, 0, NULL, NULL); }

ENTRY(cuModuleLoad, CUmodule *out, const char *path) {
    struct ctx *ctx;
    CUresult result = sim_current(&ctx);
    if (result)
        return result;
    if (!out || !path)
        return CUDA_ERROR_INVALID_VALUE;
    char *text;
    size_t size;
    result = image_read_file(path, &text, &size);
    if (result)
        return result;
    result = load(out, text, size + 1, 0, NULL, NULL);
    free(text);
    return result;
}

/* A usable module by handle. */
static CUresult module_of(CUmodule handle, struct module **out) {
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!handle_ok(H_MODULE, handle))
        return CUDA_ERROR_INVALID_HANDLE;
    *out = (struct module *)handle;
    return ctx_check((*out)->ctx);
}

ENTRY(cuModuleUnload, CUmodule handle) {
    CUresult result = sim_ready();
    if (result)
        return result;
    struct module *module = (struct module *)handle;
    if (!handle_ok(H_MODULE, module) || module->library)
        return CUDA_ERROR_INVALID_HANDLE;
    struct ctx *ctx = module->ctx;
    module_unload(module);
    return ctx_error(ctx);              /* it is gone all the same */
}

ENTRY(cuModuleGetFunction, CUfunction *out, CUmodule handle, const char *name) {
    struct module *module;
    CUresult result = module_of(handle, &module);
    if (result)
        return result;
    if (!out || !name)
        return CUDA_ERROR_INVALID_VALUE;
    int index = image_kernel(module->image, name);
    if (index < 0)
        return CUDA_ERROR_NOT_FOUND;
    *out = (CUfunction)module->functions[index];
    return CUDA_SUCCESS;
}

ENTRY(cuModuleGetFunctionCount, unsigned *count, CUmodule handle) {
    struct module *module;
    CUresult result = module_of(handle, &module);
    if (result)
        return result;
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    *count = module->image->desc->kernel_count;
    return CUDA_SUCCESS;
}

ENTRY(cuModuleEnumerateFunctions, CUfunction *list, unsigned room, CUmodule handle) {
    struct module *module;
    CUresult result = module_of(handle, &module);
    if (result)
        return result;
    if (!list && room)
        return CUDA_ERROR_INVALID_VALUE;
    for (uint32_t i = 0; i < room && i < module->image->desc->kernel_count; i++)
        list[i] = (CUfunction)module->functions[i];
    return CUDA_SUCCESS;
}

ENTRY(cuModuleGetGlobal_v2, CUdeviceptr *address, size_t *bytes, CUmodule handle, const char *name) {
    struct module *module;
    CUresult result = module_of(handle, &module);
    if (result)
        return result;
    if (!name || (!address && !bytes))
        return CUDA_ERROR_INVALID_VALUE;
    int index = image_global(module->image, name);
    if (index < 0)
        return CUDA_ERROR_NOT_FOUND;
    if (address)
        *address = (CUdeviceptr)(uintptr_t)module->globals[index];
    if (bytes)
        *bytes = module->image->desc->globals[index].bytes;
    return CUDA_SUCCESS;
}

ENTRY(cuModuleGetLoadingMode, int *mode) {
    if (!mode)
        return CUDA_ERROR_INVALID_VALUE;
    *mode = 1;                          /* CU_MODULE_EAGER_LOADING */
    return sim_ready();
}
