/* lookup.h: entry points by name and version; see lookup.c. */
#ifndef SIM_CUDA_LOOKUP_H
#define SIM_CUDA_LOOKUP_H

#include "api.h"

/* The newest form of `name` that is not newer than `version`; flag 2: its per-thread twin where there is one. `status` may be
 * NULL. NOT_FOUND leaves NULL in `out`. */
CUresult lookup(const char *name, void **out, int version, cuuint64_t flags, int *status);

#endif
