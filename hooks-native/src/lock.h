/* lock.h: the device lock as one process of a tenant sees it (ADR 0009). The grant is a word of the control page; it holds from the moment the
 * keeper has taken it in, which is after the memory is back. Threads wait, the keeper talks. */
#ifndef GPUD_LOCK_H
#define GPUD_LOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <pthread.h>
#include "session.h"

#pragma GCC visibility push(hidden)

/* Epoch taken in, by device slot; 0: none. Equal to the control page's grant_epoch: launches pass. Written by the keeper. */
extern uint64_t gpud_taken[GPUD_MAX_DEVICES];
/* Futex word: raised by the keeper whenever something changed that waits in gpud_hook_acquire. */
extern uint32_t gpud_lock_news;

/* A thread is held by GPUD_GATE_GRANT, and no longer: the first asks for the device. `captures`: it has a stream capture open. */
void gpud_lock_wait(uint32_t device, bool captures);
void gpud_lock_wait_end(uint32_t device, bool captures);
void gpud_lock_captures_wait(uint32_t device, bool begins);     /* likewise of a thread that waits in gpud_hook_acquire with a capture open */
bool gpud_lock_held(uint32_t device);       /* this process has the device now */

/* Turns that the program takes itself. gpud_lock_begin counts one if the process has the device; the outermost not once it is asked back, or
 * released while somebody else waits: who wants it again queues behind.
 * `done`: the program is done with it, and does not just take it back because it lacks another device. */
bool gpud_lock_begin(uint32_t device);
void gpud_lock_end(uint32_t device, bool done);
uint32_t gpud_lock_turns(uint32_t device);      /* how many there are */
uint32_t gpud_lock_holds(uint32_t device);      /* … with those that may be just being taken */
bool gpud_lock_given_up(uint32_t device);       /* the last turn was released, and somebody else wants the device */
void gpud_lock_tell_turns(uint32_t device);     /* into the presence page */

/* lock_reason.c: what the turn on these devices is for. The text may be NULL or empty: then nothing changes. It ends where the program has no
 * turn any more. `again`: the page may be a new one. */
void gpud_lock_reason(uint32_t slots, const char *reason);
void gpud_lock_reason_ends(uint32_t slots);
void gpud_lock_reason_again(void);
void gpud_lock_reason_forget(void);

/* A request of the program's own, for a set of device slots. One that is asked already is joined. */
#define GPUD_LOCK_REQUESTS 16
struct gpud_lock_request {
    uint32_t slots, waiters;    /* waiters 0: unused, or to be withdrawn */
    uint32_t sent, refused;
    uint32_t longer;            /* somebody waits longer than the daemon was told */
    uint32_t unsure;            /* sent; the daemon may know it no more, and is asked again */
    uint64_t id, until_ns;
};
extern pthread_mutex_t gpud_lock_mutex;     /* of the requests; the keeper only tries it */
extern struct gpud_lock_request gpud_lock_requests[GPUD_LOCK_REQUESTS];
uint64_t gpud_lock_number(void);            /* a new one for a request */

/* session_lock.c, by the keeper: what the daemon said. */
void gpud_session_lock(struct gpud_session *session, const struct gpud_msg_lock *message);
void gpud_session_lock_refused(uint32_t request, const char *text);
void gpud_session_swap_out(struct gpud_session *session, const struct gpud_msg_memory *message);

/* session_lock_keep.c, by the keeper: the next steps of all devices, and what is said of them. Returns when to be called again. */
uint64_t gpud_lock_keep(struct gpud_session *session, uint64_t now, bool *full);
void gpud_lock_forget(void);                /* forked child */

/* Within lock*.c and session_lock*.c: one device, as the keeper has it. */
struct gpud_lock_device {
    uint32_t state;             /* GPUD_LOCK_* of the presence page */
    bool ends;                  /* HAS: asked back; what the program took itself may last until deadline_ns */
    bool told;                  /* LEAVES: the overrun is told */
    bool left;                  /* it has left since the requests were looked at: who still waits asks again */
    bool asked, swaps;          /* LOCK_ASKED is sent for held threads; SWAP_OUT is to be done */
    bool owes_swapped;          /* … and was: SWAPPED is to be sent */
    bool owed;                  /* there were no turns any more before it had left: it leaves when there are again */
    bool owes_in, owes_back;    /* LOCK_IS_IN, LOCK_BACK are to be sent, with: */
    uint32_t flags;
    uint64_t epoch, id, bytes, moved;
    uint64_t began_ns, deadline_ns, retry_ns;
    struct gpud_msg_memory swap;
    uint64_t swapped;           /* of this, so far */
};
extern struct gpud_lock_device gpud_lock_devices[GPUD_MAX_DEVICES];
extern uint32_t gpud_lock_waits[GPUD_MAX_DEVICES], gpud_lock_is_done[GPUD_MAX_DEVICES];
extern uint32_t gpud_lock_captures[GPUD_MAX_DEVICES];       /* threads held that have a stream capture open: it does not end before they pass */
void gpud_lock_state(uint32_t device, uint32_t state);
void gpud_lock_take(uint32_t device, uint64_t epoch);       /* 0: shuts, and no launch is past the look afterwards */
void gpud_lock_ends(uint32_t device, bool yes);             /* what gpud_lock_begin goes by */
uint32_t gpud_lock_slots(void);                             /* of the devices that the daemon has named, a bit each */
/* A session that is new knows of no question, and of no grant that it has not made. Before anything that it says is heard. */
void gpud_lock_begin_anew(const struct gpud_session *session);

/* lock_step.c: the steps that need no socket. gpud_lock_step returns when it wants to be called again. */
uint64_t gpud_lock_step(uint32_t device, uint64_t now);
void gpud_lock_ask_back(uint32_t device, uint64_t deadline_ns);
void gpud_lock_leave(uint32_t device, uint64_t deadline_ns, uint64_t now);
bool gpud_lock_swap(uint32_t device, uint64_t now);

#pragma GCC visibility pop
#endif
