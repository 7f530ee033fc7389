/* test_wait.c: allocations that wait for room (`over_memory = wait`), between a client and a daemon that is played here. */
#define _GNU_SOURCE
#include "cases.h"
#include "quota.h"
#include "quota_wait.h"

#define MIB (UINT64_C(1) << 20)

static void limit(uint64_t bytes, uint32_t flags)
{
    gpud_store(&player.control->device[0].memory_limit, bytes);
    gpud_store(&player.control->device[0].memory_flags, flags);
}

static uint64_t reserved(void)
{
    return gpud_load(&player.presence->device[0].reserved_bytes);
}

static void reply(const struct gpud_msg_memory *asked, uint32_t code)
{
    struct gpud_msg_memory message = *asked;
    message.head.type = GPUD_MSG_ALLOC_REPLY;
    message.code = code;
    player_send(&player, &message, sizeof message, NULL, 0);
}

/* What a program's thread does; the driver says OUT_OF_MEMORY so many times before it gives. */
struct attempt {
    pthread_t thread;
    uint64_t bytes, at;
    uint32_t full, done;
    CUresult result;
};

static void *allocate(void *of)
{
    struct attempt *attempt = of;
    bool again;

    fake_context(0);
    do {
        struct gpud_charge charge = gpud_reserves(attempt->bytes);
        if (charge.refused) {
            attempt->result = CUDA_ERROR_OUT_OF_MEMORY;
            break;
        }
        attempt->result = attempt->full > 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
        attempt->full -= attempt->full > 0;
        again = gpud_reserved(&charge, attempt->result ? 0 : attempt->at, attempt->bytes, attempt->result);
    } while (again);
    gpud_store_total(&attempt->done, 1);
    return NULL;
}

static void begin(struct attempt *attempt)
{
    attempt->done = 0;
    pthread_create(&attempt->thread, NULL, allocate, attempt);
}

static CUresult end(struct attempt *attempt)
{
    pthread_join(attempt->thread, NULL);
    return attempt->result;
}

static struct gpud_msg_memory asks(uint64_t bytes)
{
    const struct gpud_msg_memory *asked = player_expect(&player, GPUD_MSG_ALLOC_ASKED);
    CHECK(asked != NULL && asked->bytes == bytes && asked->slot == 0, "asks for %llu bytes", asked ? (unsigned long long)asked->bytes : 0);
    return asked != NULL ? *asked : (struct gpud_msg_memory){ 0 };
}

static void attach(void)
{
    player_listen(&player);
    client_initialise();
    player_attach(&player);
}

static void room_comes(void)
{
    struct attempt one = { .bytes = 4 * MIB, .at = 0x1000 };

    attach();
    limit(2 * MIB, 0);
    begin(&one);
    CHECK(end(&one) == CUDA_ERROR_OUT_OF_MEMORY, "without the word it fails at once");
    limit(2 * MIB, GPUD_MEMORY_WAIT);
    begin(&one);
    struct gpud_msg_memory asked = asks(4 * MIB);
    CHECK(!gpud_load_total(&one.done) && reserved() == 0, "it waits, and has reserved nothing");
    reply(&asked, 0);           /* there is none: somebody was quicker */
    struct gpud_msg_memory once_more = asks(4 * MIB);
    CHECK(once_more.request == asked.request, "it keeps its place");
    limit(4 * MIB, GPUD_MEMORY_WAIT);
    reply(&once_more, 0);
    CHECK(end(&one) == CUDA_SUCCESS && reserved() == 4 * MIB, "it has it");
    struct attempt refused = { .bytes = MIB, .at = 0x2000 };
    for (uint32_t code = GPUD_MEMORY_NO_LIMIT; code <= GPUD_MEMORY_NO_HOST; code++) {
        begin(&refused);
        asked = asks(MIB);
        reply(&asked, code);
        CHECK(end(&refused) == CUDA_ERROR_OUT_OF_MEMORY && reserved() == 4 * MIB, "refused with %u", code);
    }
    CHECK(asked.request > once_more.request, "another allocation, another number");
}

static void device_is_full(void)
{
    struct attempt one = { .bytes = MIB, .at = 0x1000, .full = 2 };

    attach();
    limit(UINT64_MAX, GPUD_MEMORY_WAIT);
    begin(&one);
    struct gpud_msg_memory asked = asks(MIB);
    CHECK(reserved() == 0, "what the driver has not is not reserved");
    reply(&asked, 0);
    struct gpud_msg_memory once_more = asks(MIB);
    CHECK(once_more.request == asked.request, "it keeps its place");
    reply(&once_more, 0);
    CHECK(end(&one) == CUDA_SUCCESS && reserved() == MIB, "it has it");
    struct attempt two = { .bytes = MIB, .at = 0x2000, .full = 1 };
    begin(&two);
    asked = asks(MIB);
    reply(&asked, GPUD_MEMORY_NO_DEVICE);
    CHECK(end(&two) == CUDA_ERROR_OUT_OF_MEMORY && reserved() == MIB, "refused");
}

/* More threads than places: all are answered, and each has a number of its own. */
#define CROWD 80
static void many(void)
{
    struct attempt crowd[CROWD];
    uint64_t last = 0;

    attach();
    limit(MIB / 2, GPUD_MEMORY_WAIT);
    for (uint32_t i = 0; i < CROWD; i++) {
        crowd[i] = (struct attempt){ .bytes = MIB, .at = 0x1000 * (i + 1) };
        begin(&crowd[i]);
    }
    for (uint32_t i = 0; i < CROWD; i++) {
        struct gpud_msg_memory asked = asks(MIB);
        CHECK(asked.request != last, "one question each");
        last = asked.request;
        reply(&asked, GPUD_MEMORY_NO_TIME);
    }
    for (uint32_t i = 0; i < CROWD; i++)
        CHECK(end(&crowd[i]) == CUDA_ERROR_OUT_OF_MEMORY, "refused");
}

static void let_go(void)
{
    struct attempt one = { .bytes = 4 * MIB, .at = 0x1000 };

    attach();
    limit(2 * MIB, GPUD_MEMORY_WAIT);
    begin(&one);
    asks(4 * MIB);
    player_say(&player, GPUD_MSG_DETACH, 0, "go");
    CHECK(end(&one) == CUDA_SUCCESS, "detached: no limit any more");
}

static void daemon_dies(void)
{
    struct attempt one = { .bytes = 4 * MIB, .at = 0x1000 };

    attach();
    limit(2 * MIB, GPUD_MEMORY_WAIT);
    begin(&one);
    asks(4 * MIB);
    uint64_t from = gpud_now();
    gpud_store(&player.control->failsafe_after_ns, 300 * GPUD_MILLISECOND);
    gpud_store(&player.control->lease_until_ns, gpud_now() + 100 * GPUD_MILLISECOND);
    player_stop(&player);
    CHECK(end(&one) == CUDA_ERROR_OUT_OF_MEMORY, "nobody will ever answer");
    CHECK(gpud_now() - from >= 400 * GPUD_MILLISECOND, "not before what the daemon set has run out");
    CHECK(reserved() == 0, "and nothing is left reserved");
}

/* What others free is seen without the daemon. */
static void room_without_daemon(void)
{
    struct attempt one = { .bytes = 4 * MIB, .at = 0x1000 };

    attach();
    limit(5 * MIB, GPUD_MEMORY_WAIT);
    CHECK(gpud_quota_take(0, 3 * MIB), "taken");
    begin(&one);
    asks(4 * MIB);
    gpud_store(&player.control->failsafe_after_ns, GPUD_NEVER);
    gpud_store(&player.control->lease_until_ns, gpud_now());
    player_stop(&player);
    gpud_quota_give(0, 3 * MIB);
    CHECK(end(&one) == CUDA_SUCCESS, "it has seen the room by itself");
}

static void daemon_comes_back(void)
{
    struct attempt one = { .bytes = 4 * MIB, .at = 0x1000 };

    attach();
    limit(2 * MIB, GPUD_MEMORY_WAIT);
    begin(&one);
    struct gpud_msg_memory asked = asks(4 * MIB);
    uint64_t generation = player.generation;
    uint32_t number = player.client;
    player_stop(&player);
    player_listen(&player);
    player.client = number;
    player.generation = generation;
    player_control(&player);
    limit(2 * MIB, GPUD_MEMORY_WAIT);
    CHECK(player_hello(&player) && player_welcome(&player, false), "attached again");
    struct gpud_msg_memory anew = asks(4 * MIB);
    CHECK(anew.request == asked.request, "the new daemon is asked the same question");
    reply(&anew, GPUD_MEMORY_NO_TIME);
    CHECK(end(&one) == CUDA_ERROR_OUT_OF_MEMORY, "and its answer counts");
}

static void nonsense(void)
{
    struct attempt one = { .bytes = 4 * MIB, .at = 0x1000 };

    attach();
    limit(2 * MIB, GPUD_MEMORY_WAIT);
    begin(&one);
    struct gpud_msg_memory asked = asks(4 * MIB), wrong = asked;
    wrong.request += 7;
    reply(&wrong, 0);
    wrong = asked;
    wrong.slot = 99;
    reply(&wrong, 0);
    CHECK(!gpud_load_total(&one.done), "an answer to no question is none");
    reply(&asked, GPUD_MEMORY_NO_LIMIT);
    CHECK(end(&one) == CUDA_ERROR_OUT_OF_MEMORY, "the right one is");
}

int main(int argc, char **argv)
{
    static const struct session_case cases[] = {
        { "room comes", room_comes }, { "device is full", device_is_full }, { "many", many }, { "let go", let_go },
        { "daemon dies", daemon_dies }, { "room without daemon", room_without_daemon }, { "daemon comes back", daemon_comes_back },
        { "nonsense", nonsense },
    };
    (void)argc;
    return run_cases("wait", cases, sizeof cases / sizeof *cases, argv);
}
