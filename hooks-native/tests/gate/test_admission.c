/* test_admission.c: a program that the policy keeps in line, or does not let in, waits in cuInit and hears what came of it. */
#define _GNU_SOURCE
#include <string.h>
#include "cases.h"
#include "keeper.h"

static CUresult answer;
static uint32_t answered;

static void *initialise(void *unused)
{
    answer = gpud_initialised();
    gpud_store_release(&answered, 1);
    return unused;
}

/* cuInit in a thread of its own. */
static void begin(void)
{
    pthread_t thread;

    gpud_start();
    pthread_create(&thread, NULL, initialise, NULL);
    pthread_detach(thread);
}

/* A daemon that is to answer within 0.9 s has. */
static bool in_time(uint64_t began)
{
    uint64_t took = gpud_now() - began;
    BOUND(took < 800 * GPUD_MILLISECOND, "the player answered after %llu ms", (unsigned long long)took / GPUD_MILLISECOND);
    return took < 800 * GPUD_MILLISECOND;
}

static void let_in_at_once(void)
{
    player_listen(&player);
    begin();
    player_attach(&player);
    CHECK(player.hello.flags == GPUD_HELLO_WAITS, "it says that it waits: %u", player.hello.flags);
    EVENTUALLY(gpud_load_acquire(&answered), "cuInit answers");
    CHECK(answer == CUDA_SUCCESS, "cuInit: %d", answer);
    CHECK(gpud_initialised() == CUDA_SUCCESS, "and again");
}

static void waits_and_comes_in(void)
{
    uint64_t began = gpud_now();
    player_listen(&player);
    begin();
    player_pages(&player, 100);
    CHECK(player_hello(&player), "HELLO");
    player_say(&player, GPUD_MSG_QUEUED, 300, "the class gold has 2 jobs");
    if (!in_time(began))
        return;
    pause_ms(1600);     /* longer than a daemon may be silent, and than an attach may take */
    CHECK(!gpud_load_acquire(&answered), "it waits in cuInit");
    EVENTUALLY(says("waits in line for 300 s at most: the class gold has 2 jobs"), "says so: %s", said);
    CHECK(!player_closed(&player, 0), "and stays connected");
    CHECK(player_welcome(&player, true), "WELCOME");
    EVENTUALLY(gpud_load_acquire(&answered), "cuInit answers");
    CHECK(answer == CUDA_SUCCESS, "cuInit: %d", answer);
    EVENTUALLY(gpud_load_acquire(&gpud_managed), "managed");
    fake_launch(stream, 0, 0);
    CHECK(counted() == 1, "its launches are counted");
}

static void waits_and_is_refused(void)
{
    uint64_t began = gpud_now();
    player_listen(&player);
    begin();
    CHECK(player_hello(&player), "HELLO");
    player_say(&player, GPUD_MSG_QUEUED, UINT32_MAX, "others wait before it");
    if (!in_time(began))
        return;
    EVENTUALLY(says("waits in line: others wait before it"), "says so: %s", said);
    player_say(&player, GPUD_MSG_REFUSED, GPUD_REFUSED_ADMISSION, "it has waited for 5min");
    EVENTUALLY(gpud_load_acquire(&answered), "cuInit answers");
    CHECK(answer == CUDA_ERROR_SYSTEM_NOT_READY, "cuInit: %d", answer);
    EVENTUALLY(says("refuses this program: it has waited for 5min"), "says why: %s", said);
    CHECK(gpud_initialised() == CUDA_ERROR_SYSTEM_NOT_READY, "whenever it is called again");
    CHECK(!player_accept(&player, 500), "it does not ask again");
}

static void refused_at_once(void)
{
    uint64_t began = gpud_now();
    player_listen(&player);
    begin();
    CHECK(player_hello(&player), "HELLO");
    player_say(&player, GPUD_MSG_REFUSED, GPUD_REFUSED_ADMISSION, "full");
    if (!in_time(began))
        return;
    EVENTUALLY(gpud_load_acquire(&answered), "cuInit answers");
    CHECK(answer == CUDA_ERROR_SYSTEM_NOT_READY, "cuInit: %d", answer);
}

/* The daemon is lost while the program waits: nobody refuses it. */
static void left_alone(void)
{
    uint64_t began = gpud_now();
    player_listen(&player);
    begin();
    CHECK(player_hello(&player), "HELLO");
    player_say(&player, GPUD_MSG_QUEUED, 300, "full");
    if (!in_time(began))
        return;
    EVENTUALLY(says("waits in line"), "says so: %s", said);
    player_stop(&player);
    EVENTUALLY(gpud_load_acquire(&answered), "cuInit answers");
    CHECK(answer == CUDA_SUCCESS, "cuInit: %d", answer);
    player_listen(&player);
    player_attach(&player);
    CHECK(player.hello.flags == 0, "it runs already");
}

/* The daemon answers after a second: the program has gone on by then, and must not be left without a gate. */
static void too_late(uint16_t type, uint32_t code)
{
    player_listen(&player);
    begin();
    CHECK(player_hello(&player), "HELLO");
    EVENTUALLY(gpud_load_acquire(&answered), "cuInit answers");
    CHECK(answer == CUDA_SUCCESS, "cuInit: %d", answer);
    player_say(&player, type, code, "full");
    CHECK(player_closed(&player, PLAYER_MS), "it hangs up");
    player_attach(&player);
    CHECK(player.hello.flags == 0, "and comes again, as one that runs already");
    CHECK(gpud_initialised() == CUDA_SUCCESS, "cuInit works");
}

static void queued_too_late(void)
{
    too_late(GPUD_MSG_QUEUED, 300);
}

static void refused_too_late(void)
{
    too_late(GPUD_MSG_REFUSED, GPUD_REFUSED_ADMISSION);
}

static void nonsense(void)
{
    player_listen(&player);
    begin();
    player_attach(&player);
    player_say(&player, GPUD_MSG_QUEUED, 300, "full");
    EVENTUALLY(says("QUEUED out of order"), "says so: %s", said);
}

static const struct session_case cases[] = {
    { "let in at once", let_in_at_once },
    { "waits and comes in", waits_and_comes_in },
    { "waits and is refused", waits_and_is_refused },
    { "refused at once", refused_at_once },
    { "left alone", left_alone },
    { "queued too late", queued_too_late },
    { "refused too late", refused_too_late },
    { "nonsense", nonsense },
};

int main(int count, char **argv)
{
    (void)count;
    return run_cases("admission", cases, sizeof cases / sizeof cases[0], argv);
}
