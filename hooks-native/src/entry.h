/* entry.h: the first steps of the hook in a process: remember, and start at the first CUDA call. */
#ifndef GPUD_ENTRY_H
#define GPUD_ENTRY_H

#include <stdbool.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

/* True once gpud_start() has returned in this process. The fork handler of the child sets it to 0: the next CUDA call then
 * starts anew. */
extern int gpud_live;
/* GPUD_DISABLE=1: every call goes straight to the driver. Valid after gpud_remember_environment(). */
extern int gpud_disabled;
/* 1: not preloaded, but loaded by a program for its turns alone (hookless.c). Nothing of the program passes through us, and no driver is looked
 * for. */
extern int gpud_hookless;
extern int gpud_disable_is_garbage;     /* neither 0 nor 1: said once, at the first CUDA call */
/* Mark of this thread: 1 while it is inside one of our entries, so that a driver, or an interposer loaded after us, that comes
 * back through our symbols is not gated or counted twice. Launches on the fast path do without: their slot tells. */
extern __thread int gpud_inside __attribute__((tls_model("initial-exec")));

/* Finds the dlsym behind ours. Idempotent; called by the constructor, or earlier by the first dlsym of another library's
 * constructor. Allocates nothing. */
void gpud_remember(void);
/* Reads GPUD_DISABLE. Idempotent; called by the constructor, or earlier by the first look-up of an entry of ours. */
void gpud_remember_environment(void);
extern int gpud_environment_known;

/* First CUDA call: finds the driver and starts the other half. False: there is no driver, or gpud is disabled; then
 * the caller goes straight to the driver. */
bool gpud_first_call(void);

/* The dlsym behind ours: libc's, or that of an interposer loaded after us. */
typedef void *gpud_dlsym_fn(void *handle, const char *name);
extern gpud_dlsym_fn *gpud_next_dlsym;
extern gpud_dlsym_fn *gpud_libc_dlsym;
/* Where the code of that interposer lies; empty if it is libc's. Its own questions go to libc, or it and we would call
 * each other for ever. */
extern uintptr_t gpud_next_dlsym_begin, gpud_next_dlsym_end;

#pragma GCC visibility pop
#endif
