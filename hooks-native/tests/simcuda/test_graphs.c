/* test_graphs.c: graphs made node by node: what they look like, what their instances do, in which order, and how long it takes.
 * Kernels named slow_* take 40 ms of model time on one of many multiprocessors. */
#include "graphs.h"

static CUcontext ctx;

static void bump(void *at) { ++*(_Atomic int *)at; }

/* One kernel, two side by side, one behind both. */
static void test_diamond(void)
{
    CUdeviceptr data = zeroes(16), scratch = zeroes(4);
    CUstream stream;
    CUgraph graph;
    OK(cuStreamCreate(&stream, 1));
    OK(cuGraphCreate(&graph, 0));
    CUgraphNode a = add_kernel(graph, NULL, 0, slow_times, data, 1, 1);
    CUgraphNode b = add_kernel(graph, &a, 1, slow_times, data + 4, 1, 10);
    CUgraphNode c = add_kernel(graph, &a, 1, slow_times, data + 8, 1, 100);
    CUgraphNode both[] = {b, c};
    CUgraphNode d = add_kernel(graph, both, 2, slow_times, data + 12, 1, 1000);
    CUgraphExec exec = instance(graph);
    double ms = timed(exec, stream, scratch);
    CHECK(ms >= 120 && ms < 120.5, "%f ms", ms);
    ms = timed(exec, stream, scratch);
    CHECK(ms >= 120 && ms < 120.5, "%f ms the second time", ms);
    int seen[4];
    OK(cuMemcpyDtoH_v2(seen, data, sizeof seen));
    CHECK(seen[0] == 2 && seen[1] == 20 && seen[2] == 200 && seen[3] == 2000, "%d %d %d %d", seen[0], seen[1], seen[2], seen[3]);
    /* What it looks like. */
    CUgraphNode list[6], from[6], to[6];
    size_t count = 6;
    OK(cuGraphGetNodes(graph, NULL, &count));
    CHECK(count == 4, "%zu nodes", count);
    count = 6;
    OK(cuGraphGetNodes(graph, list, &count));
    CHECK(count == 4 && list[0] == a && list[1] == b && list[2] == c && list[3] == d && !list[4] && !list[5], "%zu nodes", count);
    count = 2;
    OK(cuGraphGetRootNodes(graph, list, &count));
    CHECK(count == 1 && list[0] == a && !list[1], "%zu roots", count);
    count = 6;
    OK(cuGraphGetEdges(graph, from, to, &count));
    CHECK(count == 4 && from[0] == a && to[0] == b && from[1] == a && to[1] == c && from[2] == b && to[2] == d && from[3] == c && to[3] == d,
          "%zu edges", count);
    count = 6;
    OK(cuGraphNodeGetDependencies(d, list, &count));
    CHECK(count == 2 && list[0] == b && list[1] == c, "%zu dependencies", count);
    count = 1;
    OK(cuGraphNodeGetDependentNodes(a, list, &count));
    CHECK(count == 1 && list[0] == b, "%zu dependent", count);
    /* Without the edges between them: all at once. */
    OK(cuGraphRemoveDependencies(graph, from, to, 4));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphRemoveDependencies(graph, from, to, 1));
    CUgraphExec flat = instance(graph);
    ms = timed(flat, stream, scratch);
    CHECK(ms >= 40 && ms < 40.5, "%f ms side by side", ms);
    OK(cuGraphAddDependencies(graph, from, to, 4));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddDependencies(graph, from, to, 1));
    OK(cuGraphExecDestroy(flat));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    OK(cuStreamDestroy_v2(stream));
    OK(cuMemFree_v2(data));
    OK(cuMemFree_v2(scratch));
}

/* Every kind of node, once. */
static void test_kinds(void)
{
    CUdeviceptr data = zeroes(64), copy = zeroes(64);
    _Atomic int called = 0;
    int source[16] = {7}, result[16] = {0};
    CUstream stream, beside;
    CUevent event, gate;
    CUgraph graph, child;
    CUgraphNode set, h2d, in_child, host, record, wait, empty, d2h, nest;
    OK(cuStreamCreate(&stream, 1));
    OK(cuStreamCreate(&beside, 1));
    OK(cuEventCreate(&event, 0));
    OK(cuEventCreate(&gate, 0));
    OK(cuGraphCreate(&child, 0));
    in_child = add_kernel(child, NULL, 0, times, data, 2, 1);
    add_kernel(child, &in_child, 1, times, data, 3, 0);
    OK(cuGraphCreate(&graph, 0));
    CUDA_MEMSET_NODE_PARAMS_v2 fill = {data, 0, 9, 4, 16, 1, NULL};
    OK(cuGraphAddMemsetNode(&set, graph, NULL, 0, &fill, ctx));
    CUDA_MEMCPY3D up = {.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = source, .dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = data,
                        .WidthInBytes = 4, .Height = 1, .Depth = 1};
    OK(cuGraphAddMemcpyNode(&h2d, graph, &set, 1, &up, ctx));
    OK(cuGraphAddChildGraphNode(&nest, graph, &h2d, 1, child));
    OK(cuGraphAddEmptyNode(&empty, graph, &nest, 1));
    CUDA_HOST_NODE_PARAMS call = {bump, (void *)&called};
    OK(cuGraphAddHostNode(&host, graph, &empty, 1, &call));
    OK(cuGraphAddEventRecordNode(&record, graph, &host, 1, event));
    OK(cuGraphAddEventWaitNode(&wait, graph, &record, 1, gate));
    CUDA_MEMCPY3D down = {.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = data, .dstMemoryType = CU_MEMORYTYPE_HOST, .dstHost = result,
                          .WidthInBytes = 64, .Height = 1, .Depth = 1};
    OK(cuGraphAddMemcpyNode(&d2h, graph, &wait, 1, &down, ctx));
    OK(cuGraphDestroy(child));                  /* the node has its own */
    CUgraphExec exec = instance(graph);
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    CHECK(result[0] == (7 * 2 + 1) * 3 && result[1] == 9 && result[15] == 9, "%d %d %d", result[0], result[1], result[15]);
    CHECK(called == 1, "called %d times", called);
    OK(cuEventQuery(event));
    /* A copy reads its source at each launch; an event that is waited for is that of the launch. */
    source[0] = 1;
    for (int i = 0; i < 25; i++)
        put(slow_times, copy, 1, 1, beside);    /* 1 s */
    OK(cuEventRecord(gate, beside));
    OK(cuGraphLaunch(exec, stream));
    OK(cuEventSynchronize(event));
    EXPECT(CUDA_ERROR_NOT_READY, cuEventQuery(gate));
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
    OK(cuStreamSynchronize(stream));
    OK(cuEventQuery(gate));
    CHECK(result[0] == 9 && called == 2, "%d, called %d times", result[0], called);
    static const struct { size_t at; int type; } types[] = {{0, NODE_MEMSET}, {1, NODE_MEMCPY}, {2, NODE_GRAPH}, {3, NODE_EMPTY}, {4, NODE_HOST},
                                                            {5, NODE_EVENT_RECORD}, {6, NODE_WAIT_EVENT}, {7, NODE_MEMCPY}};
    CUgraphNode list[8];
    size_t count = 8;
    OK(cuGraphGetNodes(graph, list, &count));
    for (size_t i = 0; i < 8; i++) {
        int type = -1;
        OK(cuGraphNodeGetType(list[i], &type));
        CHECK(type == types[i].type, "node %zu: %d", i, type);
    }
    /* And back. */
    CUDA_MEMSET_NODE_PARAMS_v2 fill_got;
    CUDA_MEMCPY3D copy_got;
    CUDA_HOST_NODE_PARAMS host_got;
    CUDA_KERNEL_NODE_PARAMS kernel_got;
    CUevent event_got;
    CUgraph child_got;
    OK(cuGraphMemsetNodeGetParams(set, &fill_got));
    CHECK(!memcmp(&fill_got, &fill, offsetof(CUDA_MEMSET_NODE_PARAMS_v2, ctx)), "memset");
    OK(cuGraphMemcpyNodeGetParams(h2d, &copy_got));
    CHECK(!memcmp(&copy_got, &up, sizeof up), "memcpy");
    OK(cuGraphHostNodeGetParams(host, &host_got));
    CHECK(host_got.fn == bump && host_got.userData == (void *)&called, "host");
    OK(cuGraphEventRecordNodeGetEvent(record, &event_got));
    CHECK(event_got == event, "event");
    OK(cuGraphChildGraphNodeGetGraph(nest, &child_got));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphDestroy(child_got));
    count = 1;
    OK(cuGraphGetRootNodes(child_got, list, &count));
    OK(cuGraphKernelNodeGetParams_v2(list[0], &kernel_got));
    CHECK(kernel_got.func == times && kernel_got.gridDimX == 1 && *(int *)kernel_got.kernelParams[1] == 2 && kernel_got.ctx == ctx, "kernel");
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphKernelNodeGetParams_v2(set, &kernel_got));
    /* What they must not be. */
    CUgraphNode none;
    CUgraphNode twice[] = {set, set};
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddEmptyNode(&none, graph, twice, 2));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddEmptyNode(&none, graph, list, 1));        /* of another graph */
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddEmptyNode(NULL, graph, NULL, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddHostNode(&none, graph, NULL, 0, &(CUDA_HOST_NODE_PARAMS){NULL, NULL}));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddEventRecordNode(&none, graph, NULL, 0, (CUevent)graph));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddChildGraphNode(&none, graph, NULL, 0, graph));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddMemsetNode(&none, graph, NULL, 0, &(CUDA_MEMSET_NODE_PARAMS_v2){data, 0, 0, 3, 1, 1, NULL}, ctx));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddMemsetNode(&none, graph, NULL, 0, &(CUDA_MEMSET_NODE_PARAMS_v2){data, 0, 0, 1, 1 << 30, 1, NULL}, ctx));
    CUgraphNodeParams alloc = {.type = 10};
    EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuGraphAddNode_v2(&none, graph, NULL, NULL, 0, &alloc));
    CUgraphEdgeData port = {.from_port = 1};
    CUgraphNodeParams nothing = {.type = NODE_EMPTY};
    EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuGraphAddNode_v2(&none, graph, &set, &port, 1, &nothing));
    OK(cuGraphAddNode_v2(&none, graph, &set, NULL, 1, &nothing));
    OK(cuGraphDestroyNode(none));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphDestroyNode(none));
    /* What a launch needs and is not there any more. */
    OK(cuEventDestroy_v2(event));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuGraphLaunch(exec, stream));
    OK(cuGraphExecEventRecordNodeSetEvent(exec, record, gate));
    OK(cuGraphLaunch(exec, stream));
    OK(cuGraphExecDestroy(exec));               /* while it runs */
    OK(cuGraphDestroy(graph));
    OK(cuStreamSynchronize(stream));
    CHECK(called == 3, "called %d times", called);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphLaunch(exec, stream));
    OK(cuEventDestroy_v2(gate));
    OK(cuStreamDestroy_v2(stream));
    OK(cuStreamDestroy_v2(beside));
    OK(cuMemFree_v2(data));
    OK(cuMemFree_v2(copy));
}

static void test_circle(void)
{
    CUdeviceptr data = zeroes(4);
    CUgraph graph;
    CUgraphExec exec;
    OK(cuGraphCreate(&graph, 0));
    CUgraphNode a = add_kernel(graph, NULL, 0, times, data, 1, 1), b = add_kernel(graph, &a, 1, times, data, 1, 1);
    CUgraphNode c = add_kernel(graph, &b, 1, times, data, 1, 1);
    OK(cuGraphAddDependencies(graph, &c, &b, 1));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphInstantiateWithFlags(&exec, graph, 0));
    CUDA_GRAPH_INSTANTIATE_PARAMS params = {0};
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphInstantiateWithParams(&exec, graph, &params));
    CHECK(params.result_out == 2 && (params.hErrNode_out == b || params.hErrNode_out == c), "%d", params.result_out);
    OK(cuGraphRemoveDependencies(graph, &c, &b, 1));
    params.flags = INSTANTIATE_UPLOAD;
    OK(cuGraphInstantiateWithParams(&exec, graph, &params));
    CHECK(params.result_out == 0 && !params.hErrNode_out, "%d", params.result_out);
    cuuint64_t flags = 99;
    OK(cuGraphExecGetFlags(exec, &flags));
    CHECK(flags == 0, "%llu", (unsigned long long)flags);
    OK(cuGraphExecDestroy(exec));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphInstantiateWithFlags(&exec, graph, 16));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphInstantiateWithFlags(&exec, graph, 5));
    EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuGraphInstantiateWithFlags(&exec, graph, INSTANTIATE_DEVICE_LAUNCH));
    OK(cuGraphDestroy(graph));
    OK(cuMemFree_v2(data));
}

/* Launches of one instance come one after another, those of two run side by side. */
static void test_instances(void)
{
    CUdeviceptr data = zeroes(8), scratch = zeroes(8);
    CUstream one, two;
    CUevent begin, end_one, end_two;
    CUgraph graph;
    float first, second;
    OK(cuStreamCreate(&one, 1));
    OK(cuStreamCreate(&two, 1));
    OK(cuEventCreate(&begin, 0));
    OK(cuEventCreate(&end_one, 0));
    OK(cuEventCreate(&end_two, 0));
    OK(cuGraphCreate(&graph, 0));
    add_kernel(graph, NULL, 0, slow_times, data, 1, 1);
    add_kernel(graph, NULL, 0, slow_times, data + 4, 1, 1);
    CUgraphExec a = instance(graph), b = instance(graph);
    OK(cuGraphDestroy(graph));
    for (int same = 0; same < 2; same++) {
        put(slow_times, scratch, 0, 0, one);
        OK(cuEventRecord(begin, one));
        OK(cuStreamWaitEvent(two, begin, 0));
        OK(cuGraphLaunch(a, one));
        OK(cuEventRecord(end_one, one));
        OK(cuGraphLaunch(same ? a : b, two));
        OK(cuEventRecord(end_two, two));
        OK(cuEventSynchronize(end_two));
        OK(cuEventSynchronize(end_one));
        OK(cuEventElapsedTime_v2(&first, begin, end_one));
        OK(cuEventElapsedTime_v2(&second, begin, end_two));
        CHECK(first >= 40 && first < 40.5f, "%f ms", (double)first);
        CHECK(same ? second >= 80 && second < 80.5f : second >= 40 && second < 40.5f, "%f ms, %s", (double)second, same ? "the same" : "another");
    }
    CHECK(value_at(data) == 4 && value_at(data + 4) == 4, "%d %d", value_at(data), value_at(data + 4));
    OK(cuGraphExecDestroy(a));
    OK(cuGraphExecDestroy(b));
    OK(cuEventDestroy_v2(begin));
    OK(cuEventDestroy_v2(end_one));
    OK(cuEventDestroy_v2(end_two));
    OK(cuStreamDestroy_v2(one));
    OK(cuStreamDestroy_v2(two));
    OK(cuMemFree_v2(data));
    OK(cuMemFree_v2(scratch));
}

static void test_clone(void)
{
    CUdeviceptr data = zeroes(4);
    CUgraph graph, clone, other;
    CUgraphNode found, list[3];
    size_t count = 3;
    OK(cuGraphCreate(&graph, 0));
    CUgraphNode a = add_kernel(graph, NULL, 0, times, data, 1, 3), b = add_kernel(graph, &a, 1, times, data, 2, 0);
    OK(cuGraphClone(&clone, graph));
    OK(cuGraphNodeFindInClone(&found, b, clone));
    OK(cuGraphNodeGetDependencies(found, list, &count));
    CHECK(count == 1, "%zu", count);
    OK(cuGraphNodeFindInClone(&found, a, clone));
    CHECK(count == 1 && list[0] == found, "the clone's edges");
    /* Changes of one are not changes of the other. */
    struct step_params p;
    OK(cuGraphKernelNodeSetParams_v2(a, kernel(&p, times, data, 1, 5)));
    OK(cuGraphDestroyNode(found));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphNodeFindInClone(&found, a, clone));
    OK(cuGraphCreate(&other, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphNodeFindInClone(&found, a, other));
    CUgraphExec exec = instance(graph), cloned = instance(clone);
    OK(cuGraphLaunch(exec, NULL));
    CHECK(value_at(data) == 10, "%d", value_at(data));
    OK(cuGraphLaunch(cloned, NULL));
    CHECK(value_at(data) == 20, "%d", value_at(data));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphExecDestroy(cloned));
    OK(cuGraphDestroy(graph));
    OK(cuGraphDestroy(clone));
    OK(cuGraphDestroy(other));
    OK(cuMemFree_v2(data));
}

int main(void)
{
    begin_graphs();
    OK(cuCtxGetCurrent(&ctx));
    test_diamond();
    test_kinds();
    test_circle();
    test_instances();
    test_clone();
    return check_summary("graphs");
}
