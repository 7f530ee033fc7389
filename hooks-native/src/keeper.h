/* keeper.h: the one thread of our own in a client. */
#ifndef GPUD_KEEPER_H
#define GPUD_KEEPER_H

#pragma GCC visibility push(hidden)

/* The first try to attach has ended, well or not: whoever waits in gpud_initialised() goes on. Keeper only. */
void gpud_keeper_outcome(void);

#pragma GCC visibility pop
#endif
