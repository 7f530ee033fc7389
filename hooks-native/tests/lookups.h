/* lookups.h: for tests of interception: cuGetProcAddress in both of its ABIs, asked as programs ask. */
#ifndef GPUD_TEST_LOOKUPS_H
#define GPUD_TEST_LOOKUPS_H

#include <stdio.h>
#include <string.h>

#include "cuda_api.h"

typedef CUresult proc_v1(const char *symbol, void **function, int version, cuuint64_t flags);
typedef CUresult proc_v2(const char *symbol, void **function, int version, cuuint64_t flags, int *status);

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
