/* classify.h: between the dlsym thunk, the classifier and the table of entries. */
#ifndef GPUD_CLASSIFY_H
#define GPUD_CLASSIFY_H

#include <stdbool.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

/* Names of the intercepted entries, by row (pointers.c). */
extern const char *const gpud_row_names[];
extern const int gpud_row_count;

/* Row of an intercepted entry, or -1. */
int gpud_row_of(const char *name);
/* What the thunk jumps to for this call. */
void *gpud_classify(void *handle, const char *name, uintptr_t caller);

/* resolve.c. An intercepted name on an explicit handle: our entry if the handle yields the driver's, else what it yields. */
void *gpud_dlsym_handle(void *handle, const char *name);
/* RTLD_DEFAULT: is this name visible globally apart from our own export, which must not make a driver appear? */
bool gpud_anywhere(const char *name);
/* RTLD_DEFAULT, and it is not: it may still be in what the caller itself is linked with. Else fails as dlsym fails. */
void *gpud_dlsym_local(void *handle, const char *name);
/* query_nvml.c. NVML's entries of how much memory there is: ours, in front of what the handle yields. */
void *gpud_dlsym_nvml(void *handle, const char *name);

#pragma GCC visibility pop
#endif
