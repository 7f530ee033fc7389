/* test_lock_lost.c: the daemon dies and comes back while the process waits for the device, has it, comes in or leaves. Without it nothing is
 * taken and nothing given; with it again, nobody is forgotten. */
#define _GNU_SOURCE
#include <stdlib.h>
#include "locks.h"

/* A daemon that was started anew adopts the pages; the control page is another one, and says `epoch`. */
static void comes_back(uint64_t epoch)
{
    struct player before = player;

    player_listen(&player);
    player.client = before.client;
    player.generation = before.generation;
    player.presence = before.presence;
    player.activity = before.activity;
    player_control(&player);
    player.control->device[0].gate = GPUD_GATE_GRANT;
    page_epoch(epoch);
    bool back = player_hello(&player);
    CHECK(back && player.hello.flags & GPUD_HELLO_REATTACH, "asks to be adopted");
    CHECK(player_welcome(&player, false), "is adopted");
}

static void *launch_once(void *unused)
{
    fake_context(0);
    fake_launch(stream, 0, 0);
    gpud_add_total(&launches, 1);
    return unused;
}

/* The holder keeps it: it launches, nests and releases; when the daemon is back, its turn goes on. */
static void holder(void)
{
    attach_with_turns();
    take_a_turn(5);
    player_stop(&player);
    for (int i = 0; i < 100; i++)
        fake_launch(stream, 0, 0);
    fake_synchronise(stream, 0);
    CHECK(acquire(0) == GPUD_OK && release() == GPUD_OK, "nested");
    comes_back(5);
    tell(GPUD_MSG_LOCK_GRANTED, 5, GPUD_NEVER);
    ask_back(5, 3600 * GPUD_SECOND);
    EVENTUALLY(gpud_lock_devices[0].ends, "asked back");
    CHECK(turns_told() == 1 && state() == GPUD_LOCK_HAS, "its turn goes on");
    CHECK(release() == GPUD_OK, "released");
    expect(GPUD_MSG_LOCK_BACK, 5, 0);
}

/* Asked back, then the daemon dies, and the turn is released while it is gone. */
static void leaves(void)
{
    attach_with_turns();
    take_a_turn(5);
    ask_back(5, 3600 * GPUD_SECOND);
    EVENTUALLY(gpud_lock_devices[0].ends, "asked back");
    player_stop(&player);
    CHECK(release() == GPUD_OK, "released");
    EVENTUALLY(state() == GPUD_LOCK_NONE, "has left");
    comes_back(5);
    ask_back(5, 600 * GPUD_SECOND);
    expect(GPUD_MSG_LOCK_BACK, 5, 0);
}

/* Whoever waits goes on waiting, and asks again: threads at the gate, and the program itself. */
static void waiter(void)
{
    pthread_t thread;

    attach_with_turns();
    pthread_create(&thread, NULL, launch_once, NULL);
    expect(GPUD_MSG_LOCK_ASKED, 0, 0);
    pthread_t asks = begin_acquire(GPUD_NEVER);
    const struct gpud_msg_lock *asked = expect(GPUD_MSG_LOCK_ASKED, 0, GPUD_LOCK_EXPLICIT);
    uint64_t id = asked != NULL ? asked->epoch : 0;
    player_stop(&player);
    EVENTUALLY(is_held(), "held");
    comes_back(0);
    expect(GPUD_MSG_LOCK_ASKED, id, GPUD_LOCK_EXPLICIT);
    expect(GPUD_MSG_LOCK_ASKED, 0, 0);
    CHECK(gpud_load_total(&launches) == 0, "nothing was launched meanwhile");
    grant(6);
    expect(GPUD_MSG_LOCK_IS_IN, 6, 0);
    pthread_join(thread, NULL);
    CHECK(answer_of(asks) == GPUD_OK && release() == GPUD_OK, "its turn");
}

/* Granted, and the daemon dies before the hook has said that it is in: it is in by itself. */
static void comes_in(void)
{
    attach_with_turns();
    pthread_t asks = begin_acquire(GPUD_NEVER);
    expect(GPUD_MSG_LOCK_ASKED, 0, GPUD_LOCK_EXPLICIT);
    grant(7);
    player_stop(&player);
    CHECK(answer_of(asks) == GPUD_OK && state() == GPUD_LOCK_HAS, "in");
    comes_back(7);
    tell(GPUD_MSG_LOCK_GRANTED, 7, GPUD_NEVER);
    CHECK(release() == GPUD_OK, "released");
    gpud_store(&player.control->device[0].lock_flags, GPUD_LOCK_WANTED);
    gpud_keeper_wake();
    expect(GPUD_MSG_LOCK_BACK, 7, 0);
}

/* A daemon that knows nothing of the grant: the page shuts the gate, and it is asked for anew. */
static void unknown(void)
{
    pthread_t thread;

    attach_with_turns();
    take_a_turn(5);
    player_stop(&player);
    comes_back(0);
    expect(GPUD_MSG_LOCK_BACK, 5, 0);
    pthread_create(&thread, NULL, launch_once, NULL);
    expect(GPUD_MSG_LOCK_ASKED, 0, 0);
    CHECK(gpud_load_total(&launches) == 0, "waits");
    grant(8);
    expect(GPUD_MSG_LOCK_IS_IN, 8, 0);
    pthread_join(thread, NULL);
    CHECK(release() == GPUD_OK, "the turn that was cut is released");
}

/* New pages: the turn that the program has is told in these, too. */
static void other_pages(void)
{
    attach_with_turns();
    take_a_turn(5);
    player_say(&player, GPUD_MSG_DETACH, 0, "for a test");
    CHECK(player_closed(&player, PLAYER_MS), "detached");
    EVENTUALLY(!gpud_load_acquire(&gpud_managed), "without gate");
    fake_launch(stream, 0, 0);
    fake_synchronise(stream, 0);
    CHECK(acquire(GPUD_NEVER) == GPUD_ERROR_NO_DAEMON, "no turn begins");
    player.client++;
    player_pages(&player, 300);
    player.control->device[0].gate = GPUD_GATE_GRANT;
    CHECK(player_hello(&player) && player_welcome(&player, true), "attaches anew");
    EVENTUALLY(turns_told() == 1 && state() <= GPUD_LOCK_ASKS, "its turn is told, the device it has not");
    CHECK(release() == GPUD_OK && turns_told() == 0, "released");
}

/* Nobody answers, and the lease is long over: an error that says so; nothing waits for ever. GPUD_OPTIONAL: as if alone. */
static void nobody(void)
{
    attach_with_turns();
    pthread_t asks = begin_acquire(GPUD_NEVER);
    expect(GPUD_MSG_LOCK_ASKED, 0, GPUD_LOCK_EXPLICIT);
    player_stop(&player);
    gpud_store(&player.control->lease_until_ns, gpud_now());
    CHECK(acquire(10 * GPUD_MILLISECOND) == GPUD_ERROR_TIMEOUT, "it may be back in time");
    gpud_store(&player.control->lease_until_ns, 1);
    CHECK(answer_of(asks) == GPUD_ERROR_NO_DAEMON, "no daemon");
    CHECK(acquire(GPUD_NEVER) == GPUD_ERROR_NO_DAEMON, "no daemon");
    setenv("GPUD_OPTIONAL", "1", 1);
    CHECK(acquire(GPUD_NEVER) == GPUD_UNLOCKED, "alone");
    setenv("GPUD_OPTIONAL", "yes", 1);
    CHECK(acquire(GPUD_NEVER) == GPUD_ERROR_NO_DAEMON, "only 1 says so");
}

static CUresult initialises(unsigned int flags)
{
    return flags == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* There never was one. */
static void never(void)
{
    client_initialise();
    int acquired = acquire(GPUD_NEVER), released = release();
    CHECK(acquired == GPUD_ERROR_NO_DAEMON && released == GPUD_ERROR_NO_DAEMON, "no daemon: %d, %d", acquired, released);
    setenv("GPUD_OPTIONAL", "1", 1);
    acquired = acquire(GPUD_NEVER);
    released = release();
    CHECK(acquired == GPUD_UNLOCKED && released == GPUD_UNLOCKED, "alone: %d, %d", acquired, released);
}

/* A turn outlives the daemon that gave it: its end is no error. */
static void released_alone(void)
{
    attach_with_turns();
    take_a_turn(5);
    player_say(&player, GPUD_MSG_DETACH, 0, "for a test");
    EVENTUALLY(!gpud_load_acquire(&gpud_managed), "without gate");
    CHECK(release() == GPUD_OK && release() == GPUD_ERROR_NO_DAEMON, "released once");
}

int main(int argc, char **argv)
{
    static const struct session_case cases[] = {
        { "holder", holder }, { "leaves", leaves }, { "waiter", waiter }, { "comes_in", comes_in }, { "unknown", unknown },
        { "other_pages", other_pages }, { "released_alone", released_alone }, { "nobody", nobody }, { "never", never },
    };
    (void)argc;
    real.cuInit = initialises;
    return run_cases("lock_lost", cases, sizeof cases / sizeof *cases, argv);
}
