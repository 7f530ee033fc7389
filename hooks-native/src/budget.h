/* budget.h: draws of credit from what a client may use, and what becomes of the rest. The slow half of credit.h. */
#ifndef GPUD_BUDGET_H
#define GPUD_BUDGET_H

#include "credit.h"
#include "gate_decide.h"
#include "wait.h"
#include "window.h"

#pragma GCC visibility push(hidden)

/* A launch that asks, on the slow path. */
struct gpud_ask {
    CUstream stream;
    const void *function;
    uint64_t blocks;
    uint32_t gate;              /* gate word that it is asked under */
    struct gpud_window_limit window;
    bool charged;               /* GPU time is charged under this gate word */
    bool young;                 /* it is worth a sample */
    uint64_t cost_ns;           /* 0: not charged */
    uint32_t left;              /* launches that the thread may make before it should sample one; 0: this one */
    bool drawn;                 /* gpud_charge() took what it needs */
};

/* Fills in what follows from the gate word. */
void gpud_ask_under(struct gpud_ask *ask, struct gpud_thread *thread, uint32_t gate, uint64_t now);
static inline bool gpud_ask_windowed(const struct gpud_ask *ask)
{
    return ask->window.launches != 0 || ask->window.ns != 0;
}

/* The credit line of a slot of the device; NULL: the shared slot has none. */
struct gpud_credit *gpud_credit_of(uint32_t device, const struct gpud_slot *slot);

/* The launch is one that the thread's credit still covers, though it has to take the slow path (a capture is open, another stream):
 * true, and it is paid. */
bool gpud_credit_again(struct gpud_thread *thread, const struct gpud_ask *ask);
/* Ends the thread's credit on its current device: what it has not used is given back, what it has is counted. */
void gpud_credit_settle(struct gpud_thread *thread);
/* That of the thread on any device, and its grant. */
void gpud_credit_end(struct gpud_thread *thread, uint32_t device, struct gpud_credit *credit);
/* The launch passes: it is charged, and if `more` credit for the next ones is drawn, for as many as all limits allow. */
void gpud_charge(struct gpud_thread *thread, struct gpud_ask *ask, bool more, uint64_t now);
/* The launch that drew has been made: its credit may be used from now on without a look. */
void gpud_credit_arm(struct gpud_thread *thread, bool charged);

/* The launch is not made after all: what gpud_charge took is given back, and all credit and the grant end. */
void gpud_charge_undo(struct gpud_thread *thread, struct gpud_ask *ask);

/* The thread has a grant that covers this launch; one that does not is closed. Credit is settled. */
bool gpud_grant_fits(struct gpud_thread *thread, const struct gpud_ask *ask);
/* Takes a new one. False: the window is full. */
bool gpud_grant_take(struct gpud_thread *thread, const struct gpud_ask *ask, bool force);
/* Closes the grant, if there is one. */
void gpud_grant_end(struct gpud_thread *thread, uint32_t device, struct gpud_credit *credit);

/* What came to the cap while it was full: to be taken off its level. */
int64_t gpud_forfeit(uint32_t device, uint64_t now);
/* Whether the cap held this client last (gpud_own.gathers); and what the cap says now. */
bool gpud_gathers(uint32_t device);
void gpud_gather(uint32_t device, const struct gpud_decision *decision);

/* The device has gone idle, with the burst that began at edge count `edges`: credit of it is given back. */
void gpud_credit_idle(uint32_t device, uint32_t edges);
/* The thread that owned the slot launches no more. */
void gpud_credit_release(uint32_t device, const struct gpud_slot *slot);
void gpud_credit_renew(void);   /* new pages: what was drawn from the old ones is gone with them */
void gpud_credit_fork(void);
void gpud_budget_fork(void);    /* of all this */
/* Takes charged GPU time back. */
void gpud_time_back(uint32_t device, uint64_t ns);

/* gate_pass.c: waits until the launch may pass, and takes what it may; or until what the thread knows is out of date (then `again`). */
void gpud_pass_gate(struct gpud_thread *thread, struct gpud_ask *ask, struct gpud_hold *hold, bool *again);

/* rate.c: the buckets of launches, blocks and bytes of this client. */
void gpud_rate_read(uint32_t device, struct gpud_own *own);
/* Takes one launch of `blocks` blocks, and of `more` launches and as many blocks as there are this thread's part; returns how many more.
 * `limited`: blocks are limited at all. */
uint32_t gpud_rate_draw(uint32_t device, uint64_t blocks, uint32_t more, uint32_t threads, uint64_t *more_blocks, bool *limited,
                        uint64_t now);
void gpud_rate_give(uint32_t device, uint32_t launches, uint64_t blocks);
void gpud_rate_copy(uint32_t device, uint64_t bytes, uint64_t now);
void gpud_rate_copy_back(uint32_t device, uint64_t bytes);      /* it was refused */
void gpud_rate_fork(void);

#pragma GCC visibility pop
#endif
