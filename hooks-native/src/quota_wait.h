/* quota_wait.h: allocations that wait for room (`over_memory = wait`, GPUD_MEMORY_WAIT). Threads wait here, the keeper asks the daemon, which
 * keeps the line and says when to try again. Nothing of it is touched while nobody waits. */
#ifndef GPUD_QUOTA_WAIT_H
#define GPUD_QUOTA_WAIT_H

#include <stdbool.h>
#include <stdint.h>
#include "session.h"

#pragma GCC visibility push(hidden)

/* The calling thread's allocation finds no room for so many bytes, below the limit or on the device. True: try again, now that the daemon
 * has seen room, has let this program go, or does not answer; false: it is refused. A thread that comes back keeps its place. */
bool gpud_quota_wait(uint32_t ordinal, uint64_t bytes);
/* Whatever has become of the calling thread's allocation: it waits no more. */
void gpud_quota_waited(void);

/* By the keeper: the daemon's answer; and what is to be said to it. */
void gpud_session_alloc_reply(struct gpud_session *session, const struct gpud_msg_memory *reply);
void gpud_quota_keep(struct gpud_session *session, bool *full);
void gpud_quota_wait_forget(void);          /* forked child */

#pragma GCC visibility pop
#endif
