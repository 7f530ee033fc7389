/* test_orphans.c: the device process is killed while threads of a program wait for it in every way there is. Each gets an error that stays, none
 * hangs, the program ends as usual, and the next program of the node has a new device. */
#include <pthread.h>
#include <time.h>

#include "node_process.h"
#include "two.h"

enum { WAYS = 10 };

static CUcontext ctx;
static CUmodule loaded;
static CUdeviceptr data;
static _Atomic int working;

static CUresult launch(CUstream stream, const char *name)
{
    static const int one = 1;
    CUfunction f = NULL;
    void *params[] = {&data, (void *)(uintptr_t)&one, (void *)(uintptr_t)&one};
    CUresult result = cuModuleGetFunction(&f, loaded, name);
    return result ? result : cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
}

static void nothing(void *unused) { (void)unused; }

/* One of the ways in which a thread may wait for the device. */
static CUresult wait_once(int way, CUstream stream, CUevent event)
{
    CUdeviceptr at;
    CUresult result = CUDA_SUCCESS;
    static char host[1 << 16];
    switch (way) {
    case 0: return (result = launch(stream, "slow_times")) ? result : cuStreamSynchronize(stream);
    case 1: return (result = launch(stream, "slow_times")) ? result : cuCtxSynchronize();
    case 2:
        result = launch(stream, "slow_times");
        result = result ? result : cuEventRecord(event, stream);
        return result ? result : cuEventSynchronize(event);
    case 3: return launch(stream, "slow_times");        /* until the ring is full */
    case 4: return (result = cuMemAlloc_v2(&at, 4096)) ? result : cuMemFree_v2(at);
    case 5: return cuMemcpyDtoH_v2(host, data, 4);
    case 6: return (result = cuLaunchHostFunc(stream, nothing, NULL)) ? result : cuStreamSynchronize(stream);
    case 7: return (result = cuMemAllocAsync(&at, 1 << 20, stream)) ? result : cuMemFreeAsync(at, stream);
    case 8:
        result = launch(stream, "times");
        while (!result && (result = cuStreamQuery(stream)) == CUDA_ERROR_NOT_READY)
            result = CUDA_SUCCESS;
        return result;
    default: return (result = cuStreamCreate(&stream, 1)) ? result : cuStreamDestroy_v2(stream);
    }
}

static void *worker(void *way)
{
    CUstream stream = NULL;
    CUevent event = NULL;
    CUresult result = cuCtxSetCurrent(ctx);
    result = result ? result : cuStreamCreate(&stream, 1);
    result = result ? result : cuEventCreate(&event, (int)(intptr_t)way % 2 ? CU_EVENT_DISABLE_TIMING : 0);
    working++;
    while (!result)
        result = wait_once((int)(intptr_t)way, stream, event);
    if (result != CUDA_ERROR_UNKNOWN)
        return (void *)(intptr_t)result;
    result = wait_once((int)(intptr_t)way, stream, event);      /* for ever */
    return (void *)(intptr_t)result;
}

static void orphan(int socket)
{
    pthread_t threads[WAYS];
    void *result;
    ctx = start();
    loaded = load();
    data = zeroes(4096);
    for (int i = 0; i < WAYS; i++)
        pthread_create(&threads[i], NULL, worker, (void *)(intptr_t)i);
    while (working < WAYS)
        usleep(1000);
    usleep(200000);                     /* in the middle of it */
    kill(device_process(), SIGKILL);
    struct timespec before, after;
    clock_gettime(CLOCK_MONOTONIC, &before);
    for (int i = 0; i < WAYS; i++) {
        pthread_join(threads[i], &result);
        CHECK((intptr_t)result == CUDA_ERROR_UNKNOWN, "way %d: %d", i, (int)(intptr_t)result);
    }
    clock_gettime(CLOCK_MONOTONIC, &after);
    CHECK(after.tv_sec - before.tv_sec < 30, "%ld s until all knew", (long)(after.tv_sec - before.tv_sec));
    EXPECT(CUDA_ERROR_UNKNOWN, cuCtxSynchronize());
    EXPECT(CUDA_ERROR_UNKNOWN, cuMemAlloc_v2(&data, 64));
    OK(cuDevicePrimaryCtxRelease_v2(0));
    nudge(socket);
}

static void heir(int socket)
{
    await(socket);
    start();
    zeroes(64);
}

int main(void)
{
    both("a killed device process", orphan, heir, false);
    return check_summary("orphans");
}
