/* odd MODE PTX KERNEL COUNT: does what programs seldom do, by the driver API alone. Ends with stdin.
 *
 *   captures  launches a graph COUNT times while, but for the first ones, another thread captures launches into a stream of its own, again and
 *             again. Says `done N M`: N graph launches, M launches captured.
 *   waits     COUNT times: a host function of its stream waits for a mutex that the launching thread has while it launches on, twice.
 *             Says `done N MS`, the longest of them.
 *   threads   two threads launch on a device each, COUNT times, one after another and waited for. Says `done N`, all launches.
 *   ranks     the same, but each launch is followed by a meeting of the two, and COUNT is in seconds. Says `done N`, meetings.
 *
 * With -DLINKED its cuLaunchKernel is the one that the program is linked to; else that of the driver's handle. */
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "driver.h"

#define DEVICES 2
#define IN_GRAPH 5
#define KNOWN 40        /* graph launches until its cost is known: nothing is measured while a capture is open */

#ifdef LINKED
int cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
#endif

struct device {
    void *context, *function, *stream;
};
static struct device devices[DEVICES];
static launch_fn launch;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t meeting;
static unsigned count, captured;
static bool over;
static long long end_ns;

static void launch_on(const struct device *device)
{
    if (launch(device->function, 1, 1, 1, 32, 1, 1, 0, device->stream, NULL, NULL)) {
        fprintf(stderr, "odd: a launch failed\n");
        exit(1);
    }
}

static void prepare(int number, const char *ptx, const char *kernel)
{
    struct device *device = &devices[number];
    void *module;
    CALL(cuCtxCreate_v2, &device->context, 0u, number);
    CALL(cuModuleLoad, &module, ptx);
    CALL(cuModuleGetFunction, &device->function, module, kernel);
    CALL(cuStreamCreate, &device->stream, 1u);
}

static void start(pthread_t *thread, void *(*entry)(void *), void *with)
{
    if (pthread_create(thread, NULL, entry, with)) {
        fprintf(stderr, "odd: no thread\n");
        exit(1);
    }
}

static void say(unsigned what, long long more)
{
    printf("done %u %lld\n", what, more);
    fflush(stdout);
}

/* A capture in the mode that forbids other threads the most. */
static void *graph_of(const struct device *device, void *stream, unsigned launches)
{
    struct device into = *device;
    void *graph;
    into.stream = stream;
    CALL(cuStreamBeginCapture_v2, stream, 0);
    for (unsigned i = 0; i < launches; i++)
        launch_on(&into);
    CALL(cuStreamEndCapture, stream, &graph);
    return graph;
}

static void *capturing(void *unused)
{
    void *stream;
    CALL(cuCtxSetCurrent, devices[0].context);
    CALL(cuStreamCreate, &stream, 1u);
    while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
        CALL(cuGraphDestroy, graph_of(&devices[0], stream, IN_GRAPH));
        captured += IN_GRAPH;
    }
    return unused;
}

static void captures(void)
{
    pthread_t thread;
    void *executable;
    CALL(cuGraphInstantiateWithFlags, &executable, graph_of(&devices[0], devices[0].stream, IN_GRAPH), 0ull);
    for (unsigned i = 0; i < count; i++) {
        if (i == KNOWN) {
            CALL(cuStreamSynchronize, devices[0].stream);
            start(&thread, capturing, NULL);
        }
        CALL(cuGraphLaunch, executable, devices[0].stream);
    }
    __atomic_store_n(&over, true, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    CALL(cuStreamSynchronize, devices[0].stream);
    say(count, captured);
}

static void take_and_give(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
}

static void waits(void)
{
    long long longest = 0;
    for (unsigned i = 0; i < count; i++) {
        long long began = clock_ns(CLOCK_MONOTONIC);
        pthread_mutex_lock(&mutex);
        CALL(cuLaunchHostFunc, devices[0].stream, take_and_give, NULL);
        launch_on(&devices[0]);     /* unfinished as long as the host function waits */
        launch_on(&devices[0]);     /* held by a window of one launch */
        pthread_mutex_unlock(&mutex);
        CALL(cuStreamSynchronize, devices[0].stream);
        long long took = clock_ns(CLOCK_MONOTONIC) - began;
        longest = took > longest ? took : longest;
    }
    say(count, longest / 1000000);
}

static void *one_after_another(void *with)
{
    const struct device *device = with;
    CALL(cuCtxSetCurrent, device->context);
    for (unsigned i = 0; i < count; i++) {
        launch_on(device);
        CALL(cuStreamSynchronize, device->stream);
    }
    return NULL;
}

static void *meeting_each_time(void *with)
{
    const struct device *device = with;
    static unsigned meetings;
    bool go_on = true;
    CALL(cuCtxSetCurrent, device->context);
    while (go_on) {
        launch_on(device);
        CALL(cuStreamSynchronize, device->stream);
        if (pthread_barrier_wait(&meeting) == PTHREAD_BARRIER_SERIAL_THREAD) {
            meetings++;
            over = clock_ns(CLOCK_MONOTONIC) > end_ns;
        }
        pthread_barrier_wait(&meeting);
        go_on = !over;
    }
    return &meetings;
}

static void two(void *(*entry)(void *), bool together)
{
    pthread_t threads[DEVICES];
    void *met = NULL;
    pthread_barrier_init(&meeting, NULL, DEVICES);
    for (unsigned i = 0; i < DEVICES; i++)
        start(&threads[i], entry, &devices[i]);
    for (unsigned i = 0; i < DEVICES; i++)
        pthread_join(threads[i], &met);
    say(together ? *(unsigned *)met : DEVICES * count, 0);
}

int main(int argc, char **argv)
{
    char line[16];
    if (argc != 5) {
        fprintf(stderr, "usage: odd MODE PTX KERNEL COUNT\n");
        return 2;
    }
    count = (unsigned)strtoul(argv[4], NULL, 10);
    CALL(cuInit, 0u);
#ifdef LINKED
    launch = cuLaunchKernel;
#else
    launch = (launch_fn)driver_entry("cuLaunchKernel");
#endif
    bool both = !strcmp(argv[1], "threads") || !strcmp(argv[1], "ranks");
    for (int i = 0; i <= (int)both; i++)
        prepare(i, argv[2], argv[3]);
    CALL(cuCtxSetCurrent, devices[0].context);
    end_ns = clock_ns(CLOCK_MONOTONIC) + count * 1000000000ll;
    if (!strcmp(argv[1], "captures"))
        captures();
    else if (!strcmp(argv[1], "waits"))
        waits();
    else if (both)
        two(!strcmp(argv[1], "ranks") ? meeting_each_time : one_after_another, !strcmp(argv[1], "ranks"));
    while (fgets(line, sizeof line, stdin))
        ;
    return 0;
}
