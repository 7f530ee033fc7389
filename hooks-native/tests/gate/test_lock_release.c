/* test_lock_release.c: what a release is while somebody else waits for the device, and when somebody comes after it. */
#define _GNU_SOURCE
#include "locks.h"

/* Released and taken again at once, which no keeper is fast enough for: somebody waits, so it queues behind, and says so after it has left. */
static void a_release_gives_it_up(void)
{
    attach_with_turns();
    take_a_turn(5);
    CHECK(release() == GPUD_OK && acquire(0) == GPUD_OK && release() == GPUD_OK, "nobody waits: the device is still its own");
    wanted();       /* the keeper sleeps, and is not told */
    pthread_t thread = begin_acquire(GPUD_NEVER);
    expect(GPUD_MSG_LOCK_BACK, 5, 0);
    expect(GPUD_MSG_LOCK_ASKED, 0, GPUD_LOCK_EXPLICIT);
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

int main(int argc, char **argv)
{
    static const struct session_case cases[] = {
        { "a_release_gives_it_up", a_release_gives_it_up },
        { "is_woken_when_somebody_comes", is_woken_when_somebody_comes },
    };
    (void)argc;
    return run_cases("lock_release", cases, sizeof cases / sizeof *cases, argv);
}
