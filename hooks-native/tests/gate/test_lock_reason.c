/* test_lock_reason.c: what the program says its turns are for stands in its activity page as long as it has, or waits for, one. */
#include <string.h>
#include "locks.h"

int gpud_hook_acquire_for(const int *devices, unsigned count, uint64_t timeout_ns, const char *reason);

static int acquire_for(uint64_t timeout_ns, const char *reason)
{
    return gpud_hook_acquire_for(&first, 1, timeout_ns, reason);
}

static bool tells(uint32_t slots, const char *text)
{
    uint8_t whole[GPUD_REASON_BYTES] = { 0 };

    memcpy(whole, text, strlen(text));
    return gpud_load_total(&player.activity->reason_slots) == slots &&
           (slots == 0 || memcmp(player.activity->reason, whole, sizeof whole) == 0);
}

static void *acquires_for(void *reason)
{
    return (void *)(intptr_t)acquire_for(20 * GPUD_SECOND, reason);
}

/* While it waits, while it has its turn, and not beyond the last release. */
static void from_the_question_to_the_last_release(void)
{
    char reason[] = "validation";
    pthread_t thread;

    attach_with_turns();
    pthread_create(&thread, NULL, acquires_for, reason);
    expect(GPUD_MSG_LOCK_ASKED, 0, GPUD_LOCK_EXPLICIT);
    CHECK(tells(1, "validation"), "while it waits");
    grant(5);
    expect(GPUD_MSG_LOCK_IS_IN, 5, 0);
    CHECK(answer_of(thread) == GPUD_OK && tells(1, "validation"), "in its turn");
    CHECK(acquire_for(0, "step 7") == GPUD_OK && tells(1, "step 7"), "the last one counts, and nothing of the one before is left");
    CHECK(acquire_for(0, NULL) == GPUD_OK && acquire_for(0, "") == GPUD_OK && acquire(0) == GPUD_OK && tells(1, "step 7"),
          "who says nothing changes nothing");
    for (int i = 0; i < 4; i++)
        CHECK(release() == GPUD_OK && tells(1, "step 7"), "nested");
    CHECK(release() == GPUD_OK && tells(0, ""), "over");
    CHECK(acquire(0) == GPUD_OK && tells(0, ""), "a later turn has none of its own");
}

static void ends_with_a_wait_that_fails(void)
{
    attach_with_turns();
    CHECK(acquire_for(50 * GPUD_MILLISECOND, "late") == GPUD_ERROR_TIMEOUT && tells(0, ""), "nothing is left of it");
}

/* At most 36 bytes, and no character cut in two. */
static void is_cut(void)
{
    const char *right = "0123456789012345678901234567890123", *whole = "012345678901234567890123456789012345";
    char text[64];

    attach_with_turns();
    take_a_turn(5);
    CHECK(acquire_for(0, whole) == GPUD_OK && tells(1, whole), "36 bytes");
    snprintf(text, sizeof text, "%sabc", whole);
    CHECK(acquire_for(0, text) == GPUD_OK && tells(1, whole), "39 bytes");
    snprintf(text, sizeof text, "%s\xe2\x82\xac", right);
    CHECK(acquire_for(0, text) == GPUD_OK && tells(1, right), "34 bytes and one character of three");
    snprintf(text, sizeof text, "%s\xc3\x9f!", right);
    text[36] = 0;
    CHECK(acquire_for(0, text) == GPUD_OK && tells(1, text), "34 bytes and one character of two");
    memset(text, 0x80, sizeof text - 1);
    text[sizeof text - 1] = 0;
    CHECK(acquire_for(0, text) == GPUD_OK, "no UTF-8 at all");
}

int main(int argc, char **argv)
{
    static const struct session_case cases[] = {
        { "from_the_question_to_the_last_release", from_the_question_to_the_last_release },
        { "ends_with_a_wait_that_fails", ends_with_a_wait_that_fails },
        { "is_cut", is_cut },
    };
    (void)argc;
    return run_cases("lock_reason", cases, sizeof cases / sizeof *cases, argv);
}
