/* test_ways.c: every launch entry, by every way in, comes to the hook exactly once and to the driver exactly once, with results and
 * arguments unchanged. Run with the hook (counting gate) preloaded; built once linked with the driver and once not. With the argument
 * "release" the hook is the one that is installed, which exports no counters: then only results and the driver are looked at. */
#define _GNU_SOURCE
#include "ways.h"

#ifdef LINKED
/* The plain symbols, as a program linked with -lcuda sees them. */
#define CU_GATE(since, name, parameters, ...) extern CUresult name parameters;
#define CU_OWN(kind, since, name, parameters) extern CUresult name parameters;
#include "../tbl/cuda_symbols.h"
#endif

typedef CUresult any(const void *, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t,
                     uintptr_t, uintptr_t);

/* One launch through `function`. The first argument is readable memory for those that look into it. */
static void launch(const struct ways *ways, void *function, const char *name, const char *way)
{
    static const CUlaunchConfig config;
    int per_thread = strstr(name, "_ptsz") != NULL;

    CHECK(function, "%s has no entry %s", way, name);
    if (!function)
        return;
    CHECK(function != ways->driver.entry(name), "%s by %s is the driver's own", name, way);
    for (int answer = 0; answer <= 719; answer += 719) {
        struct counting before = ways->hook ? *ways->hook : (struct counting){ 0 };
        uint64_t calls = ways->driver.calls(name);
        ways->driver.answer(name, answer);
        CUresult result = ((any *)function)(&config, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
        ways->driver.answer(name, 0);
        CHECK(result == answer, "%s by %s answered %d, the driver said %d", name, way, result, answer);
        CHECK(ways->driver.calls(name) == calls + 1, "%s by %s reached the driver %d times", name, way,
              (int)(ways->driver.calls(name) - calls));
        if (!ways->hook)
            continue;
        CHECK(ways->hook->entered == before.entered + 1, "%s by %s entered the gate %d times", name, way,
              (int)(ways->hook->entered - before.entered));
        CHECK(ways->hook->left == before.left + 1, "%s by %s left the gate", name, way);
        CHECK(ways->hook->failed == before.failed + !!answer, "%s by %s: failure counted", name, way);
        CHECK(ways->hook->per_thread == per_thread, "%s by %s: stream flavour", name, way);
    }
}

/* The arguments arrive as they were given. */
static void arguments(const struct ways *ways)
{
    void *params[1] = { NULL }, *extra[1] = { NULL };
    CUfunction f = (CUfunction)0x1234;
    CUstream stream = (CUstream)0x5678;
    CUresult (*kernel)(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
                       unsigned int, CUstream, void **, void **) =
        (CUresult(*)(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
                     unsigned int, CUstream, void **, void **))dlsym(ways->handle, "cuLaunchKernel");
    CUresult (*kernel_ex)(const CUlaunchConfig *, CUfunction, void **, void **) =
        (CUresult(*)(const CUlaunchConfig *, CUfunction, void **, void **))dlsym(ways->handle, "cuLaunchKernelEx");
    struct standin_launch *last = ways->driver.last;

    kernel(f, 1, 2, 3, 4, 5, 6, 7, stream, params, extra);
    CHECK(last->f == f && last->grid[0] == 1 && last->grid[1] == 2 && last->grid[2] == 3 && last->block[0] == 4 &&
              last->block[1] == 5 && last->block[2] == 6 && last->shared == 7 && last->stream == stream &&
              last->params == params && last->extra == extra, "arguments of cuLaunchKernel");
    if (ways->hook)
        CHECK(ways->hook->stream == stream && ways->hook->function == f && ways->hook->blocks == 6, "the gate saw stream %p, %p, %d blocks",
              (void *)ways->hook->stream, ways->hook->function, (int)ways->hook->blocks);
    kernel(f, 0x7fffffff, 0xffff, 0xffff, 1, 1, 1, 0, stream, params, extra);
    if (ways->hook)
        CHECK(ways->hook->blocks == UINT64_C(0x7fffffff) * 0xffff * 0xffff, "a large grid is %llx blocks",
              (unsigned long long)ways->hook->blocks);
    CUlaunchConfig config = { 11, 12, 13, 14, 15, 16, 17, (CUstream)0x9abc, NULL, 0 };
    kernel_ex(&config, f, params, NULL);
    CHECK(last->f == f && last->grid[2] == 13 && last->block[0] == 14 && last->shared == 17 &&
              last->stream == config.hStream && last->params == params && !last->extra, "arguments of cuLaunchKernelEx");
    if (ways->hook)
        CHECK(ways->hook->stream == config.hStream && ways->hook->function == f && ways->hook->blocks == 11 * 12 * 13,
              "the gate saw stream %p, %d blocks", (void *)ways->hook->stream, (int)ways->hook->blocks);
    CUresult (*graph)(CUgraphExec, CUstream) = (CUresult(*)(CUgraphExec, CUstream))dlsym(ways->handle, "cuGraphLaunch");
    graph((CUgraphExec)0x4321, stream);
    if (ways->hook)
        CHECK(ways->hook->function == (void *)0x4321 && ways->hook->blocks == 0, "the gate saw the graph %p", ways->hook->function);
}

/* cuGetProcAddress through itself, from both ABIs, at both versions; and again through what that gave. */
static void through_itself(const struct ways *ways, proc_v1 *v1, proc_v2 *v2)
{
    proc_v1 *v1_of_v1 = (proc_v1 *)by_v1(v1, "cuGetProcAddress", 11030);
    proc_v2 *v2_of_v1 = (proc_v2 *)by_v1(v1, "cuGetProcAddress", 12000);
    proc_v1 *v1_of_v2 = (proc_v1 *)by_v2(v2, "cuGetProcAddress", 11030);
    proc_v2 *v2_of_v2 = (proc_v2 *)by_v2(v2, "cuGetProcAddress", 12000);

    CHECK((void *)v1_of_v1 != ways->driver.entry("cuGetProcAddress"), "v1 of v1 is the driver's");
    CHECK((void *)v2_of_v1 != ways->driver.entry("cuGetProcAddress_v2"), "v2 of v1 is the driver's");
    CHECK((void *)v1_of_v2 == (void *)v1_of_v1 && (void *)v2_of_v2 == (void *)v2_of_v1, "one resolver per ABI");
    CHECK(v1_of_v1 && v2_of_v1, "cuGetProcAddress gives itself");
    if (!v1_of_v1 || !v2_of_v1)
        return;
    launch(ways, by_v1(v1_of_v1, "cuLaunchKernel", 4000), "cuLaunchKernel", "v1 through itself");
    launch(ways, by_v2(v2_of_v2, "cuLaunchKernel_ptsz", 7000), "cuLaunchKernel_ptsz", "v2 through itself");
    launch(ways, by_v2((proc_v2 *)by_v2(v2_of_v1, "cuGetProcAddress", 13000), "cuGraphLaunch", 12000), "cuGraphLaunch",
           "v2 through itself twice");
}

/* What we do not handle, or what is not there, is answered as the driver and the loader answer it. */
static void untouched(const struct ways *ways, proc_v1 *v1, proc_v2 *v2)
{
    void *function = (void *)1;
    int status = -1;

    CHECK(dlsym(ways->handle, "cuStreamGetPriority") == ways->driver.entry("cuStreamGetPriority"), "dlsym of an entry not handled");
    CHECK(by_v2(v2, "cuStreamGetPriority", 5050) == ways->driver.entry("cuStreamGetPriority"), "look-up of an entry not handled");
    CHECK(by_v1(v1, "cuStreamCreate", 2000) == ways->driver.entry("cuStreamCreate"), "look-up of an entry not handled");
    dlerror();
    CHECK(!dlsym(ways->handle, "cuNoSuchThing"), "a name that nobody has");
    const char *error = dlerror();
    CHECK(error && strstr(error, "cuNoSuchThing"), "dlerror says %s", error ? error : "nothing");
    CHECK(!dlsym(ways->handle, "cuLaunchKernel_v9"), "a version that nobody has");
    CHECK(dlerror(), "dlerror says nothing");
    CHECK(dlsym(ways->handle, "cuLaunchKernel") && !dlerror(), "success leaves no error");
    CHECK(v2("", &function, 0, 0, &status) == CUDA_ERROR_NOT_FOUND && !function && status == 1, "the empty name: %p, %d",
          function, status);
    function = (void *)1;
    CHECK(v1("", &function, 0, 0) == CUDA_ERROR_NOT_FOUND && !function, "the empty name: %p", function);
    CHECK(v2("cuLaunchKernelEx", &function, 11000, 0, &status) == CUDA_ERROR_NOT_FOUND && status == 2,
          "a version too old: %d", status);
    CHECK(v2("cuLaunchKernel", &function, 12000, 0, NULL) == CUDA_SUCCESS && function, "without status");
    CHECK(v2(NULL, &function, 12000, 0, &status) == CUDA_ERROR_INVALID_VALUE, "without a name");
    CHECK(v2("cuLaunchKernel", NULL, 12000, 0, &status) == CUDA_ERROR_INVALID_VALUE, "without a place");
    CHECK(by_v2(v2, "cuDevicePrimaryCtxRelease", 7000) == by_dlsym(ways, "cuDevicePrimaryCtxRelease"), "v1 at 7000");
    CHECK(by_v2(v2, "cuDevicePrimaryCtxRelease", 11000) == by_dlsym(ways, "cuDevicePrimaryCtxRelease_v2"), "v2 at 11000");
}

int main(int argc, char **argv)
{
    struct ways ways = open_ways();
    int release = argc > 1 && !strcmp(argv[1], "release");

    if (!ways.hook && !release) {
        fprintf(stderr, "the hook with the counting gate is not preloaded\n");
        return 1;
    }
    proc_v1 *v1 = (proc_v1 *)dlsym(ways.handle, "cuGetProcAddress");
    proc_v2 *v2 = (proc_v2 *)dlsym(ways.handle, "cuGetProcAddress_v2");
    if (ways.hook)
        CHECK(ways.hook->started == 0, "looking entries up has started the hook");
#define CU_GATE(since, name, ...)                                                    \
    launch(&ways, by_dlsym(&ways, #name), #name, "dlsym");                           \
    launch(&ways, by_v1(v1, #name, since), #name, "cuGetProcAddress");               \
    launch(&ways, by_v2(v2, #name, since), #name, "cuGetProcAddress_v2");
#include "../tbl/cuda_symbols.h"
#ifdef LINKED
#define CU_GATE(since, name, ...)                                                    \
    launch(&ways, (void *)name, #name, "the plain symbol");                          \
    launch(&ways, dlsym(RTLD_DEFAULT, #name), #name, "RTLD_DEFAULT");                \
    launch(&ways, by_v1(cuGetProcAddress, #name, since), #name, "plain cuGetProcAddress");
#include "../tbl/cuda_symbols.h"
#endif
    if (ways.hook)
        CHECK(ways.hook->started == 1, "started %d times", (int)ways.hook->started);
    arguments(&ways);
    through_itself(&ways, v1, v2);
    untouched(&ways, v1, v2);
    return check_summary("ways in");
}
