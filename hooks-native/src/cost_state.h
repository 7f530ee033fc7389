/* cost_state.h: what cost.c and cost_learn.c share. */
#ifndef GPUD_COST_STATE_H
#define GPUD_COST_STATE_H

#include <pthread.h>
#include "cost.h"
#include "cost_known.h"

#pragma GCC visibility push(hidden)

/* cost.c. Of changes to the table and to what is known. Whoever only brings something new drops it where another thread is at it: the
 * keeper waits for no application thread. */
extern pthread_mutex_t gpud_cost_lock;
extern struct gpud_known gpud_costs_known[GPUD_COST_SETS][GPUD_COST_WAYS];
extern uint64_t gpud_cost_time;     /* of the newest sample: for those that read no clock */

/* The rest with the lock held. */
struct gpud_known *gpud_cost_place(uint64_t key, uint32_t device);      /* of this key, made if there is room; NULL: none */
void gpud_cost_charge(struct gpud_known *of);       /* makes what is known what is charged */
void gpud_cost_charge_all(void);

/* cost_learn.c; without the lock. */
uint64_t gpud_cost_guess(uint64_t blocks);          /* nothing is known of this function */

#pragma GCC visibility pop
#endif
