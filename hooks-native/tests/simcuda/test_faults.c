/* test_faults.c: $GPUD_SIM_FAULTS. Each case is a process of its own: this program, called with the name of the case. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "driver.h"

CUresult cuParamSetf(CUfunction, int, float);

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Says a word to the parent, or waits for one. */
static void tell(const char *word) { dprintf(STDOUT_FILENO, "%s\n", word); }
static void hear(void)
{
    char c;
    while (read(STDIN_FILENO, &c, 1) == 1 && c != '\n')
        ;
}

static CUdeviceptr any;

static void case_at(void)
{
    start();
    OK(cuMemAlloc_v2(&any, 16));
    EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&any, 16));
    OK(cuMemAlloc_v2(&any, 16));
}

static void case_from(void)
{
    start();
    OK(cuMemAlloc_v2(&any, 16));
    EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&any, 16));
    EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&any, 16));
    size_t pitch;
    EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuMemAllocPitch_v2(&any, &pitch, 16, 16, 4));     /* the second rule of the two */
}

static void case_every(void)
{
    CUdevice device;
    start();
    for (int i = 1; i <= 9; i++)
        EXPECT(i % 3 ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN, cuDeviceGet(&device, 0));
}

static void case_random(void)
{
    CUdevice device;
    unsigned failed = 0, hash = 0;
    start();
    for (unsigned i = 0; i < 10000; i++)
        if (cuDeviceGet(&device, 0)) {
            failed++;
            hash = hash * 31 + i;
        }
    CHECK(failed > 900 && failed < 1100, "%u of 10000 at a chance of 0.1", failed);
    dprintf(STDOUT_FILENO, "%u %u\n", failed, hash);
}

/* All kinds of parameters pass, on the way that asks for faults first. */
static void case_pass(void)
{
    start();
    CUmodule module = load();
    CUfunction add = function(module, "add"), shape = function(module, "shape"), store = function(module, "store");
    CUdeviceptr data = zeroes(4096), out = zeroes(80);
    int five = 5, count = 1000, got[1000];
    void *params[] = {&data, &five, &count}, *where[] = {&out};
    CUstream stream;
    OK(cuStreamCreate(&stream, 1));
    OK(cuLaunchKernel(add, 10, 1, 1, 100, 1, 1, 0, stream, params, NULL));
    OK(cuStreamSynchronize(stream));
    OK(cuMemcpyDtoH_v2(got, data, sizeof got));
    for (int i = 0; i < 1000; i++)
        CHECK(got[i] == 5, "[%d] is %d", i, got[i]);
    uint64_t seen[10];
    OK(cuLaunchKernel(shape, 2, 3, 4, 5, 6, 7, 64, stream, where, NULL));
    OK(cuStreamSynchronize(stream));
    OK(cuMemcpyDtoH_v2(seen, out, sizeof seen));
    for (unsigned i = 0; i < 6; i++)
        CHECK(seen[i] == i + 2, "[%u] is %llu", i, (unsigned long long)seen[i]);
    CHECK(seen[6] == 64, "%llu", (unsigned long long)seen[6]);
    OK(cuFuncSetBlockShape(add, 1, 1, 1));
    OK(cuParamSetv(add, 0, &data, 8));
    OK(cuParamSetf(add, 8, 1.5f));
    OK(cuParamSeti(add, 12, 1));
    OK(cuParamSetSize(add, 16));
    OK(cuLaunch(add));
    OK(cuCtxSynchronize());
    OK(cuMemcpyDtoH_v2(got, data, 4));
    float bits = 1.5f;
    int added;
    memcpy(&added, &bits, 4);
    CHECK(got[0] == 5 + added, "%d", got[0]);
    (void)store;
}

static void case_suffix(void)
{
    start();
    CUmodule module = load();
    CUfunction times = function(module, "times");
    CUdeviceptr data = zeroes(4);
    int one = 1;
    void *params[] = {&data, &one, &one};
    OK(cuLaunchKernel(times, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    EXPECT(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, cuLaunchKernel_ptsz(times, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    /* By pointer it is the same place. */
    CUresult (*found)(void *, size_t, CUdevice);
    OK(cuGetProcAddress("cuDeviceGetName", (void **)&found, 12000, 0));
    char name[64];
    EXPECT(CUDA_ERROR_NOT_FOUND, found(name, sizeof name, 0));
}

static void case_stall(void)
{
    start();
    int64_t before = now_ms();
    OK(cuCtxSynchronize());
    int64_t took = now_ms() - before;
    CHECK(took >= 3000, "%lld ms", (long long)took);
    before = now_ms();
    OK(cuCtxSynchronize());
    CHECK(now_ms() - before < 2000, "%lld ms", (long long)(now_ms() - before));
}

static void case_kill(void)
{
    start();
    OK(cuMemAlloc_v2(&any, 16));
    cuMemFree_v2(any);
    CHECK(false, "it lives");
}

static void case_hang(void)
{
    start();
    tell("started");
    cuMemFree_v2(0);
    CHECK(false, "it went on");
}

static void case_sticky(void)
{
    CUcontext ctx = start();
    EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
    EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemAlloc_v2(&any, 16));
    OK(cuDevicePrimaryCtxReset_v2(0));
    OK(cuDevicePrimaryCtxRetain(&ctx, 0));
    OK(cuCtxSetCurrent(ctx));
    OK(cuMemAlloc_v2(&any, 16));
}

static void case_init(void)
{
    EXPECT(CUDA_ERROR_NO_DEVICE, cuInit(0));
    OK(cuInit(0));
}

static void case_garbage(void)
{
    int version;
    OK(cuDriverGetVersion(&version));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuInit(0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuInit(0));
    EXPECT(CUDA_ERROR_NOT_INITIALIZED, cuMemAlloc_v2(&any, 16));
}

static void case_refused(void) { EXPECT(CUDA_ERROR_OPERATING_SYSTEM, cuInit(0)); }

/* Allocates when told to, and says what it got. */
static void case_allocate(void)
{
    start();
    tell("started");
    for (;;) {
        char word[2] = "";
        if (read(STDIN_FILENO, word, 2) < 2 || word[0] == 'q')
            return;
        dprintf(STDOUT_FILENO, "%d\n", cuMemAlloc_v2(&any, 16));
    }
}

/* A kernel of 40 ms a hundred times on device 1, which falls off the bus meanwhile. */
static void case_lost(void)
{
    CUcontext first = start(), second;
    CUdeviceptr data, there = zeroes(16);
    CUstream stream;
    CUevent event;
    int count = 0, one = 1;
    CHECK(cuDeviceGetCount(&count) == 0 && count == 2, "%d devices", count);
    OK(cuDevicePrimaryCtxRetain(&second, 1));
    OK(cuCtxSetCurrent(second));
    CUmodule module = load();
    CUfunction slow = function(module, "slow_times");
    data = zeroes(16);
    OK(cuStreamCreate(&stream, 1));
    OK(cuEventCreate(&event, 0));
    void *params[] = {&data, &one, &one};
    for (int i = 0; i < 400; i++)
        OK(cuLaunchKernel(slow, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
    OK(cuEventRecord(event, stream));
    tell("started");
    int64_t before = now_ms();
    EXPECT(CUDA_ERROR_UNKNOWN, cuEventSynchronize(event));
    EXPECT(CUDA_ERROR_UNKNOWN, cuStreamSynchronize(stream));
    CHECK(now_ms() - before < 10000, "woken after %lld ms", (long long)(now_ms() - before));
    EXPECT(CUDA_ERROR_UNKNOWN, cuMemAlloc_v2(&any, 16));
    EXPECT(CUDA_ERROR_UNKNOWN, cuLaunchKernel(slow, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
    EXPECT(CUDA_ERROR_UNKNOWN, cuEventQuery(event));
    /* The other device goes on. */
    OK(cuCtxSetCurrent(first));
    OK(cuMemsetD32_v2(there, 7, 4));
    int value = 0;
    OK(cuMemcpyDtoH_v2(&value, there, 4));
    CHECK(value == 7, "%d", value);
    OK(cuMemAlloc_v2(&any, 16));
    tell("over");
    hear();
}

static void case_loser(void) { OK(cuInit(0)); }

static void case_one_left(void)
{
    int count = 0;
    OK(cuInit(0));
    CHECK(cuDeviceGetCount(&count) == 0 && count == 1, "%d devices", count);
}

static const struct { const char *name; void (*run)(void); } cases[] = {
    {"at", case_at}, {"from", case_from}, {"every", case_every}, {"random", case_random}, {"pass", case_pass}, {"suffix", case_suffix},
    {"stall", case_stall}, {"kill", case_kill}, {"hang", case_hang}, {"sticky", case_sticky}, {"init", case_init},
    {"garbage", case_garbage}, {"refused", case_refused}, {"allocate", case_allocate}, {"lost", case_lost}, {"loser", case_loser},
    {"one_left", case_one_left},
};

struct child { pid_t pid; int in, out, err; char said[8192]; };

/* Runs a case with these faults (NULL: without) on a node of its own, or on `node`. */
static struct child begin(const char *name, const char *faults, const char *node)
{
    struct child child = {.pid = -1};
    int in[2], out[2], err[2];
    if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC))
        exit(1);
    fflush(NULL);
    child.pid = fork();
    if (!child.pid) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        dup2(err[1], 2);
        faults ? setenv("GPUD_SIM_FAULTS", faults, 1) : unsetenv("GPUD_SIM_FAULTS");
        node ? setenv("GPUD_TEST_NODE", node, 1) : unsetenv("GPUD_TEST_NODE");
        execl("/proc/self/exe", "test_faults", name, NULL);
        _exit(9);
    }
    close(in[0]);
    close(out[1]);
    close(err[1]);
    child.in = in[1];
    child.out = out[0];
    child.err = err[0];
    return child;
}

static void read_line(struct child *child, char line[64])
{
    size_t n = 0;
    while (n < 63 && read(child->out, line + n, 1) == 1 && line[n] != '\n')
        n++;
    line[n] = 0;
}

/* The child's end: its status; what it said on stderr is in `said`. */
static int end(struct child *child)
{
    int status = 0;
    size_t n = 0;
    close(child->in);
    for (ssize_t r; n < sizeof child->said - 1 && (r = read(child->err, child->said + n, sizeof child->said - 1 - n)) > 0;)
        n += (size_t)r;
    child->said[n] = 0;
    waitpid(child->pid, &status, 0);
    close(child->out);
    close(child->err);
    return status;
}

#define GOOD(child, what) CHECK(end(child) == 0, "%s: %s", what, (child)->said)

static void alone(const char *name, const char *faults, const char *said)
{
    struct child child = begin(name, faults, NULL);
    GOOD(&child, faults);
    CHECK(strstr(child.said, said) != NULL, "%s: \"%s\" is not in \"%s\"", faults, said, child.said);
}

static void test_garbage(void)
{
    static const char *const wrong[][2] = {
        {"cuMemAlloc", "no colon"},
        {"cuMemAlloc:", "what shall happen?"},
        {": kill", "which calls?"},
        {"cuMemAlloc: explode", "\"explode\" is not one of"},
        {"cuMemAloc: kill", "named \"cuMemAloc\""},
        {"cuMemAlloc: fail", "needs an error"},
        {"cuMemAlloc: fail SUCCESS", "not \"SUCCESS\""},
        {"cuMemAlloc: fail 0", "not \"0\""},
        {"cuMemAlloc: fail OUT_OF_CHEESE", "not \"OUT_OF_CHEESE\""},
        {"cuMemAlloc: stall 3", "needs a time"},
        {"cuMemAlloc: stall 3h", "needs a time"},
        {"cuMemAlloc: kill at", "at needs a whole number from 1"},
        {"cuMemAlloc: kill at 0", "not \"0\""},
        {"cuMemAlloc: kill at -1", "not \"-1\""},
        {"cuMemAlloc: kill at 99999999999999999999", "not \"99999999999999999999\""},
        {"cuMemAlloc: kill never", "\"never\" is not one of"},
        {"cuMemAlloc: kill random 2 seed 1", "chance above 0"},
        {"cuMemAlloc: kill random 0.5", "needs a seed"},
        {"cuMemAlloc: kill at 3 please", "\"please\" is too much"},
        {"cuMemFree: kill; all cu*: kil", "rule 2, \"all cu*: kil\""},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        alone("garbage", wrong[i][0], wrong[i][1]);
}

static int ask(struct child *child)
{
    char line[64];
    if (write(child->in, "a\n", 2) != 2)
        return -1;
    read_line(child, line);
    return atoi(line);
}

/* Uses are counted over all processes, also those that do not have the variable. */
static void test_all(void)
{
    static const char *const rules = ", all, cuMemAlloc: fail OUT_OF_MEMORY from 4; cuMemAlloc: fail 802 at 1";
    char line[64], node[64];
    snprintf(node, sizeof node, "test-faults-all-%d", (int)getpid());
    struct child one = begin("allocate", rules, node);
    read_line(&one, line);
    struct child other = begin("allocate", NULL, node);
    read_line(&other, line);
    int got[6] = {ask(&one), ask(&one), ask(&other), ask(&other), ask(&one), ask(&other)};
    static const int expected[6] = {802, 0, 0, 2, 2, 2};
    for (int i = 0; i < 6; i++)
        CHECK(got[i] == expected[i], "use %d: %d", i, got[i]);
    struct child late = begin("refused", "all cu*: kill", node);
    GOOD(&late, "other rules");
    CHECK(strstr(late.said, "already runs with \"all, cuMemAlloc") != NULL, "%s", late.said);
    GOOD(&one, rules);
    GOOD(&other, "the other");
}

static void test_lost(void)
{
    char line[64], node[64];
    snprintf(node, sizeof node, "test-faults-lost-%d", (int)getpid());
    struct child loser = begin("lost", NULL, node);
    read_line(&loser, line);
    struct child second = begin("loser", "cuInit: lose 1", node);
    GOOD(&second, "the one that loses it");
    read_line(&loser, line);
    CHECK(!strcmp(line, "over"), "\"%s\"", line);
    struct child third = begin("one_left", NULL, node);
    GOOD(&third, "who comes later");
    GOOD(&loser, "who had it");
    CHECK(strstr(loser.said, "device 1 has fallen off the bus") != NULL, "%s", loser.said);
}

int main(int argc, char **argv)
{
    const char *node = getenv("GPUD_TEST_NODE");
    if (argc > 1) {
        if (node)
            setenv("GPUD_SIM_NODE", node, 1);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            if (!strcmp(argv[1], cases[i].name))
                cases[i].run();
        return check_failures != 0;
    }
    setenv("GPUD_SIM_DEVICES", "2", 1);
    alone("at", "cuMemAlloc: fail OUT_OF_MEMORY at 2", "fail ERROR_OUT_OF_MEMORY at use 2 of cuMemAlloc_v2");
    alone("from", "cuMemAlloc : fail CUDA_ERROR_OUT_OF_MEMORY from 2;cuMemAlloc*: fail 801 from 4;", "fail ERROR_NOT_SUPPORTED at use 4");
    alone("every", "cuDeviceGet: fail 999 every 3", "at use 3 of cuDeviceGet");
    alone("pass", "cuMemGetInfo: fail 1", "");
    alone("suffix", "cuLaunchKernel_ptsz: fail LAUNCH_OUT_OF_RESOURCES; cuDeviceGetN?me: fail not_found", "cuLaunchKernel_ptsz");
    alone("stall", "cuCtxSynchronize: stall 3000ms at 1", "stall at use 1");
    alone("sticky", "cuCtxSynchronize: fail ILLEGAL_ADDRESS", "ERROR_ILLEGAL_ADDRESS");
    alone("init", "cuInit: fail NO_DEVICE at 1", "cuInit");
    test_garbage();
    struct child killed = begin("kill", "cuMemFree: kill", NULL);
    int status = end(&killed);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "%d: %s", status, killed.said);
    struct child hung = begin("hang", "cuMemFree: hang", NULL);
    char line[64], again[64];
    read_line(&hung, line);
    struct pollfd more = {.fd = hung.out, .events = POLLIN};
    CHECK(poll(&more, 1, 200) == 0, "it went on, or ended");
    kill(hung.pid, SIGKILL);
    end(&hung);
    for (int seed = 1; seed < 4; seed++) {
        char rule[64];
        snprintf(rule, sizeof rule, "cuDeviceGet: fail 1 random 0.1 seed %d", seed / 2);
        struct child random = begin("random", rule, NULL);
        read_line(&random, seed == 2 ? line : again);
        GOOD(&random, rule);
        if (seed == 2)
            CHECK(strcmp(line, again) != 0, "the same with another seed");
        if (seed == 3)
            CHECK(!strcmp(line, again), "\"%s\", then \"%s\"", line, again);
    }
    test_all();
    test_lost();
    return check_summary("faults");
}
