/* keeper_sleep.c: how the keeper sleeps and is woken. By the clock only while the client is active (or was a moment ago), or has no daemon. */
#define _GNU_SOURCE
#include <poll.h>
#include <sys/socket.h>
#include "keeper.h"
#include "session.h"
#include "state.h"

#define DEAF_NS (100 * GPUD_MILLISECOND)         /* where no edge can wake it */

uint32_t gpud_keeper_asleep;
static uint32_t naps;           /* 1: it sleeps, be it for half a millisecond */
static uint32_t calls;          /* for it, so far: one that comes just before it sleeps is not missed */
/* Application threads write one byte to [1] to wake it. A socket pair, so that it is known again, and no write raises SIGPIPE. */
static struct gpud_descriptor wake_ends[2] = { GPUD_NO_DESCRIPTOR, GPUD_NO_DESCRIPTOR };

static void ring(void)
{
    int saved = errno;

    if (gpud_descriptor_is_ours(&wake_ends[1]))
        send(gpud_load(&wake_ends[1].fd), "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    errno = saved;
}

void gpud_keeper_wake(void)
{
    gpud_add_total(&calls, 1);
    if (__atomic_exchange_n(&gpud_keeper_asleep, 0, __ATOMIC_SEQ_CST) == 1)
        ring();
}

void gpud_keeper_call(void)
{
    gpud_add_total(&calls, 1);
    gpud_store_total(&gpud_keeper_asleep, 0);
    if (__atomic_exchange_n(&naps, 0, __ATOMIC_SEQ_CST) == 1)
        ring();
}

void gpud_keeper_wakeable(void)
{
    int ends[2];

    gpud_descriptor_drop(&wake_ends[0]);
    gpud_descriptor_drop(&wake_ends[1]);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0) {
        gpud_descriptor_keep(&wake_ends[0], ends[0]);
        gpud_descriptor_keep(&wake_ends[1], ends[1]);
    }
}

static bool any_active(void)
{
    for (uint32_t device = 0; device < GPUD_MAX_DEVICES; device++) {
        if (GPUD_EDGE_ACTIVE(gpud_load_total(gpud_edge_word(gpud_presence_at(device)))))
            return true;
    }
    return false;
}

uint32_t gpud_keeper_calls(void)
{
    return gpud_load_total(&calls);
}

void gpud_keeper_sleep(struct gpud_session *session, uint64_t until, bool full, uint32_t heard)
{
    struct pollfd on[2] = {
        { .fd = wake_ends[0].fd, .events = POLLIN },
        { .fd = session->socket.fd, .events = (short)(POLLIN | (full ? POLLOUT : 0)) },
    };
    uint64_t now = gpud_now();

    if (wake_ends[1].fd < 0 && until > now + DEAF_NS)
        until = now + DEAF_NS;
    struct timespec left = gpud_timespec(until > now ? until - now : 0);

    gpud_store_total(&naps, 1);
    if (gpud_load_total(&calls) != heard) {
        gpud_store_total(&naps, 0);
        return;
    }
    if (until == GPUD_NEVER || until > now + GPUD_KEEPER_LINGERS_NS) {
        gpud_store_total(&gpud_keeper_asleep, 1);
        if ((gpud_load_acquire(&gpud_managed) && any_active()) || gpud_load_total(&gpud_exiting) || gpud_load_total(&calls) != heard) {
            gpud_store_total(&gpud_keeper_asleep, 0);
            gpud_store_total(&naps, 0);
            return;
        }
    }
    ppoll(on, 2, until == GPUD_NEVER ? NULL : &left, NULL);
    gpud_store_total(&gpud_keeper_asleep, 0);
    gpud_store_total(&naps, 0);
    gpud_add(&gpud_activity()->keeper_wakes, 1);
    if (on[0].revents & POLLIN) {
        char bytes[64];
        while (gpud_descriptor_is_ours(&wake_ends[0]) && recv(wake_ends[0].fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
            ;
    }
    /* Somebody closed all descriptors: ours are made anew, what now has their numbers is not touched. */
    if (!gpud_descriptor_is_ours(&wake_ends[0]) || !gpud_descriptor_is_ours(&wake_ends[1]))
        gpud_keeper_wakeable();
    if (session->socket.fd >= 0 && !gpud_descriptor_is_ours(&session->socket))
        gpud_session_close(session, 0);
}

void gpud_keeper_sleep_forget(void)
{
    gpud_descriptor_drop(&wake_ends[0]);
    gpud_descriptor_drop(&wake_ends[1]);
    gpud_keeper_asleep = naps = 0;
}
