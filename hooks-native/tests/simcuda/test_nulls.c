/* test_nulls.c: every entry point with nothing but zeroes: before the driver is initialised, in a host function, and with a context. None
 * may crash, and when a call is made counts before what it was given. */
#include <dlfcn.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#include "driver.h"

typedef CUresult call_of(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t,
                         uintptr_t);

static const char *const names[] = {
#define SYMBOL(name, symbol, version, twin) #symbol,
#include "../../sim/cuda/symbols.h"
#undef SYMBOL
};
enum { NAMES = sizeof names / sizeof *names };
static bool unsupported[NAMES];

/* They answer at any time: they need no device. */
static const char *const always[] = {"cuDriverGetVersion", "cuGetErrorName", "cuGetErrorString", "cuGetExportTable", "cuGetProcAddress",
                                     "cuInit", "cuModuleGetLoadingMode", "cuProfilerStart", "cuProfilerStop",
                                     "cuThreadExchangeStreamCaptureMode"};
/* They would change what the others meet. */
static const char *const moves[] = {"cuInit", "cuCtxPopCurrent", "cuCtxSetCurrent", "cuDevicePrimaryCtxRelease", "cuDevicePrimaryCtxReset",
                                    "cuStreamBeginCapture"};

static const char *volatile calling = "none";

static void crashed(int number)
{
    static const char head[] = "it crashed in ";
    if (write(STDOUT_FILENO, head, sizeof head - 1) < 0 || write(STDOUT_FILENO, calling, strlen(calling)) < 0)
        _exit(3);
    signal(number, SIG_DFL);
}

/* Is it one of the list, in whatever version? */
static bool among(const char *name, const char *const *list, int count)
{
    for (int i = 0; i < count; i++) {
        size_t length = strlen(list[i]);
        if (!strncmp(name, list[i], length) && (!name[length] || name[length] == '_'))
            return true;
    }
    return false;
}
#define AMONG(name, list) among(name, list, (int)(sizeof list / sizeof *list))

static CUresult call(const char *name)
{
    void *at = dlsym(RTLD_DEFAULT, name);
    CHECK(at != NULL, "%s is not exported", name);
    calling = name;
    return at ? ((call_of *)at)(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0) : CUDA_ERROR_NOT_FOUND;
}

/* All of them answer `expected`, or that they are not simulated. */
static void all_answer(CUresult expected)
{
    for (int i = 0; i < NAMES; i++) {
        if (AMONG(names[i], always))
            continue;
        CUresult result = call(names[i]);
        unsupported[i] = result == CUDA_ERROR_NOT_SUPPORTED;
        CHECK(result == expected || unsupported[i], "%s answers %d, not %d", names[i], result, expected);
    }
}

static void within(void *data)
{
    (void)data;
    all_answer(CUDA_ERROR_NOT_PERMITTED);
}

/* Each that is not simulated was called three times, and has said so once. */
static void check_said(int said)
{
    static char text[1 << 20];
    ssize_t length = pread(said, text, sizeof text - 1, 0);
    text[length < 0 ? 0 : length] = 0;
    if (check_failures)
        fputs(text, stderr);
    for (int i = 0; i < NAMES; i++) {
        char line[128];
        int count = 0;
        snprintf(line, sizeof line, ": %s is not simulated", names[i]);
        for (const char *at = strstr(text, line); at; at = strstr(at + 1, line))
            count++;
        CHECK(count == unsupported[i], "%s: said %d times that it is not simulated", names[i], count);
    }
}

int main(void)
{
    signal(SIGSEGV, crashed);
    signal(SIGFPE, crashed);
    int said = memfd_create("said", 0), stderr_was = dup(STDERR_FILENO);
    dup2(said, STDERR_FILENO);
    all_answer(CUDA_ERROR_NOT_INITIALIZED);
    start();
    OK(cuLaunchHostFunc(NULL, within, NULL));
    OK(cuStreamSynchronize(NULL));
    unsigned before = check_failures;
    for (int i = 0; i < NAMES; i++)
        if (!AMONG(names[i], moves))
            call(names[i]);
    CHECK(before == check_failures, "some are not there");
    /* And nothing has come of it. */
    CUdeviceptr data = zeroes(4);
    OK(cuCtxSynchronize());
    OK(cuMemFree_v2(data));
    dup2(stderr_was, STDERR_FILENO);
    check_said(said);
    return check_summary("nulls");
}
