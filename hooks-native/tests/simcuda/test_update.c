/* test_update.c: instances of graphs that are changed, node by node and as a whole. */
#include "captures.h"

static void test_update(void)
{
    CUgraphExecUpdateResultInfo info;
    CUgraphNode list[4], from[64], to[64];
    size_t count = 4;
    OK(cuMemsetD8_v2(data, 0, 64));
    CUgraph first = fork_and_join(times, 1), other = fork_and_join(times, 10);
    CUgraphExec exec = instance(first);
    OK(cuGraphLaunch(exec, c));
    OK(cuGraphExecUpdate_v2(exec, other, &info));
    CHECK(info.result == UPDATED && !info.errorNode, "%d", info.result);
    OK(cuGraphLaunch(exec, c));
    OK(cuStreamSynchronize(c));
    CHECK(value_at(data) == (2 + 10) * 2 && value_at(data + 8) == 11, "%d %d", value_at(data), value_at(data + 8));
    /* A single node, by its name in the graph that the instance was made of; launches under way stay as they were. */
    OK(cuGraphGetNodes(first, list, &count));
    struct step_params p;
    put(slow_times, scratch, 1, 1, c);
    OK(cuGraphLaunch(exec, c));
    OK(cuGraphExecKernelNodeSetParams_v2(exec, list[2], kernel(&p, times, data + 8, 0, 5)));
    OK(cuGraphLaunch(exec, c));
    OK(cuStreamSynchronize(c));
    CHECK(value_at(data + 8) == 5 && value_at(data + 4) == 31, "%d %d", value_at(data + 8), value_at(data + 4));
    unsigned enabled = 9;
    OK(cuGraphNodeSetEnabled(exec, list[1], 0));
    OK(cuGraphNodeGetEnabled(exec, list[1], &enabled));
    CHECK(enabled == 0, "%u", enabled);
    OK(cuGraphLaunch(exec, c));
    OK(cuStreamSynchronize(c));
    CHECK(value_at(data + 4) == 31, "%d", value_at(data + 4));
    OK(cuGraphNodeSetEnabled(exec, list[1], 1));
    OK(cuGraphLaunch(exec, c));
    OK(cuStreamSynchronize(c));
    CHECK(value_at(data + 4) == 41, "%d", value_at(data + 4));
    /* Changes that are none of parameters. */
    CUgraph longer;
    OK(cuGraphClone(&longer, other));
    OK(cuGraphAddEmptyNode(&list[0], longer, NULL, 0));
    EXPECT(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cuGraphExecUpdate_v2(exec, longer, &info));
    CHECK(info.result == UPDATE_TOPOLOGY && !info.errorNode, "%d", info.result);
    OK(cuGraphDestroy(longer));
    OK(cuGraphClone(&longer, other));
    size_t edges = edges_of(longer, from, to);
    OK(cuGraphRemoveDependencies(longer, from, to, 1));
    EXPECT(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cuGraphExecUpdate_v2(exec, longer, &info));
    CHECK(info.result == UPDATE_TOPOLOGY && info.errorNode == to[0] && edges == 4, "%d", info.result);
    OK(cuGraphDestroy(longer));
    OK(cuStreamBeginCapture_v2(a, 0));
    put(times, data, 1, 1, a);
    OK(cuEventRecord(forked, a));
    OK(cuStreamWaitEvent(b, forked, 0));
    put(times, data + 4, 1, 1, a);
    OK(cuLaunchHostFunc(b, bump, NULL));
    OK(cuEventRecord(joined, b));
    OK(cuStreamWaitEvent(a, joined, 0));
    put(times, data, 2, 0, a);
    OK(cuStreamEndCapture(a, &longer));
    EXPECT(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cuGraphExecUpdate_v2(exec, longer, &info));
    CHECK(info.result == UPDATE_NODE_TYPE && info.errorNode, "%d", info.result);
    OK(cuGraphDestroy(longer));
    /* None of the failed ones has changed anything. */
    OK(cuMemsetD8_v2(data, 0, 64));
    OK(cuGraphLaunch(exec, c));
    OK(cuStreamSynchronize(c));
    CHECK(value_at(data) == 20 && value_at(data + 4) == 10 && value_at(data + 8) == 5, "%d %d %d", value_at(data), value_at(data + 4),
          value_at(data + 8));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(first));
    OK(cuGraphDestroy(other));
}

/* Other kinds of nodes of an instance, and a graph within one. */
static void test_set(void)
{
    _Atomic int one = 0, two = 0;
    int source[8] = {1, 2}, more[8] = {30, 40};
    CUgraph graph, child, changed, inner;
    CUgraphNode set, copy, host, nest, in_child;
    OK(cuGraphCreate(&child, 0));
    add_kernel(child, NULL, 0, times, data + 32, 1, 1);
    OK(cuGraphCreate(&graph, 0));
    CUDA_MEMSET_NODE_PARAMS_v2 fill = {data, 0, 3, 4, 8, 1, NULL};
    OK(cuGraphAddMemsetNode(&set, graph, NULL, 0, &fill, ctx));
    CUDA_MEMCPY3D up = {.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = source, .dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = data,
                        .WidthInBytes = 8, .Height = 1, .Depth = 1};
    OK(cuGraphAddMemcpyNode(&copy, graph, &set, 1, &up, ctx));
    OK(cuGraphAddHostNode(&host, graph, &copy, 1, &(CUDA_HOST_NODE_PARAMS){bump, (void *)&one}));
    OK(cuGraphAddChildGraphNode(&nest, graph, &host, 1, child));
    OK(cuMemsetD8_v2(data, 0, 64));
    CUgraphExec exec = instance(graph);
    fill.value = 4;
    fill.width = 6;
    OK(cuGraphExecMemsetNodeSetParams(exec, set, &fill, ctx));
    up.srcHost = more;
    OK(cuGraphExecMemcpyNodeSetParams(exec, copy, &up, ctx));
    OK(cuGraphExecHostNodeSetParams(exec, host, &(CUDA_HOST_NODE_PARAMS){bump, (void *)&two}));
    OK(cuGraphClone(&changed, child));
    size_t count = 1;
    OK(cuGraphGetRootNodes(changed, &in_child, &count));
    struct step_params p;
    OK(cuGraphKernelNodeSetParams_v2(in_child, kernel(&p, times, data + 32, 1, 7)));
    OK(cuGraphExecChildGraphNodeSetParams(exec, nest, changed));
    OK(cuGraphLaunch(exec, c));
    OK(cuStreamSynchronize(c));
    int seen[9];
    OK(cuMemcpyDtoH_v2(seen, data, sizeof seen));
    CHECK(seen[0] == 30 && seen[1] == 40 && seen[2] == 4 && seen[5] == 4 && seen[6] == 0 && seen[8] == 7, "%d %d %d %d %d %d", seen[0], seen[1],
          seen[2], seen[5], seen[6], seen[8]);
    CHECK(one == 0 && two == 1, "%d %d", one, two);
    /* A node within the node, and the form for all kinds. */
    OK(cuGraphChildGraphNodeGetGraph(nest, &inner));
    OK(cuGraphGetRootNodes(inner, &in_child, &count));
    CUgraphNodeParams params = {.type = NODE_KERNEL, .kernel = *kernel(&p, times, data + 32, 0, 2)};
    OK(cuGraphExecNodeSetParams(exec, in_child, &params));
    OK(cuGraphNodeSetParams(in_child, &params));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphExecNodeSetParams(exec, set, &params));
    /* Not to other memory, to more dimensions, to a graph of another shape. */
    up.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    up.srcDevice = scratch;
    up.WidthInBytes = 4;
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphExecMemcpyNodeSetParams(exec, copy, &up, ctx));
    fill.height = 2;
    fill.pitch = 32;
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphExecMemsetNodeSetParams(exec, set, &fill, ctx));
    OK(cuGraphAddEmptyNode(&in_child, changed, NULL, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphExecChildGraphNodeSetParams(exec, nest, changed));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphNodeSetEnabled(exec, host, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphNodeSetEnabled(exec, in_child, 0));         /* of no graph of this instance */
    OK(cuGraphLaunch(exec, c));
    OK(cuStreamSynchronize(c));
    CHECK(value_at(data + 32) == 2 && two == 2, "%d %d", value_at(data + 32), two);
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    OK(cuGraphDestroy(child));
    OK(cuGraphDestroy(changed));
}

/* Kernels remember the priority of the stream that they were captured in, if the instance is to heed it. */
static void test_priority(void)
{
    CUstream urgent;
    CUgraph graph;
    CUgraphNode node, plain;
    size_t count = 1;
    int priority = 1, cooperative = 1;
    OK(cuStreamCreateWithPriority(&urgent, 1, -3));
    OK(cuStreamBeginCapture_v2(urgent, 0));
    put(times, data, 1, 1, urgent);
    OK(cuStreamEndCapture(urgent, &graph));
    OK(cuGraphGetNodes(graph, &node, &count));
    OK(cuGraphKernelNodeGetAttribute(node, CU_LAUNCH_ATTRIBUTE_PRIORITY, &priority));
    CHECK(priority == -3, "%d", priority);
    plain = add_kernel(graph, NULL, 0, times, data + 4, 1, 1);
    char value[64];
    OK(cuGraphKernelNodeGetAttribute(plain, CU_LAUNCH_ATTRIBUTE_PRIORITY, value));
    CHECK(*(int *)value == 0, "%d", *(int *)value);
    OK(cuGraphKernelNodeCopyAttributes(plain, node));
    OK(cuGraphKernelNodeGetAttribute(plain, CU_LAUNCH_ATTRIBUTE_PRIORITY, value));
    CHECK(*(int *)value == -3, "%d", *(int *)value);
    memset(value, 0, sizeof value);
    memcpy(value, &cooperative, sizeof cooperative);
    OK(cuGraphKernelNodeSetAttribute(plain, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, value));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphKernelNodeSetAttribute(plain, 17, value));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphKernelNodeGetAttribute(plain, 0, value));
    CUgraphExec exec;
    OK(cuGraphInstantiateWithFlags(&exec, graph, INSTANTIATE_NODE_PRIORITY));
    CUgraph twin;
    CUgraphExecUpdateResultInfo info;
    OK(cuGraphClone(&twin, graph));
    OK(cuGraphNodeFindInClone(&node, node, twin));
    priority = -1;
    memcpy(value, &priority, sizeof priority);
    OK(cuGraphKernelNodeSetAttribute(node, CU_LAUNCH_ATTRIBUTE_PRIORITY, value));
    EXPECT(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cuGraphExecUpdate_v2(exec, twin, &info));
    CHECK(info.result == UPDATE_ATTRIBUTES && info.errorNode == node, "%d", info.result);
    OK(cuMemsetD8_v2(data, 0, 64));
    OK(cuGraphLaunch(exec, c));
    OK(cuGraphLaunch(exec, urgent));
    OK(cuStreamSynchronize(urgent));
    CHECK(value_at(data) == 2 && value_at(data + 4) == 2, "%d %d", value_at(data), value_at(data + 4));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    OK(cuGraphDestroy(twin));
    OK(cuStreamDestroy_v2(urgent));
}

int main(void)
{
    begin_captures();
    test_update();
    test_set();
    test_priority();
    return check_summary("update");
}
