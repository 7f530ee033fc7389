/* test_shapes.c: graphs of all shapes: random ones, long ones, wide ones, over two contexts. */
#include <pthread.h>
#include <time.h>

#include "graphs.h"

static CUcontext ctx;

/* Random graphs of host functions and kernels: whatever waits for something comes behind it, at every launch. */
enum { MANY = 120 };
static pthread_mutex_t order_lock = PTHREAD_MUTEX_INITIALIZER;
static int order[MANY], called;
static void note(void *number)
{
    pthread_mutex_lock(&order_lock);
    if (called < MANY)
        order[called++] = (int)(intptr_t)number;
    pthread_mutex_unlock(&order_lock);
}

static void test_random(void)
{
    unsigned seed = (unsigned)time(NULL);
    CUdeviceptr data = zeroes(4 * MANY);
    CUstream stream;
    OK(cuStreamCreate(&stream, 1));
    printf("seed %u\n", seed);
    for (int round = 0; round < 30; round++) {
        CUgraph graph;
        CUgraphNode node[MANY], from[MANY];
        static bool edge[MANY][MANY];
        int place[MANY], hosts = 0, kernels = 0;
        memset(edge, 0, sizeof edge);
        OK(cuGraphCreate(&graph, 0));
        for (int i = 0; i < MANY; i++) {
            size_t count = 0;
            for (int j = 0; j < i && count < 4; j++)
                if (rand_r(&seed) % (unsigned)(1 + i / (1 + round % 5)) == 0) {
                    edge[j][i] = true;
                    from[count++] = node[j];
                }
            if (rand_r(&seed) % 3) {
                CUDA_HOST_NODE_PARAMS p = {note, (void *)(intptr_t)i};
                OK(cuGraphAddHostNode(&node[i], graph, from, count, &p));
                hosts++;
            } else {
                node[i] = add_kernel(graph, from, count, times, data + (CUdeviceptr)(4 * i), 1, 1);
                kernels++;
            }
        }
        CUgraphExec exec = instance(graph);
        for (int launch = 1; launch <= 2; launch++) {
            called = 0;
            OK(cuGraphLaunch(exec, stream));
            OK(cuStreamSynchronize(stream));
            CHECK(called == hosts, "%d of %d called", called, hosts);
            memset(place, -1, sizeof place);
            for (int i = 0; i < called; i++)
                place[order[i]] = i;
            for (int i = 0; i < MANY; i++)
                for (int j = 0; j < MANY; j++)
                    if (edge[j][i] && place[j] >= 0 && place[i] >= 0)
                        CHECK(place[j] < place[i], "round %d: %d ran before %d", round, i, j);
        }
        OK(cuGraphExecDestroy(exec));
        OK(cuGraphDestroy(graph));
        int total = 0, values[MANY];
        OK(cuMemcpyDtoH_v2(values, data, sizeof values));
        OK(cuMemsetD8_v2(data, 0, sizeof values));
        for (int i = 0; i < MANY; i++)
            total += values[i];
        CHECK(total == 2 * kernels, "%d of %d kernels", total, 2 * kernels);
    }
    OK(cuStreamDestroy_v2(stream));
    OK(cuMemFree_v2(data));
}

/* Long, wide, and many joins. */
static void test_large(void)
{
    CUdeviceptr data = zeroes(4);
    CUgraph graph;
    OK(cuGraphCreate(&graph, 0));
    CUgraphNode last = NULL;
    for (int i = 0; i < 5000; i++)
        last = add_kernel(graph, &last, last != NULL, times, data, 1, 1);
    CUgraphNode wide[300], join;
    for (int stage = 0; stage < 10; stage++) {
        for (int i = 0; i < 300; i++)
            OK(cuGraphAddEmptyNode(&wide[i], graph, &last, 1));
        OK(cuGraphAddEmptyNode(&join, graph, wide, 300));
        last = add_kernel(graph, &join, 1, times, data, 1, 1);
    }
    CUgraphExec exec = instance(graph);
    OK(cuGraphDestroy(graph));
    OK(cuGraphLaunch(exec, NULL));
    OK(cuGraphLaunch(exec, NULL));
    CHECK(value_at(data) == 10020, "%d", value_at(data));
    OK(cuGraphExecDestroy(exec));
    OK(cuMemFree_v2(data));
}

/* Nodes of two contexts, one of which is not the stream's. */
static void test_contexts(void)
{
    CUcontext other;
    CUgraph graph;
    CUgraphNode here, there;
    CUgraphExec exec;
    CUstream stream;
    CUdeviceptr data = zeroes(4);
    OK(cuStreamCreate(&stream, 1));
    OK(cuCtxCreate_v2(&other, 0, 0));
    CUmodule second = load();
    CUfunction in_other = function(second, "times");
    OK(cuCtxSetCurrent(ctx));
    OK(cuGraphCreate(&graph, 0));
    there = add_kernel(graph, NULL, 0, in_other, data, 1, 3);
    here = add_kernel(graph, &there, 1, times, data, 10, 0);
    add_kernel(graph, &here, 1, in_other, data, 1, 4);
    exec = instance(graph);
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    CHECK(value_at(data) == 34, "%d", value_at(data));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphExecKernelNodeSetParams_v2(exec, here, &(CUDA_KERNEL_NODE_PARAMS){.func = in_other, 1, 1, 1, 1, 1, 1}));
    OK(cuCtxPushCurrent_v2(other));
    OK(cuModuleUnload(second));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuGraphLaunch(exec, stream));
    OK(cuCtxDestroy_v2(other));
    OK(cuCtxSetCurrent(ctx));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuGraphLaunch(exec, stream));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    OK(cuStreamDestroy_v2(stream));
    OK(cuMemFree_v2(data));
}

int main(void)
{
    begin_graphs();
    OK(cuCtxGetCurrent(&ctx));
    test_random();
    test_large();
    test_contexts();
    (void)slow_times;
    return check_summary("shapes");
}
