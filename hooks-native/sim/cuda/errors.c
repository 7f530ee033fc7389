/* errors.c: names and meanings of results. */
#include <stdlib.h>

#include "api.h"

static const struct error { int number; const char *name, *text; } errors[] = {
#define RESULT(number, name, text) {number, "CUDA_" #name, text},
#include "errors.h"
#undef RESULT
};

static int compare(const void *key, const void *element) { return *(const int *)key - ((const struct error *)element)->number; }

static const struct error *find(CUresult number) {
    return bsearch(&number, errors, sizeof errors / sizeof *errors, sizeof *errors, compare);
}

ENTRY(cuGetErrorName, CUresult number, const char **out) {
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    const struct error *error = find(number);
    *out = error ? error->name : NULL;
    return error ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

ENTRY(cuGetErrorString, CUresult number, const char **out) {
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    const struct error *error = find(number);
    *out = error ? error->text : NULL;
    return error ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Profilers are not simulated; switching one on or off is no error without one. */
ENTRY(cuProfilerStart, void) { return CUDA_SUCCESS; }
ENTRY(cuProfilerStop, void) { return CUDA_SUCCESS; }
