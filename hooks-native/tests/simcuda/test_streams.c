/* test_streams.c: order and time: streams, the default streams, events, stream-ordered memory, capture. What
 * is held (held.h) is seen not to be done; kernels named slow_* take 40 ms of model time. */
#include <pthread.h>

#include "driver.h"
#include "held.h"

static CUmodule module;
static CUfunction slow_times, times;

/* Puts data = data * factor + add into a stream. */
static void put(CUfunction f, CUdeviceptr data, int factor, int add, CUstream stream)
{
    void *params[] = {&data, &factor, &add};
    OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

static int value_at(CUdeviceptr at)
{
    int value = -1;
    OK(cuMemcpyDtoH_v2(&value, at, sizeof value));
    return value;
}

static void test_queries(void)
{
    CUdeviceptr data = zeroes(4);
    CUstream stream;
    CUevent before, after, quiet;
    CUcontext ctx, current;
    sem_t gate;
    float ms = -1;
    int priority;
    OK(cuStreamCreateWithPriority(&stream, 1, -100));
    OK(cuStreamGetPriority(stream, &priority));
    CHECK(priority == -5, "clamped to %d", priority);
    OK(cuStreamGetCtx(stream, &ctx));
    OK(cuCtxGetCurrent(&current));
    CHECK(ctx == current, "the stream's context");
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamCreate(&stream, 2));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamCreate(NULL, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuEventCreate(&before, 0x100));
    OK(cuEventCreate(&before, 0));
    OK(cuEventCreate(&after, 0));
    OK(cuEventCreate(&quiet, 2));
    OK(cuStreamQuery(stream));
    OK(cuEventQuery(before));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime_v2(&ms, before, after));
    /* Behind other work, so that the time of this program's calls does not enter. */
    hold(stream, &gate);
    put(slow_times, data, 0, 0, stream);
    OK(cuEventRecord(before, stream));
    put(slow_times, data, 2, 1, stream);
    put(slow_times, data, 2, 1, stream);
    OK(cuEventRecord(after, stream));
    OK(cuEventRecord(quiet, stream));
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
    EXPECT(CUDA_ERROR_NOT_READY, cuEventQuery(after));
    EXPECT(CUDA_ERROR_NOT_READY, cuEventElapsedTime_v2(&ms, before, after));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime_v2(&ms, before, quiet));
    go_on(&gate);
    OK(cuEventSynchronize(after));
    OK(cuStreamSynchronize(stream));
    OK(cuEventElapsedTime_v2(&ms, before, after));
    /* Model time, so the bounds are tight on any machine: two kernels and what lies between them. */
    CHECK(ms >= 80 && ms < 80.2f, "%f ms", (double)ms);
    CHECK(value_at(data) == 3, "%d", value_at(data));
    OK(cuStreamDestroy_v2(stream));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuStreamDestroy_v2(stream));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuStreamDestroy_v2(NULL));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuStreamSynchronize(stream));
    OK(cuEventDestroy_v2(before));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuEventDestroy_v2(before));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuEventRecord(before, NULL));
    OK(cuEventDestroy_v2(after));
    OK(cuEventDestroy_v2(quiet));
    OK(cuMemFree_v2(data));
}

/* A stream that waits for an event of another one, across the destruction of both. */
static void test_waits(void)
{
    CUdeviceptr data = zeroes(4);
    CUstream a, b;
    CUevent event;
    sem_t gate;
    OK(cuStreamCreate(&a, 1));
    OK(cuStreamCreate(&b, 1));
    OK(cuEventCreate(&event, 0));
    OK(cuStreamWaitEvent(b, event, 0));         /* never recorded: nothing to wait for */
    OK(cuStreamSynchronize(b));
    hold(a, &gate);
    put(slow_times, data, 1, 1, a);
    OK(cuEventRecord(event, a));
    OK(cuStreamWaitEvent(b, event, 0));
    put(times, data, 10, 0, b);
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(b));
    go_on(&gate);
    /* Recorded again elsewhere: it now means the other place, the wait above does not move. */
    OK(cuEventRecord(event, b));
    OK(cuStreamDestroy_v2(a));
    OK(cuEventSynchronize(event));
    OK(cuStreamSynchronize(b));
    CHECK(value_at(data) == 10, "%d", value_at(data));
    put(slow_times, data, 1, 1, b);
    OK(cuEventRecord(event, b));
    OK(cuEventDestroy_v2(event));
    OK(cuStreamDestroy_v2(b));                  /* its work still runs */
    OK(cuCtxSynchronize());
    CHECK(value_at(data) == 11, "%d", value_at(data));
    OK(cuMemFree_v2(data));
}

static CUevent mark_after(CUstream stream)
{
    CUevent event;
    OK(cuEventCreate(&event, 0));
    OK(cuEventRecord(event, stream));
    return event;
}

/* The legacy default stream waits for blocking streams and they for it; non-blocking ones do not. */
static void test_legacy(void)
{
    CUdeviceptr data = zeroes(4);
    CUstream blocking, free_stream;
    sem_t gate;
    OK(cuStreamCreate(&blocking, 0));
    OK(cuStreamCreate(&free_stream, 1));
    hold(blocking, &gate);
    put(times, data, 2, 1, blocking);
    put(times, data, 10, 0, NULL);
    CUevent legacy = mark_after(NULL);
    EXPECT(CUDA_ERROR_NOT_READY, cuEventQuery(legacy));
    put(times, data, 1, 5, blocking);
    CUevent second = mark_after(blocking);
    EXPECT(CUDA_ERROR_NOT_READY, cuEventQuery(second));
    CUevent apart = mark_after(free_stream);
    OK(cuEventSynchronize(apart));
    EXPECT(CUDA_ERROR_NOT_READY, cuEventQuery(legacy));
    go_on(&gate);
    OK(cuStreamSynchronize(blocking));
    OK(cuEventQuery(legacy));
    CHECK(value_at(data) == 15, "%d", value_at(data));
    /* The legacy stream is waited for by blocking streams. */
    hold(NULL, &gate);
    put(times, data, 1, 1, NULL);
    CUevent behind = mark_after(blocking);
    EXPECT(CUDA_ERROR_NOT_READY, cuEventQuery(behind));
    CUevent beside = mark_after(free_stream);
    OK(cuEventSynchronize(beside));
    EXPECT(CUDA_ERROR_NOT_READY, cuEventQuery(behind));
    go_on(&gate);
    OK(cuCtxSynchronize());
    CUevent all[] = {legacy, second, apart, behind, beside};
    for (int i = 0; i < 5; i++)
        OK(cuEventDestroy_v2(all[i]));
    OK(cuStreamDestroy_v2(blocking));
    OK(cuStreamDestroy_v2(free_stream));
    OK(cuMemFree_v2(data));
}

static CUcontext the_ctx;
static void *own_stream(void *argument)
{
    CUdeviceptr data = *(CUdeviceptr *)argument;
    int one = 1, zero = 0;
    void *params[] = {&data, &one, &one};
    (void)zero;
    OK(cuCtxSetCurrent(the_ctx));
    for (int i = 0; i < 10; i++)
        OK(cuLaunchKernel_ptsz(times, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    OK(cuStreamSynchronize_ptsz(NULL));
    return NULL;
}

/* Each thread has a default stream of its own; it goes with the thread. */
static void test_own(void)
{
    CUdeviceptr data = zeroes(4);
    OK(cuCtxGetCurrent(&the_ctx));
    for (int i = 0; i < 200; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, own_stream, &data);
        pthread_join(thread, NULL);
    }
    CHECK(value_at(data) == 2000, "%d", value_at(data));
    OK(cuMemFree_v2(data));
}

static void add_one(void *at) { ++*(_Atomic int *)at; }

static void test_host_functions(void)
{
    CUdeviceptr data = zeroes(4);
    CUstream stream;
    _Atomic int called = 0;
    OK(cuStreamCreate(&stream, 1));
    put(slow_times, data, 1, 1, stream);
    OK(cuLaunchHostFunc(stream, add_one, (void *)&called));
    CHECK(called == 0, "called before the kernel was done");
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuLaunchHostFunc(stream, NULL, NULL));
    OK(cuStreamSynchronize(stream));
    CHECK(called == 1, "called %d times", called);
    OK(cuStreamDestroy_v2(stream));
    OK(cuMemFree_v2(data));
}

static void test_pool(void)
{
    CUmemoryPool pool;
    CUstream a, b;
    CUdeviceptr first, second, third;
    size_t before, left;
    cuuint64_t used, reserved, keep = ~0ull;
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    OK(cuStreamCreate(&a, 1));
    OK(cuStreamCreate(&b, 1));
    OK(cuMemGetInfo_v2(&before, NULL));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAllocAsync(&first, 0, a));
    OK(cuMemAllocAsync(&first, 64 << 20, a));
    OK(cuMemPoolGetAttribute(pool, POOL_USED_CURRENT, &used));
    CHECK(used == 64 << 20, "%llu", (unsigned long long)used);
    OK(cuMemsetD32_v2(first, 1, 1));
    put(slow_times, first, 1, 1, a);
    OK(cuMemFreeAsync(first, a));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(first, a));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(12345, a));
    /* The same stream may have it again at once, another one not before the kernel is done. */
    OK(cuMemAllocAsync(&second, 64 << 20, b));
    CHECK(second != first, "memory in use was given to another stream");
    OK(cuMemAllocAsync(&third, 64 << 20, a));
    CHECK(third == first, "the same stream did not get it back");
    OK(cuMemFreeAsync(second, b));
    OK(cuMemFreeAsync(third, a));
    OK(cuStreamSynchronize(a));
    OK(cuStreamSynchronize(b));
    OK(cuMemGetInfo_v2(&left, NULL));
    CHECK(left == before, "%zd bytes above the threshold are kept", (ssize_t)(before - left));
    OK(cuMemPoolSetAttribute(pool, POOL_RELEASE_THRESHOLD, &keep));
    OK(cuMemAllocAsync(&first, 64 << 20, a));
    OK(cuMemFreeAsync(first, a));
    OK(cuStreamSynchronize(a));
    OK(cuMemPoolGetAttribute(pool, POOL_RESERVED_CURRENT, &reserved));
    CHECK(reserved == 64 << 20, "%llu", (unsigned long long)reserved);
    /* What a pool holds in reserve is not out of memory for others. */
    CUdeviceptr all;
    OK(cuMemAlloc_v2(&all, before / (2 << 20) * (2 << 20)));
    OK(cuMemFree_v2(all));
    /* What a stream is about to free can be waited for. */
    OK(cuMemAllocAsync(&first, before / 2 + (4 << 20), a));
    put(slow_times, first, 1, 1, a);
    OK(cuMemFreeAsync(first, a));
    OK(cuMemAllocAsync(&second, before / 2 + (4 << 20), b));
    OK(cuMemFreeAsync(second, b));
    OK(cuStreamSynchronize(b));
    OK(cuMemPoolTrimTo(pool, 0));
    OK(cuMemGetInfo_v2(&left, NULL));
    CHECK(left == before, "%zd bytes are lost", (ssize_t)(before - left));
    keep = 0;
    OK(cuMemPoolSetAttribute(pool, POOL_RELEASE_THRESHOLD, &keep));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPoolSetAttribute(pool, 99, &keep));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPoolTrimTo((CUmemoryPool)a, 0));
    OK(cuStreamDestroy_v2(a));
    OK(cuStreamDestroy_v2(b));
}

static void test_capture(void)
{
    CUdeviceptr data = zeroes(4), other;
    CUstream a, b;
    CUevent fork_event, join_event;
    CUgraph graph;
    CUgraphExec exec;
    int status;
    OK(cuStreamCreate(&a, 0));
    OK(cuStreamCreate(&b, 0));
    OK(cuEventCreate(&fork_event, 2));
    OK(cuEventCreate(&join_event, 2));
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamBeginCapture_v2(NULL, 0));
    EXPECT(CUDA_ERROR_ILLEGAL_STATE, cuStreamEndCapture(a, &graph));
    OK(cuStreamIsCapturing(a, &status));
    CHECK(status == 0, "%d", status);
    /* Fork and join by events. */
    OK(cuStreamBeginCapture_v2(a, 0));
    EXPECT(CUDA_ERROR_ILLEGAL_STATE, cuStreamBeginCapture_v2(a, 0));
    put(times, data, 1, 1, a);
    OK(cuEventRecord(fork_event, a));
    OK(cuStreamWaitEvent(b, fork_event, 0));
    OK(cuStreamIsCapturing(b, &status));
    CHECK(status == 1, "the other stream is not drawn in");
    put(times, data, 10, 0, b);
    OK(cuEventRecord(join_event, b));
    OK(cuStreamWaitEvent(a, join_event, 0));
    put(times, data, 1, 2, a);
    OK(cuStreamEndCapture(a, &graph));
    EXPECT(CUDA_ERROR_CAPTURED_EVENT, cuEventQuery(join_event));
    CHECK(value_at(data) == 0, "captured work ran");
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphLaunch(exec, a));
    OK(cuGraphLaunch(exec, a));
    OK(cuStreamSynchronize(a));
    CHECK(value_at(data) == (12 + 1) * 10 + 2, "%d", value_at(data));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphDestroy(graph));
    /* What a capture forbids ends it. */
    OK(cuStreamBeginCapture_v2(a, 0));
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemAlloc_v2(&other, 16));
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(a, &graph));
    OK(cuStreamBeginCapture_v2(a, 2));
    OK(cuMemAlloc_v2(&other, 16));              /* relaxed: allowed */
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamSynchronize(a));
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(a, &graph));
    OK(cuStreamBeginCapture_v2(a, 2));
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cuMemsetD8_v2(data, 0, 4));
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(a, &graph));
    OK(cuStreamBeginCapture_v2(a, 0));
    OK(cuEventRecord(fork_event, a));
    OK(cuStreamWaitEvent(b, fork_event, 0));
    put(times, data, 1, 1, b);
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, cuStreamEndCapture(b, &graph));
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, cuStreamEndCapture(a, &graph));
    OK(cuStreamIsCapturing(b, &status));
    CHECK(status == 0, "%d", status);
    int mode = 2;
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    CHECK(mode == 0, "%d", mode);
    OK(cuStreamBeginCapture_v2(a, 0));
    OK(cuStreamDestroy_v2(a));                  /* in the middle of it */
    mode = 0;
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    OK(cuMemFree_v2(other));
    OK(cuMemFree_v2(data));
    OK(cuStreamDestroy_v2(b));
    OK(cuEventDestroy_v2(fork_event));
    OK(cuEventDestroy_v2(join_event));
}

int main(void)
{
    start();
    module = load();
    times = function(module, "times");
    slow_times = function(module, "slow_times");
    test_queries();
    test_waits();
    test_legacy();
    test_own();
    test_host_functions();
    test_pool();
    test_capture();
    return check_summary("streams");
}
