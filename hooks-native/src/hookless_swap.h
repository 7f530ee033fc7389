/* hookless_swap.h: a program without hook moves its memory itself, by a function of its own that a thread of the Python package calls when the
 * daemon asks for room. While that runs no turn begins. */
#ifndef GPUD_HOOKLESS_SWAP_H
#define GPUD_HOOKLESS_SWAP_H

#include <stdbool.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

/* GPUD_LOCK_SWAPS: it has such a function, GPUD_LOCK_OUT: its memory is out. Said with what is told of the lock. */
uint32_t gpud_hookless_flags(void);
/* The function is about to run, or runs: a turn that would begin waits. */
bool gpud_hookless_moves(void);
/* The daemon has asked. Keeper only. */
enum gpud_hookless_answer { GPUD_HOOKLESS_NOT_YET, GPUD_HOOKLESS_MOVED, GPUD_HOOKLESS_WAS_OUT, GPUD_HOOKLESS_FAILED };
enum gpud_hookless_answer gpud_hookless_swap(void);
/* All who asked have heard the answer. Keeper only. */
void gpud_hookless_swapped(void);
void gpud_hookless_swap_forget(void);       /* forked child */

#pragma GCC visibility pop
#endif
