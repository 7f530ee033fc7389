/* swap_ask.h: host slots for what is to leave a device are asked of the daemon before the first byte moves. For the keeper. */
#ifndef GPUD_SWAP_ASK_H
#define GPUD_SWAP_ASK_H

#include "session.h"

#pragma GCC visibility push(hidden)

/* True: so many bytes of the device may go out now: there are slots for them, or the daemon has said that there are no more. False: it is
 * asked, and its answer wakes the keeper. */
bool gpud_swap_has_slots(struct gpud_session *session, uint32_t device, uint64_t bytes, bool *full);
/* The answer. Takes the descriptors over. */
void gpud_session_slots(struct gpud_session *session, const struct gpud_msg_memory *message, int *fds, uint32_t count);
void gpud_swap_ask_forget(void);            /* forked child */

#pragma GCC visibility pop
#endif
