/* resolve.h: the entries that hand out entries (resolve.c). Plain names are exported. */
#ifndef GPUD_RESOLVE_H
#define GPUD_RESOLVE_H

#include "cuda_api.h"

#define CU_OWN(kind, since, name, parameters)                     \
    __attribute__((visibility("default"))) CUresult name parameters; \
    __attribute__((visibility("hidden"))) CUresult handed_##name parameters;
#include "../tbl/cuda_symbols.h"

#endif
