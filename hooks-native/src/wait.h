/* wait.h: how a held thread waits. */
#ifndef GPUD_WAIT_H
#define GPUD_WAIT_H

#include "gate_decide.h"
#include "state.h"

#pragma GCC visibility push(hidden)

/* One launch that is held, from the first look that holds it to the end. Lives on the stack of the held thread. */
struct gpud_hold {
    uint64_t since_ns;          /* 0: not held */
    struct gpud_slot *slot;     /* where it is noted */
    uint32_t device;
    uint32_t attachment;
    int slack_ns;               /* timer slack of the thread before, 0: not changed */
    bool lead;                  /* the one thread of the client that wakes precisely and asks the driver */
    bool asks;                  /* one of those that ask for the turn (turn.h) */
    bool full;                  /* the window had room, and then not */
    bool locked;                /* one of those that ask for the device lock (lock.h) */
    bool captures;              /* … with a stream capture of its own open */
    bool waits;                 /* counted as one that wants the device: not while its job is paused */
};

/* The launch is held by `decision`: notes it, waits a while, returns for the next look. `seen` is the wake word read before
 * deciding. */
void gpud_hold_step(struct gpud_thread *thread, struct gpud_hold *hold, const struct gpud_decision *decision, uint32_t seen,
                    uint64_t now);
/* It is held no longer; nothing if it never was. */
void gpud_hold_end(struct gpud_thread *thread, struct gpud_hold *hold);
void gpud_hold_forget(void);    /* forked child */

#pragma GCC visibility pop
#endif
