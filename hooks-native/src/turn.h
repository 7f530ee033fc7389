/* turn.h: what this client says of its turn, and its patience with others (GPUD_GATE_SHARE). The state beside gate_share.c. */
#ifndef GPUD_TURN_H
#define GPUD_TURN_H

#include "gate_decide.h"
#include "state.h"

#pragma GCC visibility push(hidden)

/* The presence page says what the decision found. `asks`: this thread is one of those that ask. */
void gpud_turn_say(uint32_t device, uint32_t turn, bool *asks);
/* The thread asks no more, whatever became of its launch. */
void gpud_turn_leave(uint32_t device, bool *asks);
/* The keeper: where the device has been idle for longer than programs pause between two launches, this client has the turn no more.
 * Returns when to look again; GPUD_NEVER: it has not got it, or is at work. */
uint64_t gpud_turn_idle(uint32_t device, uint64_t now);
/* The client has so much submitted, with the launch that it asks for: more than half of its window keeps the device for itself. */
void gpud_turn_full(uint32_t device, uint64_t now, uint64_t submitted_ns, uint64_t window_ns);

/* Held by a turn: whoever keeps this client out without using the device is not waited for for ever. */
void gpud_turn_wait(uint32_t device, const struct gpud_decision *decision, uint64_t now);
/* Held by a turn: others wait until what this client had submitted is finished. The driver is asked now and then. */
void gpud_turn_finish(uint32_t device, uint64_t now);
/* For gpud_own.ignored. */
uint32_t gpud_turn_ignored(uint32_t device, uint64_t now);
void gpud_turn_fork(void);

#pragma GCC visibility pop
#endif
