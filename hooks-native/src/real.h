/* real.h: the driver's own entries, typed, and how they are found. The hook links against nothing of CUDA: the driver is
 * opened at the first CUDA call ($GPUD_REAL_LIBCUDA, else libcuda.so.1), and its entries are asked of itself, never of our
 * own interposed symbols. */
#ifndef GPUD_REAL_H
#define GPUD_REAL_H

#include <stdbool.h>
#include "cuda_api.h"

/* One member per row of the table that is intercepted (never NULL once resolved: where the driver has no such entry, calling it
 * answers CUDA_ERROR_NOT_FOUND) or needed by the hook (CU_NEED: NULL where the driver has none). */
struct gpud_real {
#define CU_GATE(since, name, parameters, ...) CUresult (*name) parameters;
#define CU_AFTER(kind, since, name, parameters, ...) CUresult (*name) parameters;
#define CU_BEFORE(kind, since, name, parameters, ...) CUresult (*name) parameters;
#define CU_AROUND(kind, since, name, parameters, ...) CUresult (*name) parameters;
#define CU_OWN(kind, since, name, parameters) CUresult (*name) parameters;
#define CU_NEED(since, name, parameters) CUresult (*name) parameters;
#include "../tbl/cuda_symbols.h"
};

#pragma GCC visibility push(hidden)
/* The driver itself. Written once, before gpud_start() is called; then read without synchronisation. */
extern struct gpud_real real;

/* The next in line for calls that came by a plain symbol (a program linked with -lcuda): the driver, or another interposer
 * loaded after us. */
extern struct gpud_real gpud_next;

/* What the simulated driver says of its clock: wall time = event time × this. NULL: a driver whose events keep wall time. */
extern double (*gpud_real_time_scale)(void);

/* Finds the driver and fills `real` and `gpud_next`. `load` false: only if the process has the driver loaded already. Idempotent,
 * callable from any thread; true if the entries are there. */
bool gpud_real_resolve(bool load);
/* The plain symbol of this row of intercepted entries leads to the driver, not to another interposer. */
bool gpud_next_is_driver(int row);

#pragma GCC visibility pop
#endif
