/* hookless.h: the library in a program that was not started with it: `gpud.acquire()` of the Python package loads it, for turns alone.
 *
 * It is loaded locally, so no call of the program passes through it: nothing is gated, counted or moved, `real` stays empty, and a driver
 * that the program has not loaded itself is not looked for. All that is left is the session and the device lock (entry.h: gpud_hookless). */
#ifndef GPUD_HOOKLESS_H
#define GPUD_HOOKLESS_H

#include <stdbool.h>
#include "gpud_page.h"
#include "gpud_wire.h"
#include "real.h"

#pragma GCC visibility push(hidden)

/* What is called of the program's own driver; all NULL while it has none. Never loads one. */
void gpud_hookless_driver(struct gpud_real *driver);
/* The devices, unless that driver has `answered`: as CUDA_VISIBLE_DEVICES has them, by their number on the node. Keeper only. */
bool gpud_hookless_named(struct gpud_msg_devices *message, bool answered);
/* Of the calling thread; 0 where it has none. */
int gpud_hookless_current(void);
/* The daemon has told of the devices of this program. */
bool gpud_hookless_knows(void);
void gpud_hookless_told(uint32_t count);
bool gpud_hookless_has(int ordinal);
/* Waits for the work submitted so far: of the calling thread's context, and of the primary contexts of these devices. */
void gpud_hookless_synchronise(const int *devices, unsigned count);

#pragma GCC visibility pop
#endif
