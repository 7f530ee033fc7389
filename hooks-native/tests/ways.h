/* ways.h: for tests of interception: the stand-in, the counters of the hook built with counting_gate.h, and the ways to an
 * entry. */
#ifndef GPUD_TEST_WAYS_H
#define GPUD_TEST_WAYS_H

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "counting_gate.h"
#include "cuda_api.h"
#include "lookups.h"
#include "standin/standin.h"

struct ways {
    void *handle;               /* of libcuda.so.1 */
    struct standin_control driver;
    struct counting *hook;      /* NULL: the hook is not there */
};

static inline struct ways open_ways(void)
{
    struct ways ways = { .handle = dlopen("libcuda.so.1", RTLD_NOW) };

    if (!ways.handle) {
        fprintf(stderr, "no stand-in driver: %s\n", dlerror());
        exit(1);
    }
    ways.driver = standin_control(ways.handle);
    if (!ways.driver.calls) {
        fprintf(stderr, "libcuda.so.1 is not the stand-in driver: set LD_LIBRARY_PATH\n");
        exit(1);
    }
    ways.hook = dlsym(RTLD_DEFAULT, "counting");
    dlerror();
    return ways;
}

static inline void *by_dlsym(const struct ways *ways, const char *name)
{
    return dlsym(ways->handle, name);
}

#endif
