/* test_lock.c: the device lock between a client and a daemon that is played here: asked for, taken in, asked back, given back. What may go
 * wrong with turns that the program takes itself is in test_lock_turns.c, with the daemon in test_lock_lost.c. */
#define _GNU_SOURCE
#include "locks.h"

static void implicit(void)
{
    pthread_t thread;

    pthread_create(&thread, NULL, launch_on, NULL);
    const struct gpud_msg_lock *asked = expect(GPUD_MSG_LOCK_ASKED, 0, 0);
    CHECK(asked != NULL && asked->time_ns == GPUD_NEVER, "waits for ever");
    uint64_t id = asked != NULL ? asked->epoch : 0;
    EVENTUALLY(state() == GPUD_LOCK_ASKS && is_held(), "asks");
    uint32_t before = gpud_load(&launches);
    gpud_store_release(&player.control->device[0].grant_epoch, 7);
    pause_ms(30);
    CHECK(gpud_load(&launches) == before, "a word in the page opens nothing before the keeper takes it in");
    grant(7);
    expect(GPUD_MSG_LOCK_IS_IN, 7, 0);
    EVENTUALLY(state() == GPUD_LOCK_HAS && gpud_load(&launches) > before + 100, "launches pass");
    ask_back(7, 600 * GPUD_SECOND);
    CHECK(expect_back_and_asked(7, 0) > id, "a request of its own");
    CHECK(!gpud_load(&player.presence->device[0].active), "all work is finished when it is given back");
    before = gpud_load(&launches);
    pause_ms(20);
    CHECK(gpud_load(&launches) <= before + 1, "held again, and asks again");
    grant(8);
    expect(GPUD_MSG_LOCK_IS_IN, 8, 0);
    EVENTUALLY(gpud_load(&launches) > before + 100, "launches pass");
    gpud_store_release(&player.control->device[0].grant_epoch, 0);      /* no message: the page alone shuts */
    EVENTUALLY(is_held(), "held");
    expect_back_and_asked(8, 0);
    grant(9);
    expect(GPUD_MSG_LOCK_IS_IN, 9, 0);
    EVENTUALLY(!is_held(), "goes on");
    gpud_store(&stop, 1);
    pthread_join(thread, NULL);
}

static void overruns(void)
{
    fake_launch(stream, 0, FAKE_SPINS);
    EVENTUALLY(state() == GPUD_LOCK_HAS, "has it");
    ask_back(9, 20 * GPUD_MILLISECOND);
    expect(GPUD_MSG_LOCK_BACK, 9, GPUD_LOCK_OVERRUN);
    CHECK(state() == GPUD_LOCK_LEAVES, "still leaves");
    fake_release();
    expect(GPUD_MSG_LOCK_BACK, 9, 0);
    EVENTUALLY(state() == GPUD_LOCK_NONE, "has left");
}

static void explicit_turns(void)
{
    CHECK(release() == GPUD_ERROR_NOT_HELD, "release without acquire");
    uint64_t at = gpud_now();
    CHECK(acquire(50 * GPUD_MILLISECOND) == GPUD_ERROR_TIMEOUT, "nobody grants");
    CHECK(gpud_now() - at >= 50 * GPUD_MILLISECOND, "too early");
    const struct gpud_msg_lock *asked = expect(GPUD_MSG_LOCK_ASKED, 0, GPUD_LOCK_EXPLICIT);
    CHECK(asked != NULL && asked->time_ns <= 50 * GPUD_MILLISECOND, "waits for no longer");
    uint64_t id = asked != NULL ? asked->epoch : 0;
    expect(GPUD_MSG_LOCK_WITHDRAWN, id, GPUD_LOCK_EXPLICIT);
    take_a_turn(11);
    CHECK(acquire(0) == GPUD_OK && turns_told() == 2 && release() == GPUD_OK, "nested");
    gpud_store(&player.control->device[0].lock_flags, GPUD_LOCK_WANTED);
    CHECK(release() == GPUD_OK && turns_told() == 0, "released");
    expect(GPUD_MSG_LOCK_BACK, 11, 0);
    CHECK(release() == GPUD_ERROR_NOT_HELD, "released once more");
    gpud_store(&player.control->device[0].lock_flags, 0);
    pthread_t thread = begin_acquire(600 * GPUD_SECOND);
    asked = expect(GPUD_MSG_LOCK_ASKED, 0, GPUD_LOCK_EXPLICIT);
    if (asked != NULL)
        player_say(&player, GPUD_MSG_LOCK_REFUSED, (uint32_t)asked->epoch, "not today");
    int answer = answer_of(thread);
    CHECK(answer == GPUD_ERROR_REFUSED && says("not today"), "refused: %d", answer);
    int wrong = 77;
    CHECK(gpud_hook_acquire(&wrong, 1, 0) == GPUD_ERROR_DEVICE && gpud_hook_acquire(NULL, 0, 0) == GPUD_ERROR_DEVICE, "no such device");
    set_gate(0);
    CHECK(acquire(0) == GPUD_UNLOCKED, "nobody takes turns");
}

static void memory_is_held(void)
{
    set_gate(GPUD_GATE_GRANT);
    gpud_store_release(&player.control->device[0].grant_epoch, 12);
    grant(12);
    expect(GPUD_MSG_LOCK_IS_IN, 12, 0);
    uint64_t copied = gpud_copies(4096, stream, 0);
    struct gpud_marks marks = gpud_marks(0);
    CHECK(marks.entered == marks.left + 1, "a copy under way is marked");
    ask_back(12, 20 * GPUD_MILLISECOND);
    expect(GPUD_MSG_LOCK_BACK, 12, GPUD_LOCK_OVERRUN);
    gpud_copied(copied, CUDA_SUCCESS);
    expect(GPUD_MSG_LOCK_BACK, 12, 0);
}

static void turns(void)
{
    attach_with_turns();
    implicit();
    overruns();
    explicit_turns();
    memory_is_held();
}

int main(int argc, char **argv)
{
    static const struct session_case cases[] = { { "turns", turns } };
    (void)argc;
    return run_cases("lock", cases, 1, argv);
}
