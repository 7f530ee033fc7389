/* host_slots.h: host memory for what leaves the device: units of 2 MiB in memfds that the daemon has made, sized and sealed
 * (GPUD_MSG_SLOTS), page-locked by the driver where it agrees. A slot is a chain of units, so it is never too scattered to be had. */
#ifndef GPUD_HOST_SLOTS_H
#define GPUD_HOST_SLOTS_H

#include <stdbool.h>
#include <stdint.h>
#include "cuda_types.h"

#pragma GCC visibility push(hidden)

#define GPUD_HOST_UNIT (UINT64_C(2) << 20)
#define GPUD_HOST_PIECE (UINT64_C(1) << 30)     /* registered at once, at most */

/* Takes over a memfd of `bytes` (whole units): maps it, and closes the descriptor. 0 or a negative errno. Any thread. */
int gpud_host_add(int fd, uint64_t bytes);
/* Page-locks what is not yet, in the context, which is current. Where the driver refuses, copies are unpinned, and counted
 * (gpud_host_unpinned); it is asked once for each piece, and again after the end of the context that it was asked in. One thread at a
 * time. False: `until_ns` (0: never) has come, and there may be more. */
bool gpud_host_register(CUcontext context, uint64_t until_ns);
void gpud_host_context_gone(CUcontext context);
/* What more would be needed for `bytes` to fit, in whole units; 0: they fit. */
uint64_t gpud_host_lack(uint64_t bytes);
/* A slot of so many bytes (whole units): its first unit. False: not enough room, nothing taken. */
bool gpud_host_take(uint64_t bytes, uint32_t *first);
void gpud_host_give(uint32_t first);
/* One stretch of a slot: the longest that lies in one piece, at most `most` bytes. Moves on `unit`, UINT32_MAX at the end. */
struct gpud_stretch {
    unsigned char *at;
    uint64_t bytes;
};
struct gpud_stretch gpud_host_stretch(uint32_t *unit, uint64_t most);
/* Of the contents of a slot. Not for security: it finds what was overwritten, lost or mixed up. */
uint64_t gpud_host_sum(uint32_t first);

extern uint64_t gpud_host_bytes, gpud_host_used, gpud_host_unpinned;
/* In a forked child: begins with nothing. (The mappings are not in it, and stay the parent's.) */
void gpud_host_forget(void);

#pragma GCC visibility pop
#endif
