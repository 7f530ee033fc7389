/* alloc.h: the ledger of what the process has on the devices, by address or handle. */
#ifndef GPUD_ALLOC_H
#define GPUD_ALLOC_H

#include <stdbool.h>
#include <stdint.h>
#include "cuda_types.h"

#pragma GCC visibility push(hidden)

struct gpud_held {
    uint64_t bytes;
    uint64_t charged;           /* of the tenant's limit */
    CUcontext context;          /* goes with it; NULL: survives all contexts */
    uint32_t ordinal;
    uint32_t pin;               /* GPUD_PIN_*: why it cannot leave the device; GPUD_PINS: it can, or is counted elsewhere */
};

/* False: it cannot be remembered, and is counted nowhere. What lay at the address before is given back. */
bool gpud_ledger_put(uint64_t address, const struct gpud_held *held);
/* Takes it out; false: unknown. What is charged for it is the caller's to give back. */
bool gpud_ledger_take(uint64_t address, struct gpud_held *held);
/* What was in the context (NULL: in any context of the ordinal) is given back. */
void gpud_ledger_context_gone(uint32_t ordinal, CUcontext context);

/* alloc_handle.c. Memory of the pool's, which the program may have handles of, is nobody else's any more: it counts as long as they last. */
void gpud_handle_left(uint64_t number, uint64_t bytes, uint32_t ordinal);
bool gpud_handle_moves(uint64_t key);       /* of the ledger: memory that can leave the device */
void gpud_handles_forget(void);             /* forked child */

#pragma GCC visibility pop
#endif
