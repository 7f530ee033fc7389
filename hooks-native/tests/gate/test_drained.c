/* test_drained.c: a device is given back when nothing of this process runs there any more, whatever came in between: new pages, time without a
 * gate or without turns, streams and threads that can be asked no more. */
#define _GNU_SOURCE
#include <stdlib.h>
#include "locks.h"

/* The test's driver knows whether anything runs in the context, and of one event that stands for all of it. */
static uint32_t runs, recorded, asked, synchronising;
static CUevent whole;
static CUresult (*query_event)(CUevent event);

static CUresult record_whole(CUcontext context, CUevent event)
{
    (void)context;
    gpud_store_total(&whole, event);
    gpud_add_total(&recorded, 1);
    return CUDA_SUCCESS;
}

static CUresult query(CUevent event)
{
    if (event != gpud_load_total(&whole))
        return query_event(event);
    bool ready = gpud_load_total(&runs) == 0;
    gpud_add_total(&asked, 1);
    return ready ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

static CUresult synchronise(void)
{
    gpud_store_total(&synchronising, 1);
    while (gpud_load_total(&runs) != 0)
        gpud_relax();
    return CUDA_SUCCESS;
}

static void with_context_events(void)
{
    query_event = real.cuEventQuery;
    real.cuEventQuery = query;
    real.cuCtxRecordEvent = record_whole;
}

/* Work that ends with all_ends(). */
static void launch(CUstream into)
{
    gpud_store_total(&runs, 1);
    fake_launch(into, 0, FAKE_SPINS);
}

static void all_ends(void)
{
    fake_release();
    gpud_store_total(&runs, 0);
}

/* The daemon's pages are others than before, and there are turns. */
static void attaches_anew(bool connected)
{
    uint32_t client = player.client;

    if (!connected) {
        player_stop(&player);
        player_listen(&player);
    }
    player.client = client + 1;
    bool comes = player_hello(&player);
    player_pages(&player, 300);
    player.control->device[0].gate = GPUD_GATE_GRANT;
    CHECK(comes && player_welcome(&player, true), "attaches anew");
}

static void is_let_go(void)
{
    player_say(&player, GPUD_MSG_DETACH, 0, "for a test");
    CHECK(player_closed(&player, 5000), "detached");
    EVENTUALLY(!gpud_load_acquire(&gpud_managed), "without gate");
}

/* Asked for it, with work under way, which then ends. */
static void is_late(uint64_t epoch)
{
    ask_back(epoch, 0);
    expect(GPUD_MSG_LOCK_BACK, epoch, GPUD_LOCK_OVERRUN);
    CHECK(state() == GPUD_LOCK_LEAVES, "leaves");
    all_ends();
}

/* … and then it is given back. */
static void is_late_until_all_ends(uint64_t epoch)
{
    is_late(epoch);
    expect(GPUD_MSG_LOCK_BACK, epoch, 0);
    EVENTUALLY(state() == GPUD_LOCK_NONE && !gpud_load(&player.presence->device[0].active), "has left");
}

static void new_pages(void)
{
    attach_with_turns();
    take_a_turn(5);
    launch(stream);
    attaches_anew(false);
    EVENTUALLY(state() == GPUD_LOCK_LEAVES, "the page says that it has it no more");
    CHECK(gpud_load(&player.presence->device[0].active) == 1, "the new page knows that work runs");
    is_late_until_all_ends(5);
    grant(6);
    expect(GPUD_MSG_LOCK_IS_IN, 6, 0);
    launch(stream);
    is_late_until_all_ends(6);
}

/* Let go with work under way, which was noted; and more in a stream that nobody has noted. */
static void without_gate(void)
{
    with_context_events();
    attach_with_turns();
    take_a_turn(5);
    fake_launch(stream, 0, 0);
    is_let_go();
    launch(fake_stream());
    attaches_anew(true);
    is_late_until_all_ends(5);
    uint32_t before = gpud_load_total(&recorded);
    CHECK(before > 0 && gpud_load_total(&asked) > 0, "the context was asked");
    ask_back(7, 0);
    expect(GPUD_MSG_LOCK_BACK, 7, 0);
    CHECK(gpud_load_total(&recorded) == before, "not again: nothing has been launched since");
}

/* A driver that has no such events: it is waited for. */
static void old_driver(void)
{
    real.cuCtxSynchronize = synchronise;
    attach_with_turns();
    take_a_turn(5);
    is_let_go();
    launch(fake_stream());
    attaches_anew(true);
    ask_back(5, 0);
    EVENTUALLY(gpud_load_total(&synchronising), "the context is waited for");
    CHECK(state() == GPUD_LOCK_LEAVES, "leaves");
    all_ends();
    expect(GPUD_MSG_LOCK_BACK, 5, 0);
}

/* Begun while there were no turns: still in the driver, then under way. */
static void copy(void)
{
    with_context_events();
    attach_with_turns();
    set_gate(0);
    uint64_t counted = gpud_copies(4096, stream, 0);
    gpud_store_total(&runs, 1);
    set_gate(GPUD_GATE_GRANT);
    ask_back(9, 0);
    expect(GPUD_MSG_LOCK_BACK, 9, GPUD_LOCK_OVERRUN);
    CHECK(gpud_load_total(&asked) == 0, "nobody is asked before it is in a stream");
    gpud_copied(counted, CUDA_SUCCESS);
    EVENTUALLY(gpud_load_total(&asked) > 2, "then the context is");
    CHECK(state() == GPUD_LOCK_LEAVES, "leaves");
    all_ends();
    expect(GPUD_MSG_LOCK_BACK, 9, 0);
}

/* Begun while there was no gate, and still in the driver when there is one again. */
static void launch_in_the_driver(void)
{
    with_context_events();
    attach_with_turns();
    take_a_turn(5);
    is_let_go();
    struct gpud_pass pass = gpud_enter(stream, 0, NULL, 1);
    gpud_store_total(&runs, 1);
    attaches_anew(true);
    ask_back(5, 0);
    expect(GPUD_MSG_LOCK_BACK, 5, GPUD_LOCK_OVERRUN);
    CHECK(gpud_load_total(&asked) == 0, "nobody is asked before it is in a stream");
    fake_kernel(stream, 0, FAKE_SPINS);
    gpud_leave(&pass, stream, 0, CUDA_SUCCESS);
    EVENTUALLY(gpud_load_total(&asked) > 2, "then the context is");
    CHECK(state() == GPUD_LOCK_LEAVES, "leaves");
    all_ends();
    expect(GPUD_MSG_LOCK_BACK, 5, 0);
}

/* There are no turns any more while it leaves, and then there are again. */
static void no_turns_in_between(void)
{
    attach_with_turns();
    take_a_turn(5);
    launch(stream);
    ask_back(5, 3600 * GPUD_SECOND);
    release();
    EVENTUALLY(state() == GPUD_LOCK_LEAVES, "leaves");
    set_gate(0);
    gpud_keeper_wake();
    EVENTUALLY(state() == GPUD_LOCK_NONE, "no turns");
    set_gate(GPUD_GATE_GRANT);
    gpud_keeper_wake();
    is_late_until_all_ends(5);
}

/* What was in it is not known any more; others may be left, and their work. */
static void some_context_ends(void)
{
    with_context_events();
    attach_with_turns();
    take_a_turn(5);
    launch(stream);
    gpud_context_going();
    gpud_context_gone(NULL, CUDA_SUCCESS);
    is_late_until_all_ends(5);
}

/* While a capture is open nobody can ask what a stream still does that is being destroyed. */
static void stream_ends_during_a_capture(void)
{
    CUstream captured = fake_stream();

    with_context_events();
    attach_with_turns();
    take_a_turn(5);
    launch(stream);
    fake_begin_capture(captured);
    fake_stream_destroy(stream);
    fake_end_capture(captured);
    is_late_until_all_ends(5);
}

/* While a capture is open nothing passes after the deadline either, but what is captured; as it ends, the device is given back. */
static void capture_is_open(void)
{
    CUstream captured = fake_stream();
    pthread_t thread;

    attach_with_turns();
    take_a_turn(5);
    fake_begin_capture(captured);
    release();
    ask_back(5, 20 * GPUD_MILLISECOND);
    expect(GPUD_MSG_LOCK_BACK, 5, GPUD_LOCK_OVERRUN | GPUD_LOCK_NEVER);
    pthread_create(&thread, NULL, launch_on, NULL);
    EVENTUALLY(is_held(), "a launch of another thread is held");
    uint32_t before = gpud_load(&launches);
    for (int i = 0; i < 100; i++)
        fake_launch(captured, 0, 0);        /* not held, or the test would never end */
    CHECK(state() == GPUD_LOCK_LEAVES && gpud_load(&launches) == before, "it stays shut");
    fake_end_capture(captured);
    CHECK(expect_back_and_asked(5, 0) != 0, "given back, and asked for again");
    grant(6);
    expect(GPUD_MSG_LOCK_IS_IN, 6, 0);
    EVENTUALLY(gpud_load(&launches) > before, "goes on");
    gpud_store(&stop, 1);
    pthread_join(thread, NULL);
}

static void *captures_and_launches(void *captured)
{
    fake_context(0);
    fake_begin_capture(captured);
    fake_launch(stream, 0, 0);
    fake_end_capture(captured);
    return captured;
}

/* It is late, and then a thread begins a capture that it can only end once it has the device: the process goes on. */
static pthread_t late_with(void *(*captures)(void *))
{
    pthread_t thread;

    attach_with_turns();
    take_a_turn(5);
    fake_launch(stream, 0, FAKE_SPINS);
    release();
    ask_back(5, 0);
    expect(GPUD_MSG_LOCK_BACK, 5, GPUD_LOCK_OVERRUN);
    pthread_create(&thread, NULL, captures, fake_stream());
    expect(GPUD_MSG_LOCK_BACK, 5, GPUD_LOCK_NEVER);
    return thread;
}

/* The thread that is to end the capture is held itself: waiting does not end it. */
static void capture_waits_for_the_device(void)
{
    pthread_t thread = late_with(captures_and_launches);

    fake_release();
    pthread_join(thread, NULL);
}

static int acquired;
static void *captures_and_acquires(void *captured)
{
    fake_context(0);
    fake_begin_capture(captured);
    acquired = acquire(20 * GPUD_SECOND);
    fake_end_capture(captured);
    return captured;
}

/* Likewise, where it waits for a turn that it takes itself. */
static void capture_waits_for_a_turn(void)
{
    pthread_join(late_with(captures_and_acquires), NULL);
    CHECK(acquired == GPUD_OK, "%d", acquired);
    fake_release();
}

static uint32_t began, go_on;
static void *launches_per_thread(void *unused)
{
    fake_context(0);
    fake_launch(NULL, 1, FAKE_SPINS);
    gpud_add_total(&began, 1);
    while (!gpud_load_total(&go_on))
        gpud_relax();
    fake_launch(NULL, 1, 0);
    return unused;
}

/* Two threads that never synchronise, each with a default stream of its own: where they stand at the gate each asks its own, and where they
 * are elsewhere only the context knows. */
static void per_thread_streams(bool at_the_gate)
{
    pthread_t threads[2];

    attach_with_turns();
    take_a_turn(5);
    gpud_store_total(&runs, 1);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, launches_per_thread, NULL);
    EVENTUALLY(gpud_load_total(&began) == 2, "both have launched");
    release();
    if (at_the_gate) {
        page_epoch(0);
        gpud_store_total(&go_on, 1);
        EVENTUALLY(gpud_load_total(&gpud_holding) == 2, "both wait");
    }
    is_late(5);
    expect(GPUD_MSG_LOCK_BACK, 5, at_the_gate ? GPUD_LOCK_AND_ASKS : 0);
    gpud_store_total(&go_on, 1);
    if (!at_the_gate)
        expect(GPUD_MSG_LOCK_ASKED, 0, 0);
    grant(6);
    expect(GPUD_MSG_LOCK_IS_IN, 6, 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

static void threads_at_the_gate(void)
{
    per_thread_streams(true);
}

static void threads_elsewhere(void)
{
    with_context_events();
    per_thread_streams(false);
}

int main(int argc, char **argv)
{
    static const struct session_case cases[] = {
        { "new_pages", new_pages }, { "without_gate", without_gate }, { "old_driver", old_driver }, { "copy", copy },
        { "launch_in_the_driver", launch_in_the_driver },
        { "no_turns_in_between", no_turns_in_between }, { "some_context_ends", some_context_ends },
        { "stream_ends_during_a_capture", stream_ends_during_a_capture }, { "capture_is_open", capture_is_open },
        { "capture_waits_for_the_device", capture_waits_for_the_device }, { "capture_waits_for_a_turn", capture_waits_for_a_turn },
        { "threads_at_the_gate", threads_at_the_gate },
        { "threads_elsewhere", threads_elsewhere },
    };
    (void)argc;
    return run_cases("drained", cases, sizeof cases / sizeof *cases, argv);
}
