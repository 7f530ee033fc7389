/* managed.h: what managed allocations know of their parts; see managed.c. */
#ifndef SIM_CUDA_MANAGED_H
#define SIM_CUDA_MANAGED_H

#include "api.h"

struct managed;
struct managed *managed_new(uint64_t bytes);    /* NULL: no host memory */
void managed_free(struct managed *managed);     /* may be NULL */

/* A part of an allocation for which the same holds. Locations: type LOCATION_NONE, LOCATION_DEVICE or LOCATION_HOST. */
struct piece {
    struct piece *next;
    uint64_t start, end;
    bool read_mostly;
    CUmemLocation preferred, prefetched;
    uint32_t accessed_by;                       /* a bit a device; PIECE_HOST */
};
#define PIECE_HOST (1u << 31)

/* The pieces from `start` to `end` (bytes of the allocation), cut so that they begin and end there. NULL: no host memory. */
struct piece *managed_cut(struct managed *managed, uint64_t start, uint64_t end);
struct piece *managed_pieces(struct managed *managed);

#endif
