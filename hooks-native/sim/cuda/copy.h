/* copy.h: copies between host memory, device memory and arrays; see copy.c, copy_shaped.c. */
#ifndef SIM_CUDA_COPY_H
#define SIM_CUDA_COPY_H

#include "work.h"

enum side { SIDE_ANY, SIDE_HOST, SIDE_DEVICE, SIDE_ARRAY };    /* ARRAY: within an array, as was checked */

/* A block of rows and planes to copy; what each side must be. */
struct copy_plan {
    char *dst;
    const char *src;
    enum side dst_side, src_side;
    size_t width, height, depth, dst_pitch, src_pitch, dst_plane, src_plane;
};

/* Work for a copy, for a stream of `ctx` or a graph. `sync`: the form without a stream; `wait`: the call is to wait for it. Nothing to
 * copy: NULL. */
CUresult copy_make(const struct copy_plan *plan, struct ctx *ctx, bool sync, struct work **out, bool *wait);
/* Copies in a stream. `sync`: the form without a stream, which returns when the host may use both sides. */
CUresult copy_run(const struct copy_plan *plan, CUstream stream, bool sync);
CUresult copy_linear(void *dst, enum side dst_side, const void *src, enum side src_side, size_t bytes, CUstream stream, bool sync);

/* copy_shaped.c */
CUresult copy_plan3d(const CUDA_MEMCPY3D *copy, struct copy_plan *out);

#endif
