/* launch.h: kernel launches; see launch.c. */
#ifndef SIM_CUDA_LAUNCH_H
#define SIM_CUDA_LAUNCH_H

#include "work.h"

struct launch_shape { unsigned grid[3], block[3], shared; bool cooperative; };

/* Checks a launch against the kernel and the device and makes the work for it, with a copy of its parameters. */
CUresult launch_work(const struct function *function, const struct launch_shape *shape, void **params, void **extra, struct work **out);
/* Launches into a stream; `handle` is a CUfunction or a CUkernel. */
CUresult launch_into(CUfunction handle, const struct launch_shape *shape, CUstream stream, void **params, void **extra);

#endif
