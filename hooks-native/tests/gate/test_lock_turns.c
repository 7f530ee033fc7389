/* test_lock_turns.c: turns that the program takes itself. A daemon that asks the device back ends none of them before the grace is over,
 * and none is forgotten. */
#define _GNU_SOURCE
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include "locks.h"

/* The next message of this type, whatever comes before it; NULL: none within PLAYER_MS. */
static const struct gpud_msg_lock *skip_to(uint16_t type)
{
    const struct gpud_msg_lock *message = (const struct gpud_msg_lock *)(const void *)player.packet;
    struct pollfd on = { .fd = player.socket, .events = POLLIN };

    while (poll(&on, 1, PLAYER_MS) > 0 && recv(player.socket, player.packet, sizeof player.packet, 0) > 0) {
        if (message->head.type == type)
            return message;
    }
    return NULL;
}

static void *launch_once(void *unused)
{
    fake_context(0);
    fake_launch(stream, 0, 0);
    gpud_add_total(&launches, 1);
    return unused;
}

/* Asked back in the middle: its launches pass, turns nest, and it leaves when the outermost is released. */
static void is_not_cut(void)
{
    attach_with_turns();
    take_a_turn(5);
    ask_back(5, 3600 * GPUD_SECOND);
    tell(GPUD_MSG_LOCK_REVOKED, 4, 0);          /* of an older grant: means nothing */
    EVENTUALLY(gpud_lock_devices[0].ends, "asked back");
    for (int i = 0; i < 100; i++)
        fake_launch(stream, 0, 0);
    fake_synchronise(stream, 0);
    CHECK(acquire(0) == GPUD_OK && turns_told() == 2, "nested");
    CHECK(release() == GPUD_OK && state() == GPUD_LOCK_HAS, "still in its turn");
    CHECK(!is_held(), "nothing is held");
    CHECK(release() == GPUD_OK, "released");
    expect(GPUD_MSG_LOCK_BACK, 5, 0);
    EVENTUALLY(state() == GPUD_LOCK_NONE, "has left");
}

/* Asked back between two turns: the next one waits in line, whoever is faster. */
static void no_turn_begins_once_asked_back(void)
{
    attach_with_turns();
    take_a_turn(5);
    ask_back(5, 3600 * GPUD_SECOND);
    EVENTUALLY(gpud_lock_devices[0].ends, "asked back");
    CHECK(release() == GPUD_OK, "released");
    pthread_t thread = begin_acquire(600 * GPUD_SECOND);
    const struct gpud_msg_lock *back = skip_to(GPUD_MSG_LOCK_BACK);     /* its question may come before */
    CHECK(back != NULL && back->epoch == 5 && turns_told() == 0, "given back");
    CHECK(back != NULL && (back->flags & GPUD_LOCK_AND_ASKS || skip_to(GPUD_MSG_LOCK_ASKED) != NULL), "it asks, with that or after it");
    grant(6);
    CHECK(skip_to(GPUD_MSG_LOCK_IS_IN) != NULL && answer_of(thread) == GPUD_OK && turns_told() == 1, "its next turn");
    CHECK(release() == GPUD_OK, "released");
}

/* Not released within the grace: the device is given back without it, the program is told, and its next launch waits for a turn. */
static void is_cut_after_the_grace(void)
{
    pthread_t thread;

    attach_with_turns();
    take_a_turn(5);
    uint64_t deadline = gpud_now() + 30 * GPUD_MILLISECOND;
    tell(GPUD_MSG_LOCK_REVOKED, 5, deadline);
    expect(GPUD_MSG_LOCK_BACK, 5, 0);
    CHECK(gpud_now() >= deadline, "before the deadline");
    CHECK(says("has not released its turn"), "the program is told");
    page_epoch(0);
    pthread_create(&thread, NULL, launch_once, NULL);
    expect(GPUD_MSG_LOCK_ASKED, 0, 0);
    CHECK(gpud_load_total(&launches) == 0 && turns_told() == 1, "the launch waits, the turn is still to be released");
    grant(6);
    expect(GPUD_MSG_LOCK_IS_IN, 6, 0);
    pthread_join(thread, NULL);
    CHECK(release() == GPUD_OK && release() == GPUD_ERROR_NOT_HELD, "released once");
}

/* The page alone: the daemon has declared it late, or knows it no more. */
static void the_page_cuts(void)
{
    attach_with_turns();
    take_a_turn(5);
    page_epoch(0);
    ask_back(5, 0);
    expect(GPUD_MSG_LOCK_BACK, 5, 0);
    CHECK(state() == GPUD_LOCK_NONE && turns_told() == 1, "has left");
}

static uint32_t inside;

static void *turn_after_turn(void *unused)
{
    while (!gpud_load(&stop)) {
        int answer = acquire(GPUD_NEVER - 1);
        if (gpud_load(&stop))
            break;
        if (answer != GPUD_OK)
            abort();
        gpud_add_total(&inside, 1);
        for (int i = 0; i < 50; i++)
            gpud_relax();
        gpud_sub_total(&inside, 1);
        release();
    }
    return unused;
}

/* The device is asked back at any moment of two threads that begin and end turns as fast as they can, once by the daemon and once because
 * somebody waits: whoever has given it back has no turn, and gets none before the next grant. */
static void nobody_is_inside_once_it_is_given_back(void)
{
    enum { ROUNDS = 200 };
    pthread_t threads[2];
    uint32_t bad = 0;

    attach_with_turns();
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, turn_after_turn, NULL);
    const struct gpud_msg_lock *got = skip_to(GPUD_MSG_LOCK_ASKED);
    for (uint64_t epoch = 10; epoch < 10 + ROUNDS && got != NULL; epoch++) {
        gpud_store(&player.control->device[0].lock_flags, 0);
        grant(epoch);
        got = skip_to(GPUD_MSG_LOCK_IS_IN);
        uint64_t spins = epoch * 2654435761u % 4096;
        for (uint64_t i = 0; i < spins; i++)
            gpud_relax();
        gpud_store(&player.control->device[0].lock_flags, GPUD_LOCK_WANTED);
        if (epoch % 2)
            ask_back(epoch, 3600 * GPUD_SECOND);
        got = got == NULL ? NULL : skip_to(GPUD_MSG_LOCK_BACK);
        bad += gpud_load_total(&inside) != 0 || turns_told() != 0;
        for (int i = 0; i < 200; i++)
            gpud_relax();
        bad += gpud_load_total(&inside) != 0;
    }
    CHECK(got != NULL, "the client says what it does");
    CHECK(bad == 0, "%u of %d times somebody was inside", bad, ROUNDS);
    gpud_store(&stop, 1);
    set_gate(0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

/* Just before the keeper shuts the gate, which it has found to be nobody's: who waited is gone, and a thread takes a turn. */
static uint32_t begins, began;
void __real_gpud_lock_take(uint32_t device, uint64_t epoch);
void __wrap_gpud_lock_take(uint32_t device, uint64_t epoch);
void __wrap_gpud_lock_take(uint32_t device, uint64_t epoch)
{
    if (epoch == 0 && __atomic_exchange_n(&begins, 0, __ATOMIC_SEQ_CST) == 1) {
        gpud_store_total(&player.control->device[device].lock_flags, 0);
        gpud_add_total(&began, gpud_lock_begin(device) ? 1 : 2);
    }
    __real_gpud_lock_take(device, epoch);
}

/* The turn that began just before is one: the device is not given back. */
static void begins_as_the_gate_is_shut(void)
{
    attach_with_turns();
    take_a_turn(5);
    gpud_store(&player.control->device[0].lock_flags, GPUD_LOCK_WANTED);
    gpud_store_total(&begins, 1);
    CHECK(release() == GPUD_OK, "released");
    EVENTUALLY(gpud_load_total(&began) != 0, "the keeper was about to shut it");
    EVENTUALLY(gpud_lock_held(0), "it is open again");
    CHECK(gpud_load_total(&began) == 1 && turns_told() == 1 && state() == GPUD_LOCK_HAS, "a turn that goes on");
    for (int i = 0; i < 10; i++)
        fake_launch(stream, 0, 0);
    wanted();
    CHECK(release() == GPUD_OK, "released");
    expect(GPUD_MSG_LOCK_BACK, 5, 0);
}

/* Once it is asked back there is none that could begin. */
static void does_not_begin_as_the_gate_is_shut(void)
{
    attach_with_turns();
    take_a_turn(5);
    ask_back(5, 3600 * GPUD_SECOND);
    EVENTUALLY(gpud_lock_devices[0].ends, "asked back");
    gpud_store_total(&begins, 1);
    CHECK(release() == GPUD_OK, "released");
    expect(GPUD_MSG_LOCK_BACK, 5, 0);
    CHECK(gpud_load_total(&began) == 2 && turns_told() == 0, "no turn began: %u", gpud_load_total(&began));
}

/* Granted and lost again before a waiting thread saw it: the daemon knows nothing of the request any more, so it is asked again. */
static void a_waiter_is_not_forgotten(void)
{
    attach_with_turns();
    pthread_t thread = begin_acquire(GPUD_NEVER);
    const struct gpud_msg_lock *asked = expect(GPUD_MSG_LOCK_ASKED, 0, GPUD_LOCK_EXPLICIT);
    uint64_t id = asked != NULL ? asked->epoch : 0;
    tell(GPUD_MSG_LOCK_GRANTED, 5, GPUD_NEVER);         /* by the page it is over already */
    expect(GPUD_MSG_LOCK_BACK, 5, 0);
    expect(GPUD_MSG_LOCK_ASKED, id, GPUD_LOCK_EXPLICIT);
    CHECK(state() == GPUD_LOCK_ASKS && turns_told() == 0, "waits");
    grant(6);
    expect(GPUD_MSG_LOCK_IS_IN, 6, 0);
    CHECK(answer_of(thread) == GPUD_OK && release() == GPUD_OK, "its turn");
}

/* Two threads that wait are one request; the turn is the process's, and over when both have released theirs. */
static void two_threads(void)
{
    attach_with_turns();
    pthread_t one = begin_acquire(GPUD_NEVER), two = begin_acquire(GPUD_NEVER);
    expect(GPUD_MSG_LOCK_ASKED, 0, GPUD_LOCK_EXPLICIT);
    grant(5);
    expect(GPUD_MSG_LOCK_IS_IN, 5, 0);
    CHECK(answer_of(one) == GPUD_OK && answer_of(two) == GPUD_OK && turns_told() == 2, "both have it");
    ask_back(5, 3600 * GPUD_SECOND);
    CHECK(release() == GPUD_OK && turns_told() == 1 && state() == GPUD_LOCK_HAS, "one goes on");
    CHECK(release() == GPUD_OK, "the other ends");
    expect(GPUD_MSG_LOCK_BACK, 5, 0);
}

/* A forked child has no turn, and its errors are not its parent's. */
static void forked_child(void)
{
    int status = -1;

    attach_with_turns();
    take_a_turn(5);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        int released = release(), acquired = acquire(0);
        _exit(released < 0 && acquired < 0 ? 0 : 1);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0, "the child gets errors: %d", status);
    CHECK(turns_told() == 1 && state() == GPUD_LOCK_HAS && acquire(0) == GPUD_OK && release() == GPUD_OK, "the parent's turn goes on");
    CHECK(release() == GPUD_OK, "released");
}

int main(int argc, char **argv)
{
    static const struct session_case cases[] = {
        { "is_not_cut", is_not_cut },
        { "no_turn_begins_once_asked_back", no_turn_begins_once_asked_back },
        { "is_cut_after_the_grace", is_cut_after_the_grace },
        { "the_page_cuts", the_page_cuts },
        { "nobody_is_inside_once_it_is_given_back", nobody_is_inside_once_it_is_given_back },
        { "begins_as_the_gate_is_shut", begins_as_the_gate_is_shut },
        { "does_not_begin_as_the_gate_is_shut", does_not_begin_as_the_gate_is_shut },
        { "a_waiter_is_not_forgotten", a_waiter_is_not_forgotten },
        { "two_threads", two_threads },
        { "forked_child", forked_child },
    };
    (void)argc;
    return run_cases("lock_turns", cases, sizeof cases / sizeof *cases, argv);
}
