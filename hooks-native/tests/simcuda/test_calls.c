/* test_calls.c: host functions in streams: when they run, on which thread, what they hold up and what not. */
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "graphs.h"
#include "held.h"

CUresult cuMemsetD32Async(CUdeviceptr, unsigned, size_t, CUstream);

static CUcontext ctx;
static CUdeviceptr data;

static void post(void *semaphore) { sem_post(semaphore); }
static void bump(void *at) { ++*(_Atomic int *)at; }

/* While a host function waits, kernels and functions of other streams go on; what comes behind it does not, in any stream. */
static void test_holds_up(void)
{
    sem_t gate, reached;
    CUstream held, behind, free_stream;
    CUevent event, third;
    sem_init(&reached, 0, 0);
    OK(cuMemsetD8_v2(data, 0, 64));
    OK(cuStreamCreate(&held, 1));
    OK(cuStreamCreate(&behind, 1));
    OK(cuStreamCreate(&free_stream, 1));
    OK(cuEventCreate(&event, 0));
    OK(cuEventCreate(&third, 0));
    put(times, data, 1, 1, held);
    OK(cuLaunchHostFunc(held, post, &reached));
    hold(held, &gate);
    put(times, data, 10, 2, held);
    OK(cuEventRecord(event, held));
    OK(cuStreamWaitEvent(behind, event, 0));
    put(times, data, 10, 3, behind);
    OK(cuEventRecord(third, behind));
    put(times, data + 4, 1, 7, free_stream);    /* was submitted later, and is computed and done now */
    OK(cuStreamSynchronize(free_stream));
    sem_wait(&reached);
    CHECK(value_at(data + 4) == 7, "%d", value_at(data + 4));
    EXPECT(CUDA_ERROR_NOT_READY, cuEventQuery(event));
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(behind));
    CHECK(value_at(data) == 1, "%d: what is behind the function ran", value_at(data));
    /* Later work may wait for what waits: it is computed in order all the same. */
    OK(cuStreamWaitEvent(free_stream, third, 0));
    put(times, data, 10, 4, free_stream);
    CHECK(value_at(data) == 1, "%d", value_at(data));
    go_on(&gate);
    OK(cuStreamSynchronize(free_stream));
    CHECK(value_at(data) == 1234, "%d", value_at(data));
    OK(cuStreamDestroy_v2(held));
    OK(cuStreamDestroy_v2(behind));
    OK(cuStreamDestroy_v2(free_stream));
    OK(cuEventDestroy_v2(event));
    OK(cuEventDestroy_v2(third));
    sem_destroy(&reached);
}

struct seen { pthread_t thread; CUresult result; CUstream stream; CUresult given; };

static void call_back(CUstream stream, CUresult result, void *at)
{
    struct seen *seen = at;
    CUdeviceptr unused;
    seen->thread = pthread_self();
    seen->result = cuMemAlloc_v2(&unused, 16);
    seen->stream = stream;
    seen->given = result;
}

/* Not on the program's thread; and it may not call the driver. */
static void test_callback(void)
{
    struct seen seen = {.result = -1, .given = -1};
    CUstream stream;
    OK(cuStreamCreate(&stream, 0));
    OK(cuStreamAddCallback(stream, call_back, &seen, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamAddCallback(stream, call_back, &seen, 1));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamAddCallback(stream, NULL, &seen, 0));
    OK(cuStreamSynchronize(stream));
    CHECK(!pthread_equal(seen.thread, pthread_self()), "on the caller's thread");
    CHECK(seen.result == CUDA_ERROR_NOT_PERMITTED, "%d", seen.result);
    CHECK(seen.stream == stream && seen.given == 0, "%d", seen.given);
    OK(cuStreamDestroy_v2(stream));
}

/* In the order of the stream, one at a time over all streams, none before its time. */
enum { STREAMS = 20, CALLS = 50 };
static _Atomic int running, most;
static int last[STREAMS];
static _Atomic int wrong;
static void ordered(void *at)
{
    int number = (int)(intptr_t)at, now = ++running;
    if (now > most)
        most = now;
    if (last[number / CALLS] != number % CALLS)
        wrong++;
    last[number / CALLS] = number % CALLS + 1;
    running--;
}

static void test_many(void)
{
    CUstream streams[STREAMS];
    OK(cuMemsetD8_v2(data, 0, 4 * STREAMS));
    for (int i = 0; i < STREAMS; i++)
        OK(cuStreamCreate(&streams[i], 1));
    for (int i = 0; i < CALLS; i++)
        for (int s = 0; s < STREAMS; s++) {
            put(times, data + (CUdeviceptr)(4 * s), 1, 1, streams[s]);
            OK(cuLaunchHostFunc(streams[s], ordered, (void *)(intptr_t)(s * CALLS + i)));
        }
    OK(cuCtxSynchronize());
    CHECK(!wrong && most == 1, "%d out of order, %d at a time", wrong, most);
    for (int s = 0; s < STREAMS; s++)
        CHECK(value_at(data + (CUdeviceptr)(4 * s)) == CALLS && last[s] == CALLS, "%d", last[s]);
    for (int i = 0; i < STREAMS; i++)
        OK(cuStreamDestroy_v2(streams[i]));
}

/* Streams go away with functions in them. */
static void test_destroyed(void)
{
    _Atomic int called = 0;
    for (int i = 0; i < 50; i++) {
        CUstream stream;
        OK(cuStreamCreate(&stream, i % 2));
        if (i % 5 == 0)
            put(slow_times, data, 1, 1, stream);
        OK(cuLaunchHostFunc(stream, bump, (void *)&called));
        OK(cuStreamDestroy_v2(stream));
    }
    OK(cuCtxSynchronize());
    CHECK(called == 50, "%d", called);
    OK(cuLaunchHostFunc(NULL, bump, (void *)&called));
    OK(cuLaunchHostFunc(CU_STREAM_PER_THREAD, bump, (void *)&called));
    OK(cuCtxSynchronize());
    CHECK(called == 52, "%d", called);
}

/* A random net of streams, events, kernels and functions: the values say that all came in the order that was asked for. */
static void test_random(void)
{
    enum { N = 8, STEPS = 400 };
    unsigned seed = (unsigned)time(NULL);
    CUstream stream[N];
    CUevent event[N];
    static unsigned expected[N];
    _Atomic int called = 0;
    int calls = 0;
    printf("seed %u\n", seed);
    for (int i = 0; i < N; i++) {
        OK(cuStreamCreate(&stream[i], 1));
        OK(cuEventCreate(&event[i], 2));
    }
    for (int round = 0; round < 10; round++) {
        /* One place of memory: a token goes from stream to stream, by events; who has it may write. */
        unsigned value = 0;
        int holder = 0;
        OK(cuMemsetD8_v2(data, 0, 64));
        OK(cuCtxSynchronize());
        for (int step = 0; step < STEPS; step++) {
            unsigned what = rand_r(&seed) % 8;
            if (what < 3) {
                int factor = 3, add = (int)(rand_r(&seed) % 1000);
                put(times, data, factor, add, stream[holder]);
                value = value * (unsigned)factor + (unsigned)add;
            } else if (what < 6) {
                int next = (int)(rand_r(&seed) % N);
                OK(cuEventRecord(event[holder], stream[holder]));
                OK(cuStreamWaitEvent(stream[next], event[holder], 0));
                holder = next;
            } else if (what == 6) {
                OK(cuLaunchHostFunc(stream[rand_r(&seed) % N], bump, (void *)&called));
                calls++;
            } else {
                OK(cuLaunchHostFunc(stream[holder], bump, (void *)&called));
                calls++;
            }
        }
        OK(cuCtxSynchronize());
        CHECK((unsigned)value_at(data) == value, "round %d: %u, not %u", round, (unsigned)value_at(data), value);
    }
    CHECK(called == calls, "%d of %d", called, calls);
    (void)expected;
    for (int i = 0; i < N; i++) {
        OK(cuStreamDestroy_v2(stream[i]));
        OK(cuEventDestroy_v2(event[i]));
    }
}

/* The legacy stream waits for functions in blocking streams, and they for it. */
static void test_legacy(void)
{
    sem_t gate;
    CUstream blocking;
    OK(cuMemsetD8_v2(data, 0, 64));
    OK(cuCtxSynchronize());
    OK(cuStreamCreate(&blocking, 0));
    hold(blocking, &gate);
    put(times, data, 1, 1, blocking);
    put(times, data, 10, 2, NULL);
    put(times, data, 10, 3, blocking);
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(NULL));
    go_on(&gate);
    OK(cuStreamSynchronize(blocking));
    CHECK(value_at(data) == 123, "%d", value_at(data));
    OK(cuStreamDestroy_v2(blocking));
}

int main(void)
{
    begin_graphs();
    OK(cuCtxGetCurrent(&ctx));
    data = zeroes(4096);
    test_holds_up();
    test_callback();
    test_many();
    test_destroyed();
    test_random();
    test_legacy();
    return check_summary("calls");
}
