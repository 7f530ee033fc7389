/* test_capture.c: streams captured into graphs: what comes of it, and what ends it with an error. */
#include <pthread.h>

#include "captures.h"

static void answer(CUstream stream, CUresult result, void *at) { (void)stream, (void)result, (void)at; }

static void test_fork(void)
{
    CUgraphNode from[64], to[64], list[8];
    OK(cuMemsetD8_v2(data, 0, 64));
    CUgraph graph = fork_and_join(slow_times, 1);
    size_t count = 8, edges = edges_of(graph, from, to);
    OK(cuGraphGetNodes(graph, list, &count));
    CHECK(count == 4 && edges == 4, "%zu nodes, %zu edges", count, edges);
    CHECK(from[0] == list[0] && to[0] == list[1] && from[1] == list[0] && to[1] == list[2], "the fork");
    CHECK(from[2] == list[1] && to[2] == list[3] && from[3] == list[2] && to[3] == list[3], "the join");
    CUgraphExec exec = instance(graph);
    double ms = timed(exec, c, scratch);
    CHECK(ms >= 120 && ms < 120.5, "%f ms", ms);
    CHECK(value_at(data) == 2 && value_at(data + 4) == 1 && value_at(data + 8) == 1, "%d", value_at(data));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
}

/* All that can be captured. */
static void test_kinds(void)
{
    _Atomic int called = 0;
    int source[4] = {5}, result[4] = {0};
    CUgraph graph;
    CUgraphNode list[16];
    size_t count = 16;
    CUevent outside;
    OK(cuEventCreate(&outside, 0));
    OK(cuStreamBeginCapture_v2(a, CAPTURE_RELAXED));
    OK(cuMemcpyHtoDAsync_v2(data, source, 4, a));
    put(times, data, 3, 1, a);
    OK(cuLaunchHostFunc(a, bump, (void *)&called));
    OK(cuEventRecordWithFlags(outside, a, CU_EVENT_RECORD_EXTERNAL));
    OK(cuStreamWaitEvent(a, third, CU_EVENT_WAIT_EXTERNAL));
    OK(cuMemcpyDtoHAsync_v2(result, data, 4, a));
    OK(cuStreamEndCapture(a, &graph));
    OK(cuGraphGetNodes(graph, list, &count));
    static const int types[] = {NODE_MEMCPY, NODE_KERNEL, NODE_HOST, NODE_EVENT_RECORD, NODE_WAIT_EVENT, NODE_MEMCPY};
    CHECK(count == 6, "%zu", count);
    for (size_t i = 0; i < count && i < 6; i++) {
        int type;
        OK(cuGraphNodeGetType(list[i], &type));
        CHECK(type == types[i], "%zu: %d", i, type);
    }
    OK(cuEventQuery(outside));                  /* no record of it yet, and it is no captured event */
    CUgraphExec exec = instance(graph);
    for (int i = 0; i < 25; i++)
        put(slow_times, scratch, 1, 1, b);      /* 1 s */
    OK(cuEventRecord(third, b));
    OK(cuGraphLaunch(exec, c));
    OK(cuEventSynchronize(outside));
    CHECK(called == 1, "%d", called);
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(c));
    OK(cuStreamSynchronize(c));
    CHECK(result[0] == 16, "%d", result[0]);
    /* A launch that is captured is a node with the graph in it. */
    CUgraph outer, inner;
    OK(cuStreamBeginCapture_v2(a, 0));
    OK(cuGraphLaunch(exec, a));
    put(times, data, 1, 100, a);
    OK(cuStreamEndCapture(a, &outer));
    count = 16;
    OK(cuGraphGetNodes(outer, list, &count));
    CHECK(count == 2, "%zu", count);
    OK(cuGraphChildGraphNodeGetGraph(list[0], &inner));
    count = 16;
    OK(cuGraphGetNodes(inner, list, &count));
    CHECK(count == 6, "%zu", count);
    CUgraphExec nested = instance(outer);
    OK(cuGraphLaunch(nested, c));
    OK(cuStreamSynchronize(c));
    CHECK(value_at(data) == 116 && result[0] == 16 && called == 2, "%d %d %d", value_at(data), result[0], called);
    OK(cuGraphExecDestroy(nested));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(outer));
    OK(cuGraphDestroy(graph));
    OK(cuEventDestroy_v2(outside));
}

static CUresult end_capture(void)
{
    CUgraph graph;
    return cuStreamEndCapture(a, &graph);
}

static CUresult allocate(void)
{
    CUdeviceptr at;
    CUresult result = cuMemAlloc_v2(&at, 16);
    if (!result)
        OK(cuMemFree_v2(at));
    return result;
}

static CUresult allocate_relaxed(void)
{
    int mode = CAPTURE_RELAXED;
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    return allocate();
}

static int status_of(CUstream stream)
{
    int status = -1;
    OK(cuStreamIsCapturing(stream, &status));
    return status;
}

/* Each way to end a capture with an error, and what it leaves behind. */
static void test_errors(void)
{
    CUgraph graph = (CUgraph)&graph;
    /* Work in a third stream that was joined only into the second. */
    OK(cuStreamBeginCapture_v2(a, 0));
    OK(cuEventRecord(forked, a));
    OK(cuStreamWaitEvent(b, forked, 0));
    put(times, data, 1, 1, b);
    OK(cuEventRecord(joined, b));
    OK(cuStreamWaitEvent(c, joined, 0));
    put(times, data, 1, 1, c);
    OK(cuEventRecord(third, c));
    OK(cuStreamWaitEvent(b, third, 0));
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, cuStreamEndCapture(a, &graph));
    CHECK(!graph && !status_of(a) && !status_of(b) && !status_of(c), "all streams are free again");
    /* A stream that forked and did nothing needs no join; one joined through another needs none either. */
    OK(cuStreamBeginCapture_v2(a, 0));
    put(times, data, 1, 1, a);
    OK(cuEventRecord(forked, a));
    OK(cuStreamWaitEvent(b, forked, 0));
    OK(cuStreamWaitEvent(c, forked, 0));
    put(times, data + 8, 1, 1, c);
    OK(cuEventRecord(third, c));
    OK(cuStreamWaitEvent(b, third, 0));
    OK(cuEventRecord(joined, b));
    OK(cuStreamWaitEvent(a, joined, 0));
    OK(cuStreamEndCapture(a, &graph));
    OK(cuGraphDestroy(graph));
    /* Two captures do not mix. */
    OK(cuStreamBeginCapture_v2(a, 0));
    OK(cuStreamBeginCapture_v2(b, 0));
    put(times, data, 1, 1, a);
    OK(cuEventRecord(forked, a));
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_MERGE, cuStreamWaitEvent(b, forked, 0));
    CHECK(status_of(a) == CAPTURE_INVALIDATED && status_of(b) == CAPTURE_INVALIDATED, "%d %d", status_of(a), status_of(b));
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuEventRecord(joined, a));
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(a, &graph));
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(b, &graph));
    /* What was done before does not belong to a graph; what was captured is no event outside of it. */
    OK(cuEventRecord(third, c));
    OK(cuStreamBeginCapture_v2(a, 0));
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, cuStreamWaitEvent(a, third, 0));
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(a, &graph));
    OK(cuStreamBeginCapture_v2(a, 0));
    OK(cuEventRecord(forked, a));
    OK(cuStreamEndCapture(a, &graph));
    OK(cuGraphDestroy(graph));
    EXPECT(CUDA_ERROR_CAPTURED_EVENT, cuStreamWaitEvent(b, forked, 0));
    OK(cuEventRecord(forked, c));
    OK(cuStreamWaitEvent(b, forked, 0));
    /* Calls that a capture cannot take up. */
    OK(cuStreamBeginCapture_v2(a, CAPTURE_RELAXED));
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamAddCallback(a, answer, NULL, 0));
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(a, &graph));
    OK(cuStreamBeginCapture_v2(a, CAPTURE_RELAXED));
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamQuery(a));
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(a, &graph));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuEventRecordWithFlags(third, a, CU_EVENT_RECORD_EXTERNAL));       /* not captured */
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamWaitEvent(a, third, CU_EVENT_WAIT_EXTERNAL));
    /* Threads. */
    OK(cuStreamBeginCapture_v2(a, CAPTURE_THREAD_LOCAL));
    EXPECT(CUDA_SUCCESS, elsewhere(allocate));
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, elsewhere(end_capture));
    OK(cuStreamEndCapture(a, &graph));
    OK(cuGraphDestroy(graph));
    OK(cuStreamBeginCapture_v2(a, CAPTURE_GLOBAL));
    EXPECT(CUDA_SUCCESS, elsewhere(allocate_relaxed));
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, elsewhere(allocate));
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, end_capture());
    OK(cuStreamBeginCapture_v2(a, CAPTURE_RELAXED));
    EXPECT(CUDA_SUCCESS, elsewhere(end_capture));
    /* The second stream goes away in the middle. */
    CUstream brief;
    OK(cuStreamCreate(&brief, 1));
    OK(cuStreamBeginCapture_v2(a, 0));
    OK(cuEventRecord(forked, a));
    OK(cuStreamWaitEvent(brief, forked, 0));
    OK(cuStreamDestroy_v2(brief));
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(a, &graph));
}

/* What the next node would wait for, and changing that. */
static void test_dependencies(void)
{
    CUgraph graph, same;
    const CUgraphNode *list;
    CUgraphNode from[64], to[64], all[8];
    cuuint64_t id = 0, id_of_b = 1;
    size_t count = 9;
    int status;
    OK(cuStreamGetCaptureInfo_v2(a, &status, NULL, NULL, NULL, NULL));
    CHECK(status == 0, "%d", status);
    EXPECT(CUDA_ERROR_ILLEGAL_STATE, cuStreamUpdateCaptureDependencies(a, NULL, 0, 1));
    OK(cuStreamBeginCapture_v2(a, 0));
    OK(cuStreamGetCaptureInfo_v2(a, &status, &id, &graph, &list, &count));
    CHECK(status == 1 && count == 0, "%d, %zu", status, count);
    put(times, data, 1, 1, a);
    put(times, data, 1, 1, a);
    OK(cuEventRecord(forked, a));
    OK(cuStreamWaitEvent(b, forked, 0));
    put(times, data + 4, 1, 1, b);
    OK(cuStreamGetCaptureInfo_v2(b, &status, &id_of_b, &same, &list, &count));
    CHECK(id == id_of_b && same == graph && count == 1, "%zu", count);
    OK(cuEventRecord(joined, b));
    OK(cuStreamWaitEvent(a, joined, 0));
    count = 8;
    OK(cuGraphGetNodes(graph, all, &count));
    OK(cuStreamGetCaptureInfo_v2(a, &status, NULL, NULL, &list, &count));
    CHECK(count == 2 && list[0] == all[1] && list[1] == all[2], "%zu", count);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphDestroy(graph));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphDestroyNode(all[0]));
    OK(cuStreamUpdateCaptureDependencies(a, all, 1, CAPTURE_SET_DEPENDENCIES));
    put(times, data + 8, 1, 1, a);
    OK(cuStreamUpdateCaptureDependencies(a, &all[1], 2, CAPTURE_ADD_DEPENDENCIES));
    put(times, data + 12, 1, 1, a);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamUpdateCaptureDependencies(a, all, 1, 2));
    OK(cuStreamEndCapture(a, &graph));
    size_t edges = edges_of(graph, from, to);
    CHECK(edges == 6 && from[2] == all[0], "%zu", edges);
    CHECK(from[3] != all[1] && from[4] == all[1] && from[5] == all[2], "the last node waits for three");
    /* Into a graph that is there. */
    put(times, data, 0, 0, a);
    CUgraphExec exec;
    OK(cuStreamBeginCaptureToGraph(a, graph, &all[0], NULL, 1, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphInstantiateWithFlags(&exec, graph, 0));
    EXPECT(CUDA_ERROR_ILLEGAL_STATE, cuStreamBeginCaptureToGraph(b, graph, NULL, NULL, 0, 0));
    put(times, data + 16, 1, 1, a);
    OK(cuStreamEndCapture(a, &same));
    CHECK(same == graph, "the same graph");
    count = 8;
    OK(cuGraphGetNodes(graph, all, &count));
    CHECK(count == 6, "%zu", count);
    count = 8;
    OK(cuGraphNodeGetDependencies(all[5], from, &count));
    CHECK(count == 1 && from[0] == all[0], "%zu", count);
    OK(cuGraphDestroy(graph));
}

int main(void)
{
    begin_captures();
    test_fork();
    test_kinds();
    test_errors();
    test_dependencies();
    return check_summary("capture");
}
