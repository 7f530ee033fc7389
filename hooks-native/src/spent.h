/* spent.h: the GPU time that this process has been charged. Its presence page shows it; what is decided here goes by the process's own
 * sum, so that whoever scribbles over the page opens no gate by that. */
#ifndef GPUD_SPENT_H
#define GPUD_SPENT_H

#include <stdint.h>

#pragma GCC visibility push(hidden)

uint64_t gpud_spent(uint32_t device);
/* Charges (or, below zero in two's complement, gives back), and shows it. */
void gpud_spend(uint32_t device, uint64_t ns);
void gpud_spent_renew(void);        /* keeper: new pages; it goes on from what they say */
void gpud_spent_fork(void);         /* forked child: it has been charged nothing */

#pragma GCC visibility pop
#endif
