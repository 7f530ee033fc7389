/* test_program.c: a program on the simulated device, through the hook: it allocates, computes, is swapped out and in, and goes on. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include "../simcuda/driver_memory.h"
#include "steer.h"

#define BIG (100 * MIB + 12345)
#define SECRET UINT64_C(0x5ec4e7b17e5a11fe)

static unsigned char *pattern(size_t bytes, unsigned seed)
{
    unsigned char *at = malloc(bytes);
    for (size_t i = 0; i < bytes; i++)
        at[i] = (unsigned char)((i * 2654435761u >> 13) + seed);
    return at;
}

static void slots(uint64_t bytes)
{
    int fd = memfd_create("slots", MFD_CLOEXEC);
    CHECK(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0 && steer_host(fd, bytes) == 0, "host slots");
}

static bool holds(CUdeviceptr at, const unsigned char *wanted, size_t bytes)
{
    unsigned char *got = malloc(bytes);
    OK(cuMemcpyDtoH_v2(got, at, bytes));
    bool same = memcmp(got, wanted, bytes) == 0;
    free(got);
    return same;
}

static void test_queries(CUdeviceptr at, size_t bytes)
{
    CUdeviceptr base = 0;
    size_t size = 0;
    OK(cuMemGetAddressRange_v2(&base, &size, at + bytes / 2));
    CHECK(base == at && size == bytes, "range %llx + %zu of %llx + %zu", base, size, at, bytes);
    CHECK(attribute_of(at + 1, P_TYPE) == 2 && attribute_of(at, P_START) == at && attribute_of(at, P_SIZE) == bytes &&
          attribute_of(at, P_ORDINAL) == 0 && attribute_of(at + 3, P_DEVICE_POINTER) == at + 3, "pointer attributes");
    unsigned type = 0;
    CUdeviceptr start = 0;
    int which[] = { P_TYPE, P_START };
    void *data[] = { &type, &start };
    OK(cuPointerGetAttributes(2, which, data, at + bytes - 1));
    CHECK(type == 2 && start == at, "pointer attributes at once");
}

/* What its memory held while it had it cannot be found by who comes after. */
static void test_secret(const char *self)
{
    uint64_t moved, *words = malloc(64 * MIB);
    CUdeviceptr at[4];
    steer_out(~0ull, &moved);       /* what is idle from before */
    for (size_t i = 0; i < 64 * MIB / 8; i++)
        words[i] = SECRET;
    for (int i = 0; i < 4; i++) {
        OK(cuMemAlloc_v2(&at[i], 64 * MIB));
        OK(cuMemcpyHtoD_v2(at[i], words, 64 * MIB));
    }
    OK(cuMemFree_v2(at[0]));
    CHECK(steer_out(~0ull, &moved) == 1 && moved == 256 * MIB, "%llu bytes out", (unsigned long long)moved);
    pid_t pid = fork();
    if (pid == 0) {
        execl(self, self, getenv("GPUD_SIM_NODE"), NULL);
        _exit(9);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "another program finds our bytes, or has none to look at: %x", status);
    CHECK(steer_in(&moved) == 0 && moved == 192 * MIB, "%llu bytes in", (unsigned long long)moved);
    bool same = true;
    for (int i = 1; i < 4; i++) {
        same &= holds(at[i], (unsigned char *)words, 64 * MIB);
        OK(cuMemFree_v2(at[i]));
    }
    CHECK(same, "our bytes are lost");
    free(words);
}

/* The one that comes after: takes nearly the whole device and looks. */
static int snoop(void)
{
    CUdeviceptr at;
    uint64_t *words = malloc(32 * MIB), moved;
    size_t seen = 0, blocks = 0;
    start();
    steer_attach();
    while (blocks < 64 && cuMemAlloc_v2(&at, 32 * MIB) == CUDA_SUCCESS) {
        blocks++;
        OK(cuMemcpyDtoH_v2(words, at, 32 * MIB));
        for (size_t i = 0; i < 32 * MIB / 8; i++)
            seen += words[i] == SECRET;
    }
    steer_out(0, &moved);
    CHECK(blocks >= 20 && seen == 0, "%zu secret words in %zu blocks", seen, blocks);
    return check_failures != 0;
}

static void test_graph(CUmodule module, CUdeviceptr data, bool (*swap)(void))
{
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    OK(cuStreamCreate(&stream, 1));
    put_word(data, 5);
    OK(cuStreamBeginCapture_v2(stream, 2));
    times(module, "times", data, 3, 1, stream);
    times(module, "times", data, 2, 0, stream);
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    CHECK(word(data) == 32, "before the swap: %u", word(data));
    CHECK(swap(), "swap");
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    CHECK(word(data) == 194, "after the swap: %u", word(data));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    OK(cuStreamDestroy_v2(stream));
}

static bool out_and_in(void)
{
    uint64_t out, in;
    CUdeviceptr nothing;
    size_t bytes;
    struct steer_counts before = steer_counts();
    size_t room = left();
    steer_away(1);
    if (steer_out(before.resident, &out) != 0 || out != before.resident || steer_counts().resident != 0)
        return false;
    CHECK(left() == room + out, "the device has got back %zu of %llu", left() - room, (unsigned long long)out);
    (void)nothing, (void)bytes;
    steer_away(0);
    return steer_in(&in) == 0 && steer_counts().host == 0;
}

static void test_ordered(CUmodule module)
{
    CUmemoryPool pool;
    CUstream a, b;
    CUdeviceptr at, again, third;
    cuuint64_t used = 0;
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    OK(cuStreamCreate(&a, 1));
    OK(cuStreamCreate(&b, 1));
    OK(cuMemAllocFromPoolAsync(&at, 3 * MIB, pool, a));
    OK(cuMemPoolGetAttribute(pool, POOL_USED_CURRENT, &used));
    CHECK(used == 3 * MIB, "%llu bytes in use", (unsigned long long)used);
    CHECK(attribute_of(at, P_POOL) == (uintptr_t)pool, "the pool of an allocation");
    put_word(at, 1);
    times(module, "slow_times", at, 2, 5, a);
    OK(cuMemFreeAsync(at, a));
    OK(cuMemAllocAsync(&again, 3 * MIB, a));
    CHECK(again == at, "the stream has its memory again at once");
    OK(cuMemFreeAsync(again, a));
    OK(cuMemAllocAsync(&third, 3 * MIB, b));        /* behind an event, or elsewhere */
    times(module, "times", third, 0, 9, b);
    OK(cuStreamSynchronize(b));
    CHECK(word(third) == 9, "written over by what was freed: %u", word(third));
    CHECK(out_and_in(), "swap");
    CHECK(word(third) == 9, "after the swap: %u", word(third));
    OK(cuMemFreeAsync(third, b));
    OK(cuStreamSynchronize(b));
    OK(cuMemPoolGetAttribute(pool, POOL_USED_CURRENT, &used));
    CHECK(used == 0, "%llu bytes in use after all", (unsigned long long)used);
    OK(cuStreamDestroy_v2(a));
    OK(cuStreamDestroy_v2(b));
}

static void test_life(CUmodule module)
{
    unsigned char *big = pattern(BIG, 1), *small = pattern(70000, 2);
    CUdeviceptr a, b, c, d, lazy;
    size_t pitch;
    uint64_t moved;
    OK(cuMemAlloc_v2(&a, BIG));
    OK(cuMemAlloc_v2(&b, 70000));
    OK(cuMemAllocPitch_v2(&c, &pitch, 1000, 3000, 4));
    OK(cuMemAllocAsync(&d, 70000, NULL));
    CHECK(pitch == 1024 && a % 512 == 0 && b % 512 == 0, "pitch %zu", pitch);
    OK(cuMemcpyHtoD_v2(a, big, BIG));
    OK(cuMemcpyHtoD_v2(b, small, 70000));
    OK(cuMemcpyHtoD_v2(d, small, 70000));
    test_queries(a, BIG);
    test_queries(b, 70000);
    test_queries(c, 1024 * 3000);
    test_graph(module, c, out_and_in);
    struct steer_counts counts = steer_counts();
    CHECK(counts.most[0] >= 2 && counts.most[1] >= 2, "%llu pieces out, %llu in at once", (unsigned long long)counts.most[0], (unsigned long long)counts.most[1]);
    CHECK(counts.unpinned == 0, "the slots are page-locked");
    CHECK(holds(a, big, BIG) && holds(b, small, 70000) && holds(d, small, 70000), "contents");
    /* Away: what is asked and freed meanwhile. */
    steer_away(1);
    CHECK(steer_out(~0ull, &moved) == 1, "all out");
    size_t room = left();
    test_queries(a, BIG);
    test_queries(b, 70000);
    OK(cuMemAlloc_v2(&lazy, 50 * MIB));
    CHECK(left() == room && steer_counts().lazy == 50 * MIB, "an address without memory");
    OK(cuMemFree_v2(a));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(a));
    CHECK(steer_counts().host < 20 * MIB, "the freed one's slots are given back");
    steer_away(0);
    CHECK(steer_in(&moved) == 0 && steer_counts().lazy == 0, "backed at the next turn");
    OK(cuMemcpyHtoD_v2(lazy, big, 50 * MIB));
    CHECK(holds(lazy, big, 50 * MIB) && holds(b, small, 70000) && holds(d, small, 70000), "contents");
    OK(cuMemFree_v2(lazy));
    OK(cuMemFree_v2(b));
    OK(cuMemFree_v2(c));
    OK(cuMemFreeAsync(d, NULL));
    free(big);
    free(small);
}

/* Inside a capture the driver's own is taken; a context that goes takes its memory along. */
static void test_ends(void)
{
    CUcontext ctx;
    CUdeviceptr at;
    uint64_t moved;
    steer_out(~0ull, &moved);
    size_t room = left();
    OK(cuCtxCreate_v2(&ctx, 0, 0));
    OK(cuMemAlloc_v2(&at, 40 * MIB));
    OK(cuMemAlloc_v2(&at, 1000));
    OK(cuMemAllocAsync(&at, 1000, NULL));
    OK(cuMemFreeAsync(at, NULL));
    CHECK(left() <= room - 42 * MIB, "allocated");
    OK(cuCtxDestroy_v2(ctx));
    CHECK(left() == room && steer_counts().resident == 0, "%zu of %zu left after the context went", left(), room);
}

/* A handle of its memory, mapped at a second place: both show the same bytes, before, while and after all else is out. */
static void test_handle(void)
{
    CUmemAccessDesc access = { { 1, 0 }, 3 };
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at, other, second;
    uint64_t moved;
    OK(cuMemAlloc_v2(&at, 2 * MIB));
    OK(cuMemAlloc_v2(&other, 4 * MIB));
    put_word(at, 11);
    steer_out(0, &moved);
    uint64_t before = steer_counts().pinned;
    OK(cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)at));
    CHECK(steer_counts().pinned == before + 2 * MIB, "pinned");
    OK(cuMemAddressReserve(&second, 2 * MIB, 0, 0, 0));
    OK(cuMemMap(second, 2 * MIB, 0, handle, 0));
    OK(cuMemSetAccess(second, 2 * MIB, &access, 1));
    steer_away(1);
    CHECK(steer_out(~0ull, &moved) == 1 && moved >= 4 * MIB && steer_counts().resident == 0, "all else leaves: %llu", (unsigned long long)moved);
    steer_away(0);
    CHECK(steer_in(&moved) == 0 && moved == 4 * MIB && word(second) == 11, "in");
    put_word(second, 12);
    CHECK(word(at) == 12, "one memory, two addresses");
    OK(cuMemFree_v2(at));
    CHECK(word(second) == 12, "it lasts as long as the handle");
    OK(cuMemUnmap(second, 2 * MIB));
    OK(cuMemAddressFree(second, 2 * MIB));
    OK(cuMemRelease(handle));
    OK(cuMemFree_v2(other));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)at));
    CHECK(steer_counts().pinned == before, "given back");
}

/* Who sets CU_POINTER_ATTRIBUTE_SYNC_MEMOPS lets others reach it past the driver: it stays, and the attribute with it. */
static void test_synchronous(void)
{
    CUdeviceptr at, other;
    unsigned on = 1;
    uint64_t moved;
    OK(cuMemAlloc_v2(&at, 2 * MIB));
    OK(cuMemAlloc_v2(&other, 4 * MIB));
    steer_out(0, &moved);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuPointerSetAttribute(&on, P_TYPE, at));
    CHECK(steer_counts().pinned == 0, "refused: not pinned");
    OK(cuPointerSetAttribute(&on, P_SYNC, at));
    CHECK(steer_counts().pinned == 2 * MIB && attribute_of(at, P_SYNC) == 1 && attribute_of(other, P_SYNC) == 0, "pinned");
    steer_away(1);
    CHECK(steer_out(~0ull, &moved) == 1 && steer_counts().resident == 0, "all else leaves");
    CHECK(steer_in(&moved) == 0 && moved == 4 * MIB, "in");
    steer_away(0);
    OK(cuMemFree_v2(at));
    OK(cuMemFree_v2(other));
    CHECK(steer_counts().pinned == 0, "given back");
}

int main(int count, char **arguments)
{
    if (count > 1) {
        setenv("GPUD_SIM_NODE", arguments[1], 1);
        return snoop();
    }
    start();
    CUmodule module = load();
    steer_attach();
    slots(320 * MIB);
    test_life(module);
    test_ordered(module);
    test_handle();
    test_synchronous();
    test_secret(arguments[0]);
    test_ends();
    return check_summary("pool program");
}
