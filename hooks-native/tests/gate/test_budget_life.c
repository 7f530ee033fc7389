/* test_budget_life.c: everything that a cap of GPU time must survive. */
#include <signal.h>
#include <sys/wait.h>
#include "caps.h"

/* Each device has its own cap; a thread that is held on one holds nobody on the other. */
static void two_devices(void)
{
    struct limits_thread first = { .function = KERNEL }, second = { .function = KERNEL, .device = 1 };

    allow(10 * COST);
    limits_cap(1, (int64_t)(limits_spent(1) + 2000 * COST), 0, gpud_now());
    limits_gate(0, GPUD_GATE_BUDGET);
    limits_gate(1, GPUD_GATE_BUDGET);
    uint64_t spent = limits_spent(1);
    limits_start(&first);
    EVENTUALLY(limits_held(1), "held on the first");
    limits_start(&second);
    EVENTUALLY(limits_launched(&second) == 2000 && limits_held(2), "goes on on the second: %u", limits_launched(&second));
    CHECK(limits_launched(&first) == 10 && limits_spent(1) == spent + 2000 * COST, "each its own: %u", limits_launched(&first));
    gpud_store(&first.stop, 1);
    limits_stop(&second);
    limits_stop(&first);

    /* One thread that goes to and fro: credit of one device is not spent on the other. */
    limits_idle(0);
    limits_idle(1);
    uint64_t before[2] = { limits_spent(0), limits_spent(1) };
    limits_gate(0, GPUD_GATE_CHARGE);
    limits_gate(1, GPUD_GATE_CHARGE);
    CUstream streams[2] = { fake_stream(), fake_stream() };
    for (int i = 0; i < 100; i++) {
        fake_context(i % 2);
        fake_launch_of(KERNEL, 1, streams[i % 2], 0, 0);
        fake_launch_of(KERNEL, 1, streams[i % 2], 0, 0);
    }
    fake_context(0);
    fake_synchronise(streams[0], 0);
    fake_synchronise(streams[1], 0);
    CHECK(limits_spent(0) == before[0] + 100 * COST && limits_spent(1) == before[1] + 100 * COST, "%llu and %llu launches charged",
          (unsigned long long)((limits_spent(0) - before[0]) / COST), (unsigned long long)((limits_spent(1) - before[1]) / COST));
    limits_gate(0, 0);
    limits_gate(1, 0);
}

/* A graph is launched again and again while another stream captures: it is charged, what is captured is neither charged nor held. */
static void captures(void)
{
    CUstream captured = fake_stream(), plain = fake_stream();
    uint64_t spent = limits_spent(0);

    limits_teach((const void *)0x7000, 0, COST);
    allow(20 * COST);
    limits_gate(0, GPUD_GATE_BUDGET);
    fake_begin_capture(captured);
    for (int i = 0; i < 20; i++) {
        fake_launch_of((const void *)0x7000, 0, plain, 0, 0);
        fake_launch_of(KERNEL, 1, captured, 0, 0);
    }
    CHECK(limits_spent(0) == spent + 20 * COST, "%llu charged", (unsigned long long)((limits_spent(0) - spent) / COST));
    for (int i = 0; i < 50; i++)
        fake_launch_of(KERNEL, 1, captured, 0, 0);      /* not held, or the test would never end */
    fake_end_capture(captured);
    limits_gate(0, 0);
    fake_launch_of(KERNEL, 1, plain, 0, 0);
    fake_synchronise(plain, 0);
    CHECK(limits_spent(0) == spent + 20 * COST, "%llu charged", (unsigned long long)((limits_spent(0) - spent) / COST));
}

/* Whatever the daemon writes into the words of a level: the launch is held or passes, and once the words make sense it goes on. */
static void nonsense(void)
{
    static const uint64_t edges[] = { 0, 1, UINT64_MAX, INT64_MAX, (uint64_t)INT64_MAX + 1, 1000000, UINT32_MAX };
    struct gpud_control_device *knobs = &local_control()->device[0];
    enum { EDGES = sizeof edges / sizeof edges[0] };

    worker = (struct limits_thread){ .function = KERNEL };
    limits_gate(0, GPUD_GATE_BUDGET | GPUD_GATE_SHARE | GPUD_GATE_RATE);
    limits_share(0, 0, 500000, gpud_now(), GPUD_MILLISECOND);
    limits_start(&worker);
    for (uint32_t i = 0; i < EDGES * EDGES * EDGES; i++) {
        uint64_t a = edges[i % EDGES], b = edges[i / EDGES % EDGES], c = edges[i / EDGES / EDGES];
        gpud_store(&knobs->level_seq, (uint32_t)i);         /* mostly in the middle of being written */
        gpud_store(&knobs->cap_base_ns, (int64_t)a);
        gpud_store(&knobs->cap_t0_ns, b);
        gpud_store(&knobs->cap_rate_ppm, (uint32_t)c);
        gpud_store(&knobs->cap_burst_ns, b);
        gpud_store(&knobs->share_base_ns, (int64_t)c);
        gpud_store(&knobs->share_t0_ns, a);
        gpud_store(&knobs->share_rate_ppm, (uint32_t)b);
        gpud_store(&knobs->share_turn_ns, c);
        gpud_store(&knobs->draw_ns, b);
        gpud_store(&knobs->launch_rate, a);
        gpud_store(&knobs->block_rate, b);
        gpud_store(&knobs->burst_ns, c);
        gpud_store(&knobs->peer_count, (uint32_t)a);
        local_wake();
        limits_pause(50 * GPUD_MICROSECOND);
    }
    gpud_store(&knobs->peer_count, 0);
    gpud_store(&knobs->level_seq, 0);
    gpud_store(&knobs->draw_ns, GPUD_MILLISECOND);
    gpud_store(&knobs->launch_rate, UINT64_MAX);
    gpud_store(&knobs->block_rate, UINT64_MAX);
    gpud_store(&knobs->cap_burst_ns, UINT64_MAX);
    gpud_store(&knobs->cap_flags, 0);
    limits_share(0, 0, 500000, gpud_now(), GPUD_MILLISECOND);
    limits_cap(0, LIMITS_FOREVER, 0, gpud_now());
    uint32_t before = limits_launched(&worker);
    EVENTUALLY(limits_launched(&worker) > before + 1000, "goes on");
    limits_stop(&worker);
}

/* A child begins with nothing: what its parent drew is the parent's. */
static void forked(void)
{
    CUstream stream = fake_stream();

    limits_idle(0);
    uint64_t spent = limits_spent(0);
    limits_cap(0, LIMITS_FOREVER, 0, gpud_now());
    limits_gate(0, GPUD_GATE_BUDGET);
    fake_launch_of(KERNEL, 1, stream, 0, 0);
    pid_t child = fork();
    if (child == 0) {
        check_failures = 0;
        CHECK(limits_spent(0) == 0 && gpud_thread.credit == NULL, "its own pages, and no credit");
        limits_begin(1);
        limits_cap(0, 10 * (int64_t)COST, 0, gpud_now());
        limits_gate(0, GPUD_GATE_BUDGET);
        worker = (struct limits_thread){ .function = KERNEL };
        limits_start(&worker);
        fills_up_to(10, "in the child");
        _exit(check_failures != 0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(status == 0, "the child's checks");
    fake_launch_of(KERNEL, 1, stream, 0, 0);
    fake_synchronise(stream, 0);
    CHECK(limits_spent(0) == spent + 2 * COST, "the parent goes on with its own: %llu",
          (unsigned long long)((limits_spent(0) - spent) / COST));
    limits_gate(0, 0);
}

/* Beyond the slots all share one, without credit: they pay launch by launch. */
static void more_threads_than_slots(void)
{
    enum { THREADS = GPUD_MAX_SLOTS + 8, EACH = 50 };
    static struct limits_thread threads[THREADS];
    uint64_t spent = limits_spent(0);

    limits_cap(0, LIMITS_FOREVER, 0, gpud_now());
    limits_gate(0, GPUD_GATE_PAUSED | GPUD_GATE_BUDGET);        /* all are there at once */
    for (int i = 0; i < THREADS; i++) {
        threads[i] = (struct limits_thread){ .function = KERNEL, .most = EACH, .blocks = 1 };
        limits_start(&threads[i]);
    }
    EVENTUALLY(limits_held(THREADS), "all are held");
    CHECK(gpud_load(&gpud_presence()->device[0].waiting) == 0, "paused, %u want the device", gpud_load(&gpud_presence()->device[0].waiting));
    limits_gate(0, GPUD_GATE_BUDGET);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i].thread, NULL);
    CHECK(limits_spent(0) == spent + THREADS * EACH * COST, "%llu launches charged of %u",
          (unsigned long long)((limits_spent(0) - spent) / COST), THREADS * EACH);
    limits_gate(0, 0);
}

/* What max_pause lets past a peer by GPU time. */
static void passes_by_time(void)
{
    struct gpud_presence_page *high = local_peer(9, 0);
    struct gpud_control_device *knobs = &local_control()->device[0];
    struct fake_run runs[8];
    uint64_t holds[7];

    gpud_store(&knobs->max_pause_ns, 20 * GPUD_MILLISECOND);
    gpud_store(&knobs->pass_ns, 3 * COST);
    gpud_store_total(&high->device[0].active, 1);
    limits_gate(0, GPUD_GATE_PREEMPT | GPUD_GATE_CHARGE);
    fake_forget_runs();
    holds[0] = limits_holds(0);
    for (int i = 0; i < 6; i++) {
        fake_launch_of(KERNEL, 1, NULL, 0, 0);
        holds[i + 1] = limits_holds(0);
    }
    CHECK(fake_runs(runs, 8) == 6, "all pass in the end");
    CHECK(holds[1] == holds[0] + 1 && holds[3] == holds[1], "three times their cost pass together");
    CHECK(runs[3].launched_ns - runs[2].launched_ns >= 20 * GPUD_MILLISECOND, "the fourth is held as long again");
    CHECK(holds[4] == holds[3] + 1 && holds[6] == holds[4], "and so on");
    limits_gate(0, 0);
    gpud_store(&knobs->max_pause_ns, UINT64_MAX);
    gpud_store(&knobs->pass_ns, 0);
    limits_peers_gone();
}

int main(void)
{
    caps_begin();
    captures();
    passes_by_time();
    forked();
    two_devices();
    nonsense();
    more_threads_than_slots();
    CHECK(fake_violations == 0, "the driver was used wrongly");
    return check_summary("budget_life");
}
