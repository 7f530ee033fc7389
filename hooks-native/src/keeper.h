/* keeper.h: the one thread of our own in a client. */
#ifndef GPUD_KEEPER_H
#define GPUD_KEEPER_H

#include <stdbool.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

/* The first try to attach has ended, well or not: whoever waits in gpud_initialised() goes on. Keeper only. */
void gpud_keeper_outcome(void);

/* Admission: while the program waits in gpud_initialised() it may be kept in line, or refused. All by the keeper only. */
bool gpud_keeper_waits(void);
/* It waits in line until then at most. */
void gpud_keeper_in_line(uint64_t until_ns);
/* It is not let in: cuInit says so, now and whenever it is called again. */
void gpud_keeper_shut_out(void);

#pragma GCC visibility pop
#endif
