/* standin.h: what tests and benchmarks may ask of the stand-in driver, beside CUDA. Look these up with dlsym on its handle
 * (standin_control() does), so that a program needs not be linked with it. */
#ifndef STANDIN_H
#define STANDIN_H

#include <dlfcn.h>
#include <stdint.h>
#include "cuda_api.h"

/* Arguments of the last launch, whatever entry it came by. */
struct standin_launch {
    CUfunction f;
    unsigned int grid[3], block[3], shared;
    CUstream stream;
    void **params, **extra;
};

struct standin_control {
    /* Calls of this entry so far; UINT64_MAX: no such entry. The bench build counts nothing. */
    uint64_t (*calls)(const char *name);
    /* From now on this entry answers `result` without doing anything; 0: works again. */
    void (*answer)(const char *name, CUresult result);
    /* true (as at first): everything submitted is finished at once. false: streams and events answer NOT_READY, and who
     * synchronises waits until it is true again. */
    void (*finish)(int at_once);
    /* The address of this entry, and the other one that cuGetProcAddress answers when $STANDIN_ALIAS=1 (cuLaunchKernel). */
    void *(*entry)(const char *name);
    struct standin_launch *last;
};

static inline struct standin_control standin_control(void *handle)
{
    struct standin_control *(*get)(void) = (struct standin_control *(*)(void))dlsym(handle, "standin_get_control");
    return get ? *get() : (struct standin_control){ 0 };
}

/* Environment: STANDIN_DEVICES (count, default 1) · STANDIN_FIRST (its first device's number on the node, default 0) ·
 * STANDIN_UNFINISHED=1 (begins with finish(0)) · STANDIN_ALIAS=1 (look-ups of cuLaunchKernel give another pointer than the
 * export) · STANDIN_REENTER=1 (cuLaunchKernel calls cuGraphLaunch through the program's global symbol) · STANDIN_CALLBACK=1 (looks cuLaunchKernel up with dlsym while it answers cuGetProcAddress). */
#endif
