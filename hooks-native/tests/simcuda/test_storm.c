/* test_storm.c: two devices, and threads that do everything at once. Each thread sends a value through kernels, copies and
 * memory of the pool on streams chosen at random, ordered by events only, and knows what must come out. The seed is printed and
 * can be given as the first argument. */
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "driver.h"

CUresult cuMemcpyPeer(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t);

enum { THREADS = 4, STREAMS = 3, ROUNDS = 60, STEPS = 25 };

struct worker { CUcontext ctx; CUfunction times; unsigned seed; int failures; char what[160]; };

#define MUST(call) \
    do { \
        CUresult got_ = (call); \
        if (got_ && !w->failures++) \
            snprintf(w->what, sizeof w->what, "%s is %d", #call, got_); \
    } while (0)

/* One chain: the value moves on, each step in another stream, after the step before. */
static void chain(struct worker *w, CUstream *streams, CUevent event)
{
    uint32_t expected = 1, got = 0;
    int last = 0;
    CUdeviceptr at = 0, other;
    MUST(cuMemAllocAsync(&at, 4096, streams[last]));
    MUST(cuMemcpyHtoDAsync_v2(at, &expected, 4, streams[last]));
    for (int i = 0; i < STEPS && !w->failures; i++) {
        int next = rand_r(&w->seed) % STREAMS;
        MUST(cuEventRecord(event, streams[last]));
        MUST(cuStreamWaitEvent(streams[next], event, 0));
        int factor = rand_r(&w->seed) % 1000, add = rand_r(&w->seed) % 1000;
        void *params[] = {&at, &factor, &add};
        switch (rand_r(&w->seed) % 5) {
        case 0:                         /* to new memory, and free the old one in order */
            MUST(cuMemAllocAsync(&other, 1 + (size_t)rand_r(&w->seed) % 3000000 + 4, streams[next]));
            MUST(cuMemcpyDtoDAsync_v2(other, at, 4, streams[next]));
            MUST(cuMemFreeAsync(at, streams[next]));
            at = other;
            break;
        case 1:                         /* over the host */
            MUST(cuMemcpyDtoHAsync_v2(&got, at, 4, streams[next]));
            got += 7;
            expected += 7;
            MUST(cuMemcpyHtoDAsync_v2(at, &got, 4, streams[next]));
            got = 0;
            break;
        default:
            MUST(cuLaunchKernel(w->times, 1, 1, 1, 1, 1, 1, 0, streams[next], params, NULL));
            expected = expected * (uint32_t)factor + (uint32_t)add;
        }
        last = next;
    }
    MUST(cuMemcpyDtoHAsync_v2(&got, at, 4, streams[last]));
    MUST(cuMemFreeAsync(at, streams[last]));
    if (got != expected && !w->failures++)
        snprintf(w->what, sizeof w->what, "%u came out, not %u", got, expected);
}

static void *work(void *argument)
{
    struct worker *w = argument;
    CUstream streams[STREAMS];
    CUevent event;
    MUST(cuCtxSetCurrent(w->ctx));
    for (int round = 0; round < ROUNDS && !w->failures; round++) {
        for (int i = 0; i < STREAMS; i++)
            MUST(cuStreamCreateWithPriority(&streams[i], rand_r(&w->seed) % 2, -(rand_r(&w->seed) % 3)));
        MUST(cuEventCreate(&event, 2));
        chain(w, streams, event);
        MUST(cuEventDestroy_v2(event));
        for (int i = 0; i < STREAMS; i++)
            MUST(cuStreamDestroy_v2(streams[i]));
    }
    return NULL;
}

static void test_storm(CUcontext ctx, CUmodule module, unsigned seed)
{
    pthread_t threads[THREADS];
    struct worker workers[THREADS];
    size_t before, after;
    OK(cuMemGetInfo_v2(&before, NULL));
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.ctx = ctx, .times = function(module, "times"), .seed = seed + (unsigned)i};
        pthread_create(&threads[i], NULL, work, &workers[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        CHECK(!workers[i].failures, "thread %d: %s", i, workers[i].what);
    }
    OK(cuCtxSynchronize());
    OK(cuMemGetInfo_v2(&after, NULL));
    CHECK(before == after, "%zd bytes are lost", (ssize_t)(before - after));
}

static void test_two_devices(CUcontext first)
{
    CUcontext second;
    CUmodule module;
    CUdeviceptr here, there;
    CUstream stream;
    size_t before, after;
    int value = 42, one = 1, count;
    OK(cuDeviceGetCount(&count));
    CHECK(count == 2, "%d devices", count);
    here = zeroes(4);
    OK(cuMemcpyHtoD_v2(here, &value, 4));
    OK(cuMemGetInfo_v2(&before, NULL));
    OK(cuDevicePrimaryCtxRetain(&second, 1));
    OK(cuCtxPushCurrent_v2(second));
    there = zeroes(64 << 20);
    module = load();
    OK(cuMemcpyPeer(there, second, here, first, 4));
    void *params[] = {&there, &one, &one};
    OK(cuLaunchKernel(function(module, "times"), 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    OK(cuMemcpyDtoH_v2(&value, there, 4));
    CHECK(value == 43, "%d", value);
    OK(cuStreamCreate(&stream, 0));
    OK(cuCtxPopCurrent_v2(NULL));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuLaunchKernel(function(module, "times"), 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    OK(cuLaunchKernel(function(module, "times"), 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
    OK(cuStreamSynchronize(stream));
    OK(cuMemGetInfo_v2(&after, NULL));
    CHECK(before == after, "memory of one device was taken from the other");
    /* A fault on one device leaves the other alone. */
    CUdeviceptr nowhere = 8;
    void *bad[] = {&nowhere};
    OK(cuLaunchKernel(function(module, "store"), 1, 1, 1, 1, 1, 1, 0, stream, bad, NULL));
    EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(stream));
    OK(cuCtxSynchronize());
    OK(cuMemcpyDtoH_v2(&value, here, 4));
    CHECK(value == 42, "%d", value);
    OK(cuDevicePrimaryCtxReset_v2(1));
}

int main(int argc, char **argv)
{
    unsigned seed = argc > 1 ? (unsigned)atoi(argv[1]) : (unsigned)time(NULL);
    printf("seed %u\n", seed);
    fflush(stdout);
    CUcontext ctx = start();
    test_two_devices(ctx);
    test_storm(ctx, load(), seed);
    return check_summary("storm");
}
