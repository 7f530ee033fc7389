/* test_cost.c: the table of costs and the estimates in it, by made-up samples. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include "cost.h"
#include "fake.h"

static uint64_t now = GPUD_SECOND;
static uint32_t next_function;

static const void *function(void)
{
    return (const void *)(uintptr_t)(0x7f0000000000 + 64 * (uintptr_t)++next_function);
}

static uint32_t now_costs(const void *f, uint64_t blocks, bool *young)
{
    bool ignored;
    return gpud_cost_now(0, f, blocks, young != NULL ? young : &ignored);
}

static bool is_young(const void *f, uint64_t blocks)
{
    bool young;
    gpud_cost_now(0, f, blocks, &young);
    return young;
}

static void sample(const void *f, uint64_t blocks, double us, bool busy, int others)
{
    struct gpud_measure measure = { .ns = (uint64_t)(us * 1000), .busy = busy, .clean = others < 0,
                                    .others = others < 0 ? 0 : (uint32_t)others };
    now += GPUD_MICROSECOND;
    gpud_cost_learn(0, gpud_cost_key(f, blocks), blocks, &measure, now);
}

static void clean(const void *f, double us, int times)
{
    for (int i = 0; i < times; i++)
        sample(f, 64, us, true, -1);
}

static bool about(double is, double should, double share)
{
    return is >= should * (1 - share) && is <= should * (1 + share);
}

static uint32_t seed = 1;
static double uniform(void)
{
    seed = seed * 1664525 + 1013904223;
    return (seed >> 8) / 16777216.0;
}

static void classes(void)
{
    const void *f = function();
    uint64_t before = gpud_cost_key(f, 1);

    CHECK(gpud_cost_key(f, 0) >> 8 == (uintptr_t)f, "the handle can be read back");
    for (uint64_t blocks = 2; blocks < UINT64_C(1) << 62; blocks = blocks < 1000 ? blocks + 1 : blocks * 2) {
        uint64_t key = gpud_cost_key(f, blocks);
        CHECK(key >= before && key >> 8 == (uintptr_t)f, "%llu blocks: classes go up", (unsigned long long)blocks);
        before = key;
    }
    CHECK(gpud_cost_key(f, 100) != gpud_cost_key(f, 130) && gpud_cost_key(f, 100) == gpud_cost_key(f, 104), "a fifth or so apart");
    CHECK(gpud_cost_key(f, UINT64_MAX) >> 8 == (uintptr_t)f, "no grid is too large");
}

static void priors_and_youth(void)
{
    const void *f = function(), *other = function();
    bool young = false;

    CHECK(gpud_cost_quick(f, 64) == 0, "unknown: the slow path");
    CHECK(now_costs(f, 64, &young) == 20000 && young, "nothing is known of anything");
    uint64_t unsure = gpud_cost_unsure();
    clean(f, 50, 1 + 7);
    CHECK(gpud_cost_quick(f, 64) == 0 && is_young(f, 64), "7 samples: young");
    CHECK(now_costs(f, 64, NULL) == 50000, "but known");
    CHECK(gpud_cost_unsure() > unsure, "counted as unsure");
    clean(f, 50, 1);
    CHECK(gpud_cost_quick(f, 64) == 50000 && !is_young(f, 64), "8 that agree: not young");
    CHECK(gpud_cost_quick(f, 65) == 50000 && gpud_cost_quick(f, 640) == 0, "of this size only");
    CHECK(about(now_costs(other, 128, NULL), 100000, 0.01), "the prior: blocks × what a block costs");
    CHECK(now_costs(other, UINT64_MAX / 2, NULL) <= 400000000u, "a prior is never absurd");
    CHECK(now_costs(other, 1, NULL) == GPUD_COST_LEAST_NS, "nor below the least");
    sample(other, 0, 900, true, -1);
    CHECK(now_costs(function(), 0, NULL) == 900000, "graphs have a prior of their own");
    sample(other, 64, 0.1, true, -1);
    CHECK(now_costs(other, 64, NULL) == GPUD_COST_LEAST_NS, "every launch costs something");
    sample(f = function(), 64, 9e6, true, -1);
    CHECK(now_costs(f, 64, NULL) == UINT32_MAX, "9 s: the most that can be said");
}

static void what_varies(void)
{
    const void *f = function(), *early = function();
    double sum = 0;
    int count = 0;

    /* Ten times as long at most as at least: as long young as the mean is not certain. */
    for (; count < 8 || is_young(f, 64); count++) {
        double us = 20 + 180 * uniform();
        sum += us;
        sample(f, 64, us, true, -1);
        CHECK(count < 1100, "not for ever");
    }
    CHECK(count > 32, "%d samples of what varies", count);
    CHECK(about(now_costs(f, 64, NULL) / 1e3, sum / count, 0.1), "its mean");
    for (int i = 0; i < 2000; i++)
        sample(f, 64, 20 + 180 * uniform(), true, -1);
    CHECK(about(gpud_cost_quick(f, 64) / 1e3, 110, 0.1), "%u", gpud_cost_quick(f, 64));
    /* Nine of ten end early: neither the usual case nor the rare one is what is paid. */
    for (int i = 0; i < 4000; i++)
        sample(early, 64, uniform() < 0.9 ? 10 : 500, true, -1);
    CHECK(about(now_costs(early, 64, NULL) / 1e3, 59, 0.3), "early exit: %u", now_costs(early, 64, NULL));
}

static void what_changes(void)
{
    const void *f = function();

    clean(f, 5000, 1);
    clean(f, 50, 9);
    CHECK(gpud_cost_quick(f, 64) == 50000, "a first launch, for which all is got ready, says nothing: %u", gpud_cost_quick(f, 64));
    clean(f, 50, 1100);
    clean(f, 300, 1);
    clean(f, 50, 1);
    CHECK(about(gpud_cost_quick(f, 64), 50000, 0.1), "one that is off hardly matters: %u", gpud_cost_quick(f, 64));
    clean(f = function(), 50, 100);
    clean(f, 80, 14);
    CHECK(about(gpud_cost_quick(f, 64), 80000, 0.03), "another cost for good is learned at once: %u", gpud_cost_quick(f, 64));
    clean(f, 82, 300);
    CHECK(about(gpud_cost_quick(f, 64), 82000, 0.01), "small changes are followed");
}

static void forgetting(void)
{
    const void *f = function(), *graph = function();

    clean(f, 50, 9);
    sample(graph, 0, 700, true, -1);
    gpud_cost_doubt(f);
    CHECK(gpud_cost_quick(f, 64) == 0 && is_young(f, 64), "in doubt: young");
    CHECK(now_costs(f, 64, NULL) == 50000, "what it was is better than nothing");
    clean(f, 90, 1);
    CHECK(now_costs(f, 64, NULL) == 90000, "until the first sample");
    clean(f, 90, 9);
    gpud_cost_forget(graph);
    CHECK(gpud_cost_quick(graph, 0) == 0 && gpud_cost_quick(f, 64) == 90000, "one handle only");
    gpud_cost_doubt(NULL);
    CHECK(gpud_cost_quick(f, 64) == 0 && now_costs(f, 64, NULL) == 90000, "all in doubt");
    gpud_cost_forget(NULL);
    CHECK(now_costs(f, 64, NULL) == 90000, "no handle is not all handles");
}

/* Between each two launches another client has its slice; a kernel that is cut waits for it. */
static double interrupted(double us, double slice_us)
{
    double at = slice_us * uniform();
    return us + slice_us * (int)((at + us) / slice_us);
}

static void not_alone(void)
{
    static const double costs[] = { 10, 50, 300, 800, 5000, 20000 };

    for (unsigned i = 0; i < sizeof costs / sizeof costs[0]; i++) {
        const void *f = function();
        for (int n = 0; n < 400; n++)
            sample(f, 64, interrupted(costs[i], 2000), true, 1);
        CHECK(about(now_costs(f, 64, NULL) / 1e3, costs[i], 0.15), "%.0f us beside another: %u ns", costs[i], now_costs(f, 64, NULL));
        CHECK(gpud_cost_quick(f, 64) != 0, "enough");
        clean(f, 2 * costs[i], 1);
        CHECK(now_costs(f, 64, NULL) == (uint32_t)(2 * costs[i] * 1e3) && is_young(f, 64), "a clean one replaces all that");
        clean(f, 2 * costs[i], 20);
        for (int n = 0; n < 400; n++)
            sample(f, 64, interrupted(costs[i], 2000) * 2, true, 1);
        CHECK(gpud_cost_quick(f, 64) == (uint32_t)(2 * costs[i] * 1e3), "measured alone, it holds");
    }
    /* Of one that exits early mostly: the long runs are cut more often, and must not be left out for that. */
    const void *exits = function();
    for (int n = 0; n < 3000; n++)
        sample(exits, 64, interrupted(uniform() < 0.75 ? 20 : 600, 2000), true, 1);
    CHECK(about(now_costs(exits, 64, NULL) / 1e3, 165, 0.15), "exits early beside another: %u ns", now_costs(exits, 64, NULL));
    const void *f = function();
    clean(f, 100, 20);
    now += 6 * GPUD_SECOND;
    for (int n = 0; n < 100; n++)
        sample(f, 64, 900, true, 1);
    CHECK(about(gpud_cost_quick(f, 64), 900000, 0.1), "but not against all that has come for seconds: %u", gpud_cost_quick(f, 64));
    CHECK(gpud_activity()->device[0].estimated == 1, "said in the page");
    clean(f, 900, 1);
    CHECK(gpud_activity()->device[0].estimated == 0, "no longer");
}

/* In an empty stream the interval holds the way to the device too. */
static void empty_streams(void)
{
    const void *both = function(), *never = function();

    for (int i = 0; i < 8; i++)
        sample(never, 64, 15, false, -1);
    sample(never, 64, 15, false, -1);
    CHECK(gpud_cost_quick(never, 64) == 15000, "nothing better is known");
    sample(both, 64, 48, false, -1);
    clean(both, 40, 9);
    CHECK(gpud_cost_quick(both, 64) == 40000, "what is exact replaces what is not: %u", gpud_cost_quick(both, 64));
    for (int i = 0; i < 20; i++)
        sample(both, 64, 48, false, -1);
    CHECK(about(gpud_cost_quick(both, 64), 40000, 0.01), "and stays: %u", gpud_cost_quick(both, 64));
    for (int i = 0; i < 8; i++)
        sample(never, 64, 15, false, -1);
    CHECK(about(gpud_cost_quick(never, 64), 7000, 0.05), "what others tell is taken off: %u", gpud_cost_quick(never, 64));
}

static void factors(void)
{
    const void *f = function();

    clean(f, 100, 9);
    CHECK(gpud_cost_quick(f, 64) == 100000, "no factor yet");
    for (int i = 0; i < 20; i++)    /* 40 launches, charged with what the table says, took 3.6 ms */
        gpud_cost_correct(0, 40, 40 * (uint64_t)gpud_cost_quick(f, 64), gpud_cost_factor(0), 3600000);
    CHECK(about(gpud_activity()->device[0].factor_ppm, 900000, 0.01), "%u", gpud_activity()->device[0].factor_ppm);
    CHECK(about(gpud_cost_quick(f, 64), 90000, 0.01), "all charges follow");
    for (int i = 0; i < 300; i++)
        gpud_cost_correct(0, 40, 40 * (uint64_t)gpud_cost_quick(f, 64), gpud_cost_factor(0), 100000000);
    CHECK(gpud_activity()->device[0].factor_ppm == 4000000, "at most 4");
    for (int i = 0; i < 300; i++)
        gpud_cost_correct(0, 40, 40 * (uint64_t)gpud_cost_quick(f, 64), gpud_cost_factor(0), 1);
    CHECK(gpud_activity()->device[0].factor_ppm == 250000, "at least a quarter");
    gpud_cost_publish();
    CHECK(gpud_activity()->device[0].factor_ppm == 250000 && gpud_activity()->device[1].factor_ppm == 1000000, "each device's own");
    for (int i = 0; i < 300; i++)
        gpud_cost_correct(0, 40, 40 * (uint64_t)gpud_cost_quick(f, 64), gpud_cost_factor(0), 4000000);
    CHECK(about(gpud_activity()->device[0].factor_ppm, 1000000, 0.01), "back: %u", gpud_activity()->device[0].factor_ppm);
}

/* Far more functions than there is room for: those in use stay. */
static void crowds(void)
{
    enum { MANY = 20000, KEPT = 1000 };
    const void *kept[KEPT];
    uint32_t known = 0, wrong = 0, worth = 0;

    now += 5 * GPUD_SECOND;
    for (int i = 0; i < KEPT; i++) {
        kept[i] = function();
        clean(kept[i], 40, 9);
    }
    for (int i = 0; i < MANY; i++) {
        const void *f = function();
        clean(f, 60, 9);
        uint32_t quick = gpud_cost_quick(f, 64);
        wrong += quick != 0 && !about(quick, 60000, 0.02);
    }
    for (int i = 0; i < KEPT; i++)
        known += about(gpud_cost_quick(kept[i], 64), 40000, 0.02);
    CHECK(wrong == 0, "%u wrong", wrong);
    CHECK(known > KEPT * 9 / 10, "%u of %d known still", known, KEPT);
    for (int i = 0; i < MANY; i++)
        worth += is_young(function(), 64);
    CHECK(worth < MANY / 4, "%u of %d worth a sample though there is no room", worth, MANY);
    now += 5 * GPUD_SECOND;
    const void *f = function();
    clean(f, 70, 9);
    CHECK(about(gpud_cost_quick(f, 64), 70000, 0.02), "what was not seen for long makes room");
}

static uint32_t stop, bad;
static const void *shared_functions[8];

static void *read_quick(void *unused)
{
    while (!gpud_load(&stop)) {
        for (int i = 0; i < 8; i++) {
            uint32_t ns = gpud_cost_quick(shared_functions[i], 64);
            if (ns != 0 && (ns < 9000 || ns > 90000))
                gpud_add(&bad, 1);
        }
    }
    return unused;
}

static void *change(void *index)
{
    struct gpud_measure measure = { .busy = true, .clean = true };

    for (uint32_t i = 0; i < 20000; i++) {
        uint32_t at = (i + (uint32_t)(uintptr_t)index) % 8;
        measure.ns = 10000 * (at + 1);
        gpud_cost_learn(0, gpud_cost_key(shared_functions[at], 64), 64, &measure, now + i);
        if (i % 997 == 0)
            gpud_cost_forget(shared_functions[at]);
        if (i % 1499 == 0)
            gpud_cost_doubt(NULL);
    }
    return NULL;
}

static void threads_at_it(void)
{
    pthread_t readers[2], writers[2];

    for (int i = 0; i < 8; i++)
        shared_functions[i] = function();
    for (uintptr_t i = 0; i < 2; i++) {
        pthread_create(&readers[i], NULL, read_quick, NULL);
        pthread_create(&writers[i], NULL, change, (void *)i);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(writers[i], NULL);
    gpud_store(&stop, 1);
    for (int i = 0; i < 2; i++)
        pthread_join(readers[i], NULL);
    CHECK(bad == 0, "%u readings that nobody wrote", bad);
}

static void children(void)
{
    const void *f = function();
    int status = -1;

    now += 5 * GPUD_SECOND;
    clean(f, 50, 9);
    pid_t child = fork();
    if (child == 0) {
        gpud_cost_fork();
        bool known = about(gpud_cost_quick(f, 64), 50000, 0.02);
        clean(f, 90, 40);
        bool learned = about(gpud_cost_quick(f, 64), 90000, 0.02);
        if (!known || !learned)
            fprintf(stderr, "in the child: %u\n", gpud_cost_quick(f, 64));
        _exit(known && learned ? 0 : 1);
    }
    waitpid(child, &status, 0);
    CHECK(status == 0, "a forked child knows what its parent knew, and learns on");
}

int main(void)
{
    local_attach(2);
    classes();
    priors_and_youth();
    what_varies();
    what_changes();
    forgetting();
    not_alone();
    empty_streams();
    factors();
    crowds();
    threads_at_it();
    children();
    return check_summary("cost");
}
