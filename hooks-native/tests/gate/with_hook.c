/* with_hook.c: in these tests the gate half runs in a program that has the hook (entry.h). */
#include "entry.h"

int gpud_hookless;
gpud_dlsym_fn *gpud_libc_dlsym;
