/* profiler.c: an interposer as profilers are: wraps cuLaunchKernel and finds the next one by RTLD_NEXT. Writes its count to $PROFILER_SAYS
 * as the program ends. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

typedef int launch_fn(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);

static unsigned long launches;
launch_fn cuLaunchKernel;

int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void *stream,
                   void **parameters, void **extra)
{
    launch_fn *next = (launch_fn *)dlsym(RTLD_NEXT, "cuLaunchKernel");
    if (!next || next == cuLaunchKernel)
        abort();
    __atomic_fetch_add(&launches, 1, __ATOMIC_RELAXED);
    return next(f, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra);
}

__attribute__((destructor)) static void says(void)
{
    const char *path = getenv("PROFILER_SAYS");
    FILE *file = launches && path ? fopen(path, "w") : NULL;
    if (file) {
        fprintf(file, "%lu\n", launches);
        fclose(file);
    }
}
