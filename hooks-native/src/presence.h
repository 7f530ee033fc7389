/* presence.h: the edges, and the set of streams with work that is not proven finished. Shared by gate.c, presence.c,
 * proof.c, going.c and drained.c. */
#ifndef GPUD_PRESENCE_H
#define GPUD_PRESENCE_H

#include "state.h"

#pragma GCC visibility push(hidden)

#define GPUD_USED_STREAMS 32    /* more at one time: unknown, and only a context synchronise proves anything */

struct gpud_used {
    CUstream stream;
    CUevent event;              /* not NULL: the stream is destroyed, this event of ours stands for its end */
    CUcontext context;
    struct gpud_slot *launcher; /* the one slot that launched into it; NULL: several */
    uint64_t last;              /* launcher's count at its last launch into it; UINT64_MAX: it still launches there */
    uint32_t thread;            /* who used it first: names the per-thread default stream */
};

struct gpud_burst {
    pthread_mutex_t lock;       /* among application threads; the keeper takes it in gpud_presence_carry() alone */
    uint32_t sequence;          /* odd while the set changes */
    uint32_t edges;             /* burst that the set belongs to */
    uint32_t count;
    uint32_t unknown;           /* 1: more streams than the set holds */
    uint32_t deciding;          /* somebody is making the device idle by asking */
    struct gpud_slot *sole;     /* the one slot that launched in this burst; NULL: several */
    CUcontext sole_context;
    uint32_t slipped;           /* 1: a launch slipped through meanwhile; the set is still needed */
    struct gpud_used used[GPUD_USED_STREAMS];
};
extern struct gpud_burst gpud_bursts[GPUD_MAX_DEVICES];

void gpud_burst_begin(struct gpud_burst *burst);    /* lock, to change the set */
void gpud_burst_end(struct gpud_burst *burst);
void gpud_used_set(struct gpud_used *to, const struct gpud_used *from);
void gpud_used_end_event(const struct gpud_used *used);     /* destroys its event, if it has one; lock held */
void gpud_used_remove(struct gpud_burst *burst, uint32_t index);
bool gpud_used_is(const struct gpud_used *used, CUstream stream, CUcontext context, uint32_t thread);
/* proof.c: events recorded on the device (UINT32_MAX: any) in the context (NULL: any) prove nothing any more. */
void gpud_points_forget(uint32_t device, CUcontext context);
/* going.c: nobody who may still hold a handle in a copy of a set is asking about it once this returns. Of application threads only. */
void gpud_wait_for_askers(void);
void gpud_wait_for_contexts(void);          /* … nor waiting for a whole context (contexts.h) */
/* 0→1 if it is 0. Returns the edge word as it is then; `woke` is set if this call made the edge. */
uint64_t gpud_make_active(uint32_t device, bool *woke);
bool gpud_make_idle(uint32_t device, uint64_t active, uint64_t now);
struct gpud_used gpud_used_copy(const struct gpud_used *from);      /* without the lock */
/* All that was launched before the marks were `before` and the set's sequence `sequence` is finished: 1→0, if nothing came in between. */
bool gpud_presence_decide(uint32_t device, uint64_t active, struct gpud_marks before, uint32_t sequence);

/* drained.c. The keeper, with the gate of the device shut: nothing is under way, all work is proven finished, noted or not (contexts.h), and no
 * capture is open. */
bool gpud_presence_drained(uint32_t device);
/* A thread at the gate: its own per-thread default stream, which nobody else can ask. */
void gpud_presence_own(uint32_t device);
/* The keeper, before and after own pages are replaced by new ones: where work may be running the new ones say so. */
void gpud_presence_carry(void);
void gpud_presence_carried(void);

#pragma GCC visibility pop
#endif
