/* launch_loop THREADS LAUNCHES [BURST SPIN_US]: calls cuLaunchKernel of whatever driver dlopen finds, LAUNCHES times in each of
 * THREADS threads at once, and prints the mean cost of a call for each thread, in ns of its own CPU time (what a shared machine
 * gives to others meanwhile does not count). The pointer comes from dlsym on a handle, as frameworks do. A
 * fifth of the launches go first, untimed, so that attach, slots and caches are warm. With BURST the thread spins for SPIN_US after each
 * BURST launches, so that a tenant whose launches cost more GPU time than this loop takes keeps a budget. It then waits for a
 * line on stdin before it ends, so that the page's counts can be read while the client lives. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef int (*launch_fn)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);

static launch_fn launch;
static int (*set_context)(void *);
static void *context, *function;
static pthread_barrier_t ready;
static long launches, burst, spin_us;

static double ns_of(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* ns of CPU time that the launches took. */
static double loop(long count)
{
    double took = 0;
    for (long made = 0; made < count; made += burst) {
        double begin = ns_of(CLOCK_THREAD_CPUTIME_ID);
        for (long i = 0; i < burst; i++)
            if (launch(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) != 0)
                abort();
        took += ns_of(CLOCK_THREAD_CPUTIME_ID) - begin;
        double rested = ns_of(CLOCK_MONOTONIC) + (double)spin_us * 1e3;
        while (spin_us && ns_of(CLOCK_MONOTONIC) < rested)
            ;
    }
    return took;
}

static void *worker(void *result)
{
    set_context(context);
    loop(launches / 5);
    pthread_barrier_wait(&ready);
    *(double *)result = loop(launches) / (double)launches;
    return NULL;
}

static void *need(void *library, const char *name)
{
    void *address = dlsym(library, name);
    if (!address) {
        fprintf(stderr, "launch_loop: the driver has no %s\n", name);
        exit(1);
    }
    return address;
}

int main(int argc, char **argv)
{
    if (argc != 3 && argc != 5) {
        fprintf(stderr, "usage: launch_loop THREADS LAUNCHES [BURST SPIN_US]\n");
        return 2;
    }
    int threads = atoi(argv[1]);
    burst = argc == 5 ? atol(argv[3]) : atol(argv[2]) / 5;
    spin_us = argc == 5 ? atol(argv[4]) : 0;
    if (burst < 1 || spin_us < 0)
        return 2;
    launches = atol(argv[2]) / burst / 5 * burst * 5; /* whole bursts, also of a fifth */
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library || threads < 1 || threads > 64) {
        fprintf(stderr, "launch_loop: %s\n", library ? "THREADS must be 1 … 64" : dlerror());
        return 1;
    }
    int (*init)(unsigned) = (int (*)(unsigned))need(library, "cuInit");
    int (*create)(void **, unsigned, int) = (int (*)(void **, unsigned, int))need(library, "cuCtxCreate_v2");
    int (*synchronise)(void) = (int (*)(void))need(library, "cuCtxSynchronize");
    set_context = (int (*)(void *))need(library, "cuCtxSetCurrent");
    launch = (launch_fn)need(library, "cuLaunchKernel");
    double before_init = ns_of(CLOCK_MONOTONIC);
    if (init(0) != 0)
        return 1;
    double init_ms = (ns_of(CLOCK_MONOTONIC) - before_init) / 1e6;
    if (create(&context, 0, 0) != 0)
        return 1;
    if (spin_us)    /* a budget begins with nothing saved; it keeps a tenth of a second */
        nanosleep(&(struct timespec){ .tv_nsec = 300000000 }, NULL);
    function = context; /* the stand-in does not look at it */
    pthread_barrier_init(&ready, NULL, (unsigned)threads);
    double cost[64];
    pthread_t thread[64];
    for (int i = 0; i < threads; i++)
        pthread_create(&thread[i], NULL, worker, &cost[i]);
    for (int i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    synchronise();
    printf("{\"init_ms\": %.4f, \"launches\": %ld, \"ns\": [", init_ms, (launches + launches / 5) * threads);
    for (int i = 0; i < threads; i++)
        printf("%s%.3f", i ? ", " : "", cost[i]);
    printf("]}\n");
    fflush(stdout);
    (void)getchar();
    return 0;
}
