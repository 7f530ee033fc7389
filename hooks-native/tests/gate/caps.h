/* caps.h: what the tests of caps have in common: one worker, kernels of known cost, caps that time does not change. */
#ifndef GPUD_TEST_CAPS_H
#define GPUD_TEST_CAPS_H

#include "limits.h"

#define COST (100 * GPUD_MICROSECOND)
#define KERNEL ((const void *)0x1000)
#define HUGE_KERNEL ((const void *)0x2000)
#define TINY_KERNEL ((const void *)0x3000)

static struct limits_thread worker;

/* Launches until the cap holds, and no further. */
static inline void fills_up_to(uint32_t launches, const char *what)
{
    EVENTUALLY(limits_launched(&worker) == launches && limits_held(1), "%s: %u launches of %u", what, limits_launched(&worker), launches);
    limits_pause(12 * GPUD_MILLISECOND);        /* it looks every 5 ms */
    CHECK(limits_launched(&worker) == launches, "%s: %u launches of %u", what, limits_launched(&worker), launches);
}

/* A cap without rate, of so much from now on. */
static inline void allow(uint64_t ns)
{
    limits_cap(0, (int64_t)(limits_spent(0) + ns), 0, gpud_now());
}

static inline void caps_begin(void)
{
    limits_begin(2);
    limits_teach(KERNEL, 1, COST);
    limits_teach(HUGE_KERNEL, 1, 50 * GPUD_MILLISECOND);
    limits_teach(TINY_KERNEL, 1, 1);
}

#endif
