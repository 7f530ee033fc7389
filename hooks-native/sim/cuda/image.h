/* image.h: images of modules: PTX text, compiled to a shared object that gpud_kernel.h describes. */
#ifndef SIM_CUDA_IMAGE_H
#define SIM_CUDA_IMAGE_H

#include "sim.h"

struct image { _Atomic int refs; void *object; const struct gpud_module_desc *desc; };

/* The logs a caller of the just-in-time compiler wants filled. Sizes are given and answered in `values`. */
struct jit { char *error, *info; size_t error_room, info_room, error_used, info_used; void **error_value, **info_value; };

void jit_open(struct jit *jit, unsigned count, const int *options, void **values);
void jit_error(struct jit *jit, const char *text);      /* appended as a line */
void jit_info(struct jit *jit, const char *text);

/* What an image is. `size` 0: unknown, text ends with a zero byte. */
enum image_kind { IMAGE_PTX, IMAGE_CUBIN, IMAGE_FATBIN, IMAGE_NVVM, IMAGE_ARCHIVE, IMAGE_EMPTY, IMAGE_UNKNOWN };
enum image_kind image_kind(const void *data, size_t size);
CUresult image_refuse(enum image_kind kind, struct jit *jit);   /* says why and what to do; the error code */

CUresult image_load(const void *data, size_t size, struct jit *jit, struct image **out);
struct image *image_hold(struct image *image);
void image_drop(struct image *image);
int image_kernel(const struct image *image, const char *name);  /* index, or -1 */
int image_global(const struct image *image, const char *name);
CUresult image_read_file(const char *path, char **text, size_t *size);  /* malloc, with a zero byte behind */

/* compile.c: PTX text to the path of a shared object (malloc). `message`: the compiler's words when it fails. */
CUresult compile_ptx(const char *text, size_t size, char **path, char *message, size_t room);

/* The state of cuLink*; linker.c. */
struct linker {
    struct handle handle;
    struct jit jit;
    char *text;                     /* the PTX so far, with a zero byte behind */
    size_t size;
    unsigned inputs;
    bool complete;
};

#endif
