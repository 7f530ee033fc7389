/* test_pacing.c: when the host's time gets into the modelled times of a program that is alone on its node, and when not: the limits that
 * docs/simulator.md gives. Without an argument: runs itself once for each rule, and looks at what the device log says. */
#include <signal.h>
#include <string.h>
#include <time.h>

#include "driver.h"

static CUmodule module;
static CUdeviceptr data;
static CUstream stream;

/* Two blocks fit on an SM, and 216 fill the device. */
static void put_blocks(const char *name, unsigned ms, unsigned blocks, CUstream into)
{
    unsigned add = 0;
    void *params[] = { &data, &ms, &add };
    OK(cuLaunchKernel(function(module, name), blocks, 1, 1, 1024, 1, 1, 0, into, params, NULL));
}

static void put(const char *name, unsigned ms, CUstream into) { put_blocks(name, ms, 216, into); }

/* A kernel of 10 us, and a latency of 5 us. */
static void round_trip(void)
{
    put("times", 1, stream);
    OK(cuStreamSynchronize(stream));
}

static void nap(long ms)
{
    struct timespec left = { ms / 1000, ms % 1000 * 1000000 };
    while (nanosleep(&left, &left))
        ;
}

static double now_on(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

/* Computes for so many microseconds of this thread. */
static void compute(double us)
{
    for (double end = now_on(CLOCK_THREAD_CPUTIME_ID) + us; now_on(CLOCK_THREAD_CPUTIME_ID) < end;)
        ;
}

static void little(void)
{
    for (int i = 0; i < 20; i++, compute(500))
        round_trip();
}

static void much(void)
{
    for (int i = 0; i < 20; i++, compute(2000))
        round_trip();
}

static void many_commands(void)
{
    CUevent event = NULL;
    OK(cuEventCreate(&event, 0));
    round_trip();
    for (int i = 0; i < 300; i++, compute(6))           /* 1.8 ms, and 3 ms are free beside the first one */
        OK(cuEventRecord(event, stream));
    OK(cuStreamSynchronize(stream));
}

static void sleeps(void)
{
    round_trip();
    for (int i = 0; i < 10; i++) {
        nap(2);
        round_trip();
    }
}

static double rounds_us(int count)
{
    CUevent from = NULL, to = NULL;
    float ms = 0;
    OK(cuEventCreate(&from, 0));
    OK(cuEventCreate(&to, 0));
    OK(cuEventRecord(from, stream));
    for (int i = 0; i < count; i++)
        round_trip();
    OK(cuEventRecord(to, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuEventElapsedTime_v2(&ms, from, to));
    return (double)ms * 1e3;
}

/* A thread that slept works by the machine's clock for two seconds. */
static void remembered(void)
{
    round_trip();
    CHECK(rounds_us(50) < 750.5, "exact at first");
    nap(2);
    round_trip();
    double us = rounds_us(50);
    CHECK(us > 800, "50 rounds in %.1f us: not by the machine's clock", us);
    double since = now_on(CLOCK_MONOTONIC);
    while (now_on(CLOCK_MONOTONIC) < since + 1.5e6)
        round_trip();
    us = rounds_us(50);
    CHECK(us > 800, "1.5 s later: 50 rounds in %.1f us", us);
    while (now_on(CLOCK_MONOTONIC) < since + 2.2e6)
        round_trip();
    us = rounds_us(50);
    CHECK(us > 749.5 && us < 750.5, "2.2 s later: 50 rounds in %.1f us", us);
}

/* What a program submits and does not wait for happens when it might have submitted more for a tenth of a second. */
static void neither(void)
{
    round_trip();
    put("times", 1, stream);
    double since = now_on(CLOCK_MONOTONIC);
    while (now_on(CLOCK_MONOTONIC) < since + 2e5)
        ;
    OK(cuStreamSynchronize(stream));
}

/* Who sleeps is not waited for: a thread that something else than the device holds submits nothing. */
static void asleep(void)
{
    round_trip();
    put("times", 1, stream);
    nap(150);
    OK(cuStreamSynchronize(stream));
}

/* The clock has waited for a computation. */
static void behind(unsigned ms)
{
    put("sleepy", ms, stream);
    OK(cuStreamSynchronize(stream));
    round_trip();
}
static void behind_little(void) { behind(100); }
static void behind_much(void) { behind(450); }

static void in_time(void)
{
    for (int i = 0; i < 5; i++)
        put("slow_times", 1, stream);                       /* 40 ms */
    OK(cuStreamSynchronize(stream));
}

/* It waits for ten seconds at most. */
static void patience(void)
{
    CUstream other = NULL;
    OK(cuStreamCreate(&other, 1));
    double since = now_on(CLOCK_MONOTONIC);
    put_blocks("slow_times", 1, 100, other);                /* 40 ms, and computed at once */
    put_blocks("sleepy", 30000, 100, stream);               /* 10 us beside it */
    OK(cuStreamSynchronize(other));
    double took = (now_on(CLOCK_MONOTONIC) - since) / 1e6;
    CHECK(took > 9.9 && took < 20, "went on after %.1f s", took);
}

/* What a rule's run leaves in the device log. */
struct said { long host_timed, moved, clocks; double last_wall_ms; bool valid; };

static long number(const char *line, const char *name)
{
    const char *at = strstr(line, name);
    return at ? atol(at + strlen(name)) : -1;
}

static struct said read_log(const char *path)
{
    struct said said = { .host_timed = -1 };
    for (int tries = 0; tries < 1000 && said.host_timed < 0; tries++) {
        char line[8192];
        usleep(10000);                  /* the log is whole when the device process has ended */
        FILE *log = fopen(path, "re");
        said = (struct said){ .host_timed = -1 };
        while (log && fgets(line, sizeof line, log)) {
            said.clocks += strstr(line, "\"type\":\"clock\"") != NULL;
            if (strstr(line, "\"type\":\"kernel\"")) {
                const char *wall = strstr(line, "\"wall\":["), *comma = wall ? strchr(wall, ',') : NULL;
                if (comma)
                    said.last_wall_ms = (double)(atol(comma + 1) - atol(wall + 8)) / 1e6;
            }
            if (strstr(line, "\"type\":\"end\"") && strchr(line, '\n')) {
                said.host_timed = number(line, "\"host_timed\":");
                said.moved = number(line, "\"moved\":");
                said.valid = strstr(line, "\"valid\":true") != NULL;
            }
        }
        if (log)
            fclose(log);
    }
    return said;
}

static const struct rule { const char *name; void (*run)(void); long least, most; bool clock; } rules[] = {
    { "in time", in_time, 1, 1, false },
    { "little", little, 1, 1, false }, { "much", much, 20, 20, false }, { "many commands", many_commands, 1, 1, false },
    { "sleeps", sleeps, 11, 11, false }, { "remembered", remembered, 100, 1 << 30, false }, { "neither", neither, 1, 2, false },
    { "asleep", asleep, 1, 2, false },
    { "behind a little", behind_little, 1, 1, false }, { "behind by much", behind_much, 1, 2, true }, { "patience", patience, 1, 2, false },
};

static int run_rule(const struct rule *rule)
{
    start();
    module = load();
    data = zeroes(64);
    OK(cuStreamCreate(&stream, 1));
    OK(cuCtxSynchronize());
    rule->run();
    return check_failures != 0;
}

/* A run in which the machine got in more than the rule says is made again: the thread may have slept for a page, or another program
 * have had the processor at that moment. */
static void check_rule(const char *self, const struct rule *rule)
{
    char command[4400], path[64];
    struct said said = { 0 };
    bool right = false;
    snprintf(path, sizeof path, "%s/log", own_cache);
    snprintf(command, sizeof command, "GPUD_SIM_LOG=%s '%s' '%s'", path, self, rule->name);
    for (int tries = 0; tries < 10 && !right; tries++) {
        sleep((unsigned)tries);         /* what disturbs often passes */
        right = !system(command);
        said = read_log(path);
        right = right && (rule->run != neither || said.last_wall_ms > 95) && (rule->run != asleep || said.last_wall_ms < 50) && said.host_timed >= rule->least && said.host_timed <= rule->most && rule->clock == (said.clocks > 0) &&
                (rule->run != in_time || said.valid);
    }
    CHECK(right, "%s: %ld commands timed by the host, not %ld to %ld; the clock was set back %ld times; waited for %.1f ms; %s", rule->name, said.host_timed,
          rule->least, rule->most, said.clocks, said.last_wall_ms, said.valid ? "valid" : "not valid");
    CHECK(said.moved == 0, "%s: %ld commands were moved", rule->name, said.moved);
    if (rule->run == behind_little)
        CHECK(!said.valid, "%s: overruns are below one percent", rule->name);
}

int main(int argc, char **argv)
{
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = 0;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (argc < 2)
            check_rule(self, &rules[i]);
        else if (!strcmp(argv[1], rules[i].name))
            return run_rule(&rules[i]);
    return check_summary("pacing");
}
