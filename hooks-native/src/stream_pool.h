/* stream_pool.h: stream-ordered allocations of the pool: what was freed in a stream is free for that stream at once, for others once it
 * has come so far, or behind an event. gpud_pool_lock held throughout. */
#ifndef GPUD_STREAM_POOL_H
#define GPUD_STREAM_POOL_H

#include "pool_span.h"

#pragma GCC visibility push(hidden)

/* Gives back what streams have freed and come past. `wait`: waits for those that have not (lock kept: for want of memory, or where
 * nothing runs). Returns how many bytes. */
uint64_t gpud_ordered_reclaim(uint32_t ordinal, bool wait);
/* What was freed in streams of the context goes with it. */
void gpud_ordered_context_gone(CUcontext context);
/* `bytes` of stream-ordered allocations come (or go, negative). */
void gpud_ordered_count(uint32_t ordinal, int64_t bytes);
struct gpud_totals {
    uint64_t used, used_high, waiting, reserved_high;
    CUmemoryPool pool;              /* the driver's default one; NULL: not asked yet */
    bool no_opportunistic, no_internal;     /* ways of reuse that the program has forbidden */
};
extern struct gpud_totals gpud_ordered_totals[GPUD_POOL_DEVICES];
void gpud_ordered_forget(void);             /* forked child */

#pragma GCC visibility pop
#endif
