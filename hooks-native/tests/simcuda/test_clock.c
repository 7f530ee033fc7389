/* test_clock.c: a program that only enqueues and synchronises has the same modelled times at every run, whatever else the machine
 * does, in each mode. With a number: runs itself so often beside two busy loops and compares what the runs say, and with times
 * computed by hand. The profile (test.toml) has a launch latency of 5 us, waves of 10 us, copies of 8 us + 25 GB/s; a MIG instance
 * of three slices has 42 of 108 SMs and three sevenths of the copy bandwidth. */
#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "driver.h"

enum { ROUNDS = 40, OTHERS = 5, MAX_TIMES = 512, MULTIPROCESSORS = 16 };

static CUmodule module;
static CUcontext others[OTHERS];       /* that a fault will end */
static CUfunction traps[OTHERS];
static double times[MAX_TIMES];         /* us */
static int count;
static double sms, full, bytes_per_us;  /* full: a kernel of 216 blocks, two on an SM */

static void what_is_expected(void)
{
    const char *mode = getenv("GPUD_SIM_MODE");
    bool part = mode && !strncmp(mode, "mig:", 4);
    int value = 0;
    OK(cuDeviceGetAttribute(&value, MULTIPROCESSORS, 0));
    CHECK(value == (part ? 42 : 108) && (!part || !strcmp(mode, "mig:3g")), "%d SMs in mode %s", value, mode);
    sms = value;
    full = 10 * ceil(216 / (2 * sms));
    bytes_per_us = part ? 25e3 * 3 / 7 : 25e3;
}

static CUevent event(void)
{
    CUevent made = NULL;
    OK(cuEventCreate(&made, 0));
    return made;
}

static CUstream stream(void)
{
    CUstream made = NULL;
    OK(cuStreamCreate(&made, 1));
    return made;
}

/* One wave of blocks, or what the profile says for its name. */
static void put(const char *name, CUdeviceptr data, unsigned blocks, CUstream into)
{
    unsigned factor = 1, add = 1;
    void *params[] = { &data, &factor, &add };
    OK(cuLaunchKernel(function(module, name), blocks, 1, 1, 1024, 1, 1, 0, into, params, NULL));
}

static void record(CUevent at, CUstream in) { OK(cuEventRecord(at, in)); }

/* Microseconds from one event to another, both reached. */
static double between(CUevent from, CUevent to)
{
    float ms = 0;
    OK(cuEventElapsedTime_v2(&ms, from, to));
    if (count < MAX_TIMES)
        times[count++] = (double)ms * 1e3;
    return (double)ms * 1e3;
}

/* Said on the standard output, so that it is part of what runs are compared by. */
#define NEAR(got, expected) do { \
        double got_ = (got); \
        printf(fabs(got_ - (expected)) < 0.5 ? "right\n" : "%s:%d: %s: %.3f us, not %.3f\n", __FILE__, __LINE__, #got, got_, (double)(expected)); \
    } while (0)

/* Launch and synchronise, over and over: the time of each round, and of all. */
static void rounds(CUdeviceptr data)
{
    CUstream s = stream();
    CUevent first = event(), before = event(), after = event();
    OK(cuCtxSynchronize());
    record(first, s);
    OK(cuStreamSynchronize(s));
    for (int i = 1; i <= ROUNDS; i++) {
        record(before, s);
        for (int k = 0; k < i % 5 + 1; k++)
            put("times", data, 216, s);
        record(after, s);
        OK(i % 2 ? cuEventSynchronize(after) : cuStreamSynchronize(s));
        NEAR(between(before, after), 5 + full * (i % 5 + 1));
    }
    NEAR(between(first, after), ROUNDS * 5 + full * 24 * 5);
    OK(cuStreamDestroy_v2(s));
}

/* Two streams that wait for each other, and a copy beside them. */
static void streams(CUdeviceptr data)
{
    static char host[1 << 20];
    CUdeviceptr room = zeroes(sizeof host);
    CUstream a = stream(), b = stream();
    CUevent start = event(), half = event(), end_a = event(), end_b = event();
    OK(cuCtxSynchronize());
    for (int i = 0; i < 10; i++) {
        record(start, a);
        put("times", data, 216, a);                             /* 5 to 15, on a whole device */
        record(half, a);
        put("times", data, 216, a);                             /* 15 to 25 */
        OK(cuMemcpyHtoDAsync_v2(room, host, sizeof host, a));   /* 8 + 1048576 / 25000 */
        record(end_a, a);
        OK(cuStreamWaitEvent(b, half, 0));                      /* b: at 15 */
        put("times", data + 4, 216, b);                         /* behind a's second: 25 to 35 */
        record(end_b, b);
        OK(cuStreamSynchronize(b));
        OK(cuStreamSynchronize(a));
        NEAR(between(start, half), 5 + full);
        NEAR(between(start, end_b), 5 + 3 * full);
        NEAR(between(start, end_a), 5 + 2 * full + 8 + 1048576 / bytes_per_us);
    }
    OK(cuStreamDestroy_v2(a));
    OK(cuStreamDestroy_v2(b));
    OK(cuMemFree_v2(room));
}

/* Kernels that the host computes for longer than they are modelled to take. */
static void late(CUdeviceptr data)
{
    CUstream a = stream(), b = stream();
    CUevent start = event(), end_a = event(), end_b = event();
    for (int i = 0; i < 5; i++) {
        record(start, a);
        put("late", data, 216, a);
        put("late", data, 216, a);
        record(end_a, a);
        put("shape_late", data, 1, b);                          /* one SM: 15 to 65, and 107 SMs are left to a's second */
        record(end_b, b);
        OK(cuCtxSynchronize());
        NEAR(between(start, end_a), 5 + full + full * sms / (sms - 1));
        NEAR(between(start, end_b), 5 + full + 50);
    }
    OK(cuStreamDestroy_v2(a));
    OK(cuStreamDestroy_v2(b));
}

static void add_one(void *at) { ++*(int *)at; }

/* A host function takes no modelled time. */
static void calls(CUdeviceptr data)
{
    CUstream s = stream();
    CUevent start = event(), end = event();
    int called = 0;
    for (int i = 0; i < 5; i++) {
        record(start, s);
        put("times", data, 216, s);
        OK(cuLaunchHostFunc(s, add_one, &called));
        put("times", data, 216, s);
        record(end, s);
        OK(cuStreamSynchronize(s));
        NEAR(between(start, end), 5 + 2 * full);
    }
    CHECK(called == 5, "called %d times", called);
    OK(cuStreamDestroy_v2(s));
}

static void make_others(void)
{
    CUcontext own = NULL;
    OK(cuCtxGetCurrent(&own));
    for (int i = 0; i < OTHERS; i++) {
        OK(cuCtxCreate_v2(&others[i], 0, 0));
        traps[i] = function(load(), "trap");
    }
    OK(cuCtxSetCurrent(own));
}

/* That another context of the program ends by a fault, whenever that is noticed, does not let the clock go on. */
static void faults(CUdeviceptr data)
{
    CUcontext own = NULL;
    CUstream s = stream();
    CUevent before = event(), after = event();
    OK(cuCtxGetCurrent(&own));
    for (int i = 0; i < OTHERS; i++) {
        double last = 0;
        OK(cuCtxSetCurrent(others[i]));
        OK(cuLaunchKernel(traps[i], 216, 1, 1, 1024, 1, 1, 0, NULL, NULL, NULL));
        OK(cuCtxSetCurrent(own));
        for (int k = 0; k < 20; k++) {
            record(before, s);
            put("times", data, 216, s);
            record(after, s);
            OK(cuStreamSynchronize(s));
            last = between(before, after);
        }
        NEAR(last, 5 + full);           /* the device is this context's again */
    }
    OK(cuStreamDestroy_v2(s));
}

static int one_run(void)
{
    start();
    module = load();
    make_others();
    what_is_expected();
    CUdeviceptr data = zeroes(64);
    rounds(data);
    streams(data);
    late(data);
    calls(data);
    faults(data);
    for (int i = 0; i < count; i++)
        printf("%.3f\n", times[i]);
    return check_failures != 0;
}

static pid_t busy_loop(void)
{
    pid_t pid = fork();
    if (!pid)
        for (volatile unsigned long i = 0;; i++)
            ;
    return pid;
}

/* What one run says, or NULL; and how many of its commands the device log calls timed by the host (the first one is). */
static char *run(const char *program, long *host_timed)
{
    static char text[2][MAX_TIMES * 16];
    static int which;
    char command[4400], line[4096], *at = text[which = !which];
    snprintf(command, sizeof command, "GPUD_SIM_LOG=%s/log '%s' run", own_cache, program);
    FILE *pipe = popen(command, "re");
    size_t n = pipe ? fread(at, 1, sizeof text[0] - 1, pipe) : 0;
    at[n] = 0;
    if (!pipe || pclose(pipe))
        return NULL;
    snprintf(command, sizeof command, "%s/log", own_cache);
    *host_timed = -1;
    for (int tries = 0; tries < 1000 && *host_timed < 0; tries++) {
        usleep(10000);                  /* the log is whole when the device process has ended */
        FILE *log = fopen(command, "re");
        while (log && fgets(line, sizeof line, log)) {
            const char *said = strstr(line, "\"type\":\"end\"") && strchr(line, '\n') ? strstr(line, "\"host_timed\":") : NULL;
            *host_timed = said ? atol(said + strlen("\"host_timed\":")) : *host_timed;
        }
        if (log)
            fclose(log);
    }
    return at;
}

/* Runs in which the host's time got in (a hypervisor took the processor away for milliseconds, say) count for nothing, as the log says;
 * but not most, and the others are all the same. */
int main(int argc, char **argv)
{
    char self[4096], first[MAX_TIMES * 16] = "";
    if (argc > 1 && !strcmp(argv[1], "run"))
        return one_run();
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = 0;
    pid_t busy[2] = { busy_loop(), busy_loop() };
    int good = 0, disturbed = 0, runs = argc > 1 ? atoi(argv[1]) : 10;
    while (good < runs && disturbed <= runs && !check_failures) {
        long host_timed = 0;
        const char *said = run(self, &host_timed);
        CHECK(said, "run %d failed", good + disturbed);
        CHECK(host_timed >= 1, "run %d: the log says host_timed %ld", good + disturbed, host_timed);
        if (said && host_timed == 1) {
            if (!good++) {
                strcpy(first, said);
                CHECK(!strstr(first, ": "), "%s", first);
            }
            CHECK(!strcmp(said, first), "run %d has other times than the first", good + disturbed);
        } else
            disturbed++;
    }
    CHECK(good == runs, "the host's time got into %d of %d runs", disturbed, good + disturbed);
    for (int i = 0; i < 2; i++) {
        kill(busy[i], SIGKILL);
        waitpid(busy[i], NULL, 0);
    }
    printf("%d runs the same, %d disturbed\n", good, disturbed);
    return check_summary("clock");
}
