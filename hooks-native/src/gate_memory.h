/* gate_memory.h: what the gate of launches and that of copies share. */
#ifndef GPUD_GATE_MEMORY_H
#define GPUD_GATE_MEMORY_H

#include "gate_decide.h"
#include "state.h"

#pragma GCC visibility push(hidden)

/* gate.c: one more thread in the gate, ordered before the next look; and taken back. */
void gpud_slot_mark(struct gpud_slot *slot, uint32_t flags);
void gpud_slot_unmark(struct gpud_slot *slot, uint32_t flags);

/* A device that is closed holds whatever the decision, which keeps its reason if it holds anyway. The keeper may know nothing of what has
 * opened the gate, and brings the memory in. */
static inline void gpud_closed_holds(uint32_t device, struct gpud_decision *decision)
{
    if (decision->hold || !(gpud_load(&gpud_closed) & 1u << device))
        return;
    gpud_keeper_wake();
    *decision = (struct gpud_decision){ .hold = true, .why = GPUD_WHY_PAUSED, .bit = GPUD_GATE_PAUSED, .peer = GPUD_NO_PEER,
                                        .until_ns = GPUD_NEVER };
}

#pragma GCC visibility pop
#endif
