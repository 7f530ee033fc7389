/* array.h: CUDA arrays: device memory that only copies reach (textures and surfaces are not simulated). Rows lie one behind the
 * other, layers and planes too. */
#ifndef SIM_CUDA_ARRAY_H
#define SIM_CUDA_ARRAY_H

#include "heap.h"

struct array {
    struct handle handle;
    struct ctx *ctx;
    struct array *next, **link;     /* ctx->arrays; a level of a mipmapped array is in none */
    struct mipmap *mipmap;          /* it is a level of this one */
    char *storage;
    CUDA_ARRAY3D_DESCRIPTOR descriptor;
    size_t row, rows, planes;       /* bytes, and how many */
};

#define MIPMAP_LEVELS 32

struct mipmap {
    struct handle handle;
    struct ctx *ctx;
    struct array *whole;            /* holds the memory of all levels */
    struct array *levels[MIPMAP_LEVELS];
    unsigned count;
};

/* array.c */
CUresult array_of(CUarray handle, struct array **out);
CUresult array_check(const CUDA_ARRAY3D_DESCRIPTOR *descriptor, unsigned *element);    /* bytes of an element */
void array_shape(struct array *array, const CUDA_ARRAY3D_DESCRIPTOR *descriptor, unsigned element);
size_t array_bytes(const struct array *array);
/* An array with memory of its own, the context's; `bytes` of it, 0: what it needs. */
CUresult array_new(struct ctx *ctx, const CUDA_ARRAY3D_DESCRIPTOR *descriptor, unsigned element, size_t bytes, struct array **out);
CUresult array_destroy(struct array *array);    /* waits for the work that may use it */
void arrays_release(struct ctx *ctx);           /* the context ends; its memory goes by itself */

/* mipmap.c */
void mipmap_forget(struct mipmap *mipmap);      /* frees its handle and those of its levels, not the memory */

#endif
