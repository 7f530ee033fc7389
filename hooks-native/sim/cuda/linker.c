/* linker.c: cuLink*. What goes in is PTX; what comes out is the PTX text itself, which the loading calls compile. Several inputs
 * are joined: the header lines of all but the first are left out, and declarations of what another input defines stay as they are. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image.h"

static CUresult create(unsigned count, int *options, void **values, CUlinkState *out) {
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!out || (count && (!options || !values)))
        return CUDA_ERROR_INVALID_VALUE;
    struct linker *linker = handle_new(H_LINK);
    if (!linker)
        return CUDA_ERROR_OUT_OF_MEMORY;
    jit_open(&linker->jit, count, options, values);
    *out = (CUlinkState)linker;
    return CUDA_SUCCESS;
}

ENTRY(cuLinkCreate, unsigned count, int *options, void **values, CUlinkState *out) { return create(count, options, values, out); }
ENTRY(cuLinkCreate_v2, unsigned count, int *options, void **values, CUlinkState *out) { return create(count, options, values, out); }

static CUresult linker_of(CUlinkState handle, struct linker **out) {
    CUresult result = sim_ready();
    if (!result && !handle_ok(H_LINK, handle))
        result = CUDA_ERROR_INVALID_HANDLE;
    *out = (struct linker *)handle;
    return result;
}

/* True for the lines that a second input must not repeat. */
static bool header_line(const char *line) {
    while (*line == ' ' || *line == '\t')
        line++;
    return !strncmp(line, ".version", 8) || !strncmp(line, ".target", 7) || !strncmp(line, ".address_size", 13);
}

static CUresult append(struct linker *linker, const char *text, size_t size) {
    char *bigger = realloc(linker->text, linker->size + size + 2);
    if (!bigger)
        return CUDA_ERROR_OUT_OF_MEMORY;
    linker->text = bigger;
    if (!linker->inputs++) {
        memcpy(linker->text, text, size);
        linker->size = size;
    } else {
        linker->text[linker->size++] = '\n';
        for (const char *line = text, *end = text + size; line < end;) {
            const char *next = memchr(line, '\n', (size_t)(end - line));
            next = next ? next + 1 : end;
            if (!header_line(line)) {
                memcpy(linker->text + linker->size, line, (size_t)(next - line));
                linker->size += (size_t)(next - line);
            }
            line = next;
        }
    }
    linker->text[linker->size] = 0;
    return CUDA_SUCCESS;
}

/* Adds one input, given or read from a file; `name` is for messages. */
static CUresult add(struct linker *linker, int type, const void *data, size_t size, const char *name) {
    if (linker->complete || !data || !size || type < CU_JIT_INPUT_CUBIN || type > CU_JIT_INPUT_NVVM)
        return CUDA_ERROR_INVALID_VALUE;
    /* The kind is in the bytes: programs hand over PTX under other labels too, and nvjitlink's cubins under their own. */
    enum image_kind kind = image_kind(data, size);
    if (kind != IMAGE_PTX)
        return image_refuse(kind, &linker->jit);
    size = strnlen(data, size);
    /* An input that stands alone is compiled now, so that the program hears of its faults where the real linker tells them. */
    if (!memmem(data, size, ".extern .func", 13)) {
        char *path, message[4096] = "";
        CUresult result = compile_ptx(data, size, &path, message, sizeof message);
        if (result) {
            char line[4352];
            snprintf(line, sizeof line, "%s%s%s", name ? name : "", name ? ": " : "", message);
            sim_say("%s", line);
            jit_error(&linker->jit, line);
            return result;
        }
        free(path);
    }
    return append(linker, data, size);
}

static CUresult add_data(CUlinkState handle, int type, void *data, size_t size, const char *name) {
    struct linker *linker;
    CUresult result = linker_of(handle, &linker);
    return result ? result : add(linker, type, data, size, name);
}

ENTRY(cuLinkAddData, CUlinkState state, int type, void *data, size_t size, const char *name, unsigned count, int *options, void **values) {
    (void)count, (void)options, (void)values;
    return add_data(state, type, data, size, name);
}
ENTRY(cuLinkAddData_v2, CUlinkState state, int type, void *data, size_t size, const char *name, unsigned count, int *options, void **values) {
    (void)count, (void)options, (void)values;
    return add_data(state, type, data, size, name);
}

static CUresult add_file(CUlinkState handle, int type, const char *path) {
    struct linker *linker;
    CUresult result = linker_of(handle, &linker);
    if (result)
        return result;
    if (!path)
        return CUDA_ERROR_INVALID_VALUE;
    char *text;
    size_t size;
    result = image_read_file(path, &text, &size);
    if (result)
        return result;
    result = add(linker, type, text, size, path);
    free(text);
    return result;
}

ENTRY(cuLinkAddFile, CUlinkState state, int type, const char *path, unsigned count, int *options, void **values) {
    (void)count, (void)options, (void)values;
    return add_file(state, type, path);
}
ENTRY(cuLinkAddFile_v2, CUlinkState state, int type, const char *path, unsigned count, int *options, void **values) {
    (void)count, (void)options, (void)values;
    return add_file(state, type, path);
}

ENTRY(cuLinkComplete, CUlinkState handle, void **image, size_t *size) {
    struct linker *linker;
    CUresult result = linker_of(handle, &linker);
    if (result)
        return result;
    if (!image || !linker->inputs)
        return CUDA_ERROR_INVALID_VALUE;
    char *path, message[4096] = "";
    result = compile_ptx(linker->text, linker->size, &path, message, sizeof message);
    if (result) {
        sim_say("%s", message);
        jit_error(&linker->jit, message);
        return result;
    }
    free(path);
    if (!linker->complete)
        jit_info(&linker->jit, "gpud sim: linked to PTX for the simulated device");
    linker->complete = true;
    *image = linker->text;
    if (size)
        *size = linker->size + 1;
    return CUDA_SUCCESS;
}

ENTRY(cuLinkDestroy, CUlinkState handle) {
    struct linker *linker;
    CUresult result = linker_of(handle, &linker);
    if (result)
        return result;
    free(linker->text);
    handle_free(linker);
    return CUDA_SUCCESS;
}
