/* rogue.c: clients of a simulated node that no library would be: well-formed commands and requests that make no sense, programs that stop in the
 * middle, connections that say nothing. For test_rogues.py.
 *
 *   nonsense SEED STEPS  requests and commands with any values in them, and any values in all words that are shared
 *   stuck KIND BLOCKS    submits a command of that kind and never computes it
 *   late KIND BLOCKS N   does N of them one after another and prints how long that took, ms
 *   ends N               queues that are closed with work in them, in a context that a fault ends, N times
 *   names FIRST N        names N kernels, of which each is another one for each FIRST, and waits to be killed
 *   silent N             N connections without a word
 *   forks                opens the node while another thread forks; prints how long that took, ms */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "link_state.h"
#include "open.h"
#include "start.h"

static unsigned seed;
static unsigned chance(unsigned n) { return (unsigned)rand_r(&seed) % n; }
static uint64_t bits(void) { return (uint64_t)rand_r(&seed) << 33 ^ (uint64_t)rand_r(&seed) << 16 ^ (uint64_t)rand_r(&seed); }

/* Small, a border, or anything. */
static uint64_t any(void)
{
    switch (chance(6)) {
    case 0: return 0;
    case 1: return UINT64_MAX;
    case 2: return 1ull << chance(64);
    case 3: return (1ull << chance(64)) - 1;
    case 4: return chance(100000);
    default: return bits();
    }
}

static long now_ms(void) { return (long)(link_clock() / 1000000); }

/* What the node has given out, for later requests to name. */
static uint64_t offsets[64], ranges[64], numbers[64];
static int fds[64];
static unsigned offset_count, number_count, fd_count;

static void ask(struct sim_link *link)
{
    static const uint32_t types[] = { SIM_ALLOC, SIM_FREE, SIM_INFO, SIM_CONTEXT_NEW, SIM_CONTEXT_NEW, SIM_CONTEXT_END, SIM_QUEUE_NEW, SIM_QUEUE_NEW,
                                      SIM_QUEUE_NEW, SIM_QUEUE_END, SIM_EVENT_NEW, SIM_EVENT_NEW, SIM_EVENT_END, SIM_NAME_NEW, SIM_PROCESSES,
                                      SIM_UTILISATION, SIM_USAGE, SIM_RANGE, SIM_HOLD, SIM_EXPORT, SIM_EXPORT, SIM_IMPORT, SIM_EVENT_OPEN,
                                      SIM_EVENT_TAKEN, SIM_FAULT_USE, SIM_FAULT_HAPPENED, SIM_CONTEXT_STOP };
    char text[200];
    unsigned known = chance(offset_count < 64 ? offset_count + 1 : 64) % 64;
    LINK_ASK(types[chance(sizeof types / sizeof *types)], .device = chance(20) ? 0 : (uint32_t)any(), .id = chance(8) ? chance(12) : (uint32_t)any(),
             .a = (int64_t)(chance(3) ? any() : chance(5)), .b = (int64_t)(chance(3) ? any() : 1ull << chance(24)));
    struct sim_request_head *out = &question.out;
    switch (out->type) {
    case SIM_ALLOC: out->a = chance(4) ? 1 + (int64_t)chance(1 << 24) : out->a; break;
    case SIM_EXPORT: out->id = chance(2); /* fall through */
    case SIM_FREE: case SIM_RANGE: case SIM_HOLD:
        out->a = chance(6) ? (int64_t)offsets[known] : out->a;
        out->b = chance(6) ? (int64_t)(out->type == SIM_HOLD ? ranges[known] : chance(3)) : out->b;
        break;
    case SIM_EVENT_OPEN: out->a = (int64_t)numbers[chance(64)]; break;
    case SIM_NAME_NEW: case SIM_FAULT_HAPPENED:
        out->text_bytes = chance(sizeof text);
        for (unsigned i = 0; i < out->text_bytes; i++)
            text[i] = (char)rand_r(&seed);
        if (chance(2))
            memcpy(text, "_ZN4I1", 6);
        question.text = text;
        break;
    default: break;
    }
    if (link_ask(link, &question) == -EPIPE)
        return;
    if (question.fd >= 0) {
        unsigned slot = fd_count++ % 64;
        if (fds[slot])
            close(fds[slot]);
        fds[slot] = question.fd;
    }
    if (!question.in.result && out->type == SIM_ALLOC)
        offsets[offset_count++ % 64] = (uint64_t)question.in.a;
    if (!question.in.result && out->type == SIM_RANGE)
        ranges[known] = (uint64_t)question.in.a;
    if (!question.in.result && out->type == SIM_EVENT_NEW && question.in.a)
        numbers[number_count++ % 64] = (uint64_t)question.in.a;
}

static void command(struct sim_link *link, uint64_t *ticket, uint64_t head)
{
    *ticket += chance(50) ? 1 : 1 + (any() >> 24);
    link->page->ring[head % SIM_RING] = (struct sim_slot){
        .ticket = *ticket, .stamp_ns = chance(2) ? any() : link_clock(), .blocks = chance(4) ? chance(2000) : any(),
        .bytes = chance(4) ? chance(100000) : any() >> 14, .wait_ticket = chance(3) ? *ticket - chance(6) : chance(2) ? chance(20) : any(),
        .kind = (uint16_t)(1 + chance(7)), .host_timed = (uint16_t)chance(3), .queue = chance(10) ? chance(12) : chance(SIM_MAX_QUEUES),
        .threads_per_block = chance(4) ? chance(1024) : (uint32_t)any(), .shared_bytes = chance(4) ? chance(50000) : (uint32_t)any(),
        .event = chance(10) ? chance(12) : chance(SIM_MAX_EVENTS), .model_ns = chance(2) ? any() : sim_model_now(link, 0),
    };
}

static void nonsense(struct sim_link *link, unsigned steps)
{
    struct sim_client_page *page = link->page;
    uint64_t ticket = 0, head = 0;
    for (; steps && link_alive(link); steps--) {
        if (!chance(3)) {
            ask(link);
            continue;
        }
        for (unsigned n = 1 + chance(chance(50) ? 4 : 2000); n && head - link->done->tail < SIM_RING; n--)
            command(link, &ticket, head++);
        page->head = head;
        link_doorbell(link);
        for (int i = 0; i < 6; i++)
            page->computed[chance(12)] = chance(3) ? ticket : any();
        if (chance(10))
            continue;
        page->took[chance(12)] = any();
        page->room_waiters = chance(3);
        page->more_waiters = chance(2);
        page->asked = chance(2) ? head : any();
        page->waits[chance(SIM_WAITS)].slot = chance(2) ? (uint32_t)any() : chance(20);
        page->waits[chance(SIM_WAITS)].ticket = any();
        page->queue_waiters[chance(12)] = chance(3);
        page->event_waiters[chance(12)] = chance(3);
    }
    puts(link_alive(link) ? "served" : "thrown out");
}

static uint32_t new_queue(struct sim_link *link, uint32_t *context)
{
    uint32_t queue = 0;
    CHECK(!sim_context_create(link, 0, context) && !sim_queue_create(link, *context, 0, &queue), "no queue");
    return queue;
}

static void stuck(struct sim_link *link, struct sim_command work, int times)
{
    uint32_t context, queue = new_queue(link, &context);
    if (!times) {
        sim_submit(link, queue, &work);
        puts("stuck");
        for (;;)
            pause();
    }
    long start = now_ms();
    for (; times; times--) {
        uint64_t ticket = sim_submit(link, queue, &work);
        sim_computed(link, queue, ticket);
        CHECK(!sim_wait(link, queue, ticket), "not done");
    }
    printf("%ld\n", now_ms() - start);
}

static void ends(struct sim_link *link, int times)
{
    struct sim_command kernel = { .kind = SIM_KERNEL, .blocks = 1000000, .threads_per_block = 256 };
    for (; times; times--) {
        uint32_t context, queues[8];
        uint64_t tickets[8];
        CHECK(!sim_context_create(link, 0, &context), "no context");
        for (int i = 0; i < 8; i++) {
            CHECK(!sim_queue_create(link, context, 0, &queues[i]), "no queue");
            for (int k = 0; k < 3; k++)
                tickets[i] = sim_submit(link, queues[i], &kernel);
            CHECK(i % 2 || !sim_queue_destroy(link, queues[i]), "not closed");
        }
        CHECK(!sim_context_stop(link, context), "not stopped");
        for (int i = 0; i < 8; i++)
            CHECK(!sim_wait(link, queues[i], tickets[i]), "waits for ever");
        CHECK(!sim_context_destroy(link, context), "not destroyed");
    }
    puts("ended");
}

static void names(struct sim_link *link, int first, int count)
{
    char name[64];
    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof name, "kernel_%d_%d", first, i);
        CHECK(sim_name(link, name), "not named");
    }
    puts("named");
    for (;;)
        pause();
}

static void silent(int count)
{
    struct sockaddr_un address;
    socklen_t size = sim_address(&address, getenv("GPUD_SIM_NODE"));
    for (int i = 0; i < count; i++) {
        int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
        CHECK(!connect(fd, (struct sockaddr *)&address, size), "connect: %s", strerror(errno));
    }
    puts("there");
    for (;;)
        pause();
}

static _Atomic bool opened;
static _Atomic int forked;

static void *forker(void *unused)
{
    (void)unused;
    while (!opened && forked < 500) {
        if (!fork()) {
            close(1);
            close(2);
            sleep(10);                  /* has a copy of whatever was open */
            _exit(0);
        }
        forked++;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    int first = argc > 2 ? atoi(argv[2]) : 0, second = argc > 3 ? atoi(argv[3]) : 0;
    struct sim_command work = { .kind = (uint32_t)first, .blocks = (uint64_t)second, .threads_per_block = 256, .bytes = 1000000 };
    setvbuf(stdout, NULL, _IOLBF, 0);
    seed = (unsigned)first;
    if (!strcmp(mode, "nonsense"))
        nonsense(open_or_die(), (unsigned)second);
    else if (!strcmp(mode, "stuck") || !strcmp(mode, "late"))
        stuck(open_or_die(), work, argc > 4 ? atoi(argv[4]) : 0);
    else if (!strcmp(mode, "ends"))
        ends(open_or_die(), first);
    else if (!strcmp(mode, "names"))
        names(open_or_die(), first, second);
    else if (!strcmp(mode, "silent"))
        silent(first);
    else if (!strcmp(mode, "forks")) {
        pthread_t thread;
        pthread_create(&thread, NULL, forker, NULL);
        while (!forked)
            usleep(100);
        long start = now_ms();
        open_or_die();
        printf("%ld\n", now_ms() - start);
        opened = true;
        pthread_join(thread, NULL);
    } else
        return 2;
    return 0;
}
