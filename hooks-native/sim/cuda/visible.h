/* visible.h: which devices of the node this process sees. */
#ifndef GPUD_SIM_VISIBLE_H
#define GPUD_SIM_VISIBLE_H

#include <stdint.h>

#include "../link.h"

/* Fills `visible` with the node's device numbers in the order of `list` (NULL: all) and returns how many. As the CUDA driver
 * does: the list ends at the first entry that names no device, and a device named twice makes it empty. */
int visible_devices(const char *list, uint32_t visible[SIM_MAX_DEVICES]);

#endif
