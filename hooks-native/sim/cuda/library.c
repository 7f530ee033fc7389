/* library.c: libraries: images without a context. A module is made of one in each context that uses it, at first use. */
#include <stdlib.h>
#include <string.h>

#include "image.h"
#include "sim.h"

CUresult library_module(struct library *library, struct ctx *ctx, struct module **out) {
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&library->lock);
    pthread_mutex_lock(&ctx->lock);
    struct module *module = ctx->modules;
    while (module && module->library != library)
        module = module->next;
    pthread_mutex_unlock(&ctx->lock);
    if (!module) {
        result = module_load(ctx, image_hold(library->image), library, &module);
        for (uint32_t i = 0; !result && i < library->image->desc->kernel_count; i++)
            memcpy(module->functions[i]->attributes, library->kernels[i]->attributes, sizeof module->functions[i]->attributes);
    }
    pthread_mutex_unlock(&library->lock);
    if (!result)
        *out = module;
    return result;
}

/* Unloads the module that a context made of a library. */
static void forget(struct ctx *ctx, void *data) {
    pthread_mutex_lock(&ctx->lock);
    struct module *module = ctx->modules;
    while (module && module->library != data)
        module = module->next;
    pthread_mutex_unlock(&ctx->lock);
    if (module)
        module_unload(module);
}

struct change { const struct kernel *kernel; const struct device *device; int attribute; };

/* Gives the function that a context made of a kernel the kernel's new attribute. */
static void change(struct ctx *ctx, void *data) {
    const struct change *c = data;
    pthread_mutex_lock(&ctx->lock);
    for (struct module *m = ctx->device == c->device ? ctx->modules : NULL; m; m = m->next)
        if (m->library == c->kernel->library)
            m->functions[c->kernel->index]->attributes[c->attribute] = c->kernel->attributes[c->attribute];
    pthread_mutex_unlock(&ctx->lock);
}

void library_change(const struct kernel *kernel, const struct device *device, int attribute) {
    contexts_each(change, &(struct change){kernel, device, attribute});
}

static void release(struct library *library) {
    for (uint32_t i = 0; library->kernels && i < library->image->desc->kernel_count; i++)
        handle_free(library->kernels[i]);
    free(library->kernels);
    image_drop(library->image);
    handle_free(library);
}

static CUresult load(CUlibrary *out, const void *data, size_t size, int *options, void **values, unsigned count) {
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!out || !data || (count && (!options || !values)))
        return CUDA_ERROR_INVALID_VALUE;
    struct jit jit;
    struct image *image;
    jit_open(&jit, count, options, values);
    result = image_load(data, size, &jit, &image);
    if (result)
        return result;
    struct library *library = handle_new(H_LIBRARY);
    if (!library) {
        image_drop(image);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    library->image = image;
    pthread_mutex_init(&library->lock, NULL);
    library->kernels = calloc(image->desc->kernel_count + 1, sizeof *library->kernels);
    for (uint32_t i = 0; i < image->desc->kernel_count && library->kernels; i++) {
        struct kernel *kernel = library->kernels[i] = handle_new(H_KERNEL);
        if (!kernel) {
            release(library);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        kernel->library = library;
        kernel->index = i;
        function_defaults(&sim.device[0], &image->desc->kernels[i], kernel->attributes);
    }
    if (!library->kernels) {
        release(library);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = (CUlibrary)library;
    return CUDA_SUCCESS;
}

ENTRY(cuLibraryLoadData, CUlibrary *out, const void *code, int *options, void **values, unsigned count, int *library_options,
      void **library_values, unsigned library_count) {
    (void)library_options, (void)library_values, (void)library_count;   /* how the code is kept: a copy is always made */
    return load(out, code, 0, options, values, count);
}

ENTRY(cuLibraryLoadFromFile, CUlibrary *out, const char *path, int *options, void **values, unsigned count, int *library_options,
      void **library_values, unsigned library_count) {
    (void)library_options, (void)library_values, (void)library_count;
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!out || !path)
        return CUDA_ERROR_INVALID_VALUE;
    char *text;
    size_t size;
    result = image_read_file(path, &text, &size);
    if (result)
        return result;
    result = load(out, text, size + 1, options, values, count);
    free(text);
    return result;
}

static CUresult library_of(CUlibrary handle, struct library **out) {
    CUresult result = sim_ready();
    if (!result && !handle_ok(H_LIBRARY, handle))
        result = CUDA_ERROR_INVALID_HANDLE;
    *out = (struct library *)handle;
    return result;
}

ENTRY(cuLibraryUnload, CUlibrary handle) {
    struct library *library;
    CUresult result = library_of(handle, &library);
    if (result)
        return result;
    contexts_each(forget, library);
    release(library);
    return CUDA_SUCCESS;
}

ENTRY(cuLibraryGetKernel, CUkernel *out, CUlibrary handle, const char *name) {
    struct library *library;
    CUresult result = library_of(handle, &library);
    if (result)
        return result;
    if (!out || !name)
        return CUDA_ERROR_INVALID_VALUE;
    int index = image_kernel(library->image, name);
    if (index < 0)
        return CUDA_ERROR_NOT_FOUND;
    *out = (CUkernel)library->kernels[index];
    return CUDA_SUCCESS;
}

ENTRY(cuLibraryGetKernelCount, unsigned *count, CUlibrary handle) {
    struct library *library;
    CUresult result = library_of(handle, &library);
    if (result)
        return result;
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    *count = library->image->desc->kernel_count;
    return CUDA_SUCCESS;
}

ENTRY(cuLibraryEnumerateKernels, CUkernel *list, unsigned room, CUlibrary handle) {
    struct library *library;
    CUresult result = library_of(handle, &library);
    if (result)
        return result;
    if (!list && room)
        return CUDA_ERROR_INVALID_VALUE;
    for (uint32_t i = 0; i < room && i < library->image->desc->kernel_count; i++)
        list[i] = (CUkernel)library->kernels[i];
    return CUDA_SUCCESS;
}

/* The library's module in the current context. */
static CUresult module_here(CUlibrary handle, struct library **library, struct module **module) {
    struct ctx *ctx;
    CUresult result = library_of(handle, library);
    if (!result)
        result = sim_current(&ctx);
    return result ? result : library_module(*library, ctx, module);
}

ENTRY(cuLibraryGetModule, CUmodule *out, CUlibrary handle) {
    struct library *library;
    struct module *module;
    CUresult result = module_here(handle, &library, &module);
    if (result)
        return result;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUmodule)module;
    return CUDA_SUCCESS;
}

ENTRY(cuLibraryGetGlobal, CUdeviceptr *address, size_t *bytes, CUlibrary handle, const char *name) {
    struct library *library;
    struct module *module;
    CUresult result = module_here(handle, &library, &module);
    if (result)
        return result;
    if (!name || (!address && !bytes))
        return CUDA_ERROR_INVALID_VALUE;
    int index = image_global(library->image, name);
    if (index < 0)
        return CUDA_ERROR_NOT_FOUND;
    if (address)
        *address = (CUdeviceptr)(uintptr_t)module->globals[index];
    if (bytes)
        *bytes = library->image->desc->globals[index].bytes;
    return CUDA_SUCCESS;
}

ENTRY(cuKernelGetFunction, CUfunction *out, CUkernel handle) {
    struct function *f;
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!handle_ok(H_KERNEL, handle))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    result = function_of((CUfunction)handle, &f);
    if (!result)
        *out = (CUfunction)f;
    return result;
}
