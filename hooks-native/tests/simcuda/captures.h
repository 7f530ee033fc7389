/* captures.h: three streams, what they are captured with, and a capture with a fork and a join. */
#ifndef SIM_TEST_CAPTURES_H
#define SIM_TEST_CAPTURES_H

#include <pthread.h>

#include "graphs.h"

static CUcontext ctx;
static CUdeviceptr data, scratch;
static CUstream a, b, c;
static CUevent forked, joined, third;

static inline void bump(void *at) { ++*(_Atomic int *)at; }

static inline void *in_thread(void *argument)
{
    CUresult (*what)(void) = (CUresult (*)(void))(uintptr_t)argument;
    OK(cuCtxSetCurrent(ctx));
    return (void *)(intptr_t)what();
}

static inline CUresult elsewhere(CUresult (*what)(void))
{
    pthread_t thread;
    void *result;
    pthread_create(&thread, NULL, in_thread, (void *)(uintptr_t)what);
    pthread_join(thread, &result);
    return (CUresult)(intptr_t)result;
}

static inline size_t edges_of(CUgraph graph, CUgraphNode from[64], CUgraphNode to[64])
{
    size_t count = 64;
    OK(cuGraphGetEdges(graph, from, to, &count));
    return count;
}

/* a: k1 → k2 beside b: k3, both → k4. */
static inline CUgraph fork_and_join(CUfunction f, int add)
{
    CUgraph graph = NULL;
    OK(cuStreamBeginCapture_v2(a, 0));
    put(f, data, 1, add, a);
    OK(cuEventRecord(forked, a));
    OK(cuStreamWaitEvent(b, forked, 0));
    put(f, data + 4, 1, add, a);
    put(f, data + 8, 1, add, b);
    OK(cuEventRecord(joined, b));
    OK(cuStreamWaitEvent(a, joined, 0));
    put(f, data, 2, 0, a);
    OK(cuStreamEndCapture(a, &graph));
    return graph;
}

static inline void begin_captures(void)
{
    begin_graphs();
    OK(cuCtxGetCurrent(&ctx));
    data = zeroes(64);
    scratch = zeroes(64);
    CUstream *streams[] = {&a, &b, &c};
    CUevent *events[] = {&forked, &joined, &third};
    for (int i = 0; i < 3; i++) {
        OK(cuStreamCreate(streams[i], 1));
        OK(cuEventCreate(events[i], 2));
    }
}

#endif
