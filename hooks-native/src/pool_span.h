/* pool_span.h: reserved address ranges made of chunks, found by address. gpud_pool_lock held throughout. */
#ifndef GPUD_POOL_SPAN_H
#define GPUD_POOL_SPAN_H

#include "chunk.h"

#pragma GCC visibility push(hidden)

struct gpud_slab;

enum gpud_span_use {
    GPUD_SPAN_FREE,             /* nobody's: mapped and ready for the next allocation of its size */
    GPUD_SPAN_LARGE,            /* one allocation */
    GPUD_SPAN_SLAB,             /* small ones (slab.h) */
    GPUD_SPAN_HANDLE            /* a handle of the program's (vmm_handle.c), in one chunk. It goes with no context, and its addresses are ours */
};

struct gpud_span {
    uint64_t at, bytes;
    uint64_t user;              /* LARGE: what the program asked for */
    uint64_t touched;           /* order in which spans came into use: the smallest is the coldest */
    uint64_t id;                /* never used twice in this process, a multiple of 4096 */
    CUcontext context;          /* whose memory it is: goes with it. NULL: free, or a handle's */
    struct gpud_slab *slab;
    uint32_t ordinal;
    uint32_t moving;            /* chunks that the mover has: until it is 0 nothing is taken apart */
    uint8_t use;
    bool gone;                  /* freed meanwhile: the mover takes it apart */
    bool ordered;               /* LARGE: allocated in stream order */
    bool freeing;               /* somebody waits for the device before he frees it, or a stream has yet to come to the free */
    uint32_t count;
    struct gpud_chunk chunk[];
};

/* A span for `user` bytes in whole chunks, in this use. `backed`: with memory behind it; else LAZY. CUDA_SUCCESS, or the driver's
 * error with nothing changed. */
CUresult gpud_span_new(uint32_t ordinal, CUcontext context, uint64_t user, enum gpud_span_use use, bool backed, struct gpud_span **out);
/* The same for a handle of the program's. The origin is the span's from then on. */
CUresult gpud_span_of_handle(uint32_t ordinal, uint64_t bytes, struct gpud_origin *origin, bool backed, struct gpud_span **out);
/* Its contents are given up: kept ready for the next of its size, or taken apart (`keep` false); later where chunks are moving. */
void gpud_span_drop(struct gpud_span *span, bool keep);
/* The span around the address (not a free one), or NULL. */
struct gpud_span *gpud_span_at(uint64_t address);
/* All spans, by address: 0 … count - 1. */
struct gpud_span *gpud_span_nth(uint32_t index);
uint32_t gpud_span_count(void);
/* Gives memory of free spans and recycled handles back to the driver, at least so many bytes if there are. Returns how many. */
uint64_t gpud_span_trim(uint32_t ordinal, uint64_t bytes);
/* Bytes of free spans, per ordinal. */
extern uint64_t gpud_span_idle[GPUD_POOL_DEVICES];
extern uint64_t gpud_span_clock;
void gpud_span_forget(void);                /* forked child */

#pragma GCC visibility pop
#endif
