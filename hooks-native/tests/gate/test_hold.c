/* test_hold.c: launches that are held: by peers, a pause, a closed device; how they go on. */
#include "clock.h"
#include "fake.h"
#include "limits.h"

static CUstream stream;

/* A thread that launches without end, and what it has done so far. */
static uint32_t launches, stop;
static void *launch_on(void *unused)
{
    fake_context(0);
    while (!gpud_load(&stop)) {
        fake_launch(stream, 0, 0);
        gpud_add(&launches, 1);
    }
    return unused;
}

static pthread_t begin_launching(void)
{
    pthread_t thread;
    gpud_store(&stop, 0);
    pthread_create(&thread, NULL, launch_on, NULL);
    return thread;
}

static void end_launching(pthread_t thread)
{
    gpud_store(&stop, 1);
    pthread_join(thread, NULL);
}

static bool is_held(void)
{
    return gpud_load_total(&gpud_holding) > 0;
}

static const struct gpud_slot *held_slot(void)
{
    for (uint32_t i = 0; i < GPUD_MAX_SLOTS; i++) {
        if (gpud_load(&gpud_activity()->device[0].slots[i].holding))
            return &gpud_activity()->device[0].slots[i];
    }
    return NULL;
}

static void pause_ms(int ms)
{
    struct timespec nap = { .tv_nsec = ms * 1000000L };
    nanosleep(&nap, NULL);
}

static void set_gate(uint32_t gate)
{
    gpud_store(&local_control()->device[0].gate, gate);
    local_publish();
    local_wake();
}

static void peer_becomes(struct gpud_presence_page *peer, bool active)
{
    uint64_t *word = gpud_edge_word(&peer->device[0]);
    if (!active)
        gpud_store_release(&peer->device[0].idle_since_ns, gpud_now());
    gpud_store_total(word, GPUD_EDGE_WORD(active, GPUD_EDGE_COUNT(gpud_load(word)) + 1));
}

static uint32_t waits(void)
{
    return gpud_load(&gpud_presence()->device[0].waiting);
}

/* A sleep that nobody ends lasts 100 ms. */
static void woken(void)
{
    uint64_t fastest = UINT64_MAX;

    for (int i = 0; i < 5; i++) {
        set_gate(GPUD_GATE_PAUSED);
        EVENTUALLY(is_held(), "paused");
        pause_ms(2);        /* it sleeps now */
        uint32_t before = gpud_load(&launches);
        uint64_t at = gpud_now();
        set_gate(0);
        EVENTUALLY(gpud_load(&launches) > before, "goes on");
        fastest = gpud_now() - at < fastest ? gpud_now() - at : fastest;
    }
    BOUND(fastest < 60 * GPUD_MILLISECOND, "woken, not timed out: %llu us", (unsigned long long)fastest / 1000);
}

static void paused(void)
{
    pthread_t thread = begin_launching();
    EVENTUALLY(gpud_load(&launches) > 10, "an open gate lets through");
    measured("woken", woken);
    set_gate(GPUD_GATE_PAUSED);
    EVENTUALLY(is_held(), "paused");
    struct gpud_marks marks = gpud_marks(0);
    CHECK(marks.entered == marks.left, "a held thread has no mark in the gate");
    const struct gpud_slot *slot = held_slot();
    CHECK(slot != NULL && gpud_load(&slot->hold_reason) == GPUD_GATE_PAUSED &&
              gpud_load(&slot->hold_peer) == GPUD_NO_PEER, "its slot says why");
    set_gate(0);
    end_launching(thread);
    CHECK(held_slot() == NULL && !is_held() && waits() == 0, "nothing is held any more");
}

static void by_a_peer(struct gpud_presence_page *peer)
{
    set_gate(GPUD_GATE_PREEMPT);
    pthread_t thread = begin_launching();
    uint32_t before = gpud_load(&launches);
    EVENTUALLY(gpud_load(&launches) > before + 1000, "an idle peer holds nobody");
    peer_becomes(peer, true);
    EVENTUALLY(is_held(), "held by the active peer");
    const struct gpud_slot *slot = held_slot();
    CHECK(slot != NULL && gpud_load(&slot->hold_reason) == GPUD_GATE_PREEMPT && gpud_load(&slot->hold_peer) == 3,
          "its slot names the peer");
    EVENTUALLY(waits() == 1, "others see that it wants the device");
    set_gate(GPUD_GATE_PREEMPT | GPUD_GATE_PAUSED);
    EVENTUALLY(waits() == 0, "paused, it keeps nobody waiting");
    CHECK(is_held(), "and is held");
    set_gate(GPUD_GATE_PREEMPT);
    EVENTUALLY(waits() == 1, "held by the peer again, it wants the device");
    before = gpud_load(&launches);
    for (int i = 0; i < 20; i++) {
        pause_ms(1);
        CHECK(gpud_load(&launches) == before, "nothing passes while it is active");
    }
    uint64_t idle = gpud_now();
    peer_becomes(peer, false);
    EVENTUALLY(gpud_load(&launches) > before, "goes on");
    CHECK(gpud_now() - idle >= GPUD_MILLISECOND, "not before resume_after");
    /* A peer that becomes active again within resume_after keeps it held. */
    peer_becomes(peer, true);
    EVENTUALLY(is_held(), "held again");
    before = gpud_load(&launches);
    gpud_store(&local_control()->device[0].resume_after_ns, 3600 * GPUD_SECOND);   /* whatever a pause takes here, it is short */
    for (int i = 0; i < 100; i++) {
        struct timespec nap = { .tv_nsec = 100000 };
        peer_becomes(peer, i % 2);
        local_wake();       /* it looks */
        nanosleep(&nap, NULL);
    }
    CHECK(gpud_load(&launches) == before, "short pauses are no end: %u launches", gpud_load(&launches) - before);
    gpud_store(&local_control()->device[0].resume_after_ns, GPUD_MILLISECOND);
    peer_becomes(peer, false);
    local_wake();
    end_launching(thread);
}

/* A held thread launches when resume_after is over, and not by looking at it every half of that. */
static void resumes_on_time(struct gpud_presence_page *peer)
{
    struct fake_run run;

    clock_own();
    for (uint64_t gone = 0; gone < GPUD_MILLISECOND; gone += 50 * GPUD_MICROSECOND) {
        peer_becomes(peer, true);
        peer_becomes(peer, false);
        uint64_t due = peer->device[0].idle_since_ns + GPUD_MILLISECOND;
        clock_pass(gone);
        fake_forget_runs();
        fake_launch(stream, 0, 0);
        CHECK(fake_runs(&run, 1) == 1 && run.launched_ns >= due && run.launched_ns < due + 50 * GPUD_MICROSECOND,
              "%lld ns after resume_after", (long long)(run.launched_ns - due));
    }
    clock_machines();
}

static void max_pause(struct gpud_presence_page *peer)
{
    struct gpud_control_device *knobs = &local_control()->device[0];
    uint64_t passed = gpud_activity()->device[0].passed;

    gpud_store(&knobs->max_pause_ns, 20 * GPUD_MILLISECOND);
    gpud_store(&knobs->pass_launches, 3);
    local_publish();
    peer_becomes(peer, true);
    fake_forget_runs();
    uint64_t holds[7] = { limits_holds(0) };
    for (int i = 0; i < 6; i++) {
        fake_launch(stream, 0, 0);      /* held, passes, passes, held, passes, passes */
        holds[i + 1] = limits_holds(0);
    }
    struct fake_run runs[6];
    CHECK(fake_runs(runs, 6) == 6, "all pass in the end");
    CHECK(runs[3].launched_ns - runs[2].launched_ns >= 20 * GPUD_MILLISECOND, "the fourth is held as long again");
    CHECK(holds[1] == holds[0] + 1 && holds[3] == holds[1] && holds[4] == holds[3] + 1 && holds[6] == holds[4], "three pass together");
    passed = gpud_activity()->device[0].passed - passed;
    CHECK(passed == 6, "%llu counted", (unsigned long long)passed);
    gpud_store(&knobs->max_pause_ns, UINT64_MAX);
    gpud_store(&knobs->pass_launches, 1);
    local_publish();
    peer_becomes(peer, false);
}

static void lease_ends(struct gpud_presence_page *peer)
{
    peer_becomes(peer, true);
    pthread_t thread = begin_launching();
    EVENTUALLY(is_held(), "held");
    uint32_t before = gpud_load(&launches);
    gpud_store(&local_control()->failsafe_after_ns, 10 * GPUD_MILLISECOND);
    gpud_store(&local_control()->failsafe, GPUD_FAILSAFE_HOLD);
    gpud_store(&local_control()->lease_until_ns, gpud_now());
    pause_ms(50);
    CHECK(gpud_load(&launches) == before && is_held(), "a failsafe that holds never opens");
    gpud_store(&local_control()->failsafe, GPUD_FAILSAFE_OPEN);
    EVENTUALLY(gpud_load(&launches) > before + 10, "the failsafe opens");
    gpud_store(&local_control()->lease_until_ns, gpud_now() + 3600 * GPUD_SECOND);
    before = gpud_load(&launches);
    EVENTUALLY(is_held(), "a renewed lease holds again");
    peer_becomes(peer, false);
    end_launching(thread);
}

/* Many threads are held and all go on, woken by the one that leads. */
static void several_threads(struct gpud_presence_page *peer)
{
    enum { THREADS = 8 };
    pthread_t threads[THREADS];

    peer_becomes(peer, true);
    for (int i = 0; i < THREADS; i++)
        threads[i] = begin_launching();
    EVENTUALLY(gpud_load_total(&gpud_holding) == THREADS, "all are held");
    uint64_t idle = gpud_now();
    peer_becomes(peer, false);
    EVENTUALLY(gpud_load_total(&gpud_holding) == 0, "all go on");
    printf("%d threads go on within %llu us\n", THREADS, (unsigned long long)(gpud_now() - idle) / 1000);
    for (int i = 0; i < THREADS; i++)
        end_launching(threads[i]);
}

/* The keeper closes for good: when it returns, no launch is past the gate, and none passes until it opens. */
static void closed(void)
{
    enum { THREADS = 3 };
    pthread_t threads[THREADS];

    set_gate(0);
    for (int i = 0; i < THREADS; i++)
        threads[i] = begin_launching();
    for (int i = 0; i < 200; i++) {
        uint32_t at = gpud_load(&launches);
        CHECK(gpud_close(0, gpud_now() + EVENTUALLY_NS) == 0, "closes");
        struct gpud_marks marks = gpud_marks(0);
        uint32_t before = fake_runs(NULL, UINT32_MAX);
        for (int j = 0; j < 200; j++)
            gpud_relax();
        CHECK(fake_runs(NULL, UINT32_MAX) == before && gpud_marks(0).left == marks.left, "a launch passed a closed gate");
        fake_forget_runs();
        gpud_open(0);
        EVENTUALLY(gpud_load(&launches) > at, "goes on");
    }
    for (int i = 0; i < THREADS; i++)
        end_launching(threads[i]);
    /* A launch that does not return: the closer gives up at its deadline, and the gate is open. */
    struct gpud_pass pass = gpud_enter(stream, 0, NULL, 1);
    CHECK(gpud_close(0, gpud_now() + 5 * GPUD_MILLISECOND) == -ETIMEDOUT, "gives up");
    gpud_leave(&pass, stream, 0, CUDA_SUCCESS);
    fake_launch(stream, 0, 0);
}

/* A client of two devices is held on both while one is claimed; one that does not use the claimed device is not. */
static void as_a_whole(void)
{
    struct gpud_control_device *knobs = &local_control()->device[1];
    struct gpud_presence_page *peer = (struct gpud_presence_page *)(void *)gpud_region.peer[3];

    set_gate(GPUD_GATE_PREEMPT);
    knobs->peers[0] = local_control()->device[0].peers[0];
    gpud_store(&knobs->peer_count, 1);
    gpud_store(&knobs->gate, GPUD_GATE_PREEMPT);
    gpud_store(&peer->device[1].active, 1);
    local_publish();
    pthread_t thread = begin_launching();
    uint32_t before = gpud_load(&launches);
    EVENTUALLY(gpud_load(&launches) > before + 100, "a device that this client does not use holds nobody");
    gpud_store(&peer->device[1].active, 0);
    gpud_store(&peer->device[1].idle_since_ns, 1);
    fake_context(1);
    fake_launch(stream, 0, 0);
    gpud_store(&peer->device[1].active, 1);
    EVENTUALLY(is_held(), "held on device 0 because device 1 is claimed");
    CHECK(held_slot() != NULL && gpud_load(&held_slot()->hold_peer) == 3, "its slot names the peer");
    before = gpud_load(&launches);
    gpud_store(&peer->device[1].active, 0);
    EVENTUALLY(gpud_load(&launches) > before + 100, "goes on");
    end_launching(thread);
    fake_context(0);
}

/* Detached while held: goes on as if there were no gate. */
static void detached(struct gpud_presence_page *peer)
{
    set_gate(GPUD_GATE_PREEMPT);
    peer_becomes(peer, true);
    pthread_t thread = begin_launching();
    EVENTUALLY(is_held(), "held");
    uint32_t before = gpud_load(&launches);
    gpud_store(&gpud_managed, 0);
    gpud_word_raise(0, 0);
    gpud_wake_held();
    EVENTUALLY(gpud_load(&launches) > before + 10, "goes on");
    end_launching(thread);
}

int main(void)
{
    local_attach(2);
    fake_context(0);
    stream = fake_stream();
    struct gpud_presence_page *peer = local_peer(3, 0);
    paused();
    by_a_peer(peer);
    resumes_on_time(peer);
    max_pause(peer);
    lease_ends(peer);
    several_threads(peer);
    closed();
    as_a_whole();
    gpud_word_raise(GPUD_WORD_FENCE, 0);        /* a kernel without membarrier */
    closed();
    by_a_peer(peer);
    gpud_word_raise(0, GPUD_WORD_FENCE);
    detached(peer);
    CHECK(fake_violations == 0, "the driver was used wrongly");
    return check_summary("hold");
}
