/* lookup.c: cuGetProcAddress. Names resolve from our own table, never through the loader, so no interposer can slip in here. */
#include <string.h>

#include "lookup.h"

#define SYMBOL(name, symbol, version, twin) CUresult symbol(void);
#include "symbols.h"
#undef SYMBOL

struct entry { const char *name; void (*address)(void); int version, twin; };

static const struct entry entries[] = {
#define SYMBOL(name, symbol, version, twin) {#name, (void (*)(void))symbol, version, twin},
#include "symbols.h"
#undef SYMBOL
};
enum { ENTRIES = sizeof entries / sizeof *entries };

enum { STATUS_FOUND, STATUS_NO_SYMBOL, STATUS_VERSION };

/* The first entry of a name in the sorted table, or ENTRIES. */
static int find(const char *name) {
    int low = 0, high = ENTRIES;
    while (low < high) {
        int middle = (low + high) / 2;
        if (strcmp(entries[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < ENTRIES && !strcmp(entries[low].name, name) ? low : ENTRIES;
}

CUresult lookup(const char *name, void **out, int version, cuuint64_t flags, int *status) {
    int ignored;
    status = status ? status : &ignored;
    if (!name || !out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = NULL;
    if (flags & ~3ull || (flags & 3) == 3)
        return CUDA_ERROR_INVALID_VALUE;
    const struct entry *best = NULL, *best_twin = NULL;
    int first = find(name);
    for (int i = first; i < ENTRIES && !strcmp(entries[i].name, name); i++) {
        if (entries[i].version > version)
            continue;
        if (entries[i].twin)
            best_twin = &entries[i];
        else
            best = &entries[i];
    }
    if (flags & 2 && best_twin)
        best = best_twin;
    *status = best ? STATUS_FOUND : first < ENTRIES ? STATUS_VERSION : STATUS_NO_SYMBOL;
    if (!best)
        return CUDA_ERROR_NOT_FOUND;
    *out = (void *)(uintptr_t)best->address;
    return CUDA_SUCCESS;
}
