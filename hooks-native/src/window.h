/* window.h: how much GPU work is submitted and unfinished: launches and GPU time, both at once, of one client on one device.
 *
 * A thread is *granted* launches on one stream, makes them without looking again, and *closes* the grant; what it used then is
 * part of a group, and counts as in flight until the group's event is done. Grants count in full until they are closed.
 *
 *     slow path, no grant:     n = gpud_window_grant(thread, stream, &limit, cost, &ns);      0: full; see gpud_window_look()
 *     the present launch is the first of the n; n - 2 more may take the fast path; the LAST one takes the slow path:
 *     after a launch that used the grant up, or that failed:      gpud_window_close(thread, stream, used, used_ns)
 *     before a launch, where the grant no longer fits (other stream, gate, device, context or attachment changed, its time is used up):
 *                              gpud_window_close(thread, the grant's stream, used, used_ns), then a new grant
 *
 * A thread has one grant at most on a device, and closes it whenever it is on its slow path and gpud_word's generation or the
 * gate has changed: grants are called back that way (window_life.c) when their thread has gone to sleep
 * with unused launches that others wait for. A launch that takes longer than the limit by itself passes when nothing else is
 * in flight. */
#ifndef GPUD_WINDOW_H
#define GPUD_WINDOW_H

#include <stdbool.h>
#include <stdint.h>
#include "cuda_types.h"
#include "state.h"

#pragma GCC visibility push(hidden)

/* 0: unlimited; not both. */
struct gpud_window_limit {
    uint32_t launches;      /* max_inflight */
    uint64_t ns;            /* max_inflight_ns */
};

struct gpud_inflight {
    uint32_t launches;      /* submitted and unfinished, or granted */
    uint64_t ns;            /* the same in GPU time, by what they were charged with */
    bool full;              /* no room for one more of this cost; false where nothing is in flight */
};

/* Room for launches of the calling thread (bound) on this stream, each counted with what it is charged with (0 where nothing is charged):
 * returns how many, the present one included, and in *ns (at least `cost_ns`) how much time in sum; 0: full, or the device is being
 * asked about. `force` (max_pause, failsafe): one launch, whether there is room or not. It has no other grant on the device. */
uint32_t gpud_window_grant(struct gpud_thread *thread, CUstream stream, const struct gpud_window_limit *limit, uint64_t cost_ns,
                           bool force, uint64_t *ns);

/* The grant ends: `used` launches of `used_ns` in sum were made on its stream (fewer than granted, or none: the rest is free again).
 * Records the event that stands for their end, or leaves that for later where a few launches are not worth one. Nothing if the
 * thread has no grant on the device. Of the thread itself, its context current. */
void gpud_window_close(struct gpud_thread *thread, uint32_t device, CUstream stream, uint32_t used, uint64_t used_ns);

/* What is in flight; where that is full and `ask` is set (one thread of the client: the lead), after asking the driver what has
 * finished. A pure look otherwise. */
struct gpud_inflight gpud_window_look(uint32_t device, const struct gpud_window_limit *limit, uint64_t cost_ns, bool ask);

uint64_t gpud_window_aim(uint32_t device, uint64_t now);    /* when it is worth asking again */

/* All launches on the device made before `proven_ns` are proven finished: their groups end without being asked about. Grants stay.
 * (presence.c and proof.c, where the edge 1→0 is made.) Never waits for a lock. */
void gpud_window_idle(uint32_t device, uint64_t proven_ns);

void gpud_window_thread_gone(uint32_t id);      /* the thread with this kernel id ends: its grants are free again */
void gpud_window_stream_gone(CUstream stream);  /* before it is destroyed: launches without an event get one now */
void gpud_window_settle(void);                  /* nobody asks any more who began to before gpud_ending was raised */
void gpud_window_context_gone(uint32_t device, CUcontext context);      /* NULL: whichever */
void gpud_window_forget(void);                  /* forked child */

#pragma GCC visibility pop
#endif
