/* second.c: another interposer, like a profiler's: wraps cuLaunchKernel and finds the next one by RTLD_NEXT, or ($SECOND_HANDLE=1) by
 * the driver's handle. With -DSECOND_DLSYM it also wraps dlsym itself. Its own tail calls are what its flavour makes them. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_api.h"

#define EXPORT __attribute__((visibility("default")))
typedef CUresult launch_fn(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
                           unsigned int, CUstream, void **, void **);

EXPORT uint64_t second_launches, second_look_ups;
EXPORT launch_fn cuLaunchKernel;

CUresult cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by,
                        unsigned int bz, unsigned int shared, CUstream stream, void **params, void **extra)
{
    void *handle = getenv("SECOND_HANDLE") ? dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD) : RTLD_NEXT;
    launch_fn *next = (launch_fn *)dlsym(handle, "cuLaunchKernel");

    if (!next || next == cuLaunchKernel || ++second_launches > 1000)
        abort();        /* RTLD_NEXT gave ourselves: the dlsym before us lost its caller */
    return next(f, gx, gy, gz, bx, by, bz, shared, stream, params, extra);
}

#ifdef SECOND_DLSYM
#ifdef __x86_64__
#define OLDEST "GLIBC_2.2.5"
#else
#define OLDEST "GLIBC_2.17"
#endif
EXPORT void *dlsym(void *handle, const char *name);

void *dlsym(void *handle, const char *name)
{
    static void *(*next)(void *, const char *);
    static __thread int depth;

    if (!next)
        next = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", OLDEST);
    if (++depth > 100)
        abort();        /* somebody sends us back to ourselves */
    second_look_ups++;
    void *found = next(handle, name);
    depth--;
    return found;
}
#endif
