/* load PTX KEY=VALUE…: work for a GPU, by the driver API alone: rounds of kernels, one after another or as they arrive.
 *
 *   kernels=NAME:BLOCKS:COUNT,…  one round, of 1024 threads a block (required)
 *   device=N      ordinal (0)
 *   graph=1       a round is launched as one graph
 *   streams=N     the kernels of a round are dealt out to N streams (1)
 *   depth=N       one after another: at most N rounds are submitted and unfinished (32), as far as the first stream says
 *   think_us=N    … and so long a pause after each round (0); with it the depth is 1
 *   rate=R[,R@S…] as they arrive, instead: R rounds a second, another R from S seconds on; each is waited for
 *   poisson=SEED  … at random, a Poisson process of that rate, the same for the same seed; without, at even distances
 *   nowait=1      … and nobody waits for them
 *   warm=N        rounds before the program is ready (1)
 *
 * Says `ready PID`, then obeys lines on stdin: `go N` makes N rounds, `for SECONDS [AT]` goes on for so long (from AT, CLOCK_MONOTONIC ns);
 * each is answered when all is finished (arrivals are the same for each command), with `request ARRIVAL BEGIN END` for each round that arrived, then
 * `done ROUNDS BEGIN END` (CLOCK_MONOTONIC ns). It ends with stdin. */
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "driver.h"

#define KINDS 8
#define STREAMS 16
#define STEPS 16
#define DEPTH 4096

struct kernel { void *function; unsigned blocks, count; };
struct request { long long arrival, begin, end; };

static struct kernel kinds[KINDS];
static struct { double rate, since; } steps[STEPS];
static unsigned kind_count, step_count, device, graph, stream_count = 1, depth = 32, think_us, poisson, nowait, warm = 1;
static void *streams[STREAMS], *executable, *ends[DEPTH];
static launch_fn launch;
static struct request *requests;
static size_t request_count, request_room;
static unsigned short chance[3];

static void usage(const char *what)
{
    fprintf(stderr, "load: not understood: %s\nusage: load PTX kernels=NAME:BLOCKS:COUNT,… [KEY=VALUE…]\n", what);
    exit(2);
}

static void launch_kernels(void)
{
    unsigned n = 0;
    for (unsigned k = 0; k < kind_count; k++)
        for (unsigned i = 0; i < kinds[k].count; i++)
            if (launch(kinds[k].function, kinds[k].blocks, 1, 1, 1024, 1, 1, 0, streams[n++ % stream_count], NULL, NULL)) {
                fprintf(stderr, "load: a launch failed\n");
                exit(1);
            }
}

static void launch_round(void)
{
    if (graph)
        CALL(cuGraphLaunch, executable, streams[0]);
    else
        launch_kernels();
}

static void finish(void)
{
    for (unsigned i = 0; i < stream_count; i++)
        CALL(cuStreamSynchronize, streams[i]);
}

static double rate_at(double seconds)
{
    double rate = 0;
    for (unsigned i = 0; i < step_count; i++)
        if (seconds >= steps[i].since)
            rate = steps[i].rate;
    return rate;
}

static double gap_s(double seconds)
{
    return (poisson ? -log(1 - erand48(chance)) : 1) / rate_at(seconds);
}

static void note(struct request request)
{
    if (request_count == request_room) {
        request_room = request_room ? request_room * 2 : 1024;
        requests = realloc(requests, request_room * sizeof *requests);
        if (!requests)
            exit(1);
    }
    requests[request_count++] = request;
}

/* Rounds as they arrive, until `seconds` or `rounds` are over. */
static long arriving(long long start, double seconds, long rounds)
{
    long made = 0;
    for (double at = gap_s(0); at < seconds && made < rounds; at += gap_s(at), made++) {
        struct request request = {.arrival = start + (long long)(at * 1e9)};
        if (clock_ns(CLOCK_MONOTONIC) < request.arrival)
            sleep_until(request.arrival);
        request.begin = clock_ns(CLOCK_MONOTONIC);
        launch_round();
        if (nowait)
            continue;
        finish();
        request.end = clock_ns(CLOCK_MONOTONIC);
        note(request);
    }
    return made;
}

/* Rounds one after another. */
static long following(long long start, double seconds, long rounds)
{
    long made = 0;
    for (; made < rounds && (double)(clock_ns(CLOCK_MONOTONIC) - start) / 1e9 < seconds; made++) {
        if (made >= (long)depth)
            CALL(cuEventSynchronize, ends[made % depth]);
        launch_round();
        CALL(cuEventRecord, ends[made % depth], streams[0]);
        if (think_us) {
            CALL(cuEventSynchronize, ends[made % depth]);
            usleep(think_us);
        }
    }
    return made;
}

static void obey(const char *line)
{
    double seconds = INFINITY;
    long rounds = __LONG_MAX__;
    long long start = 0;
    if (sscanf(line, "for %lf %lld", &seconds, &start) < 1 && sscanf(line, "go %ld", &rounds) < 1)
        usage(line);
    if (start)
        sleep_until(start);
    else
        start = clock_ns(CLOCK_MONOTONIC);
    request_count = 0;
    chance[0] = 0x330e, chance[1] = (unsigned short)poisson, chance[2] = (unsigned short)(poisson >> 16);
    long made = step_count ? arriving(start, seconds, rounds) : following(start, seconds, rounds);
    finish();
    long long end = clock_ns(CLOCK_MONOTONIC);
    for (size_t i = 0; i < request_count; i++)
        printf("request %lld %lld %lld\n", requests[i].arrival, requests[i].begin, requests[i].end);
    printf("done %ld %lld %lld\n", made, start, end);
    fflush(stdout);
}

/* kernels=…: names are looked up when the module is there. */
static void read_kernels(char *text, void *module)
{
    for (char *one = strtok(text, ","); one; one = strtok(NULL, ",")) {
        char name[128];
        struct kernel *kernel = &kinds[kind_count];
        if (kind_count++ == KINDS || sscanf(one, "%127[^:]:%u:%u", name, &kernel->blocks, &kernel->count) != 3)
            usage(one);
        CALL(cuModuleGetFunction, &kernel->function, module, name);
    }
}

static void read_rates(char *text)
{
    for (char *one = strtok(text, ","); one; one = strtok(NULL, ","))
        if (step_count == STEPS || sscanf(one, "%lf@%lf", &steps[step_count].rate, &steps[step_count].since) < 1
            || steps[step_count++].rate <= 0)
            usage(one);
}

static char *read_options(int argc, char **argv)
{
    static const struct { const char *name; unsigned *value, most; } numbers[] = {
        {"device", &device, 63},          {"graph", &graph, 1},           {"streams", &stream_count, STREAMS}, {"depth", &depth, DEPTH},
        {"think_us", &think_us, 10000000}, {"poisson", &poisson, ~0u},    {"nowait", &nowait, 1},              {"warm", &warm, 100000},
    };
    char *kernels = NULL;
    for (int i = 2; i < argc; i++) {
        char *value = strchr(argv[i], '=');
        if (!value)
            usage(argv[i]);
        *value++ = 0;
        bool known = !strcmp(argv[i], "kernels") || !strcmp(argv[i], "rate");
        for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++) {
            if (strcmp(argv[i], numbers[n].name))
                continue;
            unsigned long number = strtoul(value, NULL, 10);
            if (number > numbers[n].most)
                usage(argv[i]);
            *numbers[n].value = (unsigned)number;
            known = true;
        }
        if (!known)
            usage(argv[i]);
        if (!strcmp(argv[i], "kernels"))
            kernels = value;
        if (!strcmp(argv[i], "rate"))
            read_rates(value);
    }
    if (!kernels || !stream_count || !depth)
        usage("kernels, streams, depth");
    depth = think_us ? 1 : depth;
    return kernels;
}

static void make_graph(void)
{
    void *captured;
    stream_count = 1;
    CALL(cuStreamBeginCapture_v2, streams[0], 0);
    launch_kernels();
    CALL(cuStreamEndCapture, streams[0], &captured);
    CALL(cuGraphInstantiateWithFlags, &executable, captured, 0ull);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        usage("too few words");
    char *kernels = read_options(argc, argv), line[256];
    void *context, *module;
    CALL(cuInit, 0u);
    CALL(cuCtxCreate_v2, &context, 0u, (int)device);
    CALL(cuModuleLoad, &module, argv[1]);
    read_kernels(kernels, module);
    launch = (launch_fn)driver_entry("cuLaunchKernel");
    for (unsigned i = 0; i < stream_count; i++)
        CALL(cuStreamCreate, &streams[i], 1u);
    for (unsigned i = 0; i < depth; i++)
        CALL(cuEventCreate, &ends[i], 2u);
    if (graph)
        make_graph();
    for (unsigned i = 0; i < warm; i++)
        launch_round();
    finish();
    printf("ready %d\n", (int)getpid());
    fflush(stdout);
    while (fgets(line, sizeof line, stdin))
        obey(line);
    return 0;
}
