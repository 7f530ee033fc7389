/* closing.c: a device that is closed lets no launch through, whatever the gate says and whether there is a daemon or not: its memory is not
 * (all) there, or its pages are just being replaced. Closed stays closed until gpud_open. */
#define _GNU_SOURCE
#include <time.h>
#include "state.h"

#define LOOK_NS (100 * GPUD_MILLISECOND)

uint32_t gpud_closed;

void gpud_shut(uint32_t device)
{
    if (!(__atomic_fetch_or(&gpud_closed, 1u << device, __ATOMIC_SEQ_CST) & 1u << device))
        gpud_word_raise(GPUD_WORD_CLOSED, 0);
}

int gpud_close(uint32_t device, uint64_t deadline_ns)
{
    bool was_closed = gpud_load(&gpud_closed) & 1u << device;

    gpud_shut(device);
    gpud_barrier();     /* from here on, each launch sees the closed device, or its mark is seen here */
    for (;;) {
        struct gpud_marks marks = gpud_marks(device);
        if (marks.entered == marks.left)
            return 0;
        if (gpud_now() >= deadline_ns)
            break;
        struct timespec nap = { .tv_nsec = 50000 };
        nanosleep(&nap, NULL);
    }
    if (!was_closed)
        gpud_open(device);
    return -ETIMEDOUT;
}

void gpud_open(uint32_t device)
{
    uint32_t left = __atomic_and_fetch(&gpud_closed, ~(1u << device), __ATOMIC_SEQ_CST);
    gpud_word_raise(0, left == 0 ? GPUD_WORD_CLOSED : 0);
    if (left != 0 || gpud_load_total(&gpud_closed) != 0)        /* another one closed it just before the reason was cleared */
        gpud_word_raise(gpud_load_total(&gpud_closed) != 0 ? GPUD_WORD_CLOSED : 0, 0);
    gpud_futex_wake(&gpud_closed, false);
    gpud_futex_wake(&gpud_control()->device[device].wake, true);
}

bool gpud_wait_open(const struct gpud_thread *thread)
{
    uint32_t device = thread->ordinal < GPUD_MAX_DEVICES ? gpud_load(&gpud_slot_of[thread->ordinal]) : GPUD_UNMANAGED;
    uint32_t seen = gpud_load_total(&gpud_closed);

    if (device >= GPUD_MAX_DEVICES || !(seen & 1u << device) || gpud_load_total(&gpud_exiting))
        return false;
    gpud_keeper_wake();
    gpud_futex_wait(&gpud_closed, seen, gpud_now() + LOOK_NS, false);
    return true;
}
