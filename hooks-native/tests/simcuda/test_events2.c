/* test_events2.c: events that two processes have. What one computes after waiting for the other's record must see what the other
 * computed, whatever the order in which the two come to it; and a process that dies holds up nobody. */
#include <time.h>

#include "two.h"
#include "held.h"

enum { ROUNDS = 40 };

static CUevent shared_event(int socket)
{
    CUevent event = NULL;
    CUipcEventHandle handle;
    OK(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
    OK(cuIpcGetEventHandle(&handle, event));
    tell(socket, &handle, sizeof handle, -1);
    return event;
}

static CUevent other_event(int socket)
{
    CUevent event = NULL;
    CUipcEventHandle handle;
    hear(socket, &handle, sizeof handle);
    OK(cuIpcOpenEventHandle(&event, handle));
    return event;
}

static CUstream stream(void)
{
    CUstream made = NULL;
    OK(cuStreamCreate(&made, 1));
    return made;
}

/* The same words in both processes. */
static CUdeviceptr shared_words(int socket)
{
    CUdeviceptr at = zeroes(4096);
    CUipcMemHandle handle;
    OK(cuIpcGetMemHandle(&handle, at));
    tell(socket, &handle, sizeof handle, -1);
    return at;
}

static CUdeviceptr other_words(int socket)
{
    CUdeviceptr at = 0;
    CUipcMemHandle handle;
    hear(socket, &handle, sizeof handle);
    OK(cuIpcOpenMemHandle_v2(&at, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    return at;
}

static void test_rules(void)
{
    CUevent event, plain;
    CUipcEventHandle handle;
    float ms;
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuEventCreate(&event, CU_EVENT_INTERPROCESS));
    OK(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
    OK(cuEventCreate(&plain, 0));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuIpcGetEventHandle(&handle, plain));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuIpcGetEventHandle(&handle, NULL));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuIpcGetEventHandle(NULL, event));
    OK(cuIpcGetEventHandle(&handle, event));
    EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuIpcOpenEventHandle(&plain, handle));    /* one's own */
    OK(cuEventQuery(event));            /* never recorded */
    OK(cuEventSynchronize(event));
    OK(cuEventRecord(event, NULL));
    OK(cuEventSynchronize(event));
    OK(cuEventQuery(event));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime_v2(&ms, event, event));
    OK(cuEventDestroy_v2(event));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuIpcOpenEventHandle(&event, handle));     /* it is gone */
    memset(&handle, 0x11, sizeof handle);
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuIpcOpenEventHandle(&event, handle));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuIpcOpenEventHandle(NULL, handle));
}

/* A number goes to and fro over the same word, ordered by events alone: each side waits on its stream for the other's record, which it
 * only knows to be made, works on the number, and records. */
static void ping(int socket)
{
    start();
    test_rules();
    CUmodule module = load();
    CUstream s = stream();
    CUdeviceptr at = shared_words(socket);
    CUevent mine = shared_event(socket), other = other_event(socket);
    unsigned expected = 0;
    for (int i = 0; i < ROUNDS; i++) {
        times(module, i % 8 ? "times" : "late", at, 3, 1, s);
        OK(cuEventRecord(mine, s));
        nudge(socket);                  /* recorded, not reached */
        await(socket);
        OK(cuStreamWaitEvent(s, other, 0));
        expected = (expected * 3 + 1) * 5 + 2;
    }
    OK(cuStreamSynchronize(s));
    CHECK(word(at) == expected, "%u, not %u", word(at), expected);
    nudge(socket);
    await(socket);
    OK(cuEventDestroy_v2(mine));
    OK(cuEventDestroy_v2(other));
}

static void pong(int socket)
{
    start();
    CUmodule module = load();
    CUstream s = stream();
    CUdeviceptr at = other_words(socket);
    CUevent other = other_event(socket), mine = shared_event(socket);
    for (int i = 0; i < ROUNDS; i++) {
        await(socket);
        OK(cuStreamWaitEvent(s, other, 0));
        times(module, i % 7 ? "times" : "late", at, 5, 2, s);
        OK(cuEventRecord(mine, s));
        nudge(socket);
    }
    OK(cuStreamSynchronize(s));
    await(socket);
    nudge(socket);
    OK(cuEventDestroy_v2(other));
}

/* Each process waits in one stream for what the other does after waiting for this one's other stream. Computing in the order of
 * submission would never end. The event that is waited for is destroyed at once, and the waits stay. */
static void crossing_one(int socket)
{
    start();
    CUmodule module = load();
    CUstream a = stream(), b = stream(), c = stream();
    CUdeviceptr at = shared_words(socket);
    CUevent mine = shared_event(socket), other = other_event(socket), local;
    OK(cuEventCreate(&local, CU_EVENT_DISABLE_TIMING));
    for (int i = 0; i < ROUNDS; i++) {
        await(socket);                  /* its record is made, behind its wait for ours of the round before */
        OK(cuStreamWaitEvent(a, other, 0));
        times(module, "times", at, 3, 1, a);    /* after the other's addition */
        OK(cuEventRecord(local, a));
        OK(cuStreamWaitEvent(c, local, 0));
        times(module, "times", at + 8, 2, 1, c);        /* behind it, by way of a third stream */
        times(module, i % 5 ? "times" : "slow_times", at + 512, 1, 1, b);       /* free of all that */
        OK(cuEventRecord(mine, i % 2 ? a : c));
        nudge(socket);
    }
    OK(cuCtxSynchronize());
    unsigned expected = 0, behind = 0;
    for (int i = 0; i < ROUNDS; i++) {
        expected = (expected + 10) * 3 + 1;
        behind = behind * 2 + 1;
    }
    CHECK(word(at) == expected && word(at + 8) == behind && word(at + 512) == ROUNDS, "%u (%u) %u (%u) %u", word(at), expected, word(at + 8),
          behind, word(at + 512));
    nudge(socket);
    await(socket);
}

static void crossing_two(int socket)
{
    start();
    CUmodule module = load();
    CUstream s = stream();
    CUdeviceptr at = other_words(socket);
    CUevent other = other_event(socket), mine = shared_event(socket);
    for (int i = 0; i < ROUNDS; i++) {
        if (i) {
            await(socket);
            OK(cuStreamWaitEvent(s, other, 0));
        }
        times(module, i % 6 ? "times" : "late", at, 1, 10, s);
        OK(cuEventRecord(mine, s));
        nudge(socket);
    }
    await(socket);
    OK(cuStreamSynchronize(s));
    await(socket);
    nudge(socket);
}

/* Streams of one process, two of which wait for each other's past through the other process: real programs do this, and computing out
 * of order is what lets it end. */
static void knot_one(int socket)
{
    start();
    CUmodule module = load();
    CUstream a = stream(), b = stream();
    CUdeviceptr at = shared_words(socket);
    CUevent first = shared_event(socket), second = shared_event(socket), back = other_event(socket);
    sem_t gate;
    hold(b, &gate);
    times(module, "slow_times", at, 1, 1, b);
    OK(cuEventRecord(first, b));
    nudge(socket);
    await(socket);                      /* the other has recorded `back` behind `first` */
    go_on(&gate);
    OK(cuStreamWaitEvent(a, back, 0));
    OK(cuEventDestroy_v2(back));
    times(module, "times", at, 2, 0, a);        /* kept until then */
    times(module, "times", at + 64, 1, 7, b);   /* not kept */
    OK(cuEventRecord(second, b));
    nudge(socket);
    OK(cuStreamSynchronize(b));
    CHECK(word(at + 64) == 7, "%u", word(at + 64));
    OK(cuStreamSynchronize(a));
    CHECK(word(at) == (1 + 5) * 2, "%u", word(at));
    nudge(socket);
    await(socket);
}

static void knot_two(int socket)
{
    start();
    CUmodule module = load();
    CUstream s = stream(), t = stream();
    CUdeviceptr at = other_words(socket);
    CUevent first = other_event(socket), second = other_event(socket), back = shared_event(socket);
    await(socket);
    EXPECT(CUDA_ERROR_NOT_READY, cuEventQuery(first));
    OK(cuStreamWaitEvent(s, first, 0));
    times(module, "times", at, 1, 5, s);
    OK(cuEventRecord(back, s));
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(s));
    nudge(socket);
    await(socket);
    OK(cuStreamWaitEvent(t, second, 0));
    OK(cuStreamSynchronize(t));
    OK(cuEventSynchronize(first));
    OK(cuEventQuery(first));
    OK(cuStreamSynchronize(s));
    await(socket);
    nudge(socket);
}

/* The process that has recorded is killed in the middle of the work before its record. */
static void dies(int socket)
{
    start();
    CUmodule module = load();
    CUstream s = stream();
    CUevent event = shared_event(socket);
    CUdeviceptr at = zeroes(64);
    for (int i = 0; i < 50; i++)
        times(module, "slow_times", at, 1, 1, s);       /* 2 s */
    OK(cuEventRecord(event, s));
    nudge(socket);
    await(socket);
    raise(SIGKILL);
}

static void survives(int socket)
{
    start();
    CUmodule module = load();
    CUstream s = stream();
    CUevent event = other_event(socket);
    CUdeviceptr at = zeroes(64);
    await(socket);
    EXPECT(CUDA_ERROR_NOT_READY, cuEventQuery(event));
    OK(cuStreamWaitEvent(s, event, 0));
    times(module, "times", at, 1, 3, s);
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(s));
    nudge(socket);
    OK(cuEventSynchronize(event));      /* it will never come, so nobody waits for it */
    OK(cuStreamSynchronize(s));
    CHECK(word(at) == 3, "%u", word(at));
    OK(cuEventRecord(event, s));        /* and it can be used on */
    OK(cuEventSynchronize(event));
    OK(cuEventDestroy_v2(event));
}

int main(void)
{
    both("to and fro", ping, pong, false);
    both("crossing", crossing_one, crossing_two, false);
    both("knot", knot_one, knot_two, false);
    both("death", dies, survives, true);
    return check_summary("events of two processes");
}
