/* stream_pool.h: stream-ordered allocations of the pool: what was freed in a stream is free for that stream at once, for others once it
 * has come so far, or behind an event. gpud_pool_lock held throughout. */
#ifndef GPUD_STREAM_POOL_H
#define GPUD_STREAM_POOL_H

#include "pool_span.h"

#pragma GCC visibility push(hidden)

/* Gives back what streams have freed and come past: of the calling thread's context, after a few looks; or `all`. Returns how many bytes. */
uint64_t gpud_ordered_reclaim(uint32_t ordinal, bool all);
/* For want of memory: waits for the oldest free that a stream has not come past, of those numbered in (*after, last]. Gives up the lock
 * meanwhile: whatever the caller knew may have changed. True: there may be more memory than before; false: there is no such free. */
bool gpud_ordered_await(uint32_t ordinal, uint64_t *after, uint64_t last);
extern uint64_t gpud_ordered_serial;        /* of the last free in stream order */
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

/* stream_event.c: one of the context, which is current; NULL: none can be had. */
CUevent gpud_event_in(CUcontext context);
void gpud_event_put_away(CUcontext context, CUevent event);     /* for the next free, or for nobody */
/* Is it there yet? In a context that is not current, only while nobody is ending one. */
CUresult gpud_event_query(CUcontext context, CUevent event);
/* Waits until it is there, or never will be; without the lock. */
void gpud_event_await(CUcontext context, CUevent event);
void gpud_events_gone(CUcontext context);
void gpud_events_forget(void);              /* forked child */

#pragma GCC visibility pop
#endif
