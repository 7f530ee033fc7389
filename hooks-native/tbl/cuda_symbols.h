/* cuda_symbols.h: every driver entry that the hook knows, one row each.
 *
 * Kinds: GATE launches work, held while the gate is closed · RESERVE, RELEASE device memory · QUERY asks, changes nothing ·
 * SYNC waits or learns that work is finished · CAPTURE begins or ends a stream capture · LIFECYCLE contexts, streams,
 * events come and go · COPY, MEMSET, PREFETCH, MEMOP (batch memory operations), ENQUEUE (anything else put into a
 * stream) · RESOLVE hands out entry points.
 *
 *   CU_GATE(since, name, parameters, arguments, stream, per_thread)
 *   CU_AFTER(kind, since, name, parameters, arguments, statement)     statement runs after the real call, sees `result`
 *   CU_BEFORE(kind, since, name, parameters, arguments, statement)    statement runs before the real call
 *   CU_AROUND(kind, since, name, parameters, arguments, before, after)
 *   CU_OWN(kind, since, name, parameters)      intercepted, the entry is written by hand (resolve.c)
 *   CU_PASS(kind, name)                        not intercepted today: callers get the driver's own pointer
 *   CU_NEED(since, name, parameters)           not intercepted: the hook itself calls it (real.name; NULL if the driver has none)
 *
 * `since` is the CUDA version at which cuGetProcAddress begins to answer this very entry for its base name (the name
 * without _v2 … _v4, _ptsz, _ptds), as cudaTypedefs.h has it. tools/check_cuda_symbols compares all this with cuda.h.
 * Define the macros of interest and include; all are undefined at the end. */
#ifndef CU_GATE
#define CU_GATE(since, name, parameters, arguments, stream, per_thread)
#endif
#ifndef CU_AFTER
#define CU_AFTER(kind, since, name, parameters, arguments, statement)
#endif
#ifndef CU_BEFORE
#define CU_BEFORE(kind, since, name, parameters, arguments, statement)
#endif
#ifndef CU_AROUND
#define CU_AROUND(kind, since, name, parameters, arguments, before, after)
#endif
#ifndef CU_OWN
#define CU_OWN(kind, since, name, parameters)
#endif
#ifndef CU_PASS
#define CU_PASS(kind, name)
#endif
#ifndef CU_NEED
#define CU_NEED(since, name, parameters)
#endif
/* An entry and its twin for the per-thread default stream. The second `since` is the twin's. */
#define CU_GATE_TWINS(since, since2, name, parameters, arguments, stream) \
    CU_GATE(since, name, parameters, arguments, stream, 0)                \
    CU_GATE(since2, name##_ptsz, parameters, arguments, stream, 1)
#define CU_PASS_PTSZ(kind, name) CU_PASS(kind, name) CU_PASS(kind, name##_ptsz)
#define CU_PASS_PTDS(kind, name) CU_PASS(kind, name) CU_PASS(kind, name##_ptds)
/* `per_thread` in a statement of twins is 0 in the plain entry and 1 in the twin: a table of constants, not a variable. */
#define CU_AFTER_TWINS(kind, since, since2, name, suffix, parameters, arguments, statement)        \
    CU_AFTER(kind, since, name, parameters, arguments, enum { per_thread = 0 }; statement)         \
    CU_AFTER(kind, since2, name##suffix, parameters, arguments, enum { per_thread = 1 }; statement)
#define CU_BEGIN_TWINS(since, since2, name, parameters, arguments)                                                         \
    CU_AROUND(CAPTURE, since, name, parameters, arguments, gpud_begins(stream, 0), gpud_begun(stream, 0, result))          \
    CU_AROUND(CAPTURE, since2, name##_ptsz, parameters, arguments, gpud_begins(stream, 1), gpud_begun(stream, 1, result))

/* Launches. */
CU_GATE_TWINS(4000, 7000, cuLaunchKernel,
    (CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by, unsigned int bz,
     unsigned int shared, CUstream stream, void **params, void **extra),
    (f, gx, gy, gz, bx, by, bz, shared, stream, params, extra), stream)
CU_GATE_TWINS(11060, 11060, cuLaunchKernelEx, (const CUlaunchConfig *config, CUfunction f, void **params, void **extra),
    (config, f, params, extra), config ? config->hStream : NULL)
CU_GATE_TWINS(9000, 9000, cuLaunchCooperativeKernel,
    (CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by, unsigned int bz,
     unsigned int shared, CUstream stream, void **params),
    (f, gx, gy, gz, bx, by, bz, shared, stream, params), stream)
CU_GATE(9000, cuLaunchCooperativeKernelMultiDevice, (CUDA_LAUNCH_PARAMS *list, unsigned int count, unsigned int flags),
    (list, count, flags), list && count ? list[0].hStream : NULL, 0)
CU_GATE_TWINS(10000, 10000, cuGraphLaunch, (CUgraphExec graph, CUstream stream), (graph, stream), stream)
CU_GATE(2000, cuLaunch, (CUfunction f), (f), NULL, 0)
CU_GATE(2000, cuLaunchGrid, (CUfunction f, int width, int height), (f, width, height), NULL, 0)
CU_GATE(2000, cuLaunchGridAsync, (CUfunction f, int width, int height, CUstream stream), (f, width, height, stream), stream, 0)

/* What proves that work is finished. A blocking copy proves its stream only where the API promises that the host waits. */
CU_AFTER(SYNC, 2000, cuCtxSynchronize, (void), (), gpud_proved(GPUD_PROOF_CONTEXT, NULL, 0, result))
CU_AFTER(SYNC, 13000, cuCtxSynchronize_v2, (CUcontext context), (context), gpud_context_proved(context, result))
CU_AFTER_TWINS(SYNC, 2000, 7000, cuStreamSynchronize, _ptsz, (CUstream stream), (stream),
    gpud_proved(GPUD_PROOF_STREAM, stream, per_thread, result))
CU_AFTER_TWINS(SYNC, 2000, 7000, cuStreamQuery, _ptsz, (CUstream stream), (stream),
    gpud_proved(GPUD_PROOF_STREAM, stream, per_thread, result))
CU_AFTER(SYNC, 2000, cuEventSynchronize, (CUevent event), (event), gpud_proved(GPUD_PROOF_EVENT, event, 0, result))
CU_AFTER(SYNC, 2000, cuEventQuery, (CUevent event), (event), gpud_proved(GPUD_PROOF_EVENT, event, 0, result))
CU_AFTER_TWINS(SYNC, 2000, 7000, cuEventRecord, _ptsz, (CUevent event, CUstream stream), (event, stream),
    if (!result) gpud_event_recorded(event, stream, per_thread))
CU_AFTER_TWINS(SYNC, 11010, 11010, cuEventRecordWithFlags, _ptsz, (CUevent event, CUstream stream, unsigned int flags),
    (event, stream, flags), if (!result) gpud_event_recorded(event, stream, per_thread))
CU_AFTER_TWINS(COPY, 3020, 7000, cuMemcpyDtoH_v2, _ptds, (void *to, CUdeviceptr from, size_t bytes), (to, from, bytes),
    gpud_proved(GPUD_PROOF_STREAM, NULL, per_thread, result))
CU_AFTER_TWINS(COPY, 3020, 7000, cuMemcpyAtoH_v2, _ptds, (void *to, CUarray from, size_t offset, size_t bytes),
    (to, from, offset, bytes), gpud_proved(GPUD_PROOF_STREAM, NULL, per_thread, result))

/* Stream captures. Announced before they begin: from then on nobody here asks a stream, which would invalidate the capture. */
CU_BEGIN_TWINS(10000, 10000, cuStreamBeginCapture, (CUstream stream), (stream))
CU_BEGIN_TWINS(10010, 10010, cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode), (stream, mode))
CU_BEGIN_TWINS(12030, 12030, cuStreamBeginCaptureToGraph,
    (CUstream stream, CUgraph graph, const CUgraphNode *dependencies, const CUgraphEdgeData *edges, size_t count,
     CUstreamCaptureMode mode),
    (stream, graph, dependencies, edges, count, mode))
CU_BEGIN_TWINS(13030, 13030, cuStreamBeginRecaptureToGraph,
    (CUstream stream, CUstreamCaptureMode mode, CUgraph graph, CUgraphRecaptureCallback callback, void *data),
    (stream, mode, graph, callback, data))
CU_BEGIN_TWINS(13010, 13010, cuStreamBeginCaptureToCig, (CUstream stream, CUstreamCigCaptureParams *params), (stream, params))
CU_AFTER_TWINS(CAPTURE, 10000, 10000, cuStreamEndCapture, _ptsz, (CUstream stream, CUgraph *graph), (stream, graph),
    gpud_ended(stream, per_thread, result))
CU_AFTER_TWINS(CAPTURE, 13010, 13010, cuStreamEndCaptureToCig, _ptsz, (CUstream stream), (stream),
    gpud_ended(stream, per_thread, result))

/* Contexts: anything that may change the device of a thread's current context; streams and events that go away. */
CU_AFTER(LIFECYCLE, 2000, cuInit, (unsigned int flags), (flags), if (!result) gpud_initialised())
CU_AFTER(LIFECYCLE, 2000, cuCtxCreate, (CUcontext *context, unsigned int flags, CUdevice device), (context, flags, device),
    gpud_context_changed(0))
CU_AFTER(LIFECYCLE, 3020, cuCtxCreate_v2, (CUcontext *context, unsigned int flags, CUdevice device),
    (context, flags, device), gpud_context_changed(0))
CU_AFTER(LIFECYCLE, 11040, cuCtxCreate_v3,
    (CUcontext *context, CUexecAffinityParam *affinity, int count, unsigned int flags, CUdevice device),
    (context, affinity, count, flags, device), gpud_context_changed(0))
CU_AFTER(LIFECYCLE, 12050, cuCtxCreate_v4,
    (CUcontext *context, CUctxCreateParams *params, unsigned int flags, CUdevice device), (context, params, flags, device),
    gpud_context_changed(0))
CU_AFTER(LIFECYCLE, 4000, cuCtxSetCurrent, (CUcontext context), (context), gpud_context_changed(0))
CU_AFTER(LIFECYCLE, 2000, cuCtxPushCurrent, (CUcontext context), (context), gpud_context_changed(0))
CU_AFTER(LIFECYCLE, 4000, cuCtxPushCurrent_v2, (CUcontext context), (context), gpud_context_changed(0))
CU_AFTER(LIFECYCLE, 2000, cuCtxPopCurrent, (CUcontext *context), (context), gpud_context_changed(0))
CU_AFTER(LIFECYCLE, 4000, cuCtxPopCurrent_v2, (CUcontext *context), (context), gpud_context_changed(0))
CU_AFTER(LIFECYCLE, 2000, cuCtxAttach, (CUcontext *context, unsigned int flags), (context, flags), gpud_context_changed(0))
CU_AROUND(LIFECYCLE, 2000, cuCtxDetach, (CUcontext context), (context), gpud_context_going(),
    gpud_context_gone(context, result))
CU_AROUND(LIFECYCLE, 2000, cuCtxDestroy, (CUcontext context), (context), gpud_context_going(),
    gpud_context_gone(context, result))
CU_AROUND(LIFECYCLE, 4000, cuCtxDestroy_v2, (CUcontext context), (context), gpud_context_going(),
    gpud_context_gone(context, result))
CU_AROUND(LIFECYCLE, 7000, cuDevicePrimaryCtxRelease, (CUdevice device), (device), gpud_context_going(),
    gpud_primary_gone(device, 0, result))
CU_AROUND(LIFECYCLE, 11000, cuDevicePrimaryCtxRelease_v2, (CUdevice device), (device), gpud_context_going(),
    gpud_primary_gone(device, 0, result))
CU_AROUND(LIFECYCLE, 7000, cuDevicePrimaryCtxReset, (CUdevice device), (device), gpud_context_going(),
    gpud_primary_gone(device, 1, result))
CU_AROUND(LIFECYCLE, 11000, cuDevicePrimaryCtxReset_v2, (CUdevice device), (device), gpud_context_going(),
    gpud_primary_gone(device, 1, result))
CU_AROUND(LIFECYCLE, 12040, cuGreenCtxDestroy, (CUgreenCtx context), (context), gpud_context_going(),
    gpud_context_gone(NULL, result))
CU_BEFORE(LIFECYCLE, 2000, cuStreamDestroy, (CUstream stream), (stream), gpud_stream_gone(stream))
CU_BEFORE(LIFECYCLE, 4000, cuStreamDestroy_v2, (CUstream stream), (stream), gpud_stream_gone(stream))
CU_BEFORE(LIFECYCLE, 2000, cuEventDestroy, (CUevent event), (event), gpud_event_gone(event))
CU_BEFORE(LIFECYCLE, 4000, cuEventDestroy_v2, (CUevent event), (event), gpud_event_gone(event))
CU_BEFORE(ENQUEUE, 12050, cuCtxRecordEvent, (CUcontext context, CUevent event), (context, event), gpud_event_gone(event))
CU_BEFORE(ENQUEUE, 12040, cuGreenCtxRecordEvent, (CUgreenCtx context, CUevent event), (context, event),
    gpud_event_gone(event))
CU_PASS(LIFECYCLE, cuDevicePrimaryCtxRetain)
CU_PASS(LIFECYCLE, cuGreenCtxCreate)
CU_PASS(LIFECYCLE, cuCtxFromGreenCtx)
CU_PASS(LIFECYCLE, cuGreenCtxStreamCreate)
CU_PASS(LIFECYCLE, cuStreamCreate)
CU_PASS(LIFECYCLE, cuStreamCreateWithPriority)

/* Device memory. An address is forgotten before the real call frees it: after it, another thread may already own it. */
CU_AFTER(RESERVE, 3020, cuMemAlloc_v2, (CUdeviceptr *at, size_t bytes), (at, bytes),
    if (!result) gpud_allocated(*at, bytes))
CU_AFTER(RESERVE, 3020, cuMemAllocPitch_v2,
    (CUdeviceptr *at, size_t *pitch, size_t width, size_t height, unsigned int element), (at, pitch, width, height, element),
    if (!result) gpud_allocated(*at, *pitch * height))
CU_AFTER(RESERVE, 6000, cuMemAllocManaged, (CUdeviceptr *at, size_t bytes, unsigned int flags), (at, bytes, flags),
    if (!result) gpud_allocated(*at, bytes))
CU_AFTER_TWINS(RESERVE, 11020, 11020, cuMemAllocAsync, _ptsz, (CUdeviceptr *at, size_t bytes, CUstream stream),
    (at, bytes, stream), (void)per_thread; if (!result) gpud_allocated(*at, bytes))
CU_AFTER_TWINS(RESERVE, 11020, 11020, cuMemAllocFromPoolAsync, _ptsz,
    (CUdeviceptr *at, size_t bytes, CUmemoryPool pool, CUstream stream), (at, bytes, pool, stream),
    (void)per_thread; if (!result) gpud_allocated(*at, bytes))
CU_AFTER(RESERVE, 10020, cuMemCreate,
    (CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *prop, unsigned long long flags),
    (handle, bytes, prop, flags),
    if (!result && prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE) gpud_allocated(GPUD_HANDLE_KEY(*handle), bytes))
CU_BEFORE(RELEASE, 3020, cuMemFree_v2, (CUdeviceptr at), (at), gpud_freed(at))
CU_BEFORE(RELEASE, 11020, cuMemFreeAsync, (CUdeviceptr at, CUstream stream), (at, stream), gpud_freed(at))
CU_BEFORE(RELEASE, 11020, cuMemFreeAsync_ptsz, (CUdeviceptr at, CUstream stream), (at, stream), gpud_freed(at))
CU_BEFORE(RELEASE, 10020, cuMemRelease, (CUmemGenericAllocationHandle handle), (handle), gpud_freed(GPUD_HANDLE_KEY(handle)))

/* Entry points. */
CU_OWN(RESOLVE, 11030, cuGetProcAddress, (const char *symbol, void **function, int version, cuuint64_t flags))
CU_OWN(RESOLVE, 12000, cuGetProcAddress_v2, (const char *symbol, void **function, int version, cuuint64_t flags,
    CUdriverProcAddressQueryResult *status))

/* What the hook asks of the driver itself. */
CU_NEED(2000, cuEventCreate, (CUevent *event, unsigned int flags))
CU_NEED(2000, cuDeviceGet, (CUdevice *device, int ordinal))
CU_NEED(2000, cuDeviceGetCount, (int *count))
CU_NEED(9020, cuDeviceGetUuid, (CUuuid *uuid, CUdevice device))
CU_NEED(11040, cuDeviceGetUuid_v2, (CUuuid *uuid, CUdevice device))
CU_NEED(3020, cuDeviceTotalMem_v2, (size_t *bytes, CUdevice device))
CU_NEED(7000, cuDevicePrimaryCtxGetState, (CUdevice device, unsigned int *flags, int *alive))
CU_NEED(4000, cuCtxGetCurrent, (CUcontext *context))
CU_NEED(2000, cuCtxGetDevice, (CUdevice *device))
CU_NEED(9020, cuStreamGetCtx, (CUstream stream, CUcontext *context))
CU_NEED(9020, cuStreamGetCtx_ptsz, (CUstream stream, CUcontext *context))
CU_NEED(10000, cuStreamIsCapturing, (CUstream stream, CUstreamCaptureStatus *status))
CU_NEED(10000, cuStreamIsCapturing_ptsz, (CUstream stream, CUstreamCaptureStatus *status))
CU_NEED(10010, cuStreamGetCaptureInfo, (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id))
CU_NEED(10010, cuStreamGetCaptureInfo_ptsz, (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id))
CU_NEED(10010, cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode *mode))
CU_NEED(2020, cuDriverGetVersion, (int *version))

#include "cuda_pass.h"

#undef CU_GATE
#undef CU_AFTER
#undef CU_BEFORE
#undef CU_AROUND
#undef CU_OWN
#undef CU_PASS
#undef CU_NEED
#undef CU_GATE_TWINS
#undef CU_AFTER_TWINS
#undef CU_BEGIN_TWINS
#undef CU_PASS_PTSZ
#undef CU_PASS_PTDS
