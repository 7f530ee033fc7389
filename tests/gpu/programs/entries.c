/* entries.c: every launch entry that this driver has, by dlsym and by cuGetProcAddress, into the legacy stream, the stream of the
 * thread and one that was made, on one device: each launch is computed once. Run with the hook preloaded.
 *
 *   entries PTX     prints a line of JSON with what the hook must have counted, then waits for the end of its standard input */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>

#include "../../../hooks-native/tests/check.h"
#include "../../../hooks-native/tests/lookups.h"
#include "../../../hooks-native/tests/matrix/launches.h"

enum { NEWEST = 13000 };

/* The answer of a driver call that must be there. */
#define CALL(name, ...) ((int (*)())need(#name))(__VA_ARGS__)
#define OK(name, ...)                                               \
    do {                                                            \
        int got_ = CALL(name, __VA_ARGS__);                         \
        CHECK(!got_, #name " is %d", got_);                         \
    } while (0)

static void *libcuda;

static struct shot here;
static unsigned int sum;
static unsigned long entered, failed, captured;
static int entries;

static void *by_dlsym(const char *name) { return dlsym(libcuda, name); }

static void *need(const char *name)
{
    void *address = by_dlsym(name);
    if (!address) {
        fprintf(stderr, "the driver has no %s\n", name);
        exit(1);
    }
    return address;
}

/* The parameters of the entries of old, where this driver still has them. */
static void legacy(struct shot *shot)
{
    if (!by_dlsym("cuParamSetv"))
        return;
    OK(cuFuncSetBlockShape, shot->function, (int)shot->block[0], (int)shot->block[1], (int)shot->block[2]);
    OK(cuParamSetSize, shot->function, 12u);
    OK(cuParamSetv, shot->function, 0, &shot->word, 8u);
    OK(cuParamSetv, shot->function, 8, &shot->value, 4u);
}

/* The launch that all entries are asked for, and a graph that is the same. */
static void ready(struct shot *shot, const char *ptx)
{
    static const struct shot plain = { .value = 3, .grid = { 2, 3, 2 }, .block = { 4, 2, 2 } };
    CUcontext context = NULL;
    CUmodule module = NULL;
    CUgraph graph = NULL;
    unsigned int zero = 0;

    *shot = plain;
    OK(cuInit, 0u);
    OK(cuDevicePrimaryCtxRetain, &context, 0);
    OK(cuCtxSetCurrent, context);
    OK(cuModuleLoad, &module, ptx);
    OK(cuModuleGetFunction, &shot->function, module, "add_all");
    OK(cuMemAlloc_v2, &shot->word, sizeof zero);
    OK(cuMemcpyHtoD_v2, shot->word, &zero, sizeof zero);
    OK(cuStreamCreate, &shot->stream, 1u);
    legacy(shot);
    OK(cuStreamBeginCapture_v2, shot->stream, 2);
    CHECK(!call_kernel(need("cuLaunchKernel"), shot), "it cannot be captured");
    OK(cuStreamEndCapture, shot->stream, &graph);
    OK(cuGraphInstantiateWithFlags, &shot->graph, graph, 0ull);
    if (check_failures)
        exit(1);
}

static unsigned int word_of(const struct shot *shot)
{
    unsigned int word = 0;
    OK(cuMemcpyDtoH_v2, &word, shot->word, sizeof word);
    return word;
}

/* What one launch by this family adds to the word: each thread of each block adds a weight of its own (matrix.ptx). */
static unsigned int adds(const struct shot *s, const struct family *family)
{
    unsigned int grid[3], total = 0;
    for (unsigned int i = 0; i < 3; i++)
        grid[i] = i < family->sides ? s->grid[i] : 1;
    for (unsigned int block = 0; block < grid[0] * grid[1] * grid[2]; block++)
        for (unsigned int thread = 0; thread < s->block[0] * s->block[1] * s->block[2]; thread++)
            total += s->value * (1 + block % grid[0] + 10 * (block / grid[0] % grid[1]) + 100 * (block / grid[0] / grid[1])
                                 + 1000 * (thread % s->block[0]) + 10000 * (thread / s->block[0] % s->block[1])
                                 + 100000 * (thread / s->block[0] / s->block[1]));
    return total;
}

static void is_ours(void *entry, const char *name, const char *way)
{
    Dl_info info = { 0 };
    CHECK(dladdr(entry, &info) && info.dli_fname && strstr(info.dli_fname, "libgpud_hook"), "%s by %s is of %s", name, way,
          info.dli_fname ? info.dli_fname : "nobody");
}

/* An old entry may be refused; what is not refused is computed, once. */
static void launch(void *entry, const char *name, const char *way, CUstream stream)
{
    const struct family *family = family_of(name);
    struct shot shot = here;

    shot.stream = stream;
    CUresult result = family->call(entry, &shot);
    entered++;
    failed += result != 0;
    CHECK(!CALL(cuCtxSynchronize), "a launch failed");
    unsigned int now = word_of(&here), due = result ? 0 : adds(&here, family);
    CHECK(now == sum + due, "%s by %s answered %d and added %u, not %u", name, way, result, now - sum, due);
    sum = now;
    if (result)
        fprintf(stderr, "%s by %s answers %d\n", name, way, result);
    const char *must[] = { "cuLaunchKernel", "cuLaunchKernelEx", "cuLaunchCooperativeKernel", "cuGraphLaunch" };
    for (size_t i = 0; i < sizeof must / sizeof *must; i++)
        CHECK(strcmp(family->name, must[i]) || !result, "%s by %s is refused: %d", name, way, result);
}

static void way(void *entry, const char *name, const char *how)
{
    const struct family *family = family_of(name);

    if (!entry || !family) {
        fprintf(stderr, "%s has no entry %s\n", how, name);
        return;
    }
    is_ours(entry, name, how);
    entries++;
    CUstream kinds[] = { NULL, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD, here.stream };
    for (size_t i = !family->streams ? 0 : family->named_only ? 3 : 0; i < (family->streams ? 4 : 1); i++)
        launch(entry, name, how, kinds[i]);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: entries PTX\n");
        return 2;
    }
    libcuda = dlopen("libcuda.so.1", RTLD_NOW);
    if (!libcuda) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    proc_v2 *lookup = (proc_v2 *)by_dlsym("cuGetProcAddress_v2");
    ready(&here, argv[1]);
    entered = captured = 1;
#define CU_GATE(since, name, parameters, ...)                       \
    way(by_dlsym(#name), #name, "dlsym");                           \
    way(by_v2(lookup, #name, NEWEST), #name, "cuGetProcAddress_v2");
#include "../../../hooks-native/tbl/cuda_symbols.h"
    int result = check_failures || !check_count;
    printf("{\"entries\": %d, \"entered\": %lu, \"failed\": %lu, \"captured\": %lu, \"checks\": %u, \"wrong\": %u}\n", entries, entered,
           failed, captured, check_count, check_failures);
    fflush(stdout);
    while (getchar() != EOF)
        ;
    return result;
}
