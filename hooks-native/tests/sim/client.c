/* client.c: one client of a simulated node, for test_device.py. Modes print one line a step, so that the test can follow.
 *
 *   rounds N DEEP NAME   N times DEEP kernels and a wait; prints the ticket, model time and lateness of each round's end
 *   meet N DEEP NAME    the same, once it has stopped itself (SIGSTOP) with a context and was sent on
 *   paced N sleep|spin   N rounds of a kernel, with 5 ms of sleep or work before each; prints as rounds does
 *   steady NAME          the same for ever, one kernel a round, a line each
 *   hold BYTES           a context and BYTES of memory filled with 0x5a, then waits to be killed
 *   zero BYTES           allocates BYTES and says whether all is zero
 *   info                 free and total bytes of each device
 *   victim SEED          does anything and everything as fast as it can until killed
 *   hostile SEED         the same, scribbling over all it shares with the device process
 *   garbage SEED         malformed packets
 *   fork                 a parent and a child with links of their own; the parent is killed
 *   late MS              a kernel that is computed MS after its modelled end */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "link_state.h"
#include "open.h"

static void rounds(struct sim_link *link, uint64_t count, int deep, const char *name, bool stop)
{
    uint32_t context, queue;
    CHECK(!sim_context_create(link, 0, &context) && !sim_queue_create(link, context, 0, &queue), "no queue");
    if (stop)
        raise(SIGSTOP);
    struct sim_command kernel = { .kind = SIM_KERNEL, .name_id = sim_name(link, name), .blocks = 864, .threads_per_block = 256 };
    for (uint64_t i = 0; i < count; i++) {
        uint64_t ticket = 0;
        for (int k = 0; k < deep; k++)
            ticket = sim_submit(link, queue, &kernel);
        CHECK(ticket, "not submitted");
        sim_computed(link, queue, ticket);
        int result = sim_wait(link, queue, ticket);
        struct sim_done done = sim_queue_done(link, queue);
        if (result) {
            printf("gone %d\n", result);
            exit(4);
        }
        printf("round %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", ticket, done.model_ns, sim_model_now(link, 0));
    }
}

/* `work`: the processor's time, not the clock's, so that a busy machine makes no difference to what is meant. */
static void pause_ms(bool work, long ms)
{
    struct timespec now, start;
    if (!work) {
        nanosleep(&(struct timespec){ .tv_nsec = ms * 1000000 }, NULL);
        return;
    }
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    while ((now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000 < ms);
}

static void paced(struct sim_link *link, int count, bool work)
{
    uint32_t context, queue;
    CHECK(!sim_context_create(link, 0, &context) && !sim_queue_create(link, context, 0, &queue), "no queue");
    struct sim_command kernel = { .kind = SIM_KERNEL, .name_id = sim_name(link, "us200_step"), .blocks = 864, .threads_per_block = 256 };
    for (int i = 0; i < count; i++) {
        pause_ms(work, 5);
        uint64_t ticket = sim_submit(link, queue, &kernel);
        sim_computed(link, queue, ticket);
        CHECK(ticket && !sim_wait(link, queue, ticket), "not done");
        printf("round %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", ticket, sim_queue_done(link, queue).model_ns, sim_model_now(link, 0));
    }
}

static void fill(struct sim_link *link, uint64_t bytes)
{
    uint32_t context;
    uint64_t offset;
    int result = sim_context_create(link, 0, &context);
    result = result ? result : sim_memory_alloc(link, 0, bytes, 1 << 21, &offset);
    if (result) {
        printf("refused %d\n", result);
        exit(5);
    }
    char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, sim_memory_fd(link, 0), (off_t)offset);
    CHECK(at != MAP_FAILED, "mmap: %s", strerror(errno));
    memset(at, 0x5a, bytes);
    printf("holding %" PRIu64 "\n", offset);
    for (;;)
        pause();
}

static void zero(struct sim_link *link, uint64_t bytes)
{
    uint64_t offset;
    CHECK(!sim_memory_alloc(link, 0, bytes, 1 << 21, &offset), "no memory");
    const char *at = mmap(NULL, bytes, PROT_READ, MAP_SHARED, sim_memory_fd(link, 0), (off_t)offset);
    CHECK(at != MAP_FAILED, "mmap: %s", strerror(errno));
    uint64_t dirty = 0;
    for (uint64_t i = 0; i < bytes; i++)
        dirty += at[i] != 0;
    printf("dirty %" PRIu64 "\n", dirty);
}

static void info(struct sim_link *link)
{
    for (uint32_t i = 0; i < sim_device_count(link); i++) {
        uint64_t available, total;
        struct sim_process list[64];
        uint32_t count = 0;
        CHECK(!sim_memory_info(link, i, &available, &total) && !sim_processes(link, i, list, 64, &count), "no answer");
        const struct sim_device_info *device = sim_device(link, i);
        printf("info %" PRIu64 " %" PRIu64 " %u %u %g %s\n", available, total, count, link->node->pid, device->time_scale, device->profile);
    }
}

/* Everything at once, none of it careful. */
static void anything(struct sim_link *link, unsigned seed, bool scribble)
{
    enum { N = 8 };
    uint32_t contexts[N] = { 0 }, queues[N] = { 0 }, events[N] = { 0 };
    uint64_t offsets[N] = { 0 }, ticket = 0, record = 0;
    srand(seed);
    puts("started");
    fflush(stdout);
    for (;;) {
        int i = rand() % N;
        struct sim_command command = { .kind = 1 + (uint32_t)rand() % 7, .name_id = 0, .blocks = 1 + (uint64_t)rand() % 2000,
                                       .threads_per_block = 1 + (uint32_t)rand() % 1024, .bytes = (uint64_t)rand() % 3000000,
                                       .event = events[rand() % N], .ticket = record };
        switch (rand() % 12) {
        case 0:
            if (contexts[i])
                sim_context_destroy(link, contexts[i]);
            contexts[i] = 0;
            if (sim_context_create(link, 0, &contexts[i]))
                contexts[i] = 0;
            break;
        case 1:
            if (queues[i])
                sim_queue_destroy(link, queues[i]);
            queues[i] = 0;
            if (sim_queue_create(link, contexts[rand() % N], -(rand() % 3), &queues[i]))
                queues[i] = 0;
            break;
        case 2:
            if (events[i])
                sim_event_destroy(link, events[i]);
            if (sim_event_create(link, 0, &events[i]))
                events[i] = 0;
            break;
        case 3:
            if (offsets[i])
                sim_memory_free(link, 0, offsets[i]);
            if (sim_memory_alloc(link, 0, (1 + (uint64_t)rand() % 4000) << 20, 512, &offsets[i]))
                offsets[i] = 0;
            break;
        case 4:
            command.name_id = sim_name(link, rand() % 2 ? "short_a" : "short_b");
            break;
        default:
            break;
        }
        ticket = sim_submit(link, queues[rand() % N], &command);
        record = command.kind == SIM_RECORD ? ticket : record;
        if (rand() % 4)
            sim_computed(link, queues[i], ticket);
        if (atomic_load(&link->dead) || !ticket) {
            puts("thrown out");
            return;
        }
        if (scribble && rand() % 50 == 0) {
            char *page = (char *)link->page;
            size_t from = rand() % 3 ? offsetof(struct sim_client_page, ring) + (size_t)rand() % sizeof link->page->ring : 0;
            for (int n = 1 + rand() % 300; n && from < sizeof *link->page; n--)
                page[from++] = (char)rand();
            uint64_t many = rand() % 2 ? UINT64_MAX - 1 : 1;
            if (rand() % 8 == 0)
                fcntl(link->doorbell, F_SETFL, rand() % 2 ? O_NONBLOCK : 0);
            if ((fcntl(link->doorbell, F_GETFL) & O_NONBLOCK) && write(link->doorbell, &many, sizeof many) < 0 && errno != EAGAIN)
                CHECK(errno == EINVAL, "doorbell: %s", strerror(errno));
            if (!link_alive(link)) {
                puts("thrown out");
                return;
            }
        }
    }
}

static void garbage(unsigned seed)
{
    srand(seed);
    for (int i = 0; i < 200; i++) {
        struct sim_link *link = open_or_die();
        static struct sim_request request;
        for (size_t n = 0; n < sizeof request; n++)
            ((char *)&request)[n] = (char)rand();
        if (rand() % 2) {
            request.magic = SIM_PROTO_MAGIC;
            request.type = (uint32_t)rand() % 40;
        }
        size_t size = rand() % 3 ? (size_t)rand() % sizeof request : SIM_REQUEST_HEAD;
        if (rand() % 2 && size >= SIM_REQUEST_HEAD)
            request.text_bytes = (uint32_t)(size - SIM_REQUEST_HEAD);
        send(link->socket, &request, size, MSG_NOSIGNAL);
        if (rand() % 4 == 0)
            for (int k = 0; k < 300 && send(link->socket, &request, size, MSG_NOSIGNAL | MSG_DONTWAIT) > 0; k++)
                ;
        sim_link_close(link);
    }
    puts("survived");
}

static void forks(void)
{
    struct sim_link *link = open_or_die();
    int ready[2], parent = getpid();
    uint32_t context;
    CHECK(!sim_context_create(link, 0, &context) && !pipe(ready), "setup");
    uint64_t before, total;
    CHECK(!sim_memory_info(link, 0, &before, &total), "info");
    pid_t child = fork();
    if (child) {
        char c;
        CHECK(read(ready[0], &c, 1) == 1, "child");
        raise(SIGKILL);
    }
    CHECK(sim_submit(link, 1, &(struct sim_command){ .kind = SIM_KERNEL }) == 0, "the parent's link works in the child");
    CHECK(sim_memory_info(link, 0, &before, &total) == -EPIPE, "the parent's link answers in the child");
    struct sim_link *own = open_or_die();
    CHECK(own != link && !sim_memory_info(own, 0, &before, &total), "own link");
    uint64_t context_bytes = sim_device(own, 0)->context_bytes, after = 0;
    CHECK(write(ready[1], "x", 1) == 1, "tell");
    (void)parent;
    EVENTUALLY(!sim_memory_info(own, 0, &after, &total) && after == before + context_bytes, "the parent's context is still there");
    puts("freed");
}

static void late(struct sim_link *link, long ms)
{
    uint32_t context, queue;
    CHECK(!sim_context_create(link, 0, &context) && !sim_queue_create(link, context, 0, &queue), "no queue");
    struct sim_command kernel = { .kind = SIM_KERNEL, .name_id = sim_name(link, "short_late"), .blocks = 1, .threads_per_block = 32 };
    uint64_t ticket = sim_submit(link, queue, &kernel);
    const _Atomic uint64_t *held = &link->done->queues[queue].held;
    EVENTUALLY(*held == ticket, "not held");
    CHECK(!sim_reached(link, queue, ticket), "done before it is computed");
    nanosleep(&(struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 }, NULL);   /* the computation */
    sim_computed(link, queue, ticket);
    CHECK(!sim_wait(link, queue, ticket), "wait");
    puts("computed");
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "info", *first = argc > 2 ? argv[2] : "0";
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!strcmp(mode, "garbage"))
        garbage((unsigned)strtoul(first, NULL, 10));
    else if (!strcmp(mode, "fork"))
        forks();
    else if (!strcmp(mode, "rounds") || !strcmp(mode, "meet"))
        rounds(open_or_die(), strtoull(first, NULL, 10), argc > 3 ? atoi(argv[3]) : 1, argc > 4 ? argv[4] : "short_step", !strcmp(mode, "meet"));
    else if (!strcmp(mode, "paced"))
        paced(open_or_die(), atoi(first), argc > 3 && !strcmp(argv[3], "spin"));
    else if (!strcmp(mode, "steady"))
        rounds(open_or_die(), UINT64_MAX, 1, first, false);
    else if (!strcmp(mode, "hold"))
        fill(open_or_die(), strtoull(first, NULL, 10));
    else if (!strcmp(mode, "zero"))
        zero(open_or_die(), strtoull(first, NULL, 10));
    else if (!strcmp(mode, "info"))
        info(open_or_die());
    else if (!strcmp(mode, "late"))
        late(open_or_die(), atol(first));
    else if (!strcmp(mode, "victim") || !strcmp(mode, "hostile"))
        anything(open_or_die(), (unsigned)strtoul(first, NULL, 10), !strcmp(mode, "hostile"));
    else
        return 2;
    return 0;
}
