/* session_lock.c: the device lock's half of the session: what the daemon says of it. Keeper only. */
#include <pthread.h>

#include "lock.h"
#include "log.h"
#include "session.h"
#include "state.h"
#include "swap.h"

#define ASK_AGAIN_NS GPUD_SECOND        /* after a refusal */

static uint64_t ready_ns;               /* of the session that was told what `asked` and `sent` say */

uint32_t gpud_lock_slots(void)
{
    uint32_t slots = 0;

    for (uint32_t i = 0; i < GPUD_MAX_DEVICES; i++) {
        uint32_t slot = gpud_load(&gpud_slot_of[i]);
        slots |= slot < GPUD_MAX_DEVICES ? 1u << slot : 0;
    }
    return slots;
}

void gpud_lock_begin_anew(const struct gpud_session *session)
{
    if (session->ready_ns == ready_ns)
        return;
    ready_ns = session->ready_ns;
    for (uint32_t device = 0; device < GPUD_MAX_DEVICES; device++) {
        struct gpud_lock_device *lock = &gpud_lock_devices[device];
        lock->asked = lock->owed = lock->owes_in = lock->owes_back = lock->swaps = lock->owes_swapped = false;
        lock->left = false;
        lock->retry_ns = 0;
        gpud_store_total(&gpud_presence_at(device)->lock, lock->state);
        gpud_lock_tell_turns(device);
        pthread_mutex_lock(&gpud_pool_lock);
        gpud_pool_write(device);        /* the activity page may be a new one */
        pthread_mutex_unlock(&gpud_pool_lock);
    }
    gpud_lock_reason_again();
    for (uint32_t i = 0; i < GPUD_LOCK_REQUESTS; i++)
        gpud_store_total(&gpud_lock_requests[i].sent, 0);
}

static void granted(uint32_t device, const struct gpud_msg_lock *message)
{
    struct gpud_lock_device *lock = &gpud_lock_devices[device];
    bool comes = lock->state == GPUD_LOCK_COMES_IN && lock->epoch == message->epoch;

    if (comes) {                /* more may come in, or less; all else goes on */
        if (!(message->flags & GPUD_LOCK_AGAIN))
            lock->bytes = message->bytes;
        lock->retry_ns = 0;
    }
    if (comes || message->flags & (GPUD_LOCK_AGAIN | GPUD_LOCK_LEVEL))
        return;                 /* the keeper looks at the page; if it was given back meanwhile, it may be another tenant's by now */
    lock->ends = false;         /* whatever was asked back before */
    gpud_lock_ends(device, false);
    if (lock->state == GPUD_LOCK_HAS && lock->epoch == message->epoch)
        return;
    if (lock->state == GPUD_LOCK_LEAVES || lock->epoch != message->epoch)
        lock->moved = 0;
    lock->epoch = message->epoch;
    lock->bytes = message->bytes;
    lock->began_ns = gpud_now();
    lock->retry_ns = 0;
    lock->owed = lock->owes_back = lock->owes_in = lock->asked = false;
    lock->flags = 0;
    gpud_lock_state(device, GPUD_LOCK_COMES_IN);
}

static void revoked(uint32_t device, const struct gpud_msg_lock *message)
{
    struct gpud_lock_device *lock = &gpud_lock_devices[device];
    uint64_t now = gpud_now();

    if (lock->state == GPUD_LOCK_LEAVES) {
        lock->deadline_ns = message->time_ns < lock->deadline_ns ? message->time_ns : lock->deadline_ns;
    } else if (lock->state == GPUD_LOCK_NONE || lock->state == GPUD_LOCK_ASKS) {
        lock->epoch = message->epoch;       /* it has left, and may have worked without a gate since */
        gpud_lock_leave(device, message->time_ns, now);
    } else if (lock->epoch == message->epoch && lock->state == GPUD_LOCK_HAS) {
        gpud_lock_ask_back(device, message->time_ns);
    } else if (lock->epoch == message->epoch) {
        gpud_lock_leave(device, message->time_ns, now);
    }
}

void gpud_session_lock(struct gpud_session *session, const struct gpud_msg_lock *message)
{
    if (session->state != GPUD_SESSION_READY || message->slots & ~gpud_lock_slots() || message->epoch == 0) {
        gpud_session_nonsense(session, "a message about a lock of devices that this program does not have");
        return;
    }
    gpud_lock_begin_anew(session);
    for (uint32_t device = 0; device < GPUD_MAX_DEVICES; device++) {
        if (!(message->slots & 1u << device))
            continue;
        if (message->head.type == GPUD_MSG_LOCK_GRANTED)
            granted(device, message);
        else
            revoked(device, message);
    }
}

void gpud_session_lock_refused(uint32_t request, const char *text)
{
    gpud_log(GPUD_LOG_WARNING, GPUD_ONCE_NOT, "the daemon refuses a turn: %s", text);
    for (uint32_t device = 0; device < GPUD_MAX_DEVICES; device++) {
        struct gpud_lock_device *lock = &gpud_lock_devices[device];
        if (lock->asked && (uint32_t)lock->id == request) {
            lock->asked = false;
            lock->retry_ns = gpud_now() + ASK_AGAIN_NS;
        }
    }
    for (uint32_t i = 0; i < GPUD_LOCK_REQUESTS; i++) {
        struct gpud_lock_request *it = &gpud_lock_requests[i];
        if (gpud_load_total(&it->sent) && (uint32_t)gpud_load(&it->id) == request)
            gpud_store_total(&it->refused, 1);
    }
    gpud_add_total(&gpud_lock_news, 1);
    gpud_futex_wake(&gpud_lock_news, false);
}

void gpud_session_swap_out(struct gpud_session *session, const struct gpud_msg_memory *message)
{
    if (session->state != GPUD_SESSION_READY || message->slot >= GPUD_MAX_DEVICES || !(gpud_lock_slots() & 1u << message->slot)) {
        gpud_session_nonsense(session, "SWAP_OUT of a device that this program does not have");
        return;
    }
    gpud_lock_begin_anew(session);
    gpud_lock_devices[message->slot].swap = *message;
    gpud_lock_devices[message->slot].swapped = 0;
    gpud_lock_devices[message->slot].swaps = true;
}
