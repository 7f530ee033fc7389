/* test_launch.c: launches of every kind, their parameters and limits, and what a kernel that goes wrong leaves behind. */
#include <pthread.h>
#include <string.h>

#include "driver.h"

static CUmodule module;

static int value_at(CUdeviceptr at)
{
    int value = -1;
    OK(cuMemcpyDtoH_v2(&value, at, sizeof value));
    return value;
}

/* Every way to launch adds 1 to each of 1000 elements. */
static void test_ways(void)
{
    CUfunction add = function(module, "add");
    CUdeviceptr data = zeroes(4000);
    int one = 1, count = 1000, expected = 0;
    void *params[] = {&data, &one, &count};
    struct { CUdeviceptr data; int value, count; } block = {data, 1, 1000};
    size_t size = sizeof block;
    void *extra[] = {(void *)1, &block, (void *)2, &size, NULL};
    CUstream stream;
    OK(cuStreamCreate(&stream, 0));
    CUlaunchAttribute attributes[] = {{.id = 2, .value.number = 1}, {.id = 8, .value.number = -1}};
    CUlaunchConfig config = {4, 1, 1, 256, 1, 1, 0, stream, attributes, 2};
    CUDA_LAUNCH_PARAMS multi = {add, 4, 1, 1, 256, 1, 1, 0, stream, params};

    OK(cuLaunchKernel(add, 4, 1, 1, 256, 1, 1, 0, NULL, params, NULL));
    expected++;
    OK(cuLaunchKernel(add, 4, 1, 1, 256, 1, 1, 0, stream, NULL, extra));
    expected++;
    OK(cuLaunchKernel_ptsz(add, 2, 2, 1, 16, 16, 1, 0, NULL, params, NULL));
    expected++;
    OK(cuStreamSynchronize_ptsz(NULL));
    OK(cuLaunchKernelEx(&config, add, params, NULL));
    expected++;
    OK(cuLaunchCooperativeKernel(add, 4, 1, 1, 256, 1, 1, 0, stream, params));
    expected++;
    OK(cuLaunchCooperativeKernelMultiDevice(&multi, 1, 0));
    expected++;
    OK(cuFuncSetBlockShape(add, 250, 1, 1));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuLaunchGrid(add, 4, 1));       /* no parameters yet */
    OK(cuParamSetv(add, 0, &data, sizeof data));
    OK(cuParamSeti(add, 8, 1));
    OK(cuParamSeti(add, 12, 1000));
    OK(cuParamSetSize(add, 16));
    OK(cuLaunchGrid(add, 2, 2));
    expected++;
    OK(cuLaunchGridAsync(add, 4, 1, stream));
    expected++;
    OK(cuFuncSetBlockShape(add, 1000, 1, 1));
    OK(cuLaunch(add));
    expected++;

    CUgraph graph;
    CUgraphExec exec;
    size_t nodes = 0;
    OK(cuStreamBeginCapture_v2(stream, 0));
    OK(cuLaunchKernel(add, 4, 1, 1, 256, 1, 1, 0, stream, params, NULL));
    OK(cuLaunchKernel(add, 4, 1, 1, 256, 1, 1, 0, stream, params, NULL));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphGetNodes(graph, NULL, &nodes));
    CHECK(nodes == 2, "%zu nodes", nodes);
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphDestroy(graph));
    OK(cuGraphLaunch(exec, stream));
    expected += 2;
    OK(cuGraphLaunch(exec, NULL));
    expected += 2;
    OK(cuCtxSynchronize());
    OK(cuGraphExecDestroy(exec));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphLaunch(exec, stream));

    int got[1000];
    OK(cuMemcpyDtoH_v2(got, data, sizeof got));
    CHECK(got[0] == expected && got[999] == expected, "%d and %d, not %d", got[0], got[999], expected);
    OK(cuStreamDestroy_v2(stream));
    OK(cuMemFree_v2(data));
}

static void test_libraries(void)
{
    CUlibrary library;
    CUkernel kernel;
    CUfunction f;
    CUmodule made;
    CUdeviceptr out = zeroes(4);
    int value;
    OK(cuLibraryLoadData(&library, ".version 8.0", NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&kernel, library, "global"));
    EXPECT(CUDA_ERROR_NOT_FOUND, cuLibraryGetKernel(&kernel, library, "nothing"));
    OK(cuLibraryGetModule(&made, library));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuModuleUnload(made));
    OK(cuKernelGetFunction(&f, kernel));
    OK(cuKernelGetAttribute(&value, CU_FUNC_MAX_THREADS, kernel, 0));
    CHECK(value == 1024, "%d", value);
    OK(cuKernelSetAttribute(CU_FUNC_MAX_DYNAMIC_SHARED, 100000, kernel, 0));
    OK(cuFuncGetAttribute(&value, CU_FUNC_MAX_DYNAMIC_SHARED, f));
    CHECK(value == 100000, "%d", value);
    /* A kernel of a library is launched by its own handle too. Its variables are its own, not those of the other module. */
    void *params[] = {&out};
    OK(cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    CHECK(value_at(out) == 1002, "%d", value_at(out));
    OK(cuLaunchKernel(function(module, "global"), 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    CHECK(value_at(out) == 1001, "%d", value_at(out));
    CUdeviceptr base;
    size_t size;
    OK(cuModuleGetGlobal_v2(&base, &size, module, "base"));
    CHECK(size == 4 && value_at(base) == 1000, "%zu", size);
    OK(cuMemsetD32_v2(base, 5, 1));
    OK(cuLaunchKernel(function(module, "global"), 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    CHECK(value_at(out) == 7, "%d", value_at(out));
    EXPECT(CUDA_ERROR_NOT_FOUND, cuModuleGetGlobal_v2(&base, &size, module, "nothing"));
    OK(cuLibraryUnload(library));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuLibraryUnload(library));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    OK(cuMemFree_v2(out));
}

static void test_limits(void)
{
    CUfunction shape = function(module, "shape"), trap = function(module, "trap");
    CUdeviceptr out = zeroes(80);
    void *params[] = {&out}, *null_params[] = {NULL};
    uint64_t got[10];
    int value, blocks;
    size_t offset, size;
    OK(cuLaunchKernel(shape, 3, 4, 5, 8, 4, 2, 2048, NULL, params, NULL));
    OK(cuMemcpyDtoH_v2(got, out, sizeof got));
    const uint64_t expected[10] = {3, 4, 5, 8, 4, 2, 2048, 0, 60, 108};
    CHECK(!memcmp(got, expected, sizeof got), "the kernel saw another launch");
    /* More than 2^32 blocks in the product of the sides. */
    OK(cuLaunchKernel(shape, 0x7fffffff, 65535, 2, 1, 1, 1, 0, NULL, params, NULL));
    OK(cuMemcpyDtoH_v2(got, out, sizeof got));
    CHECK(got[8] == 0x7fffffffull * 65535 * 2, "%llu blocks", (unsigned long long)got[8]);
    const struct { unsigned g[3], b[3], shared; } bad[] = {
        {{0, 1, 1}, {1, 1, 1}, 0}, {{1, 1, 1}, {0, 1, 1}, 0}, {{1, 1, 1}, {1, 1, 0}, 0}, {{1, 1, 1}, {1025, 1, 1}, 0},
        {{1, 1, 1}, {1, 1, 65}, 0}, {{1, 65536, 1}, {1, 1, 1}, 0}, {{1, 1, 65536}, {1, 1, 1}, 0}, {{0x80000000, 1, 1}, {1, 1, 1}, 0},
        {{1, 1, 1}, {513, 1, 1}, 0}, {{1, 1, 1}, {32, 32, 2}, 0}, {{1, 1, 1}, {1, 1, 1}, 48 * 1024 - 1024 + 1}, {{1, 1, 1}, {1, 1, 1}, ~0u}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(shape, bad[i].g[0], bad[i].g[1], bad[i].g[2], bad[i].b[0], bad[i].b[1],
                                                        bad[i].b[2], bad[i].shared, NULL, params, NULL));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuFuncSetAttribute(shape, CU_FUNC_MAX_DYNAMIC_SHARED, 166912 - 1024 + 1));
    OK(cuFuncSetAttribute(shape, CU_FUNC_MAX_DYNAMIC_SHARED, 166912 - 1024));
    OK(cuLaunchKernel(shape, 1, 1, 1, 1, 1, 1, 166912 - 1024, NULL, params, NULL));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(shape, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(shape, 1, 1, 1, 1, 1, 1, 0, NULL, null_params, NULL));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(shape, 1, 1, 1, 1, 1, 1, 0, NULL, params, params));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuLaunchKernel((CUfunction)module, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuLaunchKernel(shape, 1, 1, 1, 1, 1, 1, 0, (CUstream)shape, params, NULL));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuLaunchKernelEx(NULL, shape, params, NULL));
    EXPECT(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, cuLaunchCooperativeKernel(trap, 100000, 1, 1, 1024, 1, 1, 0, NULL, NULL));
    CUlaunchAttribute cluster = {.id = 4, .value.dim = {2, 1, 1}};
    EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuLaunchKernelEx(&(CUlaunchConfig){2, 1, 1, 1, 1, 1, 0, NULL, &cluster, 1}, shape, params, NULL));
    OK(cuFuncGetAttribute(&value, CU_FUNC_SHARED_SIZE, shape));
    CHECK(value == 1024, "%d", value);
    OK(cuFuncGetAttribute(&value, CU_FUNC_BINARY_VERSION, shape));
    CHECK(value == 80, "%d", value);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuFuncGetAttribute(&value, 99, shape));
    OK(cuFuncGetParamInfo(function(module, "add"), 2, &offset, &size));
    CHECK(offset == 12 && size == 4, "%zu %zu", offset, size);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuFuncGetParamInfo(function(module, "add"), 3, &offset, &size));
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function(module, "add"), 1024, 0));
    CHECK(blocks == 2, "%d blocks of 1024 threads", blocks);
    /* Parameters are copied when the kernel is launched, long ones too. */
    struct { unsigned char bytes[3000]; } long_one;
    memset(&long_one, 3, sizeof long_one);
    void *long_params[] = {&out, &long_one};
    OK(cuLaunchKernel(function(module, "big"), 1, 1, 1, 1, 1, 1, 0, NULL, long_params, NULL));
    memset(&long_one, 0, sizeof long_one);
    CHECK(value_at(out) == 9000, "%d", value_at(out));
    OK(cuMemFree_v2(out));
}

/* A kernel that faults: the context is lost for good, the process is not, and a reset brings a new one. */
static void test_fault(CUdeviceptr target, const char *kernel, CUresult expected)
{
    CUdeviceptr data = zeroes(16);
    CUstream stream;
    size_t left;
    void *params[] = {&target};
    CUfunction f = function(module, kernel);
    OK(cuStreamCreate(&stream, 0));
    OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
    EXPECT(expected, cuStreamSynchronize(stream));
    EXPECT(expected, cuCtxSynchronize());
    EXPECT(expected, cuMemAlloc_v2(&data, 16));
    EXPECT(expected, cuMemGetInfo_v2(&left, NULL));
    EXPECT(expected, cuStreamQuery(stream));
    EXPECT(expected, cuModuleGetFunction(&f, module, kernel));
    EXPECT(expected, cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

static void reset(void)
{
    CUcontext ctx;
    CUdeviceptr at;
    OK(cuDevicePrimaryCtxReset_v2(0));
    EXPECT(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuMemAlloc_v2(&at, 16));
    OK(cuDevicePrimaryCtxRetain(&ctx, 0));
    OK(cuCtxSetCurrent(ctx));
    module = load();
}

struct thread_work { CUcontext ctx; CUdeviceptr data; int failures; };

static void *launch_many(void *argument)
{
    struct thread_work *work = argument;
    CUstream stream;
    CUfunction add;
    int one = 1, count = 256;
    void *params[] = {&work->data, &one, &count};
    work->failures += cuCtxSetCurrent(work->ctx) != 0;
    work->failures += cuStreamCreate(&stream, 1) != 0;
    work->failures += cuModuleGetFunction(&add, module, "add") != 0;
    for (int i = 0; i < 2000; i++)
        work->failures += cuLaunchKernel(add, 1, 1, 1, 256, 1, 1, 0, stream, params, NULL) != 0;
    work->failures += cuStreamSynchronize(stream) != 0;
    work->failures += cuStreamDestroy_v2(stream) != 0;
    return NULL;
}

static void test_threads(CUcontext ctx)
{
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    struct thread_work work[THREADS];
    for (int i = 0; i < THREADS; i++) {
        work[i] = (struct thread_work){ctx, zeroes(1024), 0};
        pthread_create(&threads[i], NULL, launch_many, &work[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        CHECK(!work[i].failures && value_at(work[i].data) == 2000, "thread %d: %d failures, %d", i, work[i].failures, value_at(work[i].data));
        OK(cuMemFree_v2(work[i].data));
    }
}

int main(void)
{
    CUcontext ctx = start();
    module = load();
    test_ways();
    test_libraries();
    test_limits();
    test_threads(ctx);
    test_fault(8, "store", CUDA_ERROR_ILLEGAL_ADDRESS);
    reset();
    test_fault(~0ull << 8, "store", CUDA_ERROR_ILLEGAL_ADDRESS);
    reset();
    test_fault(0, "trap", CUDA_ERROR_LAUNCH_FAILED);
    reset();
    /* Freed device memory is out of bounds as well. */
    CUdeviceptr gone = zeroes(4 << 20);
    OK(cuMemFree_v2(gone));
    test_fault(gone, "store", CUDA_ERROR_ILLEGAL_ADDRESS);
    reset();
    test_ways();
    return check_summary("launch");
}
