/* lookup.c: the stand-in's cuGetProcAddress, from its own table as the driver's: the newest version that is not newer than the one
 * asked for, in the stream flavour asked for. */
#include "table.h"

#include <stdlib.h>
#include <string.h>

#define FOUND 0
#define NOT_FOUND 1
#define VERSION_NOT_SUFFICIENT 2

/* Splits `name` into its base, its version and whether it is a per-thread twin. */
static size_t split(const char *name, int *version, int *per_thread)
{
    size_t length = strlen(name);

    *per_thread = length > 5 && (!strcmp(name + length - 5, "_ptsz") || !strcmp(name + length - 5, "_ptds"));
    length -= *per_thread ? 5 : 0;
    *version = 1;
    if (length > 3 && name[length - 3] == '_' && name[length - 2] == 'v') {
        *version = name[length - 1] - '0';
        length -= 3;
    }
    return length;
}

/* Entries without `since` in the table: old first versions, newer second ones. */
static int since_of(const struct standin_entry *entry, int version)
{
    static const int since[] = { 0, 2000, 3020, 11040, 12050 };
    return entry->since ? entry->since : since[version < 5 ? version : 4];
}

static CUresult alias_launch(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
                             unsigned int by, unsigned int bz, unsigned int shared, CUstream stream, void **params,
                             void **extra)
{
    return ((CUresult(*)(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
                         unsigned int, CUstream, void **, void **))standin_table[ROW_cuLaunchKernel]
                .function)(f, gx, gy, gz, bx, by, bz, shared, stream, params, extra);
}

static int set(const char *name)
{
    const char *value = getenv(name);
    return value && *value == '1';
}

static CUresult look_up(const char *symbol, void **function, int version, cuuint64_t flags, int *status)
{
    const struct standin_entry *best = NULL;
    int best_rank = -1, too_new = 0;

    if (!symbol || !function)
        return CUDA_ERROR_INVALID_VALUE;
    *function = NULL;
    if (set("STANDIN_CALLBACK"))
        (void)dlsym(RTLD_DEFAULT, "cuLaunchKernel");
    for (int row = 0; row < ROWS; row++) {
        const struct standin_entry *entry = &standin_table[row];
        int entry_version, per_thread;
        size_t length = split(entry->name, &entry_version, &per_thread);
        if (strlen(symbol) != length || strncmp(symbol, entry->name, length) != 0)
            continue;
        if (per_thread && !(flags & 2))
            continue;
        if (since_of(entry, entry_version) > version) {
            too_new = !per_thread || too_new;
            continue;
        }
        int rank = entry_version * 2 + per_thread;
        if (rank > best_rank)
            best = entry, best_rank = rank;
    }
    *status = best ? FOUND : too_new ? VERSION_NOT_SUFFICIENT : NOT_FOUND;
    if (!best)
        return CUDA_ERROR_NOT_FOUND;
    *function = best->function;
    if (best == &standin_table[ROW_cuLaunchKernel] && set("STANDIN_ALIAS"))
        *function = (void *)alias_launch;
    return CUDA_SUCCESS;
}

__attribute__((visibility("default"))) CUresult cuGetProcAddress(const char *symbol, void **function, int version,
                                                                 cuuint64_t flags);
__attribute__((visibility("default"))) CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version,
                                                                    cuuint64_t flags, CUdriverProcAddressQueryResult *status);

CUresult cuGetProcAddress(const char *symbol, void **function, int version, cuuint64_t flags)
{
    int status;
    CUresult told = standin_called(ROW_cuGetProcAddress);

    return told ? told : look_up(symbol, function, version, flags, &status);
}

CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *status)
{
    int ignored;
    CUresult told = standin_called(ROW_cuGetProcAddress_v2);

    return told ? told : look_up(symbol, function, version, flags, status ? status : &ignored);
}
