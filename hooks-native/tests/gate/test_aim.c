/* test_aim.c: when finished groups are asked about, on a clock of its own: how many questions that takes, and what the device idles for. */
#include <string.h>
#include "fake.h"
#include "window_state.h"

#define US 1000.0
#define SMALL 15        /* groups of fewer launches: whoever finds one finished at once asks for the next, too (window_group.c) */

static uint32_t seed = 3;
static double chance(void)
{
    seed = seed * 1664525 + 1013904223;
    return (seed >> 8) / 16777216.0;
}

/* Beside others, a thread is now and then kept from the processor. */
static double late_chance, late_us;

struct outcome {
    double questions;       /* for each group */
    double idle;            /* share of the time */
};

/* One thread that launches as fast as it may: `window` launches in flight, kernels of `kernel_us` (± `varies`, a share of it), × `then` from the
 * middle on; a launch takes 2 us, and whoever sleeps wakes up to 60 us late. The outcome is of the second half. */
static struct outcome run(uint32_t window_size, double kernel_us, double varies, double then)
{
    const double launch_us = 2, oversleep_us = 60;
    const uint32_t groups = 4000;
    static struct gpud_window window;
    static double ends[1 << 16];    /* of launches */
    const struct gpud_window_limit limit = { .launches = window_size };
    uint32_t size = gpud_group_size(&limit, 0), launched = 0, known = 0, asked = 0, done = 0, open = 0;
    uint32_t last_of[GPUD_WINDOW_GROUPS];
    double now = 1e9, free_at = 0, idle = 0, begin = 0;

    memset(&window, 0, sizeof window);
    while (done < groups) {
        while (launched - known < window_size) {
            now += launch_us * US;
            double start = now > free_at ? now : free_at;
            if (done == groups / 2)
                begin = begin > 0 ? begin : now;
            if (done >= groups / 2 && launched > 0)
                idle += start - free_at;
            free_at = start + kernel_us * (done >= groups / 2 ? then : 1) * US * (1 + varies * (2 * chance() - 1));
            ends[launched++ & 0xffff] = free_at;
            if (open++ == 0)
                window.groups[window.count++] = (struct gpud_group){ .began_ns = (uint64_t)now };
            window.groups[window.count - 1].launches = open;
            if (open == size) {
                window.groups[window.count - 1].recorded_ns = (uint64_t)now;
                last_of[window.count - 1] = launched - 1;
                open = 0;
            }
        }
        const struct gpud_group *head = gpud_aim_head(&window);
        uint64_t aim = gpud_aim(&window, (uint64_t)now), wake = gpud_aim_wake(&window, (uint64_t)now);
        if ((double)aim > now) {
            double slept = (double)wake > now ? (double)wake + oversleep_us * US * chance() : now;
            now = slept > (double)aim ? slept : (double)aim;
            now += late_chance > 0 && chance() < late_chance ? late_us * US * chance() : 0;
        }
        bool late = now > (double)aim + 200 * US, first = window.unfinished_ns == 0;
        now += US;
        asked += done >= groups / 2;
        if (ends[last_of[0] & 0xffff] > now) {
            window.unfinished_ns = (uint64_t)now;
            window.asked++;
            continue;
        }
        known = last_of[0] + 1;
        gpud_aim_finished(&window, head, (uint64_t)now);
        if ((double)aim > now - 100 * US && kernel_us * size > 100 && gpud_aim_wants_check(&window, (uint64_t)now)) {
            asked += done >= groups / 2;
            gpud_aim_checked(&window, free_at <= now, (uint64_t)now);
        }
        gpud_group_remove(&window, 0);
        memmove(last_of, last_of + 1, sizeof last_of - sizeof last_of[0]);
        done++;
        while ((late || (size < SMALL && first)) && (head = gpud_aim_head(&window)) != NULL) {
            asked += done >= groups / 2;
            if (ends[last_of[0] & 0xffff] > now) {
                window.unfinished_ns = late ? (uint64_t)now : 0;
                window.asked += late;
                break;
            }
            known = last_of[0] + 1;
            gpud_aim_passed(&window, head, (uint64_t)now);
            gpud_group_remove(&window, 0);
            memmove(last_of, last_of + 1, sizeof last_of - sizeof last_of[0]);
            done++;
        }
    }
    return (struct outcome){ .questions = asked / (double)(groups - groups / 2), .idle = idle / (now - begin) };
}

static void check(uint32_t window, double kernel_us, double varies, double most_calls, double most_idle)
{
    const struct gpud_window_limit limit = { .launches = window };
    struct outcome o = run(window, kernel_us, varies, 1);
    double calls = (1 + o.questions) * 1000 / gpud_group_size(&limit, 0);

    printf("window %u, kernels of %.0f us ± %.0f %%: %.2f questions a group, %.0f calls per 1,000 launches, device idle %.2f %%\n", window,
           kernel_us, 100 * varies, o.questions, calls, 100 * o.idle);
    CHECK(calls <= most_calls, "window %u, %.0f us: %.0f calls", window, kernel_us, calls);
    CHECK(o.idle <= most_idle, "window %u, %.0f us: idle %.3f", window, kernel_us, o.idle);
}

int main(void)
{
    static const double kernels[] = { 5, 10, 20, 50, 300, 2000 };

    for (unsigned i = 0; i < sizeof kernels / sizeof kernels[0]; i++) {
        double least = kernels[i] < 10 ? 0.3 : 0;   /* a group is over before a sleep can end in time */
        check(16, kernels[i], 0, 150, 0.1 + least);
        check(16, kernels[i], 0.3, 150, 0.15 + least);
        check(24, kernels[i], 0.3, 150, 0.05 + least / 2);
        check(32, kernels[i], 0.3, 140, 0.05 + least / 2);
        check(64, kernels[i], 0.3, 70, 0.05);
    }
    /* Small windows; then with a thread that is up to 3 ms late, one time in ten. */
    for (uint32_t window = 4; window <= 12; window += 2) {
        check(window, 50, 0.05, 3000, 0.03);
        check(window, 200, 0.05, 3000, 0.01);
    }
    late_chance = 0.1;
    late_us = 3000;
    check(10, 200, 0.05, 1500, 0.11);
    check(12, 300, 0.05, 1500, 0.02);
    check(32, 300, 0.05, 200, 0.005);
    late_chance = late_us = 0;
    /* Kernels are fifty times as short, or long, from one moment on. */
    for (uint32_t window = 16; window <= 64; window *= 2) {
        struct outcome shorter = run(window, 2000, 0.1, 0.02), longer = run(window, 40, 0.1, 50);
        printf("window %u: shorter: %.2f questions a group, idle %.1f %%; longer: %.2f, idle %.1f %%\n", window, shorter.questions,
               100 * shorter.idle, longer.questions, 100 * longer.idle);
        CHECK(shorter.idle < 0.7 && shorter.questions < 1.5, "window %u, shorter: idle %.2f", window, shorter.idle);
        CHECK(longer.idle < 0.1 && longer.questions < 1.5, "window %u, longer: idle %.2f", window, longer.idle);
    }
    return check_summary("aim");
}
