/* test_questions.c: what may be asked and waited for while something is captured. What may not ends the capture. */
#include "captures.h"

static CUevent outside;

static CUresult ask(void) { return cuEventQuery(outside); }
static CUresult wait_for_all(void) { return cuCtxSynchronize(); }

static CUresult with_mode(int mode, CUresult (*call)(void))
{
    CUresult result;
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    result = call();
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    return result;
}
static CUresult ask_locally(void) { return with_mode(CAPTURE_THREAD_LOCAL, ask); }
static CUresult wait_relaxed(void) { return with_mode(CAPTURE_RELAXED, wait_for_all); }

/* Ends a capture that a call of this kind has ended already. */
static void ended(void)
{
    CUgraph graph = (CUgraph)&graph;
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(a, &graph));
    CHECK(!graph, "a graph of a capture that was ended");
}

/* Asking while something is captured. */
static void test_questions(void)
{
    CUgraph graph;
    CUevent before;
    CUmemoryPool pool;
    CUdeviceptr at;
    cuuint64_t kept;
    float ms = -1;
    OK(cuEventCreate(&before, 0));
    OK(cuEventCreate(&outside, 0));
    OK(cuEventRecord(before, c));
    OK(cuEventRecord(outside, c));
    OK(cuStreamSynchronize(c));
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    OK(cuMemAllocAsync(&at, 64, c));
    /* For a captured event: it stands for no work. */
    for (int i = 0; i < 3; i++) {
        OK(cuStreamBeginCapture_v2(a, CAPTURE_RELAXED));
        OK(cuEventRecord(i == 2 ? outside : forked, a));
        EXPECT(CUDA_ERROR_CAPTURED_EVENT, i ? cuEventSynchronize(i == 2 ? outside : forked) : cuEventQuery(forked));
        ended();
    }
    EXPECT(CUDA_ERROR_CAPTURED_EVENT, cuEventElapsedTime_v2(&ms, before, outside));     /* it had a time of its own before */
    OK(cuEventRecord(outside, c));
    OK(cuEventSynchronize(outside));
    OK(cuEventElapsedTime_v2(&ms, before, outside));
    CHECK(ms >= 0, "%f", (double)ms);
    /* For any event, as the modes of the capture and of the thread say. */
    OK(cuStreamBeginCapture_v2(a, CAPTURE_GLOBAL));
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuEventQuery(outside));
    ended();
    OK(cuStreamBeginCapture_v2(a, CAPTURE_THREAD_LOCAL));
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuEventSynchronize(outside));
    ended();
    OK(cuStreamBeginCapture_v2(a, CAPTURE_GLOBAL));
    EXPECT(CUDA_SUCCESS, elsewhere(ask_locally));
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, elsewhere(ask));
    ended();
    OK(cuStreamBeginCapture_v2(a, CAPTURE_RELAXED));
    OK(cuEventQuery(outside));
    OK(cuEventSynchronize(outside));
    OK(cuStreamSynchronize(c));         /* a stream that has no part in it */
    OK(cuStreamQuery(c));               /* after that: an event is reached a moment before its stream is idle */
    OK(cuStreamEndCapture(a, &graph));
    OK(cuGraphDestroy(graph));
    /* For all of the context: a capture is in it, whatever the modes. */
    OK(cuStreamBeginCapture_v2(a, CAPTURE_RELAXED));
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuCtxSynchronize());
    ended();
    OK(cuStreamBeginCapture_v2(a, CAPTURE_THREAD_LOCAL));
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, elsewhere(wait_relaxed));
    ended();
    /* Of a pool, and for memory of it, which would be nodes that are not simulated. */
    OK(cuStreamBeginCapture_v2(a, CAPTURE_GLOBAL));
    EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemPoolGetAttribute(pool, POOL_RELEASE_THRESHOLD, &kept));
    ended();
    OK(cuStreamBeginCapture_v2(a, CAPTURE_RELAXED));
    OK(cuMemPoolGetAttribute(pool, POOL_RELEASE_THRESHOLD, &kept));
    OK(cuMemPoolSetAttribute(pool, POOL_RELEASE_THRESHOLD, &kept));
    EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuMemFreeAsync(at, a));
    ended();
    OK(cuStreamBeginCapture_v2(a, CAPTURE_GLOBAL));
    EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuMemAllocAsync(&at, 64, a));
    ended();
    OK(cuEventDestroy_v2(before));
    OK(cuEventDestroy_v2(outside));
}

int main(void)
{
    begin_captures();
    test_questions();
    return check_summary("questions");
}
