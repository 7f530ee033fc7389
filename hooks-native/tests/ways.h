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
#include "standin/standin.h"

typedef CUresult proc_v1(const char *symbol, void **function, int version, cuuint64_t flags);
typedef CUresult proc_v2(const char *symbol, void **function, int version, cuuint64_t flags, int *status);

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

/* `name` without version and flavour, the flags to ask for it with. */
static inline cuuint64_t split_name(const char *name, char base[64])
{
    cuuint64_t flags = 0;

    snprintf(base, 64, "%s", name);
    char *suffix = strstr(base, "_ptsz");
    suffix = suffix ? suffix : strstr(base, "_ptds");
    if (suffix)
        *suffix = 0, flags = 2;
    suffix = strstr(base, "_v");
    if (suffix)
        *suffix = 0;
    return flags;
}

static inline void *by_dlsym(const struct ways *ways, const char *name)
{
    return dlsym(ways->handle, name);
}

static inline void *by_v1(proc_v1 *get, const char *name, int since)
{
    char base[64];
    void *function = NULL;
    cuuint64_t flags = split_name(name, base);

    return get(base, &function, since, flags) ? NULL : function;
}

static inline void *by_v2(proc_v2 *get, const char *name, int since)
{
    char base[64];
    void *function = NULL;
    int status = -1;
    cuuint64_t flags = split_name(name, base);

    return get(base, &function, since, flags, &status) || status ? NULL : function;
}

#endif
