/* test_pools.c: memory pools: what they hold and let go, whose freed memory may be had when, limits, access, and their end. */
#include <string.h>

#include "driver_memory.h"
#include "held.h"

static CUmemoryPool make(size_t most)
{
    CUmemPoolProps props = {.allocType = ALLOCATION_PINNED, .location = {LOCATION_DEVICE, 0}, .maxSize = most};
    CUmemoryPool pool = NULL;
    OK(cuMemPoolCreate(&pool, &props));
    return pool;
}

static cuuint64_t figure(CUmemoryPool pool, int which)
{
    cuuint64_t value = 0;
    OK(cuMemPoolGetAttribute(pool, which, &value));
    return value;
}

static void set(CUmemoryPool pool, int which, int on) { OK(cuMemPoolSetAttribute(pool, which, &on)); }
static void threshold(CUmemoryPool pool, cuuint64_t bytes) { OK(cuMemPoolSetAttribute(pool, POOL_RELEASE_THRESHOLD, &bytes)); }

static CUdeviceptr take(CUmemoryPool pool, size_t bytes, CUstream stream)
{
    CUdeviceptr at = 0;
    OK(cuMemAllocFromPoolAsync(&at, bytes, pool, stream));
    return at;
}

static void test_rules(void)
{
    CUmemPoolProps good = {.allocType = ALLOCATION_PINNED, .location = {LOCATION_DEVICE, 0}}, bad;
    CUmemoryPool pool, got, mine;
    CUmemLocation here = {LOCATION_DEVICE, 0}, host = {LOCATION_HOST, 0};
    CUdeviceptr at;
    bad = good, bad.allocType = 0;
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPoolCreate(&pool, &bad));
    bad = good, bad.location.type = 0;
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPoolCreate(&pool, &bad));
    bad = good, bad.location.type = LOCATION_HOST;
    EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuMemPoolCreate(&pool, &bad));
    bad = good, bad.handleTypes = HANDLE_FABRIC;
    EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuMemPoolCreate(&pool, &bad));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPoolCreate(NULL, &good));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPoolCreate(&pool, NULL));
    OK(cuMemGetDefaultMemPool(&pool, &here, ALLOCATION_PINNED));
    OK(cuDeviceGetDefaultMemPool(&got, 0));
    CHECK(pool == got, "two default pools");
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPoolDestroy(pool));
    EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuMemGetDefaultMemPool(&pool, &host, ALLOCATION_PINNED));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemGetDefaultMemPool(&pool, &here, 9));
    mine = make(0);
    OK(cuMemSetMemPool(&here, ALLOCATION_PINNED, mine));
    OK(cuDeviceGetMemPool(&got, 0));
    CHECK(got == mine, "the current pool");
    OK(cuMemAllocAsync(&at, 100, NULL));
    CHECK(attribute_of(at, P_POOL) == (unsigned long long)(uintptr_t)mine, "from the current pool");
    OK(cuMemFreeAsync(at, NULL));
    OK(cuMemPoolDestroy(mine));
    OK(cuMemGetMemPool(&got, &here, ALLOCATION_PINNED));
    CHECK(got == pool, "the default pool is current again");
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPoolDestroy(mine));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAllocFromPoolAsync(&at, 100, mine, NULL));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAllocAsync(&at, 0, NULL));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(0x1000, NULL));
    cuuint64_t one = 1;
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPoolSetAttribute(pool, POOL_USED_HIGH, &one));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPoolSetAttribute(pool, POOL_USED_CURRENT, &one));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPoolGetAttribute(pool, 99, &one));
    CUmemAccessDesc none = {{LOCATION_DEVICE, 0}, ACCESS_NONE}, nobody = {{LOCATION_DEVICE, 5}, ACCESS_READWRITE};
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPoolSetAccess(pool, &none, 1));
    EXPECT(CUDA_ERROR_INVALID_DEVICE, cuMemPoolSetAccess(pool, &nobody, 1));
    int flags = 0;
    OK(cuMemPoolGetAccess(&flags, pool, &here));
    CHECK(flags == ACCESS_READWRITE, "%d", flags);
}

static void test_figures(CUstream stream)
{
    size_t before = left();
    CUmemoryPool pool = make(0);
    CUdeviceptr a = take(pool, 3 * MIB, stream), b = take(pool, 1000, stream);
    CHECK(figure(pool, POOL_RESERVED_CURRENT) == 6 * MIB && before - left() == 6 * MIB, "%llu", (unsigned long long)figure(pool, POOL_RESERVED_CURRENT));
    CHECK(figure(pool, POOL_USED_CURRENT) == 3 * MIB + 1024, "%llu", (unsigned long long)figure(pool, POOL_USED_CURRENT));
    OK(cuMemFreeAsync(a, stream));
    OK(cuStreamSynchronize(stream));
    CHECK(figure(pool, POOL_RESERVED_CURRENT) == 2 * MIB, "the threshold is 0");
    CHECK(figure(pool, POOL_RESERVED_HIGH) == 6 * MIB && figure(pool, POOL_USED_HIGH) == 3 * MIB + 1024, "the most there was");
    cuuint64_t zero = 0;
    OK(cuMemPoolSetAttribute(pool, POOL_RESERVED_HIGH, &zero));
    OK(cuMemPoolSetAttribute(pool, POOL_USED_HIGH, &zero));
    CHECK(figure(pool, POOL_RESERVED_HIGH) == 2 * MIB && figure(pool, POOL_USED_HIGH) == 1024, "from here on");
    threshold(pool, UINT64_MAX);
    a = take(pool, 9 * MIB, stream);
    CUdeviceptr c = take(pool, 3 * MIB, stream);
    OK(cuMemFreeAsync(a, stream));
    OK(cuMemFreeAsync(c, stream));
    OK(cuStreamSynchronize(stream));
    CHECK(figure(pool, POOL_RESERVED_CURRENT) == 16 * MIB, "kept");
    OK(cuMemPoolTrimTo(pool, 5 * MIB));
    CHECK(figure(pool, POOL_RESERVED_CURRENT) >= 5 * MIB && figure(pool, POOL_RESERVED_CURRENT) < 16 * MIB, "trimmed, but not below");
    OK(cuMemPoolTrimTo(pool, 0));
    CHECK(figure(pool, POOL_RESERVED_CURRENT) == 2 * MIB, "what is used stays");
    /* Memory that pools keep is not lost for others. */
    a = take(pool, 100 * MIB, stream);
    OK(cuMemFreeAsync(a, stream));
    OK(cuStreamSynchronize(stream));
    CUdeviceptr all;
    OK(cuMemAlloc_v2(&all, left() + 50 * MIB));
    OK(cuMemFree_v2(all));
    OK(cuMemFreeAsync(b, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuMemPoolDestroy(pool));
    CHECK(left() == before, "%zd bytes are lost", (ssize_t)(before - left()));
}

/* Freed in one stream, had by another: at once only if that comes after it, or if it is over, as the pool allows. */
static void test_reuse(CUmodule module, CUstream one, CUstream two)
{
    CUevent event;
    sem_t gate;
    CUdeviceptr work = zeroes(64), a, b;
    CUmemoryPool pool = make(4 * MIB);          /* room for one only: whatever is had again is the same memory */
    OK(cuEventCreate(&event, 2));
    a = take(pool, 3 * MIB, one);
    OK(cuMemFreeAsync(a, one));
    b = take(pool, 3 * MIB, one);
    CHECK(a == b, "the same stream has it again at once");

    /* By an event. */
    hold(one, &gate);
    times(module, "times", work, 1, 1, one);
    OK(cuMemFreeAsync(b, one));
    OK(cuEventRecord(event, one));
    OK(cuStreamWaitEvent(two, event, 0));
    set(pool, POOL_REUSE_INTERNAL, 0);
    a = take(pool, 3 * MIB, two);
    CHECK(a == b, "behind the event");
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(one));
    go_on(&gate);
    OK(cuCtxSynchronize());

    /* Not without one, where nothing else is allowed. */
    hold(two, &gate);
    times(module, "times", work, 1, 1, two);
    OK(cuMemFreeAsync(a, two));
    EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocFromPoolAsync(&b, 3 * MIB, pool, one));
    set(pool, POOL_REUSE_EVENT, 0);
    OK(cuEventRecord(event, two));
    OK(cuStreamWaitEvent(one, event, 0));
    EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocFromPoolAsync(&b, 3 * MIB, pool, one));
    set(pool, POOL_REUSE_EVENT, 1);
    b = take(pool, 3 * MIB, one);
    go_on(&gate);
    OK(cuCtxSynchronize());

    /* A dependency of the pool's making: the second stream comes after the first, on the device. */
    set(pool, POOL_REUSE_INTERNAL, 1);
    hold(one, &gate);
    times(module, "times", work, 1, 1, one);
    OK(cuMemFreeAsync(b, one));
    a = take(pool, 3 * MIB, two);
    CHECK(a == b, "made to wait");
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(one));
    times(module, "times", work + 8, 1, 1, two);
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(two));
    go_on(&gate);
    OK(cuStreamSynchronize(two));
    OK(cuStreamQuery(one));

    /* What is over is had by anybody, unless that is switched off; a synchronisation always tells. */
    set(pool, POOL_REUSE_INTERNAL, 0);
    set(pool, POOL_REUSE_OPPORTUNISTIC, 0);
    threshold(pool, UINT64_MAX);
    OK(cuMemFreeAsync(a, two));
    while (cuStreamQuery(two))
        ;
    EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocFromPoolAsync(&b, 3 * MIB, pool, one));
    OK(cuStreamSynchronize(two));
    b = take(pool, 3 * MIB, one);
    OK(cuMemFreeAsync(b, one));
    OK(cuCtxSynchronize());
    OK(cuMemPoolDestroy(pool));
    OK(cuEventDestroy_v2(event));
    OK(cuMemFree_v2(work));
}

/* A pool that is destroyed gives its memory back when that is free. */
static void test_end(CUmodule module, CUstream stream)
{
    size_t before = left();
    CUmemoryPool pool = make(0);
    CUdeviceptr used = take(pool, 3 * MIB, stream), freed = take(pool, 5 * MIB, stream), work = zeroes(64);
    size_t with = left();
    sem_t gate;
    hold(stream, &gate);
    times(module, "times", work, 1, 1, stream);
    OK(cuMemFreeAsync(freed, stream));
    OK(cuMemPoolDestroy(pool));                 /* does not wait */
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
    CHECK(left() == with, "memory of work under way was given back");
    go_on(&gate);
    put_word(used, 5);
    CHECK(word(used) == 5 && attribute_of(used, P_POOL) == 0, "still there, of no pool");
    OK(cuStreamSynchronize(stream));
    CHECK(left() == with + 6 * MIB, "%zd", (ssize_t)(left() - with));
    OK(cuMemFreeAsync(used, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuMemFree_v2(work));
    CHECK(left() == before, "%zd bytes are lost", (ssize_t)(before - left()));
}

/* Memory of cuMemAlloc may be freed in order too, and memory of pools at once. */
static void test_mixed(CUmodule module, CUstream stream)
{
    size_t before = left();
    CUdeviceptr plain = zeroes(5 * MIB), at;
    OK(cuMemAllocAsync(&at, 5 * MIB, stream));
    times(module, "slow_times", plain, 1, 1, stream);
    OK(cuMemFreeAsync(plain, stream));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(plain));
    OK(cuMemFree_v2(at));
    OK(cuStreamSynchronize(stream));
    CHECK(left() == before, "%zd bytes are lost", (ssize_t)(before - left()));
}

int main(void)
{
    CUstream one, two;
    start();
    CUmodule module = load();
    OK(cuStreamCreate(&one, 1));
    OK(cuStreamCreate(&two, 1));
    test_rules();
    test_figures(one);
    test_reuse(module, one, two);
    test_end(module, one);
    test_mixed(module, two);
    return check_summary("pools");
}
