/* tried.h: calls of a victim, which may be refused but must not fail. */
#ifndef SIM_TEST_TRIED_H
#define SIM_TEST_TRIED_H

#include <stdio.h>
#include <unistd.h>

#include "driver_memory.h"

/* What a race with another process's end, or a full device, can answer is no failure; nor is `also`. */
static inline bool tried(CUresult result, CUresult also, const char *call, int line)
{
    switch (result) {
    case CUDA_SUCCESS: return true;
    case CUDA_ERROR_OUT_OF_MEMORY: case CUDA_ERROR_INVALID_HANDLE: case CUDA_ERROR_INVALID_VALUE: case CUDA_ERROR_MAP_FAILED: return false;
    default:
        if (result == also)
            return false;
        fprintf(stderr, "victim, line %d: %s is %d\n", line, call, result);
        _exit(3);
    }
}

#endif
