/* lookup_entry.c: the exported forms of lookup.c, apart from it because its table declares all symbols without parameters. */
#include "lookup.h"

ENTRY(cuGetProcAddress, const char *name, void **out, int version, cuuint64_t flags) { return lookup(name, out, version, flags, NULL); }
ENTRY(cuGetProcAddress_v2, const char *name, void **out, int version, cuuint64_t flags, int *status) {
    return lookup(name, out, version, flags, status);
}

/* Tables of private functions are not simulated, above all not the one by which NVIDIA's runtime authenticates the driver. */
ENTRY(cuGetExportTable, const void **table, const CUuuid *id) {
    (void)id;
    if (table)
        *table = NULL;
    return CUDA_ERROR_NOT_FOUND;
}
