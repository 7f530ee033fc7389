/* test_reports.c: what interception reports of synchronisation, captures, contexts and memory: once, with the right flavour, only
 * where the driver's answer proves it. Run with the hook (counting gate) preloaded. */
#define _GNU_SOURCE
#include "ways.h"

static struct ways ways;

/* The entry `name`, typed, by cuGetProcAddress's pointer mapping (dlsym). */
#define ENTRY(name, ...) ((CUresult(*)(__VA_ARGS__))by_dlsym(&ways, #name))

/* After `call`, `field` has grown by `by`, and the call answered `answer`. */
#define GROWS(field, by, answer, call)                                                                                     \
    do {                                                                                                                   \
        uint64_t before = ways.hook->field;                                                                                \
        CUresult result = (call);                                                                                          \
        CHECK(result == (answer), "%s answered %d", #call, result);                                                        \
        CHECK(ways.hook->field == before + (by), "%s: " #field " grew by %d", #call, (int)(ways.hook->field - before));    \
    } while (0)

static void synchronisation(CUstream stream)
{
    CUevent event;

    GROWS(proved_context, 1, 0, ENTRY(cuCtxSynchronize, void)());
    CUcontext current = NULL;
    ENTRY(cuCtxGetCurrent, CUcontext *)(&current);
    GROWS(proved_context, 1, 0, ENTRY(cuCtxSynchronize_v2, CUcontext)(current));
    GROWS(proved_context, 0, 0, ENTRY(cuCtxSynchronize_v2, CUcontext)((CUcontext)0x10));
    GROWS(proved_stream, 1, 0, ENTRY(cuStreamSynchronize, CUstream)(stream));
    CHECK(ways.hook->per_thread == 0, "flavour");
    GROWS(proved_stream, 1, 0, ENTRY(cuStreamSynchronize_ptsz, CUstream)(NULL));
    CHECK(ways.hook->per_thread == 1, "flavour");
    GROWS(proved_stream, 1, 0, ENTRY(cuStreamQuery, CUstream)(stream));
    GROWS(proved_stream, 1, 0, ENTRY(cuStreamQuery_ptsz, CUstream)(stream));
    char host[8];
    GROWS(proved_stream, 1, 0, ENTRY(cuMemcpyDtoH_v2, void *, CUdeviceptr, size_t)(host, 0x1000, sizeof host));
    CHECK(ways.hook->per_thread == 0, "flavour");
    GROWS(proved_stream, 1, 0, ENTRY(cuMemcpyDtoH_v2_ptds, void *, CUdeviceptr, size_t)(host, 0x1000, sizeof host));
    CHECK(ways.hook->per_thread == 1, "flavour");

    CHECK(ENTRY(cuEventCreate, CUevent *, unsigned int)(&event, 0) == 0, "event");
    GROWS(recorded, 1, 0, ENTRY(cuEventRecord, CUevent, CUstream)(event, stream));
    GROWS(recorded, 1, 0, ENTRY(cuEventRecord_ptsz, CUevent, CUstream)(event, NULL));
    CHECK(ways.hook->per_thread == 1, "flavour");
    GROWS(recorded, 1, 0, ENTRY(cuEventRecordWithFlags, CUevent, CUstream, unsigned int)(event, stream, 0));
    GROWS(proved_event, 1, 0, ENTRY(cuEventQuery, CUevent)(event));
    GROWS(proved_event, 1, 0, ENTRY(cuEventSynchronize, CUevent)(event));

    ways.driver.finish(0);
    GROWS(proved_stream, 0, CUDA_ERROR_NOT_READY, ENTRY(cuStreamQuery, CUstream)(stream));
    GROWS(proved_event, 0, CUDA_ERROR_NOT_READY, ENTRY(cuEventQuery, CUevent)(event));
    ways.driver.finish(1);
    ways.driver.answer("cuEventRecord", CUDA_ERROR_INVALID_HANDLE);
    GROWS(recorded, 0, CUDA_ERROR_INVALID_HANDLE, ENTRY(cuEventRecord, CUevent, CUstream)(event, stream));
    ways.driver.answer("cuCtxSynchronize", CUDA_ERROR_LAUNCH_FAILED);
    GROWS(proved_context, 0, CUDA_ERROR_LAUNCH_FAILED, ENTRY(cuCtxSynchronize, void)());
    GROWS(event_gone, 1, 0, ENTRY(cuCtxRecordEvent, CUcontext, CUevent)(current, event));
    GROWS(event_gone, 1, 0, ENTRY(cuEventDestroy_v2, CUevent)(event));
}

/* Every copy once, with its bytes and its stream. */
static void copies(CUstream stream)
{
    CUDA_MEMCPY2D flat = { .WidthInBytes = 100, .Height = 7 };
    CUDA_MEMCPY3D solid = { .WidthInBytes = 100, .Height = 7, .Depth = 3 };
    CUDA_MEMCPY3D_PEER across = { .WidthInBytes = 10, .Height = 20, .Depth = 30 };
    CUDA_MEMCPY3D_BATCH_OP two[2] = { { .extent = { 4, 5, 6 } }, { .extent = { 1, 2, 3 } } };
    size_t sizes[3] = { 1000, 20, 3 }, huge = (size_t)1 << 40;
    char host[8];

    GROWS(copied_bytes, 4096, 0, ENTRY(cuMemcpyHtoD_v2, CUdeviceptr, const void *, size_t)(1, host, 4096));
    CHECK(ways.hook->stream == NULL && ways.hook->per_thread == 0, "flavour");
    GROWS(copied_bytes, 4096, 0, ENTRY(cuMemcpyHtoD_v2_ptds, CUdeviceptr, const void *, size_t)(1, host, 4096));
    CHECK(ways.hook->stream == NULL && ways.hook->per_thread == 1, "flavour");
    GROWS(copied_bytes, 5, 0, ENTRY(cuMemcpyDtoH_v2, void *, CUdeviceptr, size_t)(host, 1, 5));
    GROWS(copied_bytes, huge, 0, ENTRY(cuMemcpyDtoDAsync_v2, CUdeviceptr, CUdeviceptr, size_t, CUstream)(1, 2, huge, stream));
    CHECK(ways.hook->stream == stream, "stream");
    GROWS(copied_bytes, 6, 0, ENTRY(cuMemcpyAsync_ptsz, CUdeviceptr, CUdeviceptr, size_t, CUstream)(1, 2, 6, stream));
    CHECK(ways.hook->stream == stream && ways.hook->per_thread == 1, "flavour");
    GROWS(copied_bytes, 7, 0, ENTRY(cuMemcpyPeerAsync, CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t, CUstream)(
                                  1, NULL, 2, NULL, 7, stream));
    GROWS(copied_bytes, 8, 0, ENTRY(cuMemcpyHtoAAsync_v2, CUarray, size_t, const void *, size_t, CUstream)(NULL, 99, host, 8, stream));
    GROWS(copied_bytes, 700, 0, ENTRY(cuMemcpy2DUnaligned_v2, const CUDA_MEMCPY2D *)(&flat));
    GROWS(copied_bytes, 700, 0, ENTRY(cuMemcpy2DAsync_v2, const CUDA_MEMCPY2D *, CUstream)(&flat, stream));
    GROWS(copied_bytes, 2100, 0, ENTRY(cuMemcpy3D_v2, const CUDA_MEMCPY3D *)(&solid));
    GROWS(copied_bytes, 6000, 0, ENTRY(cuMemcpy3DPeer, const CUDA_MEMCPY3D_PEER *)(&across));
    GROWS(copied_bytes, 1023, 0, ENTRY(cuMemcpyBatchAsync_v2, CUdeviceptr *, CUdeviceptr *, size_t *, size_t, void *, size_t *, size_t,
                                       CUstream)(NULL, NULL, sizes, 3, NULL, NULL, 0, stream));
    GROWS(copied_bytes, 126, 0, ENTRY(cuMemcpy3DBatchAsync_v2, size_t, CUDA_MEMCPY3D_BATCH_OP *, unsigned long long, CUstream)(
                                    2, two, 0, stream));
    GROWS(copied_bytes, 120, 0, ENTRY(cuMemcpy3DWithAttributesAsync, CUDA_MEMCPY3D_BATCH_OP *, unsigned long long, CUstream)(two, 0, stream));
    GROWS(copies, 1, 0, ENTRY(cuMemcpy2D_v2, const CUDA_MEMCPY2D *)(NULL));
    ways.driver.answer("cuMemcpy_ptds", CUDA_ERROR_INVALID_VALUE);
    GROWS(copied_bytes, 0, CUDA_ERROR_INVALID_VALUE, ENTRY(cuMemcpy_ptds, CUdeviceptr, CUdeviceptr, size_t)(1, 2, 6));
    ways.driver.answer("cuMemcpy_ptds", 0);
    /* Each row: once to the hook, once to the driver. (The first two arguments are readable memory, and small numbers.) */
#define CU_COPY(since, name, ...)                                                                                           \
    do {                                                                                                                   \
        uint64_t calls = ways.driver.calls(#name);                                                                         \
        GROWS(copies, 1, 0, ENTRY(name, const void *, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t,    \
                                  uintptr_t, uintptr_t)(two, 0, 0, 0, 0, 0, 0, 0, 0));                                     \
        CHECK(ways.driver.calls(#name) == calls + 1, #name " reaches the driver once");                                    \
    } while (0);
#include "../tbl/cuda_symbols.h"
}

static void functions(void)
{
    GROWS(function_gone, 1, 0, ENTRY(cuGraphExecDestroy, CUgraphExec)((CUgraphExec)0x10));
    GROWS(function_changed, 1, 0, ENTRY(cuGraphExecUpdate_v2, CUgraphExec, CUgraph, void *)((CUgraphExec)0x10, NULL, NULL));
    GROWS(function_changed, 1, 0, ENTRY(cuModuleUnload, CUmodule)(NULL));
    GROWS(function_changed, 1, 0, ENTRY(cuLibraryUnload, CUlibrary)(NULL));
    GROWS(stream_waits, 1, 0, ENTRY(cuStreamWaitEvent, CUstream, CUevent, unsigned int)(NULL, NULL, 0));
    GROWS(stream_waits, 1, 0, ENTRY(cuLaunchHostFunc_ptsz, CUstream, CUhostFn, void *)(NULL, NULL, NULL));
    GROWS(stream_waits, 1, 0, ENTRY(cuStreamWaitValue64_v2, CUstream, CUdeviceptr, cuuint64_t, unsigned int)(NULL, 0, 0, 0));
}

static void captures(CUstream stream)
{
    CUgraph graph;

    GROWS(capture_began, 1, 0, ENTRY(cuStreamBeginCapture_v2, CUstream, CUstreamCaptureMode)(stream, 0));
    GROWS(capture_ended, 1, 401, ENTRY(cuStreamBeginCapture_v2, CUstream, CUstreamCaptureMode)(stream, 0));
    CHECK(ways.hook->capture_began == 2, "announced before the driver is asked, taken back when it refuses");
    GROWS(capture_ended, 1, 0, ENTRY(cuStreamEndCapture, CUstream, CUgraph *)(stream, &graph));
    GROWS(capture_ended, 0, 401, ENTRY(cuStreamEndCapture, CUstream, CUgraph *)(stream, &graph));
    GROWS(capture_began, 1, 0, ENTRY(cuStreamBeginCapture_ptsz, CUstream)(stream));
    ways.driver.answer("cuStreamEndCapture_ptsz", 901);
    GROWS(capture_ended, 1, 901, ENTRY(cuStreamEndCapture_ptsz, CUstream, CUgraph *)(stream, &graph));
}

static void contexts(CUstream stream)
{
    CUcontext context;

    GROWS(context_changed, 1, 0, ENTRY(cuCtxCreate_v2, CUcontext *, unsigned int, CUdevice)(&context, 0, 0));
    GROWS(context_changed, 1, 0, ENTRY(cuCtxPushCurrent_v2, CUcontext)(context));
    GROWS(context_changed, 1, 0, ENTRY(cuCtxPopCurrent_v2, CUcontext *)(NULL));
    GROWS(context_changed, 1, 0, ENTRY(cuCtxSetCurrent, CUcontext)(context));
    GROWS(context_going, 1, 0, ENTRY(cuCtxDestroy_v2, CUcontext)(context));
    CHECK(ways.hook->context_gone == 1, "told once it is destroyed");
    GROWS(primary_gone, 1, 0, ENTRY(cuDevicePrimaryCtxReset_v2, CUdevice)(0));
    GROWS(context_going, 1, 0, ENTRY(cuDevicePrimaryCtxRelease_v2, CUdevice)(0));
    CHECK(ways.hook->primary_gone == 2, "told once it is released");
    GROWS(stream_gone, 1, 0, ENTRY(cuStreamDestroy_v2, CUstream)(stream));
}

static void memory(void)
{
    CUdeviceptr at = 0;
    size_t pitch = 0;
    CUmemAllocationProp prop = { .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
    CUmemGenericAllocationHandle handle;

    GROWS(allocated_bytes, 1000, 0, ENTRY(cuMemAlloc_v2, CUdeviceptr *, size_t)(&at, 1000));
    GROWS(freed, 1, 0, ENTRY(cuMemFree_v2, CUdeviceptr)(at));
    GROWS(allocated, 0, CUDA_ERROR_INVALID_VALUE, ENTRY(cuMemAlloc_v2, CUdeviceptr *, size_t)(&at, 0));
    GROWS(allocated_bytes, 512 * 3, 0,
          ENTRY(cuMemAllocPitch_v2, CUdeviceptr *, size_t *, size_t, size_t, unsigned int)(&at, &pitch, 100, 3, 4));
    GROWS(allocated_bytes, 77, 0, ENTRY(cuMemAllocAsync, CUdeviceptr *, size_t, CUstream)(&at, 77, NULL));
    GROWS(freed, 1, 0, ENTRY(cuMemFreeAsync, CUdeviceptr, CUstream)(at, NULL));
    GROWS(allocated_bytes, 78, 0,
          ENTRY(cuMemAllocFromPoolAsync_ptsz, CUdeviceptr *, size_t, CUmemoryPool, CUstream)(&at, 78, NULL, NULL));
    GROWS(freed, 1, 0, ENTRY(cuMemFreeAsync_ptsz, CUdeviceptr, CUstream)(at, NULL));
    GROWS(allocated_bytes, 79, 0, ENTRY(cuMemAllocManaged, CUdeviceptr *, size_t, unsigned int)(&at, 79, 1));
    GROWS(allocated_bytes, 2 << 20, 0,
          ENTRY(cuMemCreate, CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *, unsigned long long)(
              &handle, 2 << 20, &prop, 0));
    GROWS(freed, 1, 0, ENTRY(cuMemRelease, CUmemGenericAllocationHandle)(handle));
    prop.location.type = 2;     /* host memory is not the device's */
    GROWS(allocated, 0, 0,
          ENTRY(cuMemCreate, CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *, unsigned long long)(
              &handle, 2 << 20, &prop, 0));
}

int main(void)
{
    CUstream stream = NULL;
    CUcontext context = NULL;

    ways = open_ways();
    if (!ways.hook) {
        fprintf(stderr, "the hook with the counting gate is not preloaded\n");
        return 1;
    }
    GROWS(initialised, 0, CUDA_ERROR_INVALID_VALUE, ENTRY(cuInit, unsigned int)(1));
    GROWS(initialised, 1, 0, ENTRY(cuInit, unsigned int)(0));
    CHECK(ENTRY(cuDevicePrimaryCtxRetain, CUcontext *, CUdevice)(&context, 0) == 0, "context");
    CHECK(ENTRY(cuCtxSetCurrent, CUcontext)(context) == 0, "current");
    CHECK(ENTRY(cuStreamCreate, CUstream *, unsigned int)(&stream, 0) == 0, "stream");
    synchronisation(stream);
    copies(stream);
    functions();
    captures(stream);
    contexts(stream);
    memory();
    return check_summary("reports");
}
