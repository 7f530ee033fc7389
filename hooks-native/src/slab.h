/* slab.h: small allocations inside chunks of 2 MiB, aligned to 512 bytes. gpud_pool_lock held throughout. */
#ifndef GPUD_SLAB_H
#define GPUD_SLAB_H

#include "pool_span.h"

#pragma GCC visibility push(hidden)

#define GPUD_SLAB_ALIGN 512u
#define GPUD_SLAB_LARGEST GPUD_MIB          /* what is larger has chunks of its own */

/* Room for so many bytes (1 … GPUD_SLAB_LARGEST) of the context; a new slab as gpud_span_new makes it. */
CUresult gpud_slab_alloc(uint32_t ordinal, CUcontext context, uint64_t bytes, bool ordered, bool backed, uint64_t *at);
/* An allocation in a slab: the one around the address. */
struct gpud_small {
    uint64_t at, bytes;         /* as the program asked for */
    uint64_t id;
    bool ordered, freeing;
};
bool gpud_slab_find(const struct gpud_span *span, uint64_t address, struct gpud_small *out);
/* Marks the one that begins at the address: allocated in stream order; about to be freed. */
void gpud_slab_mark(struct gpud_span *span, uint64_t at, bool ordered, bool freeing, uint64_t bytes);
/* Frees the one that begins at the address; the slab with the last. */
void gpud_slab_free(struct gpud_span *span, uint64_t at);
/* Bytes of stream-ordered allocations that are not freed. */
uint64_t gpud_slab_ordered(const struct gpud_span *span);
/* Before its span goes with its context. */
void gpud_slab_gone(struct gpud_span *span);
void gpud_slab_forget(void);                /* forked child */

#pragma GCC visibility pop
#endif
