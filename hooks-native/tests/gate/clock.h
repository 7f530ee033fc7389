/* clock.h: a clock of the test's own, for what one thread does while nobody else runs: then no time depends on the machine. While it runs,
 * time passes by looks at it, by calls of the fake driver, and by sleeps, each of which ends a bit late. Every gate test is linked with it;
 * without clock_own() it is the machine's. */
#ifndef GPUD_TEST_CLOCK_H
#define GPUD_TEST_CLOCK_H

#include <stdint.h>

void clock_own(void);           /* goes on from what it shows */
void clock_machines(void);      /* it passes as the machine's does; it does not jump */
void clock_pass(uint64_t ns);   /* nothing, while it is the machine's */

#endif
