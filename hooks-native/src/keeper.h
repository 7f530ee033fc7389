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

/* keeper_sleep.c. Sleeps until something comes, or `until`; `full`: or the socket can be written. `heard`: the calls (gpud_keeper_wake) that
 * all has been done for. */
struct gpud_session;
void gpud_keeper_sleep(struct gpud_session *session, uint64_t until, bool full, uint32_t heard);
uint32_t gpud_keeper_calls(void);
void gpud_keeper_wakeable(void);            /* without it the keeper wakes by the clock: failure only costs time */
void gpud_keeper_sleep_forget(void);        /* forked child */
#define GPUD_KEEPER_LINGERS_NS (10 * GPUD_MILLISECOND)     /* after idle: programs with short pauses pay no wake-up call */

#pragma GCC visibility pop
#endif
