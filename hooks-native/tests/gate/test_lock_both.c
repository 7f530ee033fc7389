/* test_lock_both.c: turns on two devices at once. All or nothing: while one of the two lacks, nothing is counted on the other, and whatever
 * ends the wait leaves nothing behind. */
#include "locks.h"

static const int both[] = { 1, 0 };
#define BOTH 3u

static int acquire_both(uint64_t timeout_ns)
{
    return gpud_acquire_all(both, 2, timeout_ns);
}

static int release_both(void)
{
    return gpud_release_all(both, 2);
}

static void *acquires_both(void *timeout)
{
    return (void *)(intptr_t)acquire_both((uint64_t)(uintptr_t)timeout);
}

static pthread_t begin_both(uint64_t timeout_ns)
{
    pthread_t thread;
    pthread_create(&thread, NULL, acquires_both, (void *)(uintptr_t)timeout_ns);
    return thread;
}

static uint32_t counted_on(uint32_t device)
{
    return gpud_load_total(&player.presence->device[device].holds);
}

static void grant_on(uint32_t device, uint64_t epoch)
{
    struct gpud_msg_lock message = { { GPUD_WIRE_MAGIC, GPUD_MSG_LOCK_GRANTED, sizeof message }, 1u << device, 0, epoch, GPUD_NEVER, UINT64_MAX };

    gpud_store_release(&player.control->device[device].grant_epoch, epoch);
    player_send(&player, &message, sizeof message, NULL, 0);
}

/* The next message, whatever of it; it is about these devices. */
static const struct gpud_msg_lock *about(uint16_t type, uint32_t slots)
{
    const struct gpud_msg_lock *message = player_expect(&player, type);
    CHECK(message != NULL && message->slots == slots, "message %u about %u", type, message != NULL ? message->slots : 0);
    return message;
}

/* One request for both; the number of it. */
static uint64_t asked_for_both(void)
{
    const struct gpud_msg_lock *asked = about(GPUD_MSG_LOCK_ASKED, BOTH);
    CHECK(asked != NULL && asked->flags == GPUD_LOCK_EXPLICIT, "one question");
    return asked != NULL ? asked->epoch : 0;
}

static void in_on(uint32_t device, uint64_t epoch)
{
    const struct gpud_msg_lock *in = about(GPUD_MSG_LOCK_IS_IN, 1u << device);
    CHECK(in != NULL && in->epoch == epoch && in->flags == 0, "is in");
    EVENTUALLY(gpud_lock_held(device), "has device %u", device);
}

/* The thread that waits has looked again since device `device` came, and has not been let in. */
static void nothing_is_counted(uint32_t device)
{
    for (int i = 0; i < 20; i++) {
        gpud_add_total(&gpud_lock_news, 1);
        gpud_futex_wake(&gpud_lock_news, false);
        pause_ms(1);
    }
    EVENTUALLY(gpud_lock_turns(0) == 0 && gpud_lock_turns(1) == 0 && gpud_lock_holds(0) == 0 && gpud_lock_holds(1) == 0,
               "nothing is counted while one lacks");
    CHECK(gpud_lock_held(device), "the one that came stays");
}

static void attach_both(void)
{
    attach_with_turns();
    gpud_store_release(&player.control->device[1].gate, GPUD_GATE_GRANT);
    gpud_add_total(&player.control->device[1].generation, 1);
}

static void ask_back_on(uint32_t device, uint64_t epoch)
{
    struct gpud_msg_lock message = { { GPUD_WIRE_MAGIC, GPUD_MSG_LOCK_REVOKED, sizeof message }, 1u << device, 0, epoch, GPUD_NEVER - 1, 0 };
    const struct gpud_msg_lock *back;

    player_send(&player, &message, sizeof message, NULL, 0);
    back = about(GPUD_MSG_LOCK_BACK, 1u << device);
    CHECK(back != NULL && back->epoch == epoch && back->flags == 0, "nothing holds it: it is given back at once");
}

/* The grant of one comes late, whichever it is. */
static void late(uint32_t one, uint32_t other)
{
    attach_both();
    pthread_t thread = begin_both(600 * GPUD_SECOND);
    asked_for_both();
    grant_on(one, 5);
    in_on(one, 5);
    nothing_is_counted(one);
    grant_on(other, 6);
    in_on(other, 6);
    CHECK(answer_of(thread) == GPUD_OK && counted_on(0) == 1 && counted_on(1) == 1, "has both");
    CHECK(acquire_both(0) == GPUD_OK && counted_on(0) == 2 && counted_on(1) == 2, "nested");
    CHECK(release_both() == GPUD_OK && release_both() == GPUD_OK && counted_on(0) == 0 && counted_on(1) == 0, "released");
    CHECK(release_both() == GPUD_ERROR_NOT_HELD, "once");
}

static void the_first_comes_late(void)
{
    late(1, 0);
}

static void the_second_comes_late(void)
{
    late(0, 1);
}

/* Asked back while the other one still lacks: it goes, and both are asked for again, as one request under its number. */
static void one_goes_before_the_other_comes(void)
{
    attach_both();
    pthread_t thread = begin_both(600 * GPUD_SECOND);
    uint64_t id = asked_for_both();
    grant_on(0, 5);
    in_on(0, 5);
    ask_back_on(0, 5);
    CHECK(asked_for_both() == id, "the same request");
    grant_on(0, 7);
    in_on(0, 7);
    grant_on(1, 7);
    in_on(1, 7);
    CHECK(answer_of(thread) == GPUD_OK && counted_on(0) == 1 && counted_on(1) == 1, "has both");
    CHECK(release_both() == GPUD_OK, "released");
}

/* The wait ends while it has one of the two: nothing of it is counted, the request is withdrawn, and what came goes when it is wanted. */
static void a_timeout_keeps_neither(void)
{
    attach_both();
    pthread_t thread = begin_both(5 * GPUD_SECOND);
    uint64_t id = asked_for_both();
    grant_on(0, 5);
    in_on(0, 5);
    CHECK(answer_of(thread) == GPUD_ERROR_TIMEOUT, "in vain");
    const struct gpud_msg_lock *withdrawn = about(GPUD_MSG_LOCK_WITHDRAWN, BOTH);
    CHECK(withdrawn != NULL && withdrawn->epoch == id, "withdrawn");
    CHECK(counted_on(0) == 0 && gpud_lock_holds(0) == 0 && counted_on(1) == 0, "nothing is counted");
    CHECK(release_both() == GPUD_ERROR_NOT_HELD, "nothing to release");
    ask_back_on(0, 5);
}

static void a_refusal_keeps_neither(void)
{
    attach_both();
    pthread_t thread = begin_both(600 * GPUD_SECOND);
    uint64_t id = asked_for_both();
    grant_on(1, 5);
    in_on(1, 5);
    player_say(&player, GPUD_MSG_LOCK_REFUSED, (uint32_t)id, "not both");
    CHECK(answer_of(thread) == GPUD_ERROR_REFUSED && says("not both"), "refused");
    CHECK(counted_on(1) == 0 && gpud_lock_holds(1) == 0 && counted_on(0) == 0, "nothing is counted");
    CHECK(release_both() == GPUD_ERROR_NOT_HELD, "nothing to release");
    ask_back_on(1, 5);
    thread = begin_both(600 * GPUD_SECOND);
    CHECK(asked_for_both() != id, "it may ask again");
    grant_on(0, 6);
    in_on(0, 6);
    grant_on(1, 6);
    in_on(1, 6);
    CHECK(answer_of(thread) == GPUD_OK && release_both() == GPUD_OK, "has both");
}

/* Without a wait it takes both or none of what the process has. */
static void one_of_both_is_not_taken_back(void)
{
    int second = 1;

    attach_both();
    take_a_turn(5);
    CHECK(acquire_both(2 * GPUD_SECOND) == GPUD_ERROR_TIMEOUT, "the other lacks");
    asked_for_both();
    about(GPUD_MSG_LOCK_WITHDRAWN, BOTH);
    CHECK(counted_on(0) == 1 && counted_on(1) == 0, "its turn is as it was");
    CHECK(release_both() == GPUD_ERROR_NOT_HELD && counted_on(0) == 1, "nor is it released with one that it has not");
    CHECK(gpud_release(second) == GPUD_ERROR_NOT_HELD && release() == GPUD_OK && counted_on(0) == 0, "released");
}

int main(int argc, char **argv)
{
    static const struct session_case cases[] = {
        { "the_first_comes_late", the_first_comes_late },
        { "the_second_comes_late", the_second_comes_late },
        { "one_goes_before_the_other_comes", one_goes_before_the_other_comes },
        { "a_timeout_keeps_neither", a_timeout_keeps_neither },
        { "a_refusal_keeps_neither", a_refusal_keeps_neither },
        { "one_of_both_is_not_taken_back", one_of_both_is_not_taken_back },
    };
    (void)argc;
    return run_cases("lock_both", cases, sizeof cases / sizeof *cases, argv);
}
