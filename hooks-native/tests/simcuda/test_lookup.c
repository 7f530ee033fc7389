/* test_lookup.c: entry points by name and version, what is not simulated, names of results, and fork(). */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver.h"

#define SYMBOL(name, symbol, version, twin) {#name, #symbol, version, twin},
static const struct { const char *name, *symbol; int version, twin; } symbols[] = {
#include "../../sim/cuda/symbols.h"
};

static void *named(const char *symbol) { return dlsym(RTLD_DEFAULT, symbol); }

/* `name` at a version must be `symbol`, NULL: nothing. */
static void expect(const char *name, int version, cuuint64_t flags, const char *symbol, int status)
{
    void *got = (void *)0x5;
    int said = -1;
    EXPECT(symbol ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND, cuGetProcAddress_v2(name, &got, version, flags, &said));
    CHECK(got == (symbol ? named(symbol) : NULL) && said == status, "%s at %d, flags %d: status %d", name, version, (int)flags, said);
    EXPECT(symbol ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND, cuGetProcAddress(name, &got, version, flags));
}

static void test_versions(void)
{
    void *got;
    expect("", 0, 0, NULL, 1);
    expect("cuNothing", 13000, 0, NULL, 1);
    expect("cuMemAlloc_v2", 13000, 0, NULL, 1);
    expect("cuMemAlloc", 1000, 0, NULL, 2);
    expect("cuMemAlloc", 2000, 0, "cuMemAlloc", 0);
    expect("cuMemAlloc", 3020, 0, "cuMemAlloc_v2", 0);
    expect("cuMemAlloc", 13000, 2, "cuMemAlloc_v2", 0);
    expect("cuCtxCreate", 11030, 0, "cuCtxCreate_v2", 0);
    expect("cuCtxCreate", 11040, 0, "cuCtxCreate_v3", 0);
    expect("cuCtxCreate", 13000, 0, "cuCtxCreate_v4", 0);
    expect("cuDevicePrimaryCtxRelease", 7000, 0, "cuDevicePrimaryCtxRelease", 0);
    expect("cuDevicePrimaryCtxRelease", 11000, 0, "cuDevicePrimaryCtxRelease_v2", 0);
    expect("cuLaunchKernel", 13000, 0, "cuLaunchKernel", 0);
    expect("cuLaunchKernel", 7000, 2, "cuLaunchKernel_ptsz", 0);
    expect("cuLaunchKernel", 4000, 2, "cuLaunchKernel", 0);
    expect("cuMemcpyHtoD", 7000, 2, "cuMemcpyHtoD_v2_ptds", 0);
    expect("cuGetProcAddress", 11030, 0, "cuGetProcAddress", 0);
    expect("cuGetProcAddress", 12000, 0, "cuGetProcAddress_v2", 0);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGetProcAddress_v2(NULL, &got, 13000, 0, NULL));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGetProcAddress_v2("cuInit", NULL, 13000, 0, NULL));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGetProcAddress_v2("cuInit", &got, 13000, 8, NULL));
    OK(cuGetProcAddress_v2("cuInit", &got, 13000, 1, NULL));
}

/* Every symbol of the table is exported, found by its own version, and distinct. */
static void test_table(void)
{
    size_t count = sizeof symbols / sizeof *symbols;
    CHECK(count > 630, "%zu symbols", count);
    for (size_t i = 0; i < count; i++) {
        CHECK(named(symbols[i].symbol), "%s is not exported", symbols[i].symbol);
        expect(symbols[i].name, symbols[i].version, symbols[i].twin ? 2 : 0, symbols[i].symbol, 0);
        CHECK(i == 0 || strcmp(symbols[i - 1].name, symbols[i].name) <= 0, "the table is not sorted at %s", symbols[i].name);
    }
    CHECK(!named("sim_submit") && !named("handle_new"), "internal names are visible");
}

/* The first call says its name once, on stderr. */
static void test_missing(void)
{
    char text[512] = "";
    int pipes[2], keep = dup(2);
    if (pipe(pipes))
        return;
    dup2(pipes[1], 2);
    CUresult first = cuMulticastCreate(), second = cuMulticastCreate();
    dup2(keep, 2);
    close(pipes[1]);
    ssize_t got = read(pipes[0], text, sizeof text - 1);
    close(pipes[0]);
    CHECK(first == CUDA_ERROR_NOT_SUPPORTED && second == CUDA_ERROR_NOT_SUPPORTED, "%d %d", first, second);
    char *name = strstr(text, "cuMulticastCreate");
    CHECK(got > 0 && name && !strstr(name + 1, "cuMulticastCreate"), "said: %s", text);
    const void *table = text;
    CUuuid uuid = {{1, 2, 3}};
    EXPECT(CUDA_ERROR_NOT_FOUND, cuGetExportTable(&table, &uuid));
    CHECK(table == NULL, "a table was given");
}

static void test_errors(void)
{
    const char *text;
    OK(cuGetErrorName(700, &text));
    CHECK(!strcmp(text, "CUDA_ERROR_ILLEGAL_ADDRESS"), "%s", text);
    OK(cuGetErrorName(0, &text));
    CHECK(!strcmp(text, "CUDA_SUCCESS"), "%s", text);
    OK(cuGetErrorString(2, &text));
    CHECK(!strcmp(text, "out of memory"), "%s", text);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGetErrorName(12345, &text));
    CHECK(text == NULL, "a name for 12345");
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGetErrorString(1, NULL));
}

/* Runs `check` in a child; its failures are its exit status. */
static void in_child(void (*check)(void), const char *what)
{
    fflush(NULL);
    pid_t pid = fork();
    if (!pid) {
        check_failures = 0;
        check();
        _exit(check_failures != 0);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    CHECK(status == 0, "%s: the child ended with %#x", what, status);
}

static void fresh_child(void)
{
    CUdeviceptr at;
    start();
    OK(cuMemAlloc_v2(&at, 1 << 20));
    OK(cuMemsetD8_v2(at, 1, 1 << 20));
    OK(cuCtxSynchronize());
}

static void late_child(void)
{
    int n;
    CUdeviceptr at;
    CUcontext ctx;
    EXPECT(CUDA_ERROR_NOT_INITIALIZED, cuInit(0));
    EXPECT(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGetCount(&n));
    EXPECT(CUDA_ERROR_NOT_INITIALIZED, cuMemAlloc_v2(&at, 16));
    EXPECT(CUDA_ERROR_NOT_INITIALIZED, cuCtxGetCurrent(&ctx));
    EXPECT(CUDA_ERROR_NOT_INITIALIZED, cuCtxSynchronize());
    EXPECT(CUDA_ERROR_NOT_INITIALIZED, cuDevicePrimaryCtxRelease_v2(0));
    OK(cuDriverGetVersion(&n));
}

int main(void)
{
    test_versions();
    test_table();
    test_missing();
    test_errors();
    in_child(fresh_child, "cuInit in a child of a process that has not used the driver");
    start();
    CUdeviceptr at = zeroes(1 << 20);
    in_child(late_child, "a child of a process that has used the driver");
    OK(cuCtxSynchronize());
    OK(cuMemFree_v2(at));
    return check_summary("lookup");
}
