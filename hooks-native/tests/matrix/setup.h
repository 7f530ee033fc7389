/* setup.h: what the matrix needs of the simulated driver beside launches: contexts, the module, streams, a graph, results. All calls go
 * through the hook, as a program's do. */
#ifndef GPUD_TEST_MATRIX_SETUP_H
#define GPUD_TEST_MATRIX_SETUP_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "../check.h"
#include "launches.h"

#define CALLS(X)                                                            \
    X(cuInit, (unsigned int))                                               \
    X(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice))                    \
    X(cuCtxSetCurrent, (CUcontext))                                         \
    X(cuCtxSynchronize, (void))                                             \
    X(cuModuleLoad, (CUmodule *, const char *))                             \
    X(cuModuleGetFunction, (CUfunction *, CUmodule, const char *))          \
    X(cuMemAlloc_v2, (CUdeviceptr *, size_t))                               \
    X(cuMemcpyHtoD_v2, (CUdeviceptr, const void *, size_t))                 \
    X(cuMemcpyDtoH_v2, (void *, CUdeviceptr, size_t))                       \
    X(cuStreamCreate, (CUstream *, unsigned int))                           \
    X(cuStreamBeginCapture_v2, (CUstream, int))                             \
    X(cuStreamEndCapture, (CUstream, CUgraph *))                            \
    X(cuGraphGetNodes, (CUgraph, CUgraphNode *, size_t *))                  \
    X(cuGraphInstantiateWithFlags, (CUgraphExec *, CUgraph, unsigned long long)) \
    X(cuGraphDestroy, (CUgraph))                                            \
    X(cuFuncSetBlockShape, (CUfunction, int, int, int))                     \
    X(cuParamSetSize, (CUfunction, unsigned int))                           \
    X(cuParamSetv, (CUfunction, int, void *, unsigned int))

#define FIELD(name, parameters) CUresult (*name) parameters;
static struct { CALLS(FIELD) } cuda;
#undef FIELD

#define OK(call)                                                            \
    do {                                                                    \
        CUresult got_ = (call);                                             \
        CHECK(!got_, "%s is %d", #call, got_);                              \
    } while (0)

static void *libcuda;

static inline void open_driver(void)
{
    libcuda = dlopen("libcuda.so.1", RTLD_NOW);
    if (!libcuda) {
        fprintf(stderr, "no simulated driver: %s\n", dlerror());
        exit(1);
    }
#define FIND(name, parameters) \
    *(void **)(void *)&cuda.name = dlsym(libcuda, #name); \
    CHECK(cuda.name, "no %s", #name);
    CALLS(FIND)
#undef FIND
    OK(cuda.cuInit(0));
    if (check_failures)
        exit(1);
}

/* A launch of its own on this device, whose context is current from now on: function, word (0), stream, legacy parameters, graph. */
static inline void ready(struct shot *shot, CUdevice device, const char *ptx, void *launch_kernel)
{
    static const struct shot plain = { .value = 3, .grid = { 2, 3, 2 }, .block = { 4, 2, 2 } };
    CUcontext context = NULL;
    CUmodule module = NULL;
    CUgraph graph = NULL;
    unsigned int zero = 0;

    *shot = plain;
    OK(cuda.cuDevicePrimaryCtxRetain(&context, device));
    OK(cuda.cuCtxSetCurrent(context));
    OK(cuda.cuModuleLoad(&module, ptx));
    OK(cuda.cuModuleGetFunction(&shot->function, module, "add_all"));
    OK(cuda.cuMemAlloc_v2(&shot->word, sizeof zero));
    OK(cuda.cuMemcpyHtoD_v2(shot->word, &zero, sizeof zero));
    OK(cuda.cuStreamCreate(&shot->stream, 1));
    OK(cuda.cuFuncSetBlockShape(shot->function, (int)shot->block[0], (int)shot->block[1], (int)shot->block[2]));
    OK(cuda.cuParamSetSize(shot->function, 12));
    OK(cuda.cuParamSetv(shot->function, 0, &shot->word, 8));
    OK(cuda.cuParamSetv(shot->function, 8, &shot->value, 4));
    OK(cuda.cuStreamBeginCapture_v2(shot->stream, 2));
    OK(call_kernel(launch_kernel, shot));
    OK(cuda.cuStreamEndCapture(shot->stream, &graph));
    OK(cuda.cuGraphInstantiateWithFlags(&shot->graph, graph, 0));
    OK(cuda.cuGraphDestroy(graph));
    if (check_failures)
        exit(1);
}

/* What one such launch adds to the word. */
static inline unsigned int adds(const struct shot *s, const struct family *family)
{
    unsigned int grid[3], sum = 0;
    for (unsigned int i = 0; i < 3; i++)
        grid[i] = i < family->sides ? s->grid[i] : 1;
    for (unsigned int block = 0; block < grid[0] * grid[1] * grid[2]; block++)
        for (unsigned int thread = 0; thread < s->block[0] * s->block[1] * s->block[2]; thread++)
            sum += s->value * (1 + block % grid[0] + 10 * (block / grid[0] % grid[1]) + 100 * (block / grid[0] / grid[1])
                               + 1000 * (thread % s->block[0]) + 10000 * (thread / s->block[0] % s->block[1])
                               + 100000 * (thread / s->block[0] / s->block[1]));
    return sum;
}

static inline unsigned int word_of(const struct shot *s)
{
    unsigned int word = 0;
    OK(cuda.cuMemcpyDtoH_v2(&word, s->word, sizeof word));
    return word;
}

#endif
