/* swap.h: what is on the device goes to the host slots and comes back. For the keeper: `device` is a device slot. The gate of the device
 * is shut and drained before the first byte moves, and stays so until all is in again. */
#ifndef GPUD_SWAP_H
#define GPUD_SWAP_H

#include "pool_span.h"

#pragma GCC visibility push(hidden)

enum gpud_swap_result {
    GPUD_SWAP_DONE,
    GPUD_SWAP_LITTLE,       /* out: nothing more can leave; in: not all could come in. What is where it was is intact */
    GPUD_SWAP_NO_HOST,      /* the host tier is full: the rest stays resident */
    GPUD_SWAP_DRIVER,       /* the driver answered an error: the rest stays where it is */
    GPUD_SWAP_MORE,         /* the time is up: it goes on with the next call */
    GPUD_SWAP_NOT_NOW,      /* a context is just being ended, or the process exits; out: a capture is open */
    GPUD_SWAP_BROKEN        /* out: a kernel's error has broken the context: nothing of it leaves any more */
};

/* At least `bytes` leave the device, coldest first, unused memory before all; so many have left: `*moved`. Until `until_ns`, and what is under
 * way then; 0: until it is done. */
enum gpud_swap_result gpud_swap_out(uint32_t device, uint64_t bytes, uint64_t until_ns, uint64_t *moved);
/* What is not on the device comes in, at most `bytes` of it. A host copy that does not have its checksum never reaches the device: it is
 * lost, which is told once, and the driver answers an error to whoever uses it. Where there is no memory it tries
 * again. Until `until_ns`; 0: until all is in, and where there is no memory once. */
enum gpud_swap_result gpud_swap_in(uint32_t device, uint64_t bytes, uint64_t until_ns, uint64_t *moved);

struct gpud_pool_counts {
    uint64_t resident;      /* device memory that the pool holds, in use or not */
    uint64_t idle;          /* … of this, in no use: leaves without a copy */
    uint64_t host, lazy, pinned, lost;
};
struct gpud_pool_counts gpud_pool_counts(uint32_t device);
/* What must come in before a launch may pass: host and lazy bytes. Ordered against allocations: see pool.h. */
uint64_t gpud_pool_lacks(uint32_t device);
uint64_t gpud_pool_resident(uint32_t device);   /* as counted above, ordered likewise */
uint64_t gpud_pool_largest(uint32_t device);    /* of the chunks of the device, and the classes of chunks */
/* Gives back what is kept in no use, if no memory is swapped there any more. For the keeper; without the lock. */
void gpud_pool_tidy(uint32_t device);
/* Counts of the device into the activity page, after what is in no use was given back where some lacks or no memory is swapped. Lock held:
 * whoever counts last writes last. */
void gpud_pool_publish(uint32_t device);
void gpud_pool_write(uint32_t device);          /* the counts alone: the driver is not called */

/* Of the whole process: bytes copied, copy calls, and the most pieces that were under way at once. [0] out, [1] in. */
struct gpud_swap_stats {
    uint64_t bytes[2], pieces[2], most[2];
};
extern struct gpud_swap_stats gpud_swap_stats;

/* Our streams went with the context. */
void gpud_swap_context_gone(uint32_t ordinal, CUcontext context);
CUcontext gpud_swap_context(uint32_t ordinal);  /* in which they are; NULL: there are none */
void gpud_swap_forget(void);                /* forked child */

/* Within swap*.c: one swap at a time. */
#define GPUD_MOVER_RING 8
struct gpud_flight {
    struct gpud_span *span;
    struct gpud_chunk *chunk;
    uint32_t host;
    uint32_t pieces;
};
struct gpud_candidate {
    uint64_t touched, at, id;
};
struct gpud_mover {
    uint32_t device, ordinal;
    CUcontext context;
    CUstream stream[2];
    CUevent event[GPUD_MOVER_RING];
    struct gpud_flight flight[GPUD_MOVER_RING];
    uint32_t first, count;      /* of the ring */
    uint64_t in_flight;         /* bytes */
    uint64_t moved, done;
    struct gpud_candidate *candidate;
    uint32_t candidates;
    int mode;
};
/* Ready for copies: own streams and events, in a context of the device's, which is current then. Always ended by gpud_mover_end. */
enum gpud_swap_result gpud_mover_begin(struct gpud_mover *mover, uint32_t device, bool out, uint64_t until_ns);
void gpud_mover_end(struct gpud_mover *mover, uint32_t device, bool may_ask);    /* publishes; `may_ask`: the driver may be called for it */
bool gpud_mover_is_broken(const struct gpud_mover *mover);      /* its context, by an error that stays */
/* Somebody waits for our driver calls to end. */
bool gpud_mover_must_stop(void);
/* Spans of the device by age, the oldest first. Lock held. */
bool gpud_mover_list(struct gpud_mover *mover);
/* The span of the candidate, if it still is that. Lock held. */
struct gpud_span *gpud_mover_span(const struct gpud_candidate *candidate);
bool gpud_mover_full(const struct gpud_mover *mover);
bool gpud_mover_is_late(const struct gpud_mover *mover, uint64_t until_ns);     /* and has moved something, or is about to */
/* Puts the copies of a chunk into a stream, and an event behind them; false: the driver refused, and none of them is under way. */
bool gpud_mover_copy(struct gpud_mover *mover, struct gpud_span *span, struct gpud_chunk *chunk, uint32_t host, bool out);
/* Waits for the oldest copy and takes it off; `*flight` says which it was. */
bool gpud_mover_wait(struct gpud_mover *mover, struct gpud_flight *flight, bool out);
/* The mover is done with a chunk of the span. Lock held; the span may be gone afterwards. */
void gpud_mover_leave(struct gpud_span *span);

#pragma GCC visibility pop
#endif
