/* swap_ask.c: see swap_ask.h. One question at a time; a session that is new knows of none. */
#include "swap_ask.h"

#include <string.h>
#include "host_slots.h"
#include "log.h"
#include "swap.h"

enum { NONE, ASKED, REFUSED };

static struct {
    uint32_t state, device;
    bool exact;                 /* refused with room to spare: asked once more, for what is to go */
    uint64_t request;           /* of the last question, whatever became of it */
    uint64_t ready_ns;          /* of the session that was asked */
} ask;

/* Slots for what is copied: what is idle leaves without a copy, and the last chunk may be larger than what is left to go (`exact`: it
 * happens not to be). */
static uint64_t slots_for(uint32_t device, uint64_t bytes, bool exact)
{
    struct gpud_pool_counts counts = gpud_pool_counts(device);
    uint64_t used = counts.resident > counts.idle ? counts.resident - counts.idle : 0;
    uint64_t copied = bytes > counts.idle ? bytes - counts.idle : 0;

    copied = copied == 0 || exact ? copied : copied + gpud_pool_largest(device) - GPUD_CHUNK_UNIT;
    return copied < used ? copied : used;
}

bool gpud_swap_has_slots(struct gpud_session *session, uint32_t device, uint64_t bytes, bool *full)
{
    bool refused = ask.state == REFUSED && ask.device == device && ask.ready_ns == session->ready_ns;

    if (ask.ready_ns != session->ready_ns)
        ask.state = NONE;
    ask.exact = refused ? !ask.exact : ask.exact && ask.state == ASKED;
    uint64_t lack = gpud_host_lack(slots_for(device, bytes, ask.exact));
    if (lack == 0 || (refused && !ask.exact)) {
        ask.state = ask.state == ASKED ? ASKED : NONE;
        ask.exact = false;
        return true;
    }
    if (ask.state == ASKED)
        return false;
    struct gpud_msg_memory message = { { GPUD_WIRE_MAGIC, GPUD_MSG_SLOTS_ASKED, sizeof message }, device, 0, ask.request + 1, lack, 0 };
    if (!*full && gpud_session_send(session, &message, sizeof message, NULL, 0, full)) {
        ask.request++;
        ask.state = ASKED;
        ask.device = device;
        ask.ready_ns = session->ready_ns;
    }
    return false;
}

void gpud_session_slots(struct gpud_session *session, const struct gpud_msg_memory *message, int *fds, uint32_t count)
{
    if (session->state != GPUD_SESSION_READY || count != (message->code == 0 ? 1u : 0u)) {
        gpud_session_close_all(fds, count);
        gpud_session_nonsense(session, "SLOTS out of order, or with the wrong descriptors");
        return;
    }
    bool expected = ask.state == ASKED && ask.request == message->request;
    int failure = message->code == 0 ? gpud_host_add(fds[0], message->bytes) : 0;
    if (failure != 0)
        gpud_log(GPUD_LOG_WARNING, GPUD_ONCE_NO_SLOTS, "the host memory that the daemon gives cannot be used (%s): what this program has on the "
                 "device stays there", strerror(-failure));
    pthread_mutex_lock(&gpud_pool_lock);
    gpud_pool_write(message->slot);         /* that it has them, before it asks for more */
    pthread_mutex_unlock(&gpud_pool_lock);
    if (expected)
        ask.state = message->code == 0 && failure == 0 ? NONE : REFUSED;
}

void gpud_swap_ask_forget(void)
{
    memset(&ask, 0, sizeof ask);
}
