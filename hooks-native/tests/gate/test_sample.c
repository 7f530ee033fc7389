/* test_sample.c: what launches are charged against what they take on the device, and what measuring that costs. All by a clock of
 * the test's own. */
#include <stdlib.h>
#include <string.h>
#include "clock.h"
#include "real.h"
#include "sample_state.h"
#include "sampled.h"

#define US GPUD_MICROSECOND
#define MS GPUD_MILLISECOND

static uint32_t next_function;
static uint32_t seed = 7;

static const void *function(void)
{
    return (const void *)(uintptr_t)(0x550000000000 + 64 * (uintptr_t)++next_function);
}

static uint64_t between(uint64_t least, uint64_t most)
{
    seed = seed * 1664525 + 1013904223;
    return least + (uint64_t)((double)(seed >> 8) / 16777216.0 * (double)(most - least));
}

static struct gpud_activity_device *activity(void)
{
    return &gpud_activity()->device[0];
}

/* Waits until everything under way is finished and read. */
static void finish(CUstream stream)
{
    sampled_wait(stream);
    for (int i = 0; i < 200; i++) {
        struct timespec nap = { .tv_nsec = 100000 };
        gpud_sample_read(0, gpud_now());
        if (gpud_load(&gpud_samplers[0].next_ns) == GPUD_NEVER)
            return;
        nanosleep(&nap, NULL);
    }
}

/* `bursts` of `each` launches with a synchronise between; checks what is charged, and what measuring it costs. */
static void bursts(const char *what, int bursts, int each, uint64_t least, uint64_t most, double within, double calls_most)
{
    const void *f = function();
    CUstream stream = fake_stream();
    struct sampled all = sampled_begin();
    uint64_t calls = 0, clean = activity()->clean, samples = activity()->samples;

    for (int i = 0; i < bursts; i++) {
        for (int j = 0; j < each; j++) {
            sampled_launch(&all, stream, f, 64, between(least, most));
            if (all.launches == 12000)
                calls = gpud_load(&activity()->calls);
        }
        sampled_wait(stream);
    }
    double is = sampled_ratio(&all);
    double per_thousand = all.launches <= 12000 ? 0 : (double)(activity()->calls - calls) * 1000 / (double)(all.launches - 12000);
    printf("%s: charged %.3f of what was taken; %llu samples, %llu clean; %.1f calls per 1,000 launches; factor %.3f\n", what, is,
           (unsigned long long)(activity()->samples - samples), (unsigned long long)(activity()->clean - clean), per_thousand,
           activity()->factor_ppm * 1e-6);
    CHECK(is > 1 - within && is < 1 + within, "%s: charged %.3f of what was taken", what, is);
    CHECK(per_thousand <= calls_most, "%s: %.1f driver calls per 1,000 launches", what, per_thousand);
    CHECK(activity()->clean > clean, "%s: clean samples", what);
    finish(stream);
}

/* One function with several grids, and functions in turn. */
static void mixes(void)
{
    const void *fs[5] = { function(), function(), function(), function(), function() };
    CUstream stream = fake_stream();
    struct sampled all = sampled_begin();

    for (int i = 0; i < 6000; i++) {
        uint32_t which = (uint32_t)between(0, 5), size = (uint32_t)between(0, 4);
        sampled_launch(&all, stream, fs[which], 32ull << size, (10 + 10 * which) * US + (10 * US << size));
        if (i % 300 == 299)
            sampled_wait(stream);
    }
    CHECK(sampled_ratio(&all) > 0.95 && sampled_ratio(&all) < 1.05, "a mix: charged %.3f", sampled_ratio(&all));
    finish(stream);
}

/* Each launch into an empty stream: the way to the device is not its cost, once other kernels have told how long that is. */
static void empty_streams(void)
{
    const void *f = function(), *other = function();
    CUstream stream = fake_stream();
    struct sampled all = sampled_begin();

    for (int i = 0; i < 400; i++) {
        for (int j = 0; j < 3; j++)
            sampled_launch(&all, stream, other, 64, 50 * US);
        sampled_wait(stream);
    }
    finish(stream);
    all = sampled_begin();
    for (int i = 0; i < 300; i++) {
        sampled_launch(&all, stream, f, 64, 60 * US);
        sampled_wait(stream);
    }
    CHECK(sampled_ratio(&all) > 0.94 && sampled_ratio(&all) < 1.06, "empty streams: charged %.3f", sampled_ratio(&all));
    finish(stream);
}

/* Two streams at once, from one thread: each pair sees the other stream's work too; the stretches tell. */
static void two_streams(void)
{
    const void *f = function();
    CUstream streams[2] = { fake_stream(), fake_stream() };
    struct sampled all = sampled_begin();

    /* It works in another way than before, which takes some stretches to be believed. */
    double is = 0;
    for (int part = 0; part < 10 && !(is > 0.9 && is < 1.1); part++) {
        struct sampled then = all;
        uint64_t settled = gpud_presence()->device[0].spent_ns;
        for (int i = 0; i < 10000; i++) {
            sampled_launch(&all, streams[i % 2], f, 64, 20 * US);
            if (i % 500 == 499) {
                sampled_wait(streams[0]);
                sampled_wait(streams[1]);
            }
        }
        is = sampled_ratio_since(&all, &then, settled);
    }
    printf("two streams: charged %.3f; factor %.3f\n", is, activity()->factor_ppm * 1e-6);
    CHECK(is > 0.9 && is < 1.1, "two streams: charged %.3f", is);
    finish(streams[0]);
}

static void set_peer(struct gpud_presence_page *peer, uint32_t active)
{
    uint64_t *word = gpud_edge_word(&peer->device[0]);
    gpud_store(word, GPUD_EDGE_WORD(active, GPUD_EDGE_COUNT(gpud_load(word)) + 1));
}

/* Another client at work half of the time, or always, in slices of 2 ms. */
static void contended(const char *what, uint64_t cost, bool always, double within)
{
    struct gpud_presence_page *peer = (struct gpud_presence_page *)(void *)gpud_region.peer[3];
    const void *f = function();
    CUstream stream = fake_stream();
    struct sampled all = sampled_begin();
    uint64_t clean = activity()->clean, samples = activity()->samples, until = gpud_now() + 1500 * MS;
    bool on = false;

    while (gpud_now() < until) {
        bool now_on = always || between(0, 2) == 1;
        if (now_on != on) {
            sampled_wait(stream);
            on = now_on;
            set_peer(peer, on);
            fake_slice_ns = on ? 2 * MS : 0;
        }
        for (int j = 0; j < 20; j++) {
            sampled_launch(&all, stream, f, 64, cost);
        }
        if (fake_ready(stream) > gpud_now() + 10 * MS)
            sampled_wait(stream);
    }
    sampled_wait(stream);
    if (on)
        set_peer(peer, 0);
    fake_slice_ns = 0;
    samples = activity()->samples - samples;
    clean = activity()->clean - clean;
    printf("%s: charged %.3f; %llu samples, %llu clean\n", what, sampled_ratio(&all), (unsigned long long)samples,
           (unsigned long long)clean);
    CHECK(sampled_ratio(&all) > 1 - within && sampled_ratio(&all) < 1 + within, "%s: charged %.3f", what, sampled_ratio(&all));
    CHECK(always ? clean == 0 : clean > 0, "%s: %llu of %llu clean", what, (unsigned long long)clean,
          (unsigned long long)samples);
    finish(stream);
}

/* Whoever was at work in between, and whoever is beyond the table, makes a sample unclean. */
static void who_else(void)
{
    struct gpud_presence_page *peer = (struct gpud_presence_page *)(void *)gpud_region.peer[3];
    uint64_t now = gpud_now();
    struct gpud_others before = gpud_others_look(0, now), after;

    CHECK(before.active == 0, "nobody");
    set_peer(peer, 1);
    CHECK(gpud_others_look(0, now).active == 1, "a peer without any role");
    set_peer(peer, 0);
    after = gpud_others_look(0, now);
    CHECK(after.active == 0 && after.trace != before.trace, "it was there meanwhile");
    local_control()->device[0].others_edges++;
    CHECK(gpud_others_look(0, now).active == 1, "somebody beyond the table");
    CHECK(gpud_others_look(0, now + 10 * MS).active == 1 && gpud_others_look(0, now + 20 * MS).active == 0, "for three ticks");
    local_control()->device[0].others_active = 1;
    CHECK(gpud_others_look(0, now + 20 * MS).active == 1, "the daemon says so");
    local_control()->device[0].others_active = 0;
    struct gpud_peer entry = local_control()->device[0].peers[0];
    before = gpud_others_look(0, now + 20 * MS);
    local_control()->device[0].peers[0].generation++;
    after = gpud_others_look(0, now + 20 * MS);
    CHECK(after.trace != before.trace && after.active == 0, "another one in its place");
    local_control()->device[0].peers[0] = entry;
}

static uint32_t sum_of_delays(uint32_t from, uint32_t to)
{
    uint64_t sum = 0;
    for (uint32_t i = from; i < to; i++)
        sum += activity()->delay_histogram[i];
    return (uint32_t)sum;
}

/* Work of another client is in the way for 4 ms. */
static void delays(void)
{
    struct gpud_presence_page *peer = (struct gpud_presence_page *)(void *)gpud_region.peer[3];
    const void *f = function();
    CUstream stream = fake_stream(), blocker = fake_stream();
    struct sampled all = sampled_begin();

    memset(activity()->delay_histogram, 0, sizeof activity()->delay_histogram);
    for (int i = 0; i < 4000; i++) {
        sampled_launch(&all, stream, f, 64, 20 * US);
        if (i % 2 == 1)
            sampled_wait(stream);
        if (i > 200 && sum_of_delays(0, 32) > 20)
            break;
    }
    uint32_t none = sum_of_delays(0, 7), some = sum_of_delays(7, 32);
    CHECK(none > 4 * some, "%u began at once, %u did not", none, some);
    memset(activity()->delay_histogram, 0, sizeof activity()->delay_histogram);
    for (int i = 0; i < 60; i++) {
        set_peer(peer, 1);
        fake_kernel(blocker, 0, 4 * MS);
        gpud_store(&gpud_samplers[0].left, 0);
        gpud_store(&gpud_samplers[0].turn, 1);      /* a pair, whatever varies */
        all.credit = 0;
        sampled_launch(&all, stream, f, 64, 20 * US);
        sampled_wait(stream);
        set_peer(peer, 0);
    }
    finish(stream);
    CHECK(sum_of_delays(11, 13) >= 10, "%u waited for 2 to 8 ms", sum_of_delays(11, 13));
    CHECK(sum_of_delays(13, 32) <= 3, "%u longer", sum_of_delays(13, 32));
}

static CUresult (*events_answer)(CUevent);

static CUresult not_yet(CUevent event)
{
    (void)event;
    return CUDA_ERROR_NOT_READY;
}

/* The first launch of a burst: the device is switched to the client meanwhile, and its events come a moment late. What was seen to
 * begin behind nothing does not count as measured exactly. */
static void switched_to(void)
{
    const void *f = function();
    CUstream stream = fake_stream();
    struct sampled all = sampled_begin();
    bool young;
    events_answer = real.cuEventQuery;
    for (int burst = 0; burst < 12; burst++) {
        real.cuEventQuery = not_yet;
        sampled_launch(&all, stream, f, 64, MS + 700 * US);
        real.cuEventQuery = events_answer;
        for (int i = 0; i < 3; i++)
            sampled_launch(&all, stream, f, 64, MS);
        sampled_wait(stream);
    }
    finish(stream);
    uint32_t cost = gpud_cost_now(0, f, 64, &young);
    CHECK(cost > 940 * US && cost < 1060 * US, "a kernel of 1 ms costs %u ns where the device is switched to it now and then", cost);
}

int main(void)
{
    clock_own();
    local_attach(1);
    local_peer(3, 5);
    sampled_bind();
    fake_latency_ns = 6 * US;
    bursts("kernels of 20 us", 40, 500, 20 * US, 20 * US, 0.05, 20);
    bursts("kernels of 5 us", 40, 800, 5 * US, 5 * US, 0.05, 20);
    bursts("kernels of 6 ms", 5, 40, 6 * MS, 6 * MS, 0.05, 1000);
    bursts("cost by data, 5 to 95 us", 40, 500, 5 * US, 95 * US, 0.05, 20);
    mixes();
    empty_streams();
    contended("another client half of the time, 50 us", 50 * US, false, 0.05);
    contended("another client half of the time, 3 ms", 3 * MS, false, 0.05);
    contended("another client all the time, 50 us", 50 * US, true, 0.15);
    contended("another client all the time, 5 ms", 5 * MS, true, 0.15);
    who_else();
    delays();
    switched_to();
    two_streams();
    CHECK(fake_violations == 0, "the driver was used wrongly");
    return check_summary("sample");
}
