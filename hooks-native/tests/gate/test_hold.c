/* test_hold.c: launches that are held: by peers, a pause, a closed device; how they go on. */
#include <stdlib.h>
#include "fake.h"

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

static void paused(void)
{
    uint64_t fastest = UINT64_MAX;
    pthread_t thread = begin_launching();
    EVENTUALLY(gpud_load(&launches) > 10, "an open gate lets through");
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
    CHECK(fastest < 60 * GPUD_MILLISECOND, "woken, not timed out: %llu us", (unsigned long long)fastest / 1000);
    set_gate(GPUD_GATE_PAUSED);
    EVENTUALLY(is_held(), "paused");
    struct gpud_marks marks = gpud_marks(0);
    CHECK(marks.entered == marks.left, "a held thread has no mark in the gate");
    const struct gpud_slot *slot = held_slot();
    CHECK(slot != NULL && gpud_load(&slot->hold_reason) == GPUD_GATE_PAUSED &&
              gpud_load(&slot->hold_peer) == GPUD_NO_PEER, "its slot says why");
    set_gate(0);
    end_launching(thread);
    CHECK(held_slot() == NULL && !is_held(), "nothing is held any more");
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
    for (int i = 0; i < 50; i++) {
        struct timespec nap = { .tv_nsec = 100000 };
        uint64_t since = gpud_now();
        peer_becomes(peer, false);
        nanosleep(&nap, NULL);
        peer_becomes(peer, true);
        if (gpud_now() - since > 900 * GPUD_MICROSECOND) {      /* we overslept: that was idle enough */
            EVENTUALLY(is_held(), "held again");
            before = gpud_load(&launches);
        }
    }
    CHECK(gpud_load(&launches) == before, "short pauses are no end: %u launches", gpud_load(&launches) - before);
    peer_becomes(peer, false);
    end_launching(thread);
}

/* How long after resume_after the held thread launches. Medians only: the machine is shared. */
static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void resumes_on_time(struct gpud_presence_page *peer)
{
    enum { TIMES = 41 };
    uint64_t late[TIMES];
    struct fake_run run;

    for (int i = 0; i < TIMES; i++) {
        peer_becomes(peer, true);
        pthread_t thread = begin_launching();
        EVENTUALLY(is_held(), "held");
        gpud_store(&stop, 1);       /* it launches once more */
        fake_forget_runs();
        peer_becomes(peer, false);
        uint64_t due = peer->device[0].idle_since_ns + GPUD_MILLISECOND;
        pthread_join(thread, NULL);
        CHECK(fake_runs(&run, 1) == 1 && run.launched_ns >= due, "after resume_after");
        late[i] = run.launched_ns - due;
    }
    qsort(late, TIMES, sizeof late[0], by_size);
    printf("resumes %llu us (median), %llu us (best) after resume_after\n", (unsigned long long)late[TIMES / 2] / 1000,
           (unsigned long long)late[0] / 1000);
    CHECK(late[TIMES / 4] < 200 * GPUD_MICROSECOND, "a quarter is late by %llu us", (unsigned long long)late[TIMES / 4] / 1000);
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
    for (int i = 0; i < 6; i++)
        fake_launch(stream, 0, 0);      /* held, passes, passes, held, passes, passes */
    struct fake_run runs[6];
    CHECK(fake_runs(runs, 6) == 6, "all pass in the end");
    CHECK(runs[3].launched_ns - runs[2].launched_ns >= 20 * GPUD_MILLISECOND, "the fourth is held as long again");
    CHECK(runs[2].launched_ns - runs[0].launched_ns < 20 * GPUD_MILLISECOND, "three pass together");
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
        CHECK(gpud_close(0, gpud_now() + 5 * GPUD_SECOND) == 0, "closes");
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
