/* captures.h: beside gpud_capture_began and gpud_capture_ended (launch.h). */
#ifndef GPUD_CAPTURES_H
#define GPUD_CAPTURES_H

#include "state.h"

#pragma GCC visibility push(hidden)

/* The stream is about to be destroyed; or, where it is NULL, the context is. Captures of theirs are open no more. */
void gpud_captures_gone(CUstream stream, CUcontext context);
bool gpud_capture_is_own(void);             /* the calling thread has begun one that is open */
void gpud_captures_forget(void);            /* forked child */

#pragma GCC visibility pop
#endif
