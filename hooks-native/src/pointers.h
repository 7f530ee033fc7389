/* pointers.h: from the driver's pointers to our entries. Pointers are mapped, not names: when cuGetProcAddress or dlsym answers,
 * version and stream flavour are chosen already, and a function of the same name that is not the driver's stays untouched. */
#ifndef GPUD_POINTERS_H
#define GPUD_POINTERS_H

#include <stddef.h>

#pragma GCC visibility push(hidden)

/* Our two functions for a row: `exported` is the plain symbol and goes on to gpud_next; `handed` is what look-ups on the driver
 * get, and goes on to the driver. */
struct gpud_entry {
    void *exported;
    void *handed;
};
extern const struct gpud_entry gpud_entries[];      /* by row: trampolines.c */

/* While the table is filled (real.c, one thread): `pointer` is the driver's entry of `row`. The first row of a pointer stays. */
void gpud_pointer_add(void *pointer, int row);
/* The row of a driver's pointer, or -1. If the driver has one function under several names, the row named `name` (may be
 * NULL) is preferred. */
int gpud_pointer_row(const void *pointer, const char *name);
/* What a caller who looked `name` up gets instead of `pointer`: our entry, or `pointer` itself. */
void *gpud_pointer_mapped(void *pointer, const char *name);

#pragma GCC visibility pop
#endif
