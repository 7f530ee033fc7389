/* cuda_symbols.h: every driver entry that the hook knows, one row each.
 *
 * Kinds: GATE launches work, held while the gate is closed · RESERVE, RELEASE device memory · QUERY asks, changes nothing ·
 * SYNC waits or learns that work is finished · CAPTURE begins or ends a stream capture · LIFECYCLE contexts, streams,
 * events come and go · COPY, MEMSET, PREFETCH, MEMOP (batch memory operations), ENQUEUE (anything else put into a
 * stream) · RESOLVE hands out entry points.
 *
 *   CU_GATE(since, name, parameters, arguments, stream, per_thread, function, blocks)     the last two say what it costs: a kernel and
 *                                              its thread blocks, or an executable graph and 0
 *   CU_COPY(since, name, parameters, arguments, bytes, stream, per_thread, statement)    statement as in CU_AFTER. Where it is not defined,
 *                                              a CU_AROUND of kind COPY that counts and gates the bytes
 *   CU_RESERVE(since, name, parameters, arguments, how, statement)     takes device memory: `how` says how much (launch.h). Where it is not
 *                                              defined, a CU_AROUND that does not call the driver beyond the tenant's limit
 *   CU_RELEASE(since, name, parameters, arguments, key)     gives back what is in the ledger under the key
 *   CU_MEMSET(since, name, parameters, arguments, stream, per_thread)     a CU_AROUND of kind MEMSET where it is not defined
 *   CU_AFTER(kind, since, name, parameters, arguments, statement)     statement runs after the real call, sees `result`
 *   CU_BEFORE(kind, since, name, parameters, arguments, statement)    statement runs before the real call
 *   CU_AROUND(kind, since, name, parameters, arguments, before, after)
 *   CU_POOL(kind, since, name, parameters, arguments, takes, instead, before, after)    where `takes` holds, `instead` is the result, and the
 *                                              driver is not asked (pool.h). Where it is not defined, a CU_AROUND
 *   CU_LENDS(since, name, parameters, arguments)    gives `memory`, a handle, to somebody outside; CU_PINS what lies at `at`, `bytes` (vmm.h)
 *   CU_OWN(kind, since, name, parameters)      intercepted, the entry is written by hand (resolve.c)
 *   CU_PASS(kind, name)                        not intercepted today: callers get the driver's own pointer
 *   CU_NEED(since, name, parameters)           not intercepted: the hook itself calls it (real.name; NULL if the driver has none)
 *
 * `since` is the CUDA version at which cuGetProcAddress begins to answer this very entry for its base name (the name
 * without _v2 … _v4, _ptsz, _ptds), as cudaTypedefs.h has it. tools/check_cuda_symbols compares all this with cuda.h.
 * Define the macros of interest and include; all are undefined at the end. */
#ifndef CU_GATE
#define CU_GATE(since, name, parameters, arguments, stream, per_thread, function, blocks)
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
#ifndef CU_COPY
#define CU_COPY(since, name, parameters, arguments, bytes, stream, per_thread, statement)                          \
    CU_AROUND(COPY, since, name, parameters, arguments, uint64_t counted_ = gpud_copies(bytes, stream, per_thread), \
        gpud_copied(counted_, result); statement)
#endif
#ifndef CU_POOL
#define CU_POOL(kind, since, name, parameters, arguments, takes, instead, before, after) \
    CU_AROUND(kind, since, name, parameters, arguments, before, after)
#endif
#ifndef CU_LENDS
#define CU_LENDS(since, name, parameters, arguments)                                                                     \
    CU_POOL(LIFECYCLE, since, name, parameters, arguments, gpud_virtual(memory), loan_.result,                           \
        const struct gpud_loan loan_ = gpud_lends(memory); memory = loan_.handle, result = gpud_lent(&loan_, result))
#endif
#ifndef CU_PINS
#define CU_PINS(since, name, parameters, arguments)                                                                      \
    CU_AROUND(LIFECYCLE, since, name, parameters, arguments,                                                             \
        const struct gpud_pin pin_ = gpud_pins((uintptr_t)at, bytes), gpud_pinned(&pin_, result))
#endif
#ifndef CU_RESERVE
#define CU_RESERVE(since, name, parameters, arguments, how, statement)                                      \
    CU_AROUND(RESERVE, since, name, parameters, arguments, GPUD_UNLESS_REFUSED(how), statement)
#endif
#ifndef CU_RELEASE
#define CU_RELEASE(since, name, parameters, arguments, key)                                                 \
    CU_AROUND(RELEASE, since, name, parameters, arguments, GPUD_FREES(key), gpud_is_freed(&freeing_, result))
#endif
#ifndef CU_MEMSET
#define CU_MEMSET(since, name, parameters, arguments, stream, per_thread)                                   \
    CU_AROUND(MEMSET, since, name, parameters, arguments, uint64_t counted_ = gpud_sets(stream, per_thread), \
        gpud_copied(counted_, result))
#endif
/* An entry and its twin for the per-thread default stream. The second `since` is the twin's. */
#define CU_GATE_TWINS(since, since2, name, parameters, arguments, stream, function, blocks) \
    CU_GATE(since, name, parameters, arguments, stream, 0, function, blocks)                \
    CU_GATE(since2, name##_ptsz, parameters, arguments, stream, 1, function, blocks)
#define CU_COPY_TWINS(since, since2, name, suffix, parameters, arguments, bytes, stream) \
    CU_COPY(since, name, parameters, arguments, bytes, stream, 0, (void)0)               \
    CU_COPY(since2, name##suffix, parameters, arguments, bytes, stream, 1, (void)0)
#define CU_PASS_PTSZ(kind, name) CU_PASS(kind, name) CU_PASS(kind, name##_ptsz)
#define CU_PASS_PTDS(kind, name) CU_PASS(kind, name) CU_PASS(kind, name##_ptds)
/* `per_thread` in a statement of twins is 0 in the plain entry and 1 in the twin: a table of constants, not a variable. */
#define CU_AFTER_TWINS(kind, since, since2, name, suffix, parameters, arguments, statement)        \
    CU_AFTER(kind, since, name, parameters, arguments, enum { per_thread = 0 }; statement)         \
    CU_AFTER(kind, since2, name##suffix, parameters, arguments, enum { per_thread = 1 }; statement)
#define CU_POOL_TWINS(kind, since, name, parameters, arguments, takes, instead, before, after)                                    \
    CU_POOL(kind, since, name, parameters, arguments, takes, instead, enum { per_thread = 0 }; before, after)                     \
    CU_POOL(kind, since, name##_ptsz, parameters, arguments, takes, instead, enum { per_thread = 1 }; before, after)
#define CU_WAIT_TWINS(kind, since, since2, name, parameters, arguments)              \
    CU_BEFORE(kind, since, name, parameters, arguments, gpud_stream_waits())         \
    CU_BEFORE(kind, since2, name##_ptsz, parameters, arguments, gpud_stream_waits())
#define CU_BEGIN_TWINS(since, since2, name, parameters, arguments)                                                         \
    CU_AROUND(CAPTURE, since, name, parameters, arguments, gpud_begins(stream, 0), gpud_begun(stream, 0, result))          \
    CU_AROUND(CAPTURE, since2, name##_ptsz, parameters, arguments, gpud_begins(stream, 1), gpud_begun(stream, 1, result))

/* Launches. */
CU_GATE_TWINS(4000, 7000, cuLaunchKernel,
    (CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by, unsigned int bz,
     unsigned int shared, CUstream stream, void **params, void **extra),
    (f, gx, gy, gz, bx, by, bz, shared, stream, params, extra), stream, f, (uint64_t)gx * gy * gz)
CU_GATE_TWINS(11060, 11060, cuLaunchKernelEx, (const CUlaunchConfig *config, CUfunction f, void **params, void **extra),
    (config, f, params, extra), config ? config->hStream : NULL, f,
    config ? (uint64_t)config->gridDimX * config->gridDimY * config->gridDimZ : 1)
CU_GATE_TWINS(9000, 9000, cuLaunchCooperativeKernel,
    (CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by, unsigned int bz,
     unsigned int shared, CUstream stream, void **params),
    (f, gx, gy, gz, bx, by, bz, shared, stream, params), stream, f, (uint64_t)gx * gy * gz)
CU_GATE(9000, cuLaunchCooperativeKernelMultiDevice, (CUDA_LAUNCH_PARAMS *list, unsigned int count, unsigned int flags),
    (list, count, flags), list && count ? list[0].hStream : NULL, 0, list && count ? list[0].function : NULL,
    list && count ? (uint64_t)list[0].gridDimX * list[0].gridDimY * list[0].gridDimZ : 1)
CU_GATE_TWINS(10000, 10000, cuGraphLaunch, (CUgraphExec graph, CUstream stream), (graph, stream), stream, graph, 0)
CU_GATE(2000, cuLaunch, (CUfunction f), (f), NULL, 0, f, 1)
CU_GATE(2000, cuLaunchGrid, (CUfunction f, int width, int height), (f, width, height), NULL, 0, f,
    (uint64_t)(unsigned int)width * (unsigned int)height)
CU_GATE(2000, cuLaunchGridAsync, (CUfunction f, int width, int height, CUstream stream), (f, width, height, stream), stream, 0, f,
    (uint64_t)(unsigned int)width * (unsigned int)height)

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
CU_COPY(3020, cuMemcpyDtoH_v2, (void *to, CUdeviceptr from, size_t bytes), (to, from, bytes), bytes, NULL, 0,
    gpud_proved(GPUD_PROOF_STREAM, NULL, 0, result))
CU_COPY(7000, cuMemcpyDtoH_v2_ptds, (void *to, CUdeviceptr from, size_t bytes), (to, from, bytes), bytes, NULL, 1,
    gpud_proved(GPUD_PROOF_STREAM, NULL, 1, result))
CU_COPY(3020, cuMemcpyAtoH_v2, (void *to, CUarray from, size_t offset, size_t bytes), (to, from, offset, bytes), bytes, NULL, 0,
    gpud_proved(GPUD_PROOF_STREAM, NULL, 0, result))
CU_COPY(7000, cuMemcpyAtoH_v2_ptds, (void *to, CUarray from, size_t offset, size_t bytes), (to, from, offset, bytes), bytes, NULL, 1,
    gpud_proved(GPUD_PROOF_STREAM, NULL, 1, result))

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
CU_AFTER(LIFECYCLE, 2000, cuInit, (unsigned int flags), (flags), if (!result) result = gpud_initialised())
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
CU_PASS(LIFECYCLE, cuStreamCreateWithPriority)

/* Device memory. An address is forgotten before the real call frees it: after it, another thread may already own it. */
CU_POOL(RESERVE, 3020, cuMemAlloc_v2, (CUdeviceptr *at, size_t bytes), (at, bytes),
    at && gpud_pool_takes(bytes), gpud_pool_alloc(at, bytes), GPUD_UNLESS_REFUSED(gpud_reserves(bytes)),
    GPUD_SETTLE(*at, bytes))
CU_RESERVE(2000, cuMemAlloc, (CUdeviceptr_v1 *at, unsigned int bytes), (at, bytes), gpud_reserves(bytes),
    GPUD_SETTLE(*at, bytes))
CU_POOL(RESERVE, 3020, cuMemAllocPitch_v2,
    (CUdeviceptr *at, size_t *pitch, size_t width, size_t height, unsigned int element), (at, pitch, width, height, element),
    at && gpud_pool_takes(width), gpud_pool_alloc_pitch(at, pitch, width, height, element),
    GPUD_UNLESS_REFUSED(gpud_reserves(gpud_bytes_pitched(width, height))),
    GPUD_SETTLE(*at, result ? 0 : *pitch * height))
CU_RESERVE(2000, cuMemAllocPitch,
    (CUdeviceptr_v1 *at, unsigned int *pitch, unsigned int width, unsigned int height, unsigned int element),
    (at, pitch, width, height, element), gpud_reserves(gpud_bytes_pitched(width, height)),
    GPUD_SETTLE(*at, result ? 0 : (uint64_t)*pitch * height))
CU_RESERVE(6000, cuMemAllocManaged, (CUdeviceptr *at, size_t bytes, unsigned int flags), (at, bytes, flags), gpud_reserves_managed(bytes),
    GPUD_SETTLE(*at, bytes))
CU_POOL_TWINS(RESERVE, 11020, cuMemAllocAsync, (CUdeviceptr *at, size_t bytes, CUstream stream), (at, bytes, stream),
    at && gpud_pool_takes_ordered(bytes, NULL, stream, per_thread), gpud_pool_alloc_ordered(at, bytes, stream, per_thread),
    GPUD_UNLESS_REFUSED(gpud_pool_takes_ordered(bytes, NULL, stream, per_thread) ? gpud_reserves(bytes)
                                                                                 : gpud_reserves_ordered(bytes, NULL, stream, per_thread)),
    GPUD_SETTLE(*at, bytes))
CU_POOL_TWINS(RESERVE, 11020, cuMemAllocFromPoolAsync, (CUdeviceptr *at, size_t bytes, CUmemoryPool pool, CUstream stream),
    (at, bytes, pool, stream), at && pool && gpud_pool_takes_ordered(bytes, pool, stream, per_thread),
    gpud_pool_alloc_ordered(at, bytes, stream, per_thread),
    GPUD_UNLESS_REFUSED(pool && gpud_pool_takes_ordered(bytes, pool, stream, per_thread)
                            ? gpud_reserves(bytes) : gpud_reserves_ordered(bytes, pool, stream, per_thread)),
    GPUD_SETTLE(*at, bytes))
CU_RESERVE(3020, cuArrayCreate_v2, (CUarray *array, const CUDA_ARRAY_DESCRIPTOR *of), (array, of),
    gpud_reserves(gpud_bytes_array_2d(of)), GPUD_SETTLE(GPUD_ARRAY_KEY(*array), charge_.bytes))
CU_RESERVE(3020, cuArray3DCreate_v2, (CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *of), (array, of),
    gpud_reserves(gpud_bytes_array_3d(of, 1)), GPUD_SETTLE(GPUD_ARRAY_KEY(*array), charge_.bytes))
CU_RESERVE(2000, cuArrayCreate, (CUarray *array, const CUDA_ARRAY_DESCRIPTOR_v1 *of), (array, of),
    gpud_reserves(gpud_bytes_array_2d_old(of)), GPUD_SETTLE(GPUD_ARRAY_KEY(*array), charge_.bytes))
CU_RESERVE(2000, cuArray3DCreate, (CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR_v1 *of), (array, of),
    gpud_reserves(gpud_bytes_array_3d_old(of)), GPUD_SETTLE(GPUD_ARRAY_KEY(*array), charge_.bytes))
CU_RESERVE(5000, cuMipmappedArrayCreate, (CUmipmappedArray *array, const CUDA_ARRAY3D_DESCRIPTOR *of, unsigned int levels),
    (array, of, levels), gpud_reserves(gpud_bytes_array_3d(of, levels)),
    GPUD_SETTLE(GPUD_ARRAY_KEY(*array), charge_.bytes))
CU_RESERVE(11040, cuGraphAddMemAllocNode,
    (CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count, CUDA_MEM_ALLOC_NODE_PARAMS *params),
    (node, graph, before, count, params), gpud_fits(params ? params->bytesize : 0), (void)charge_)
CU_RESERVE(12020, cuGraphAddNode,
    (CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count, CUgraphNodeParams *params),
    (node, graph, before, count, params), gpud_fits(gpud_bytes_node(params)), (void)charge_)
CU_RESERVE(12030, cuGraphAddNode_v2,
    (CUgraphNode *node, CUgraph graph, const CUgraphNode *before, const CUgraphEdgeData *edges, size_t count, CUgraphNodeParams *params),
    (node, graph, before, edges, count, params), gpud_fits(gpud_bytes_node(params)), (void)charge_)
CU_AFTER(RESERVE, 11020, cuMemPoolCreate, (CUmemoryPool *pool, const CUmemPoolProps *props), (pool, props),
    if (!result) gpud_pool_made(*pool, props))
CU_POOL(RELEASE, 3020, cuMemFree_v2, (CUdeviceptr at), (at), gpud_pool_owns(at), gpud_pool_free(at), GPUD_FREES(at),
    gpud_is_freed(&freeing_, result))
CU_POOL_TWINS(RELEASE, 11020, cuMemFreeAsync, (CUdeviceptr at, CUstream stream), (at, stream), gpud_pool_owns(at),
    gpud_pool_free_ordered(at, stream, per_thread), GPUD_FREES(at), (void)per_thread; gpud_is_freed(&freeing_, result))
CU_RELEASE(2000, cuMemFree, (CUdeviceptr_v1 at), (at), at)
CU_RELEASE(2000, cuArrayDestroy, (CUarray array), (array), GPUD_ARRAY_KEY(array))
CU_RELEASE(5000, cuMipmappedArrayDestroy, (CUmipmappedArray array), (array), GPUD_ARRAY_KEY(array))
CU_AROUND(RELEASE, 11020, cuMemPoolDestroy, (CUmemoryPool pool), (pool), const uint32_t home_ = gpud_pool_ended(pool),
    if (result) gpud_pool_stays(pool, home_))
CU_AFTER(RELEASE, 11040, cuDeviceGraphMemTrim, (CUdevice device), (device), if (!result) gpud_pool_changed())

/* How much there is: what the tenant's limit makes of it. */
CU_AFTER(QUERY, 3020, cuMemGetInfo_v2, (size_t *left, size_t *total), (left, total), if (!result) gpud_limit_info(left, total))
CU_AFTER(QUERY, 2000, cuMemGetInfo, (unsigned int *left, unsigned int *total), (left, total),
    if (!result) gpud_limit_info_old(left, total))
CU_AFTER(QUERY, 3020, cuDeviceTotalMem_v2, (size_t *total, CUdevice device), (total, device),
    if (!result) gpud_limit_total(total, device))
CU_AFTER(QUERY, 2000, cuDeviceTotalMem, (unsigned int *total, CUdevice device), (total, device),
    if (!result) gpud_limit_total_old(total, device))

/* What is behind a function or an executable graph goes, or changes: what is known of its cost with it. */
CU_BEFORE(LIFECYCLE, 10000, cuGraphExecDestroy, (CUgraphExec graph), (graph), gpud_function_gone(graph))
CU_BEFORE(LIFECYCLE, 10020, cuGraphExecUpdate,
    (CUgraphExec graph, CUgraph from, CUgraphNode *wrong, CUgraphExecUpdateResult *answer), (graph, from, wrong, answer),
    gpud_function_changed(graph))
CU_BEFORE(LIFECYCLE, 12000, cuGraphExecUpdate_v2, (CUgraphExec graph, CUgraph from, CUgraphExecUpdateResultInfo *answer),
    (graph, from, answer), gpud_function_changed(graph))
CU_BEFORE(LIFECYCLE, 2000, cuModuleUnload, (CUmodule module), (module), gpud_function_changed(NULL))
CU_BEFORE(LIFECYCLE, 12000, cuLibraryUnload, (CUlibrary library), (library), gpud_function_changed(NULL))

/* A stream waits for something that is not its own work: time that passes in it meanwhile is no cost of launches. */
CU_WAIT_TWINS(ENQUEUE, 3020, 7000, cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned int flags), (stream, event, flags))
CU_WAIT_TWINS(ENQUEUE, 10000, 10000, cuLaunchHostFunc, (CUstream stream, CUhostFn function, void *data), (stream, function, data))
CU_WAIT_TWINS(ENQUEUE, 5000, 7000, cuStreamAddCallback,
    (CUstream stream, CUstreamCallback function, void *data, unsigned int flags), (stream, function, data, flags))
CU_WAIT_TWINS(MEMOP, 8000, 8000, cuStreamWaitValue32, (CUstream stream, CUdeviceptr at, cuuint32_t value, unsigned int flags),
    (stream, at, value, flags))
CU_WAIT_TWINS(MEMOP, 11070, 11070, cuStreamWaitValue32_v2,
    (CUstream stream, CUdeviceptr at, cuuint32_t value, unsigned int flags), (stream, at, value, flags))
CU_WAIT_TWINS(MEMOP, 9000, 9000, cuStreamWaitValue64, (CUstream stream, CUdeviceptr at, cuuint64_t value, unsigned int flags),
    (stream, at, value, flags))
CU_WAIT_TWINS(MEMOP, 11070, 11070, cuStreamWaitValue64_v2,
    (CUstream stream, CUdeviceptr at, cuuint64_t value, unsigned int flags), (stream, at, value, flags))

/* Entry points. */
CU_OWN(RESOLVE, 11030, cuGetProcAddress, (const char *symbol, void **function, int version, cuuint64_t flags))
CU_OWN(RESOLVE, 12000, cuGetProcAddress_v2, (const char *symbol, void **function, int version, cuuint64_t flags,
    CUdriverProcAddressQueryResult *status))

/* What the hook asks of the driver itself. */
CU_NEED(2000, cuEventCreate, (CUevent *event, unsigned int flags))
CU_NEED(2000, cuEventElapsedTime, (float *ms, CUevent start, CUevent end))
CU_NEED(2000, cuDeviceGet, (CUdevice *device, int ordinal))
CU_NEED(2000, cuDeviceGetCount, (int *count))
CU_NEED(9020, cuDeviceGetUuid, (CUuuid *uuid, CUdevice device))
CU_NEED(11040, cuDeviceGetUuid_v2, (CUuuid *uuid, CUdevice device))
CU_NEED(11040, cuDeviceGetGraphMemAttribute, (CUdevice device, CUgraphMem_attribute attribute, void *value))
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
CU_NEED(2000, cuStreamCreate, (CUstream *stream, unsigned int flags))
CU_NEED(6050, cuMemHostRegister_v2, (void *at, size_t bytes, unsigned int flags))
CU_NEED(4000, cuDeviceCanAccessPeer, (int *can, CUdevice device, CUdevice peer))
CU_NEED(11020, cuDeviceGetDefaultMemPool, (CUmemoryPool *pool, CUdevice device))
CU_NEED(11020, cuDeviceGetMemPool, (CUmemoryPool *pool, CUdevice device))

#include "cuda_copies.h"
#include "cuda_sets.h"
#include "cuda_pool.h"
#include "cuda_vmm.h"
#include "cuda_pass.h"

#undef CU_GATE
#undef CU_AFTER
#undef CU_BEFORE
#undef CU_AROUND
#undef CU_OWN
#undef CU_PASS
#undef CU_NEED
#undef CU_RESERVE
#undef CU_LENDS
#undef CU_PINS
#undef CU_RELEASE
#undef CU_MEMSET
#undef CU_COPY
#undef CU_POOL
#undef CU_POOL_TWINS
#undef CU_COPY_TWINS
#undef CU_GATE_TWINS
#undef CU_AFTER_TWINS
#undef CU_BEGIN_TWINS
#undef CU_WAIT_TWINS
#undef CU_PASS_PTSZ
#undef CU_PASS_PTDS
