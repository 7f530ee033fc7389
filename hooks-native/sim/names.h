/* names.h: the plain function name in a kernel's mangled name. */
#ifndef GPUD_SIM_NAMES_H
#define GPUD_SIM_NAMES_H

#include <stddef.h>

/* "_ZN6cudapy8__main__5scaleB2v1B…E…" → "scale", "_Z6vecaddPfS_" → "vecadd"; what is not mangled stays. What is not plain
 * ASCII, quotes and backslashes become '?', so that it can stand in JSON. */
void names_plain(const char *mangled, char *out, size_t size);

#endif
