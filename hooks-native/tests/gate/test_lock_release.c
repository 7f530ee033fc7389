/* test_lock_release.c: what a release is while somebody else waits for the device, and when somebody comes after it. */
#define _GNU_SOURCE
#include "keeper.h"
#include "locks.h"

/* Released and taken again at once, which no keeper is fast enough for: somebody waits, so it queues behind, and says so after it has left. */
static void a_release_gives_it_up(void)
{
    attach_with_turns();
    take_a_turn(5);
    CHECK(release() == GPUD_OK && acquire(0) == GPUD_OK && release() == GPUD_OK, "nobody waits: the device is still its own");
    wanted();       /* the keeper sleeps, and is not told */
    pthread_t thread = begin_acquire(GPUD_NEVER);
    CHECK(expect_back_and_asked(5, GPUD_LOCK_EXPLICIT) != 0, "asked");
    EVENTUALLY(state() == GPUD_LOCK_ASKS, "waits");
    CHECK(turns_told() == 0, "has none");
    grant(6);
    expect(GPUD_MSG_LOCK_IS_IN, 6, 0);
    CHECK(answer_of(thread) == GPUD_OK && acquire(0) == GPUD_OK && turns_told() == 2, "its next turn, and nested turns, whoever waits");
    CHECK(release() == GPUD_OK && state() == GPUD_LOCK_HAS && release() == GPUD_OK, "released");
    expect(GPUD_MSG_LOCK_BACK, 6, 0);
}

static void say_of_grant(uint64_t epoch, uint32_t flags)
{
    struct gpud_msg_lock message = { { GPUD_WIRE_MAGIC, GPUD_MSG_LOCK_GRANTED, sizeof message }, 1, flags, epoch, GPUD_NEVER, UINT64_MAX };
    player_send(&player, &message, sizeof message, NULL, 0);
}

static void say_again(uint64_t epoch)
{
    say_of_grant(epoch, GPUD_LOCK_AGAIN);
}

/* It released when nobody waited; who comes later has it at once. A word on its way meanwhile gives nothing back to it. */
static void is_woken_when_somebody_comes(void)
{
    attach_with_turns();
    take_a_turn(5);
    say_again(5);
    wanted();
    say_again(5);
    CHECK(acquire(0) == GPUD_OK && release() == GPUD_OK && release() == GPUD_OK, "what was said again ends no turn");
    expect(GPUD_MSG_LOCK_BACK, 5, 0);
    EVENTUALLY(state() == GPUD_LOCK_NONE, "has left");
    gpud_store(&player.control->device[0].lock_flags, 0);
    grant(6);
    expect(GPUD_MSG_LOCK_IS_IN, 6, 0);
    CHECK(acquire(0) == GPUD_OK && release() == GPUD_OK, "released, nobody waits");
    wanted();
    say_again(6);
    expect(GPUD_MSG_LOCK_BACK, 6, 0);
    say_again(6);       /* the page still says 6 */
    say_of_grant(6, GPUD_LOCK_LEVEL);
    ask_back(9, 0);     /* never had: answered at once, so what came before has been heard */
    expect(GPUD_MSG_LOCK_BACK, 9, 0);
    gpud_store(&player.control->device[0].lock_flags, 0);
    grant(7);
    expect(GPUD_MSG_LOCK_IS_IN, 7, 0);
}

/* Asked back in the middle of a kernel: what is wanted again before that has ended comes with LOCK_BACK. */
static void is_asked_back_in_a_kernel(void)
{
    attach_with_turns();
    take_a_turn(5);
    fake_context(0);
    fake_launch(stream, 0, FAKE_SPINS);
    ask_back(5, 3600 * GPUD_SECOND);
    CHECK(release() == GPUD_OK, "released");
    EVENTUALLY(state() == GPUD_LOCK_LEAVES, "leaves");
}

/* The number is the request's, and the time is what is left of its wait; withdrawn by that number. */
static void a_request_that_comes_with_the_release_is_one(void)
{
    is_asked_back_in_a_kernel();
    pthread_t thread = begin_acquire(500 * GPUD_MILLISECOND);
    EVENTUALLY(gpud_load_total(&gpud_lock_requests[GPUD_LOCK_REQUESTS - 1].waiters) == 1, "waits");
    fake_release();
    const struct gpud_msg_lock *back = expect(GPUD_MSG_LOCK_BACK, 5, GPUD_LOCK_AND_ASKS | GPUD_LOCK_EXPLICIT);
    CHECK(back != NULL && back->time_ns > 0 && back->time_ns <= 500 * GPUD_MILLISECOND, "so long");
    uint64_t number = back != NULL ? back->bytes : 0;
    CHECK(answer_of(thread) == GPUD_ERROR_TIMEOUT, "nobody grants");
    expect(GPUD_MSG_LOCK_WITHDRAWN, number, GPUD_LOCK_EXPLICIT);
}

/* … and granted once, without another question. */
static void a_request_that_comes_with_the_release_is_not_repeated(void)
{
    is_asked_back_in_a_kernel();
    pthread_t thread = begin_acquire(GPUD_NEVER);
    EVENTUALLY(gpud_load_total(&gpud_lock_requests[GPUD_LOCK_REQUESTS - 1].waiters) == 1, "waits");
    fake_release();
    const struct gpud_msg_lock *back = expect(GPUD_MSG_LOCK_BACK, 5, GPUD_LOCK_AND_ASKS | GPUD_LOCK_EXPLICIT);
    CHECK(back != NULL && back->bytes != 0 && back->time_ns == GPUD_NEVER, "for ever");
    EVENTUALLY(state() == GPUD_LOCK_ASKS, "asks");
    grant(6);
    expect(GPUD_MSG_LOCK_IS_IN, 6, 0);
    CHECK(answer_of(thread) == GPUD_OK && release() == GPUD_OK, "its next turn");
}

/* Threads that are held at the gate: likewise. */
static void a_launch_that_waits_comes_with_it(void)
{
    pthread_t thread;

    is_asked_back_in_a_kernel();
    pthread_create(&thread, NULL, launch_on, NULL);
    EVENTUALLY(gpud_load_total(&gpud_lock_waits[0]) == 1, "waits");
    fake_release();
    const struct gpud_msg_lock *back = expect(GPUD_MSG_LOCK_BACK, 5, GPUD_LOCK_AND_ASKS);
    CHECK(back != NULL && back->bytes != 0 && back->time_ns == GPUD_NEVER, "for ever");
    grant(6);
    expect(GPUD_MSG_LOCK_IS_IN, 6, 0);
    EVENTUALLY(gpud_load(&launches) > 100, "launches pass");
    gpud_store(&stop, 1);
    pthread_join(thread, NULL);
}

static uint32_t nap;

/* Calls the keeper a moment after each nap has begun. */
static void *calls(void *count)
{
    for (uint32_t i = 1; i <= (uintptr_t)count; i++) {
        while (gpud_load_acquire(&nap) != i)
            gpud_relax();
        pause_ms(1);
        gpud_keeper_call();
    }
    return NULL;
}

/* The keeper of a busy program looks at the device every so often, and does not sleep till then once it is wanted. */
static void is_heard_in_a_nap(void)
{
    static const struct gpud_descriptor no_socket = GPUD_NO_DESCRIPTOR;
    struct gpud_session none = { .socket = no_socket };
    const uint64_t length = GPUD_KEEPER_LINGERS_NS - GPUD_MILLISECOND;
    uint32_t early = 0, naps = 50;
    pthread_t thread;

    gpud_keeper_wakeable();
    pthread_create(&thread, NULL, calls, (void *)(uintptr_t)naps);
    for (uint32_t i = 1; i <= naps; i++) {
        uint32_t heard = gpud_keeper_calls();
        uint64_t until = gpud_now() + length;
        gpud_store_release(&nap, i);
        gpud_keeper_sleep(&none, until, false, heard);
        early += gpud_now() < until;
        while (gpud_keeper_calls() == heard)    /* a call that comes late belongs to this nap, too */
            gpud_relax();
    }
    pthread_join(thread, NULL);
    CHECK(early > naps / 5, "%u of %u naps ended by a call", early, naps);
}

int main(int argc, char **argv)
{
    static const struct session_case cases[] = {
        { "a_release_gives_it_up", a_release_gives_it_up },
        { "a_request_that_comes_with_the_release_is_one", a_request_that_comes_with_the_release_is_one },
        { "a_request_that_comes_with_the_release_is_not_repeated", a_request_that_comes_with_the_release_is_not_repeated },
        { "is_heard_in_a_nap", is_heard_in_a_nap },
        { "a_launch_that_waits_comes_with_it", a_launch_that_waits_comes_with_it },
        { "is_woken_when_somebody_comes", is_woken_when_somebody_comes },
    };
    (void)argc;
    return run_cases("lock_release", cases, sizeof cases / sizeof *cases, argv);
}
