/* test_budget.c: caps of GPU time: draws of credit, what is given back and when. Caps have rate 0 where they can: then how much passes
 * does not depend on time. */
#include "caps.h"

static void exact(void)
{
    worker = (struct limits_thread){ .function = KERNEL };
    allow(100 * COST);
    limits_gate(0, GPUD_GATE_BUDGET);
    limits_start(&worker);
    fills_up_to(100, "a cap of 100 launches");
    CHECK(gpud_load(&gpud_presence()->device[0].waiting) == 1, "one thread waits");
    const struct gpud_slot *slot = limits_held_slot(0);
    CHECK(slot != NULL && gpud_load(&slot->hold_reason) == GPUD_GATE_BUDGET && gpud_load(&slot->hold_peer) == GPUD_NO_PEER,
          "its slot says why");
    CHECK(slot != NULL && gpud_load(&slot->blocks) >= 100, "its blocks are counted");
    uint64_t spent = limits_spent(0);
    limits_cap(0, (int64_t)(spent + 5 * COST), 0, gpud_now());      /* nobody is woken */
    fills_up_to(105, "five more");
    CHECK(limits_spent(0) == spent + 5 * COST, "charged %llu", (unsigned long long)(limits_spent(0) - spent));
    limits_cap(0, LIMITS_FOREVER, 0, gpud_now());
    EVENTUALLY(limits_launched(&worker) > 2000, "no cap");
    limits_stop(&worker);
    CHECK(gpud_load(&gpud_presence()->device[0].waiting) == 0, "nobody waits");
}

/* One launch larger than what is left passes, and is paid back. */
static void larger_than_the_budget(void)
{
    struct fake_run runs[3];

    allow(GPUD_MILLISECOND);
    limits_gate(0, GPUD_GATE_BUDGET);
    fake_forget_runs();
    worker = (struct limits_thread){ .function = HUGE_KERNEL, .most = 2 };
    uint64_t spent = limits_spent(0);
    limits_start(&worker);
    EVENTUALLY(limits_held(1), "the second is held");
    CHECK(limits_launched(&worker) == 1 && limits_spent(0) == spent + 50 * GPUD_MILLISECOND, "the first passed, into debt");
    uint64_t at = gpud_now();
    limits_cap(0, (int64_t)(spent + GPUD_MILLISECOND), 1000000, at);        /* 49 ms of debt at a whole device */
    pthread_join(worker.thread, NULL);
    CHECK(fake_runs(runs, 3) == 2 && runs[1].launched_ns >= at + 49 * GPUD_MILLISECOND, "paid back first: after %lld us",
          (long long)(runs[1].launched_ns - at) / 1000);
    limits_gate(0, 0);
}

/* A kernel that costs nothing costs the least there is. */
static void tiny(void)
{
    allow(GPUD_MILLISECOND);
    limits_gate(0, GPUD_GATE_BUDGET);
    worker = (struct limits_thread){ .function = TINY_KERNEL };
    limits_start(&worker);
    fills_up_to(1000, "tiny kernels in a millisecond");
    limits_stop(&worker);
}

/* What was drawn and is not used is given back when the client goes idle, the gate changes, or the thread ends. */
static void given_back(void)
{
    CUstream stream = fake_stream();

    limits_idle(0);
    uint64_t spent = limits_spent(0);
    limits_cap(0, LIMITS_FOREVER, 0, gpud_now());
    limits_gate(0, GPUD_GATE_BUDGET);
    for (int i = 0; i < 3; i++)
        fake_launch_of(KERNEL, 1, stream, 0, 0);
    CHECK(limits_spent(0) == spent + GPUD_MILLISECOND, "drawn %llu", (unsigned long long)(limits_spent(0) - spent));
    fake_synchronise(stream, 0);
    CHECK(!is_active(0) && limits_spent(0) == spent + 3 * COST, "idle: %llu", (unsigned long long)(limits_spent(0) - spent));
    fake_launch_of(KERNEL, 1, stream, 0, 0);
    CHECK(limits_spent(0) == spent + 3 * COST + GPUD_MILLISECOND, "drawn anew: %llu", (unsigned long long)(limits_spent(0) - spent));
    fake_wait_quietly(stream);
    EVENTUALLY(gpud_presence_ask(0), "the keeper finds it idle");
    CHECK(limits_spent(0) == spent + 4 * COST, "idle by asking: %llu", (unsigned long long)(limits_spent(0) - spent));

    fake_launch_of(KERNEL, 1, stream, 0, 0);
    fake_launch_of(KERNEL, 1, stream, 0, 0);
    limits_gate(0, GPUD_GATE_BUDGET | GPUD_GATE_CHARGE);        /* in mid-credit */
    fake_launch_of(KERNEL, 1, stream, 0, 0);
    CHECK(limits_spent(0) == spent + 6 * COST + GPUD_MILLISECOND, "another gate: %llu", (unsigned long long)(limits_spent(0) - spent));
    limits_gate(0, 0);
    fake_launch_of(KERNEL, 1, stream, 0, 0);
    CHECK(limits_spent(0) == spent + 7 * COST, "an open gate: %llu", (unsigned long long)(limits_spent(0) - spent));
    fake_synchronise(stream, 0);
    CHECK(limits_spent(0) == spent + 7 * COST, "once only: %llu", (unsigned long long)(limits_spent(0) - spent));

    limits_gate(0, GPUD_GATE_CHARGE);
    worker = (struct limits_thread){ .function = KERNEL, .most = 2, .duration_ns = FAKE_SPINS };
    limits_start(&worker);
    pthread_join(worker.thread, NULL);
    CHECK(is_active(0) && limits_spent(0) == spent + 9 * COST, "the thread has ended: %llu", (unsigned long long)(limits_spent(0) - spent));
    fake_release();
    limits_idle(0);
    limits_gate(0, 0);
}

/* Many threads charge exactly what they launch, however their draws come and go. */
static void several_threads(void)
{
    enum { THREADS = 8, EACH = 5000 };
    struct limits_thread threads[THREADS];
    uint64_t spent = limits_spent(0);
    uint32_t launches = 0;

    limits_cap(0, LIMITS_FOREVER, 0, gpud_now());
    limits_gate(0, GPUD_GATE_BUDGET);
    for (int i = 0; i < THREADS; i++) {
        threads[i] = (struct limits_thread){ .function = KERNEL, .most = EACH };
        limits_start(&threads[i]);
    }
    for (int i = 0; i < 20; i++) {      /* the gate changes under them */
        limits_pause(GPUD_MILLISECOND / 2);
        limits_gate(0, GPUD_GATE_BUDGET | (i & 1 ? GPUD_GATE_CHARGE : 0));
        gpud_presence_ask(0);
        gpud_word_raise(0, 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i].thread, NULL);
        launches += threads[i].launches;
    }
    CHECK(launches == THREADS * EACH && limits_spent(0) == spent + launches * COST, "%u launches, charged for %llu", launches,
          (unsigned long long)((limits_spent(0) - spent) / COST));
    /* A cap that all of them share is kept by all of them. */
    allow(1000 * COST);
    for (int i = 0; i < THREADS; i++) {
        threads[i] = (struct limits_thread){ .function = KERNEL };
        limits_start(&threads[i]);
    }
    EVENTUALLY(limits_held(THREADS), "all are held");
    launches = 0;
    for (int i = 0; i < THREADS; i++)
        launches += limits_launched(&threads[i]);
    CHECK(launches >= 1000 && launches <= 1000 + THREADS * 10, "%u launches of 1000", launches);
    CHECK(limits_spent(0) == spent + (THREADS * EACH + launches) * COST, "charged for %llu",
          (unsigned long long)((limits_spent(0) - spent) / COST));
    for (int i = 0; i < THREADS; i++)
        gpud_store(&threads[i].stop, 1);
    for (int i = 0; i < THREADS; i++)
        limits_stop(&threads[i]);
}

/* Two processes of one tenant spend of one cap. */
static void two_processes(void)
{
    struct gpud_presence_page *other = limits_peer(5, 7, GPUD_PEER_OWN), *stranger = limits_peer(6, 8, 0);

    gpud_store(&other->device[0].spent_ns, 60 * COST);
    gpud_store(&stranger->device[0].spent_ns, 1000 * COST);
    allow(100 * COST);
    limits_gate(0, GPUD_GATE_BUDGET);
    worker = (struct limits_thread){ .function = KERNEL };
    limits_start(&worker);
    fills_up_to(40, "beside a process that spent 60 of 100");
    gpud_store(&other->device[0].spent_ns, 50 * COST);      /* it went idle, and gave some back */
    fills_up_to(50, "given back by the other process");
    gpud_store(&other->device[0].spent_ns, UINT64_MAX);     /* scribbled: its own tenant's loss */
    limits_cap(0, LIMITS_FOREVER, 0, gpud_now());
    limits_pause(12 * GPUD_MILLISECOND);
    CHECK(limits_launched(&worker) == 50, "%u launches", limits_launched(&worker));
    gpud_store(&limits_entry(5)->generation, 9999);
    EVENTUALLY(limits_launched(&worker) > 100, "another generation counts nothing");
    limits_stop(&worker);
    limits_peers_gone();
}

/* What has gathered is no burst of all that. */
static void forfeit(void)
{
    gpud_store(&local_control()->device[0].cap_burst_ns, 10 * COST);
    allow(GPUD_SECOND);
    limits_gate(0, GPUD_GATE_BUDGET);
    worker = (struct limits_thread){ .function = KERNEL };
    limits_start(&worker);
    fills_up_to(10, "a burst");
    allow(10 * COST);                           /* the daemon writes the level anew */
    fills_up_to(20, "what was forfeit belongs to the level of before");
    limits_stop(&worker);
    gpud_store(&local_control()->device[0].cap_burst_ns, UINT64_MAX);
}

static void soft(void)
{
    struct gpud_presence_page *other = limits_peer(5, 8, 0);

    gpud_store(&local_control()->device[0].cap_flags, GPUD_CAP_SOFT);
    limits_cap(0, 0, 0, gpud_now());
    limits_gate(0, GPUD_GATE_BUDGET);
    worker = (struct limits_thread){ .function = KERNEL };
    limits_start(&worker);
    EVENTUALLY(limits_launched(&worker) > 1000, "nobody wants the device");
    gpud_store_total(&other->device[0].active, 1);
    EVENTUALLY(limits_held(1), "somebody does");
    uint32_t before = limits_launched(&worker);
    limits_pause(12 * GPUD_MILLISECOND);
    CHECK(limits_launched(&worker) == before, "held");
    gpud_store_total(&other->device[0].active, 0);
    EVENTUALLY(limits_launched(&worker) > before + 100, "nobody does any more");
    limits_stop(&worker);
    gpud_store(&local_control()->device[0].cap_flags, 0);
    limits_peers_gone();
}

/* max_pause does not end it; the failsafe does. */
static void daemon_gone(void)
{
    gpud_store(&local_control()->device[0].max_pause_ns, GPUD_MILLISECOND);
    limits_cap(0, 0, 0, gpud_now());
    limits_gate(0, GPUD_GATE_BUDGET);
    worker = (struct limits_thread){ .function = KERNEL };
    limits_start(&worker);
    EVENTUALLY(limits_held(1), "held");
    limits_pause(20 * GPUD_MILLISECOND);
    CHECK(limits_launched(&worker) == 0, "longer than max_pause");
    gpud_store(&local_control()->failsafe_after_ns, 10 * GPUD_MILLISECOND);
    gpud_store(&local_control()->lease_until_ns, gpud_now());
    EVENTUALLY(limits_launched(&worker) > 100, "the failsafe opens");
    gpud_store(&local_control()->lease_until_ns, gpud_now() + 3600 * GPUD_SECOND);
    EVENTUALLY(limits_held(1), "a new lease holds");
    limits_stop(&worker);
    gpud_store(&local_control()->device[0].max_pause_ns, UINT64_MAX);
}

/* Under turns, what is stopped by its cap goes on with a turn's worth at once: 20 ms × 10 % are 20 launches. */
static void gathers(void)
{
    worker = (struct limits_thread){ .function = KERNEL };
    limits_cap(0, (int64_t)limits_spent(0), 100000, gpud_now());
    limits_share(0, 0, 500000, gpud_now(), 20 * GPUD_MILLISECOND);
    limits_gate(0, GPUD_GATE_BUDGET | GPUD_GATE_SHARE);
    limits_start(&worker);
    EVENTUALLY(limits_held(1), "stopped");
    uint32_t before = limits_launched(&worker);
    uint64_t holds = limits_holds(0);
    EVENTUALLY(limits_holds(0) >= holds + 11, "it goes on, and is stopped");
    uint32_t launches = limits_launched(&worker) - before;
    CHECK(launches >= 10 * 20, "it went on ten times, with %u launches", launches);
    limits_stop(&worker);
}

int main(void)
{
    caps_begin();
    exact();
    larger_than_the_budget();
    tiny();
    given_back();
    several_threads();
    two_processes();
    forfeit();
    soft();
    daemon_gone();
    gathers();
    CHECK(fake_violations == 0, "the driver was used wrongly");
    return check_summary("budget");
}
