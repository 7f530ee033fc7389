/* test_matrix.c: every launch entry, in every flavour, by every way in, on the simulated driver: each launch is computed once, on the
 * device, and counted by the hook once. Run with the hook preloaded; built once linked with the driver and once not.
 *
 *   test_matrix PTX            the hook with the counting gate
 *   test_matrix PTX release    the hook that is installed, which exports no counters: then only what was computed is looked at
 *   test_matrix PTX release wait   and stays until its standard input ends
 *
 * The last line says what the hook, the daemon and the device log must have counted. */
#define _GNU_SOURCE
#include <libgen.h>
#include <pthread.h>

#include "../counting_gate.h"
#include "../lookups.h"
#include "setup.h"

#ifdef LINKED
/* The plain symbols, as a program linked with -lcuda sees them. */
#define CU_GATE(since, name, parameters, ...) extern CUresult name parameters;
#define CU_OWN(kind, since, name, parameters) extern CUresult name parameters;
#include "../../tbl/cuda_symbols.h"
#endif

enum { NEWEST = 13000, THREADS = 4, ROUNDS = 10 };

static const char *const missing[] = {
#define SIM_MISSING(group, symbol) #symbol,
#include "../../tbl/sim_missing.h"
    NULL,
};

static struct counting *hook;           /* NULL: the installed one */
static const char *ptx;
static struct shot here, beside;        /* on device 0, and on device 1 */
static unsigned int sum_here, sum_beside;       /* what their words must be */
static unsigned long entered, failed, captured, kernels;
static int ways;

static void *by_dlsym(const char *name) { return dlsym(libcuda, name); }

/* The entry is the hook's, not the driver's own. */
static void is_ours(void *entry, const char *name, const char *way)
{
    Dl_info info = { 0 };
    CHECK(dladdr(entry, &info) && info.dli_fname && strstr(strrchr(info.dli_fname, '/') ? strrchr(info.dli_fname, '/') : "", "hook"),
          "%s by %s is of %s", name, way, info.dli_fname ? info.dli_fname : "nobody");
}

/* What the simulator does not do answers NOT_SUPPORTED and is on its list; nothing else may. */
static bool not_there(CUresult result, const char *name)
{
    bool listed = false;
    for (int i = 0; missing[i]; i++)
        listed = listed || !strcmp(missing[i], name);
    CHECK((result == CUDA_ERROR_NOT_SUPPORTED) == listed, "%s answers %d, and is %son the list of what is not there", name, result,
          listed ? "" : "not ");
    return listed;
}

static void counted(const struct counting *before, const char *name, const char *way, CUstream stream, CUresult result)
{
    entered++;
    failed += result != 0;
    if (!hook)
        return;
    CHECK(hook->entered == before->entered + 1 && hook->left == before->left + 1, "%s by %s entered the gate %d times, left it %d times",
          name, way, (int)(hook->entered - before->entered), (int)(hook->left - before->left));
    CHECK(hook->failed == before->failed + (result != 0), "%s by %s: failures counted", name, way);
    CHECK(hook->per_thread == (strstr(name, "_ptsz") != NULL) && hook->stream == stream, "%s by %s: the hook saw stream %p of flavour %d",
          name, way, (void *)hook->stream, hook->per_thread);
}

static void launch(void *entry, const char *name, const char *way, CUstream stream)
{
    const struct family *family = family_of(name);
    struct counting before = hook ? *hook : (struct counting){ 0 };
    CUstream own = here.stream;

    here.stream = stream;
    here.beside = family->several ? &beside : NULL;
    CUresult result = family->call(entry, &here);
    here.stream = own;
    counted(&before, name, way, stream, result);
    if (not_there(result, name))
        return;
    CHECK(!result, "%s by %s answered %d", name, way, result);
    OK(cuda.cuCtxSynchronize());
    sum_here += result ? 0 : adds(&here, family);
    kernels += result ? 0 : 1 + family->several;
    CHECK(word_of(&here) == sum_here, "%s by %s added %u, not %u", name, way, word_of(&here) - (sum_here - adds(&here, family)),
          adds(&here, family));
    sum_here = word_of(&here);
    if (family->several && !result) {
        sum_beside += adds(&beside, family);
        CHECK(word_of(&beside) == sum_beside, "%s by %s computed something else on the other device", name, way);
    }
}

/* One way in: an entry found, and a launch into each kind of stream that it takes. */
static void way(void *entry, const char *name, const char *how)
{
    const struct family *family = family_of(name);
    CUstream kinds[] = { NULL, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD, here.stream };

    CHECK(entry, "%s has no entry %s", how, name);
    CHECK(family, "%s is a launch entry, and nobody has written a call for it: launches.h", name);
    if (!entry || !family)
        return;
    is_ours(entry, name, how);
    ways++;
    for (size_t i = !family->streams ? 0 : family->named_only ? 3 : 0; i < (family->streams ? 4 : 1); i++)
        launch(entry, name, how, kinds[i]);
}

/* The same base name with the other flags, at other versions. */
static void flags_and_versions(const char *name, int since, proc_v1 *v1, proc_v2 *v2)
{
    char base[64], twin[80];
    void *plain = NULL, *legacy = NULL, *per_thread = NULL, *none = (void *)1;
    int status = -1;

    if (split_name(name, base))
        return;                         /* asked for by its base name */
    snprintf(twin, sizeof twin, "%s_ptsz", base);
    void *expected = by_dlsym(twin) ? by_v2(v2, twin, NEWEST) : by_v2(v2, name, NEWEST);
    CHECK(!v2(base, &plain, NEWEST, 0, &status) && status == 0, "%s: status %d", base, status);
    CHECK(!v2(base, &legacy, NEWEST, 1, NULL) && legacy == plain, "%s for the legacy stream is another entry", base);
    CHECK(!v2(base, &per_thread, NEWEST, 2, NULL) && per_thread == expected, "%s for the stream of the thread", base);
    way(legacy, name, "cuGetProcAddress_v2 with the legacy flag");
    way(per_thread, by_dlsym(twin) ? twin : name, "cuGetProcAddress_v2 with the flag of per-thread streams");
    CHECK(!v1(base, &legacy, since, 1) && legacy == plain, "%s by v1 is another entry", base);
    CHECK(v2(base, &none, since - 1, 0, &status) == CUDA_ERROR_NOT_FOUND && !none && status == 2, "%s before %d: status %d", base, since,
          status);
    none = (void *)1;
    CHECK(v1(base, &none, since - 1, 0) == CUDA_ERROR_NOT_FOUND && !none, "%s by v1 before %d", base, since);
    CHECK(v2(base, &none, NEWEST, 3, &status) == CUDA_ERROR_INVALID_VALUE, "both flags");
}

/* A look-up by way of what cuGetProcAddress gives for its own name, in both ABIs. */
static void through_itself(const char *name, int since, proc_v1 *v1, proc_v2 *v2)
{
    way(by_v1((proc_v1 *)by_v1(v1, "cuGetProcAddress", 11030), name, since), name, "v1 of v1");
    way(by_v2((proc_v2 *)by_v1(v1, "cuGetProcAddress", 12000), name, since), name, "v2 of v1");
    way(by_v1((proc_v1 *)by_v2(v2, "cuGetProcAddress", 11030), name, since), name, "v1 of v2");
    way(by_v2((proc_v2 *)by_v2(v2, "cuGetProcAddress", 12000), name, since), name, "v2 of v2");
}

/* The driver's refusal comes back, is counted as one, and nothing runs. */
static void refused(const char *name)
{
    const struct family *family = family_of(name);
    struct counting before = hook ? *hook : (struct counting){ 0 };
    struct shot wrong = here;

    wrong.function = NULL;
    wrong.graph = NULL;
    CUresult result = family->call(by_dlsym(name), &wrong);
    CHECK(result == CUDA_ERROR_INVALID_HANDLE || result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_NOT_SUPPORTED,
          "%s without a function answers %d", name, result);
    counted(&before, name, "dlsym", family->streams ? here.stream : NULL, result);
    OK(cuda.cuCtxSynchronize());
    CHECK(word_of(&here) == sum_here, "%s was refused, and something ran", name);
}

/* A launch into a stream that is being captured goes into the graph, not to the device; a twin's NULL is the stream of the thread. */
static void captures(const char *name)
{
    const struct family *family = family_of(name);
    struct counting before = hook ? *hook : (struct counting){ 0 };
    struct shot shot = here;
    CUgraph graph = NULL;
    size_t nodes = 0;
    bool twin = strstr(name, "_ptsz");

    if (!family->streams || family->several)
        return;
    shot.stream = twin ? CU_STREAM_PER_THREAD : here.stream;
    OK(cuda.cuStreamBeginCapture_v2(shot.stream, 2));
    CUstream into = shot.stream;
    shot.stream = twin ? NULL : into;
    CUresult result = family->call(by_dlsym(name), &shot);
    counted(&before, name, "dlsym, capturing", shot.stream, result);
    CHECK(!result, "%s, capturing, answers %d", name, result);
    captured++;
    OK(cuda.cuStreamEndCapture(into, &graph));
    OK(cuda.cuGraphGetNodes(graph, NULL, &nodes));
    CHECK(nodes == 1, "%s is captured as %zu nodes", name, nodes);
    OK(cuda.cuGraphDestroy(graph));
    OK(cuda.cuCtxSynchronize());
    CHECK(word_of(&here) == sum_here, "%s was captured, and ran", name);
}

static pthread_barrier_t all_ready;

static void *thread(void *argument)
{
    struct shot mine, other;
    unsigned int sum = 0, more = 0;
    unsigned long *made = argument;

    ready(&other, 1, ptx, by_dlsym("cuLaunchKernel"));
    ready(&mine, 0, ptx, by_dlsym("cuLaunchKernel"));
    pthread_barrier_wait(&all_ready);   /* while one of them captures, none may wait for the context */
    for (int round = 0; round < ROUNDS; round++) {
#define CU_GATE(since, name, ...)                                                                   \
        if (family_of(#name)) {                                                                     \
            mine.beside = family_of(#name)->several ? &other : NULL;                                \
            CUresult result = family_of(#name)->call(by_dlsym(#name), &mine);                       \
            made[0]++;                                                                              \
            made[1] += result != 0;                                                                 \
            made[2] += result ? 0 : 1 + family_of(#name)->several;                                  \
            sum += result ? 0 : adds(&mine, family_of(#name));                                      \
            more += result || !mine.beside ? 0 : adds(&other, family_of(#name));                    \
        }
#include "../../tbl/cuda_symbols.h"
    }
    OK(cuda.cuCtxSynchronize());
    CHECK(word_of(&mine) == sum && word_of(&other) == more, "in a thread: %u and %u, not %u and %u", word_of(&mine), word_of(&other), sum, more);
    made[3] = 2;                        /* captured by ready() */
    return NULL;
}

static void threads(void)
{
    struct counting before = hook ? *hook : (struct counting){ 0 };
    pthread_t started[THREADS];
    unsigned long made[THREADS][4] = { { 0 } }, all[4] = { 0 };

    pthread_barrier_init(&all_ready, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        CHECK(!pthread_create(&started[i], NULL, thread, made[i]), "no thread");
    for (int i = 0; i < THREADS; i++) {
        pthread_join(started[i], NULL);
        for (int k = 0; k < 4; k++)
            all[k] += made[i][k];
    }
    entered += all[0] + all[3];
    failed += all[1];
    kernels += all[2];
    captured += all[3];
    if (hook)
        CHECK(hook->entered - before.entered == all[0] + all[3] && hook->left - before.left == all[0] + all[3]
              && hook->failed - before.failed == all[1], "%lu launches of threads were counted %lu times", all[0] + all[3],
              (unsigned long)(hook->entered - before.entered));
}

int main(int argc, char **argv)
{
    bool release = argc > 2 && !strcmp(argv[2], "release");
    hook = dlsym(RTLD_DEFAULT, "counting");
    if (argc < 2 || (!hook && !release)) {
        fprintf(stderr, argc < 2 ? "usage: test_matrix PTX [release [wait]]\n" : "the hook with the counting gate is not preloaded\n");
        return 1;
    }
    ptx = argv[1];
    open_driver();
    proc_v1 *v1 = (proc_v1 *)by_dlsym("cuGetProcAddress");
    proc_v2 *v2 = (proc_v2 *)by_dlsym("cuGetProcAddress_v2");
    ready(&beside, 1, ptx, by_dlsym("cuLaunchKernel"));
    ready(&here, 0, ptx, by_dlsym("cuLaunchKernel"));
    entered = captured = 2;
    if (hook)
        CHECK(hook->entered == 2, "two launches were captured, %d counted", (int)hook->entered);
#define CU_GATE(since, name, ...)                                                                   \
    way(by_dlsym(#name), #name, "dlsym");                                                           \
    way(by_v1(v1, #name, since), #name, "cuGetProcAddress");                                        \
    way(by_v2(v2, #name, since), #name, "cuGetProcAddress_v2");                                     \
    way(by_v2(v2, #name, NEWEST), #name, "cuGetProcAddress_v2 at the newest version");              \
    through_itself(#name, since, v1, v2);                                                           \
    flags_and_versions(#name, since, v1, v2);                                                       \
    refused(#name);                                                                                 \
    captures(#name);
#include "../../tbl/cuda_symbols.h"
#ifdef LINKED
#define CU_GATE(since, name, ...)                                                                   \
    way((void *)name, #name, "the plain symbol");                                                   \
    way(dlsym(RTLD_DEFAULT, #name), #name, "RTLD_DEFAULT");                                         \
    way(dlsym(RTLD_NEXT, #name), #name, "RTLD_NEXT");                                               \
    way(by_v1(cuGetProcAddress, #name, since), #name, "plain cuGetProcAddress");                    \
    way(by_v2(cuGetProcAddress_v2, #name, since), #name, "plain cuGetProcAddress_v2");
#include "../../tbl/cuda_symbols.h"
#endif
    threads();
    int result = check_summary("matrix");
    printf("%d ways: entered %lu failed %lu captured %lu kernels %lu\n", ways, entered, failed, captured, kernels);
    fflush(stdout);
    if (argc > 3)
        while (getchar() != EOF)
            ;
    return result;
}
