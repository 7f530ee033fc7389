/* lookup_entry.c: the exported forms of lookup.c, apart from it because its table declares all symbols without parameters. */
#include "lookup.h"
#include "sim.h"

ENTRY(cuGetProcAddress, const char *name, void **out, int version, cuuint64_t flags) { return lookup(name, out, version, flags, NULL); }
ENTRY(cuGetProcAddress_v2, const char *name, void **out, int version, cuuint64_t flags, int *status) {
    return lookup(name, out, version, flags, status);
}

/* Tables of private functions are not simulated, above all not the one by which NVIDIA's runtime authenticates the driver. */
ENTRY(cuGetExportTable, const void **table, const CUuuid *id) {
    static _Atomic bool said;
    (void)id;
    if (!atomic_exchange(&said, true))
        sim_say("this program asks for private tables of the driver, as NVIDIA's CUDA runtime does; the runtime does not start on the "
                "simulated GPU, programs on the driver API do");
    if (table)
        *table = NULL;
    return CUDA_ERROR_NOT_FOUND;
}
