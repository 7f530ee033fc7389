/* preempt_pair low|bare-low FILE INDEX, preempt_pair high|bare-high FILE LOWS ROUNDS IDLE_US RESUME_US: the sides of
 * bench/preempt_latency. FILE is shared memory of all.
 *
 * low   launches without pause. A gap of more than 100 µs between two launches that returned is written down as the pair
 *       (returned before, returned after), in ns of CLOCK_MONOTONIC. Ends when high says so.
 * high  ROUNDS times: idle for IDLE_US and a bit (so that it meets low anywhere), stamp, launch, stay active for 300 µs, synchronise,
 *       stamp. Ends by setting `over`, and prints for each round: launched, synchronised, the last launch of any low that still
 *       got through, the first one after.
 * bare   the contrast, without gpud: high stores one word to the shared memory where it would launch, and low looks at that word
 *        before each launch. No gate can be faster on this machine.
 * The pair that spans a synchronise of high gives both figures. Where there are more programs than processors, a low loses its processor
 * within a launch now and then; such a launch is both the end of a gap and the beginning of the next, and counts by its begin. */
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

#define ROUNDS 4096
#define ROOM 32768
#define LOWS 16
struct gap { uint64_t before, after; };
struct board {
    atomic_uint low_runs, over;
    _Alignas(64) atomic_int claimed; /* the bare gate */
    char pad[60];
    uint64_t launched[ROUNDS], synchronised[ROUNDS];
    struct low {
        _Alignas(64) atomic_uint gaps;
        struct gap gap[ROOM];
    } low[LOWS];
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

static void low(struct board *board, struct low *low)
{
    int runs = 0;
    uint64_t last = now_ns();
    while (!atomic_load_explicit(&board->over, memory_order_relaxed)) {
        while (bare && atomic_load_explicit(&board->claimed, memory_order_relaxed))
            ;
        if (once() != 0)
            exit(1);
        uint64_t now = now_ns();
        unsigned n = atomic_load_explicit(&low->gaps, memory_order_relaxed);
        if (now - last > 100000 && n < ROOM) {
            low->gap[n] = (struct gap){last, now};
            atomic_store(&low->gaps, n + 1);
        }
        last = now;
        if (!runs) {
            runs = 1;
            atomic_fetch_add(&board->low_runs, 1);
        }
    }
}

static void until(uint64_t when)
{
    while (now_ns() < when)
        ;
}

static void high(struct board *board, unsigned lows, unsigned rounds, uint64_t idle_ns)
{
    while (atomic_load(&board->low_runs) < lows)
        usleep(1000);
    uint64_t random = 88172645463325252u;
    for (unsigned i = 0; i < rounds; i++) {
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
    }
    usleep(50000);
    atomic_store(&board->over, 1);
}

/* The gap of this low that spans `when`, *g before it or there; false: it has none. */
static int spanning(const struct low *low, unsigned *g, uint64_t when, struct gap *found)
{
    unsigned gaps = atomic_load(&low->gaps);
    while (*g < gaps && low->gap[*g].after < when)
        ++*g;
    if (*g == gaps || low->gap[*g].before >= when)
        return 0;
    *found = low->gap[*g];
    for (unsigned i = *g; i > 0 && low->gap[i - 1].after == found->before; i--)
        found->before = low->gap[i - 1].before;
    return 1;
}

static void report(struct board *board, unsigned lows, unsigned rounds, uint64_t resume_ns)
{
    unsigned at[LOWS] = {0};
    for (unsigned i = 0; i < rounds; i++) {
        uint64_t before = 0, after = UINT64_MAX;
        struct gap gap;
        for (unsigned n = 0; n < lows; n++) {
            if (!spanning(&board->low[n], &at[n], board->synchronised[i], &gap))
                continue;
            before = gap.before > before ? gap.before : before;
            if (gap.after + 50000 >= board->synchronised[i] + resume_ns) /* else it was not held, but had no processor */
                after = gap.after < after ? gap.after : after;
        }
        if (before && after != UINT64_MAX)
            printf("%llu %llu %llu %llu\n", (unsigned long long)board->launched[i], (unsigned long long)board->synchronised[i],
                   (unsigned long long)before, (unsigned long long)after);
    }
}

int main(int argc, char **argv)
{
    bare = argc > 1 && !strncmp(argv[1], "bare-", 5);
    int is_low = argc == 4 && !strcmp(argv[1] + 5 * bare, "low");
    unsigned number = argc > 3 ? (unsigned)atoi(argv[3]) : 0, rounds = argc > 4 ? (unsigned)atoi(argv[4]) : 0;
    if ((!is_low && argc != 7) || number > LOWS - (unsigned)is_low || rounds > ROUNDS) {
        fprintf(stderr, "usage: preempt_pair low FILE INDEX, preempt_pair high FILE LOWS ROUNDS IDLE_US RESUME_US\n");
        return 2;
    }
    int fd = open(argv[2], O_RDWR);
    struct board *board = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (board == MAP_FAILED) {
        perror(argv[2]);
        return 1;
    }
    start_driver();
    if (is_low) {
        low(board, &board->low[number]);
        return 0;
    }
    high(board, number, rounds, (uint64_t)atol(argv[5]) * 1000);
    report(board, number, rounds, (uint64_t)atol(argv[6]) * 1000);
    return 0;
}
