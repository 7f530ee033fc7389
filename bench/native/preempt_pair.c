/* preempt_pair high|low|bare-high|bare-low FILE [ROUNDS IDLE_US]: the two sides of bench/preempt_latency. FILE is shared memory of both.
 *
 * low   launches without pause. A gap of more than 100 µs between two launches that returned is written down as the pair
 *       (returned before, returned after), in ns of CLOCK_MONOTONIC. Ends when high says so.
 * high  ROUNDS times: idle for IDLE_US and a bit (so that it meets low anywhere), stamp, launch, stay active for 300 µs, synchronise,
 *       stamp. Ends by setting `over`.
 * bare   the contrast, without gpud: high stores one word to the shared memory where it would launch, and low looks at that word
 *        before each launch. No gate can be faster on this machine.
 * The pair that spans a synchronise of high gives both figures: the last launch that still got through, and the first after. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define ROOM 65536
struct board {
    atomic_int low_runs, over;
    _Alignas(64) atomic_int claimed; /* the bare gate */
    char pad[60];
    atomic_uint rounds, gaps;
    uint64_t launched[ROOM], synchronised[ROOM];
    uint64_t before[ROOM], after[ROOM];
};

typedef int (*launch_fn)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
static launch_fn launch;
static int (*synchronise)(void);
static void *context;
static int bare;

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void start_driver(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) {
        fprintf(stderr, "preempt_pair: %s\n", dlerror());
        exit(1);
    }
    int (*init)(unsigned) = (int (*)(unsigned))dlsym(library, "cuInit");
    int (*create)(void **, unsigned, int) = (int (*)(void **, unsigned, int))dlsym(library, "cuCtxCreate_v2");
    launch = (launch_fn)dlsym(library, "cuLaunchKernel");
    synchronise = (int (*)(void))dlsym(library, "cuCtxSynchronize");
    if (!init || !create || !launch || !synchronise || init(0) != 0 || create(&context, 0, 0) != 0) {
        fprintf(stderr, "preempt_pair: the driver does not start\n");
        exit(1);
    }
}

static int once(void)
{
    return launch(context, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
}

static void low(struct board *board)
{
    uint64_t last = now_ns();
    while (!atomic_load_explicit(&board->over, memory_order_relaxed)) {
        while (bare && atomic_load_explicit(&board->claimed, memory_order_relaxed))
            ;
        if (once() != 0)
            exit(1);
        uint64_t now = now_ns();
        unsigned n = atomic_load_explicit(&board->gaps, memory_order_relaxed);
        if (now - last > 100000 && n < ROOM) {
            board->before[n] = last;
            board->after[n] = now;
            atomic_store(&board->gaps, n + 1);
        }
        last = now;
        if (!atomic_load_explicit(&board->low_runs, memory_order_relaxed))
            atomic_store(&board->low_runs, 1);
    }
}

static void until(uint64_t when)
{
    while (now_ns() < when)
        ;
}

static void high(struct board *board, unsigned rounds, uint64_t idle_ns)
{
    while (!atomic_load(&board->low_runs))
        usleep(1000);
    uint64_t random = 88172645463325252u;
    for (unsigned i = 0; i < rounds && i < ROOM; i++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        struct timespec pause = {0, (long)(idle_ns + random % 500000)};
        nanosleep(&pause, NULL);
        until(now_ns() + 20000 + random % 1000); /* awake and warm, as a server at work is */
        uint64_t begin = now_ns();
        if (bare)
            atomic_store_explicit(&board->claimed, 1, memory_order_release);
        if (once() != 0)
            exit(1);
        until(begin + 300000);
        synchronise();
        if (bare)
            atomic_store_explicit(&board->claimed, 0, memory_order_release);
        board->launched[i] = begin;
        board->synchronised[i] = now_ns();
        atomic_store(&board->rounds, i + 1);
    }
    usleep(50000);
    atomic_store(&board->over, 1);
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: preempt_pair high|low FILE [ROUNDS IDLE_US]\n");
        return 2;
    }
    int fd = open(argv[2], O_RDWR);
    struct board *board = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (board == MAP_FAILED) {
        perror(argv[2]);
        return 1;
    }
    start_driver();
    bare = !strncmp(argv[1], "bare-", 5);
    if (!strcmp(argv[1] + 5 * bare, "low")) {
        low(board);
        return 0;
    }
    high(board, (unsigned)atoi(argv[3]), (uint64_t)atol(argv[4]) * 1000);
    unsigned gaps = atomic_load(&board->gaps), rounds = atomic_load(&board->rounds);
    for (unsigned i = 0, g = 0; i < rounds; i++) { /* one line a round: launched synchronised before after */
        while (g < gaps && board->after[g] < board->synchronised[i])
            g++;
        if (g < gaps && board->before[g] < board->synchronised[i])
            printf("%llu %llu %llu %llu\n", (unsigned long long)board->launched[i], (unsigned long long)board->synchronised[i],
                   (unsigned long long)board->before[g], (unsigned long long)board->after[g]);
    }
    return 0;
}
