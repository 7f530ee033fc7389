/* image.c: recognises images, refuses what is not PTX with a sentence that helps, loads what the compiler made. */
#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image.h"

#define TEXT_LIMIT ((size_t)256 << 20)

enum image_kind image_kind(const void *data, size_t size) {
    const unsigned char *b = data;
    size_t known = size ? size : 1;     /* of unknown size: read on only while bytes match */
    if (!b || !known || !b[0])
        return IMAGE_EMPTY;
    if (b[0] == 0x7f && b[1] == 'E' && b[2] == 'L' && b[3] == 'F')
        return IMAGE_CUBIN;
    if ((b[0] == 0x50 && b[1] == 0xed && b[2] == 0x55 && b[3] == 0xba) || (b[0] == 0xb1 && b[1] == 0x43 && b[2] == 0x62 && b[3] == 0x46))
        return IMAGE_FATBIN;
    if ((b[0] == 'B' && b[1] == 'C' && b[2] == 0xc0 && b[3] == 0xde) || (b[0] == 0xed && b[1] == 0x43 && b[2] == 0x4e && b[3] == 0x7f))
        return IMAGE_NVVM;
    if (b[0] == '!' && !strncmp((const char *)b, "!<arch>", 7))
        return IMAGE_ARCHIVE;
    /* PTX begins with comments, blank lines and then a directive. */
    size_t i = 0, limit = size ? size : TEXT_LIMIT;
    while (i < limit && isspace(b[i]))
        i++;
    if (i >= limit || !b[i])
        return IMAGE_EMPTY;
    return b[i] == '.' || b[i] == '/' || isalpha(b[i]) ? IMAGE_PTX : IMAGE_UNKNOWN;
}

CUresult image_refuse(enum image_kind kind, struct jit *jit) {
    const char *text;
    CUresult result = CUDA_ERROR_NO_BINARY_FOR_GPU;
    switch (kind) {
    case IMAGE_CUBIN:
        text = "this module is a cubin (machine code for a real GPU); the simulated device runs PTX text only. "
               "With numba-cuda: the package nvidia-nvjitlink makes it link cubins; remove it (pip uninstall nvidia-nvjitlink, also "
               "nvidia-nvjitlink-cu12). With nvcc: compile with -ptx, or load the .ptx file. With Triton: set TRITON_PTXAS_PATH to a "
               "program that passes PTX through.";
        break;
    case IMAGE_FATBIN:
        text = "this module is a fatbin; the simulated device runs PTX text only. Compile with nvcc -ptx and load the .ptx file.";
        break;
    case IMAGE_NVVM:
        text = "this module is NVVM or LTO intermediate code; the simulated device runs PTX text only. Compile without link-time "
               "optimisation (numba-cuda: lto=False; nvcc: -ptx).";
        break;
    case IMAGE_ARCHIVE:
        text = "this module is a library of objects; the simulated device runs PTX text only. Give it the .ptx files.";
        break;
    case IMAGE_EMPTY:
        text = "this module is empty; the simulated device wants PTX text.";
        result = CUDA_ERROR_INVALID_IMAGE;
        break;
    default:
        text = "this module is neither PTX text nor anything else that is known; the simulated device runs PTX text (nvcc -ptx).";
        result = CUDA_ERROR_INVALID_IMAGE;
        break;
    }
    sim_say("%s", text);
    jit_error(jit, text);
    return result;
}

/* Opens what the compiler made. RTLD_LOCAL: kernels of different modules may have the same names. */
static CUresult open_object(const char *path, struct jit *jit, struct image **out) {
    char text[512];
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const struct gpud_module_desc *desc = object ? dlsym(object, GPUD_MODULE_SYMBOL) : NULL;
    if (!desc || desc->abi != GPUD_KERNEL_ABI) {
        snprintf(text, sizeof text, "cannot load the compiled module %s: %s", path,
                 !object ? dlerror() : !desc ? "it has no " GPUD_MODULE_SYMBOL : "it was made by another version of gpud");
        sim_say("%s", text);
        jit_error(jit, text);
        if (object)
            dlclose(object);
        return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
    }
    struct image *image = malloc(sizeof *image);
    if (!image) {
        dlclose(object);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *image = (struct image){1, object, desc};
    *out = image;
    return CUDA_SUCCESS;
}

CUresult image_load(const void *data, size_t size, struct jit *jit, struct image **out) {
    if (!data)
        return CUDA_ERROR_INVALID_VALUE;
    enum image_kind kind = image_kind(data, size);
    if (kind != IMAGE_PTX)
        return image_refuse(kind, jit);
    size_t length = strnlen(data, size ? size : TEXT_LIMIT);
    char *path, message[4096] = "";
    CUresult result = compile_ptx(data, length, &path, message, sizeof message);
    if (result) {
        sim_say("%s", message);
        jit_error(jit, message);
        return result;
    }
    result = open_object(path, jit, out);
    free(path);
    return result;
}

struct image *image_hold(struct image *image) {
    atomic_fetch_add(&image->refs, 1);
    return image;
}

void image_drop(struct image *image) {
    if (!image || atomic_fetch_sub(&image->refs, 1) != 1)
        return;
    dlclose(image->object);
    free(image);
}

int image_kernel(const struct image *image, const char *name) {
    for (uint32_t i = 0; i < image->desc->kernel_count; i++)
        if (!strcmp(image->desc->kernels[i].name, name))
            return (int)i;
    return -1;
}

int image_global(const struct image *image, const char *name) {
    for (uint32_t i = 0; i < image->desc->global_count; i++)
        if (!strcmp(image->desc->globals[i].name, name))
            return (int)i;
    return -1;
}

CUresult image_read_file(const char *path, char **text, size_t *size) {
    FILE *file = fopen(path, "rbe");
    if (!file)
        return errno == ENOENT ? CUDA_ERROR_FILE_NOT_FOUND : CUDA_ERROR_OPERATING_SYSTEM;
    CUresult result = CUDA_SUCCESS;
    size_t room = 1 << 16, used = 0;
    char *buffer = malloc(room);
    while (buffer) {
        used += fread(buffer + used, 1, room - used - 1, file);
        if (feof(file) || ferror(file) || room >= TEXT_LIMIT)
            break;
        char *bigger = realloc(buffer, room *= 2);
        if (!bigger)
            free(buffer);
        buffer = bigger;
    }
    if (!buffer)
        result = CUDA_ERROR_OUT_OF_MEMORY;
    else if (ferror(file))
        result = CUDA_ERROR_OPERATING_SYSTEM;   /* a directory, for one */
    else if (!feof(file))
        result = CUDA_ERROR_INVALID_IMAGE;
    fclose(file);
    if (result) {
        free(buffer);
        return result;
    }
    buffer[used] = 0;
    *text = buffer;
    *size = used;
    return CUDA_SUCCESS;
}
