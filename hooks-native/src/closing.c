/* closing.c: a device that is closed lets no launch through, and none is under way there: its pages can be replaced. */
#define _GNU_SOURCE
#include <time.h>
#include "state.h"

int gpud_close(uint32_t device, uint64_t deadline_ns)
{
    __atomic_fetch_or(&gpud_closed, 1u << device, __ATOMIC_SEQ_CST);
    gpud_word_raise(GPUD_WORD_CLOSED, 0);
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
    gpud_open(device);
    return -ETIMEDOUT;
}

void gpud_open(uint32_t device)
{
    uint32_t left = __atomic_and_fetch(&gpud_closed, ~(1u << device), __ATOMIC_SEQ_CST);
    gpud_word_raise(0, left == 0 ? GPUD_WORD_CLOSED : 0);
    gpud_futex_wake(&gpud_control()->device[device].wake, true);
}
