/* test_sticky.c: what a kernel's fault does to its context, and from when on; and handles of things that are gone. */
#include <string.h>
#include <time.h>

#include "graphs.h"

#define GONE CUDA_ERROR_ILLEGAL_ADDRESS

CUresult cuStreamGetFlags(CUstream, unsigned *);
CUresult cuStreamGetId(CUstream, unsigned long long *);
CUresult cuStreamGetAttribute(CUstream, int, void *);
CUresult cuStreamSetAttribute(CUstream, int, const void *);
CUresult cuStreamCopyAttributes(CUstream, CUstream);
CUresult cuCtxGetFlags(unsigned *);

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void never(void *at) { ++*(_Atomic int *)at; }
static void told(CUstream stream, CUresult result, void *at) { (void)stream; *(_Atomic int *)at = result; }

/* All that one may call; each answers the same. */
static void every_call(CUmodule of, CUfunction f, CUstream stream, CUevent event, CUgraphExec exec, CUdeviceptr data)
{
    CUdeviceptr at;
    CUstream new_stream;
    CUevent new_event;
    CUmodule new_module;
    CUfunction found;
    CUmemoryPool pool;
    void *host;
    size_t bytes;
    int number, zero = 0;
    unsigned flags;
    float ms;
    char value[64];
    unsigned long long id;
    void *params[] = {&data, &zero, &zero};
    EXPECT(GONE, cuMemAlloc_v2(&at, 16));
    EXPECT(GONE, cuMemFree_v2(data));
    EXPECT(GONE, cuMemGetInfo_v2(&bytes, &bytes));
    EXPECT(GONE, cuMemcpyHtoD_v2(data, &number, 4));
    EXPECT(GONE, cuMemcpyDtoH_v2(&number, data, 4));
    EXPECT(GONE, cuMemcpyDtoD_v2(data, data + 8, 4));
    EXPECT(GONE, cuMemcpyDtoDAsync_v2(data, data + 8, 4, stream));
    EXPECT(GONE, cuMemsetD8_v2(data, 0, 4));
    EXPECT(GONE, cuMemAllocAsync(&at, 16, stream));
    EXPECT(GONE, cuMemFreeAsync(data, stream));
    EXPECT(GONE, cuMemHostAlloc(&host, 16, 0));
    EXPECT(GONE, cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
    EXPECT(GONE, cuLaunchHostFunc(stream, never, NULL));
    EXPECT(GONE, cuGraphLaunch(exec, stream));
    EXPECT(GONE, cuStreamBeginCapture_v2(stream, 0));
    EXPECT(GONE, cuStreamCreate(&new_stream, 0));
    EXPECT(GONE, cuStreamQuery(stream));
    EXPECT(GONE, cuStreamSynchronize(stream));
    EXPECT(GONE, cuStreamWaitEvent(stream, event, 0));
    EXPECT(GONE, cuStreamGetFlags(stream, &flags));
    EXPECT(GONE, cuStreamGetId(stream, &id));
    EXPECT(GONE, cuStreamGetAttribute(stream, 8, value));
    EXPECT(GONE, cuEventCreate(&new_event, 0));
    EXPECT(GONE, cuEventRecord(event, stream));
    EXPECT(GONE, cuEventQuery(event));
    EXPECT(GONE, cuEventSynchronize(event));
    EXPECT(GONE, cuEventElapsedTime_v2(&ms, event, event));
    EXPECT(GONE, cuModuleLoadData(&new_module, ".version 8.0\n"));
    EXPECT(GONE, cuModuleGetFunction(&found, of, "times"));
    EXPECT(GONE, cuModuleGetGlobal_v2(&at, &bytes, of, "counter"));
    EXPECT(GONE, cuFuncGetAttribute(&number, 0, f));
    EXPECT(GONE, cuOccupancyMaxActiveBlocksPerMultiprocessor(&number, f, 32, 0));
    EXPECT(GONE, cuCtxSynchronize());
    EXPECT(GONE, cuCtxGetLimit(&bytes, 0));
    EXPECT(GONE, cuCtxGetFlags(&flags));
    OK(cuDeviceGetDefaultMemPool(&pool, 0));    /* of the device */
}

/* The fault comes behind 120 ms of other kernels: till then nothing is wrong. What is behind it never runs. */
static void test_when_due(void)
{
    CUcontext other, current;
    CUmodule of = NULL, of_other;
    CUstream stream, beside;
    CUevent event;
    CUgraph graph;
    CUdeviceptr bad = 1ull << 60, at;
    _Atomic int called = 0, result = 0;
    OK(cuCtxGetCurrent(&current));
    OK(cuCtxCreate_v2(&other, 0, 0));
    of_other = load();
    CUfunction healthy = function(of_other, "times");
    CUdeviceptr elsewhere = zeroes(4);
    OK(cuCtxSetCurrent(current));
    of = load();
    CUfunction store = function(of, "store"), slow = function(of, "slow_times");
    CUdeviceptr data = zeroes(64), scratch = zeroes(64);
    OK(cuStreamCreate(&stream, 1));
    OK(cuStreamCreate(&beside, 1));
    OK(cuEventCreate(&event, 0));
    OK(cuGraphCreate(&graph, 0));
    add_kernel(graph, NULL, 0, slow, scratch, 1, 1);
    CUgraphExec exec = instance(graph);
    for (int i = 0; i < 3; i++)
        put(slow, data, 1, 1, stream);
    OK(cuEventRecord(event, stream));
    void *params[] = {&bad};
    OK(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
    OK(cuLaunchHostFunc(stream, never, (void *)&called));
    OK(cuStreamAddCallback(stream, told, (void *)&result, 0));
    for (int i = 0; i < 400; i++)
        put(slow, data, 1, 1, stream);
    put(slow, scratch, 1, 1, beside);
    int64_t before = now_ms();
    EXPECT(GONE, cuStreamSynchronize(stream));
    CHECK(now_ms() - before < 10000, "16 s of kernels behind the fault ran on: %lld ms", (long long)(now_ms() - before));
    every_call(of, slow, stream, event, exec, data);
    for (int i = 0; i < 60000 && !result; i++)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    CHECK(called == 0 && result == GONE, "the function was called %d times, the callback was told %d", called, result);
    /* What is destroyed is gone, but the context stays as it is. */
    EXPECT(GONE, cuStreamDestroy_v2(beside));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuStreamDestroy_v2(beside));
    EXPECT(GONE, cuEventDestroy_v2(event));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuEventDestroy_v2(event));
    EXPECT(GONE, cuModuleUnload(of));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuModuleUnload(of));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    /* Another context of the program never noticed. */
    OK(cuCtxSetCurrent(other));
    put(healthy, elsewhere, 1, 5, NULL);
    CHECK(value_at(elsewhere) == 5, "%d", value_at(elsewhere));
    OK(cuCtxDestroy_v2(other));
    /* A new context is a new life. */
    OK(cuCtxSetCurrent(current));
    EXPECT(GONE, cuMemAlloc_v2(&at, 16));
    OK(cuDevicePrimaryCtxReset_v2(0));
    EXPECT(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuMemAlloc_v2(&at, 16));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuStreamQuery(stream));
    OK(cuDevicePrimaryCtxRetain(&current, 0));
    OK(cuMemAlloc_v2(&at, 16));
    of = load();
    put(function(of, "times"), at, 0, 9, NULL);
    CHECK(value_at(at) == 9, "%d", value_at(at));
    OK(cuModuleUnload(of));
    OK(cuMemFree_v2(at));
}

/* Not yet due is not yet wrong. */
static void test_not_yet(void)
{
    CUstream stream;
    CUdeviceptr bad = 1ull << 60, data = zeroes(4);
    CUmodule of = load();
    CUfunction slow = function(of, "slow_times"), store = function(of, "store");
    OK(cuStreamCreate(&stream, 1));
    for (int i = 0; i < 50; i++)
        put(slow, data, 1, 1, stream);          /* 2 s */
    void *params[] = {&bad};
    OK(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
    put(slow, data, 1, 1, stream);
    /* It is computed long before it is due. */
    nanosleep(&(struct timespec){0, 20000000}, NULL);
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
    EXPECT(GONE, cuStreamSynchronize(stream));
    EXPECT(GONE, cuStreamQuery(stream));
    OK(cuDevicePrimaryCtxReset_v2(0));
    CUcontext ctx;
    OK(cuDevicePrimaryCtxRetain(&ctx, 0));
}

/* Handles of things that are gone, and of other kinds. */
static void test_handles(void)
{
    CUcontext ctx, first;
    CUstream stream, kept;
    CUevent event, of_other;
    CUmodule of;
    float ms;
    unsigned long long id;
    char value[64] = {0};
    OK(cuCtxGetCurrent(&first));
    OK(cuStreamCreate(&kept, 0));
    OK(cuEventCreate(&event, 0));
    OK(cuCtxCreate_v2(&ctx, 0, 0));
    OK(cuStreamCreate(&stream, 0));
    OK(cuEventCreate(&of_other, 0));
    of = load();
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuEventRecord(event, stream));            /* of another context */
    OK(cuEventRecord(of_other, stream));
    OK(cuStreamWaitEvent(kept, of_other, 0));                                   /* that is allowed */
    OK(cuCtxDestroy_v2(ctx));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuStreamSynchronize(stream));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuStreamDestroy_v2(stream));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuStreamWaitEvent(kept, of_other, 0));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuEventQuery(of_other));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuModuleUnload(of));
    EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuCtxSetCurrent(ctx));
    EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuCtxDestroy_v2(ctx));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuStreamSynchronize((CUstream)event));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuEventQuery((CUevent)kept));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuEventQuery(NULL));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuStreamWaitEvent(kept, NULL, 0));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuStreamGetId((CUstream)((char *)kept + 8), &id));
    OK(cuCtxSetCurrent(first));
    /* Events: never recorded, recorded once, again, without times. */
    CUevent quiet, never_recorded;
    OK(cuEventCreate(&quiet, 2));
    OK(cuEventCreate(&never_recorded, 0));
    OK(cuEventQuery(never_recorded));
    OK(cuEventSynchronize(never_recorded));
    OK(cuStreamWaitEvent(kept, never_recorded, 0));
    OK(cuEventRecord(event, kept));
    OK(cuEventRecord(quiet, kept));
    OK(cuEventSynchronize(event));
    OK(cuEventElapsedTime_v2(&ms, event, event));
    CHECK(ms == 0, "%f", (double)ms);
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime_v2(&ms, event, never_recorded));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime_v2(&ms, quiet, event));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuEventElapsedTime_v2(NULL, event, event));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuEventRecordWithFlags(event, kept, 2));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamWaitEvent(kept, event, 2));
    /* Attributes of streams. */
    CUstream urgent;
    OK(cuStreamCreateWithPriority(&urgent, 1, -2));
    OK(cuStreamGetAttribute(urgent, 8, value));
    CHECK(*(int *)value == -2, "%d", *(int *)value);
    OK(cuStreamGetAttribute(urgent, 3, value));
    CHECK(*(int *)value == 1, "%d", *(int *)value);
    *(int *)value = 4;
    OK(cuStreamSetAttribute(urgent, 3, value));
    OK(cuStreamCopyAttributes(kept, urgent));
    OK(cuStreamGetAttribute(kept, 3, value));
    CHECK(*(int *)value == 4, "%d", *(int *)value);
    OK(cuStreamGetAttribute(kept, 8, value));
    CHECK(*(int *)value == 0, "%d", *(int *)value);
    *(int *)value = 9;
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamSetAttribute(urgent, 3, value));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamSetAttribute(urgent, 2, value));
    EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuStreamSetAttribute(urgent, 8, value));
    OK(cuStreamDestroy_v2(urgent));
    OK(cuStreamDestroy_v2(kept));
    OK(cuEventDestroy_v2(event));
    OK(cuEventDestroy_v2(quiet));
    OK(cuEventDestroy_v2(never_recorded));
}

int main(void)
{
    begin_graphs();
    OK(cuModuleUnload(module));
    test_handles();
    test_when_due();
    test_not_yet();
    (void)times;
    (void)slow_times;
    return check_summary("sticky");
}
