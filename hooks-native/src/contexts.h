/* contexts.h: the contexts in which this process works on each device, and work in them that no set of streams notes (presence.h): launched or
 * copied while there was no gate, or into a stream that can be asked no more. Only its context can tell when that is finished. */
#ifndef GPUD_CONTEXTS_H
#define GPUD_CONTEXTS_H

#include "state.h"

#pragma GCC visibility push(hidden)

/* A thread works in it from now on. */
void gpud_context_note(uint32_t ordinal, CUcontext context);
/* It is gone, after gpud_context_going(): nobody asks meanwhile. NULL: nobody knows which one of the ordinal (UINT32_MAX: of any) it is. */
void gpud_context_forget(CUcontext context, uint32_t ordinal);
void gpud_contexts_forget(void);            /* forked child */
/* One after the other, from `*index` on, of those in which threads have worked; NULL: no more. The driver may not know it any more. */
CUcontext gpud_context_next(uint32_t ordinal, uint32_t *index);

/* There is, or begins, such work somewhere on the ordinal; on the device slot. Before the driver's call. */
void gpud_unnoted(uint32_t ordinal);
void gpud_unnoted_on(uint32_t device);
/* Around a call that may last: nothing is finished in between. */
void gpud_unnoted_begin(uint32_t ordinal);
void gpud_unnoted_end(uint32_t ordinal);
/* There may be some that has not been proven finished. */
bool gpud_has_unnoted(uint32_t device);

/* By the keeper, with the gate of the device shut, no launch under way and no capture open: is all work of all contexts there finished?
 * `entered`: sum of the marks, which says whether anything was launched between two questions. Where the driver has no event for a whole
 * context (before 12.5) it waits for what is submitted. */
bool gpud_contexts_finished(uint32_t device, uint64_t entered);
extern uint32_t gpud_synchronising;         /* 1: it waits so, in a context that must not go, nor begin a capture */
/* New pages, with marks that begin anew. */
void gpud_contexts_renew(void);

#pragma GCC visibility pop
#endif
