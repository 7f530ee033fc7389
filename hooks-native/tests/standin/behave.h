/* behave.h: what the stand-in's entries do: do_<name>, inline for the trivial ones, else in behave.c. */
#ifndef STANDIN_BEHAVE_H
#define STANDIN_BEHAVE_H

#include "table.h"

struct CUctx_st { CUdevice device; };
struct CUstream_st { CUcontext context; int capturing; };
struct CUevent_st { int recorded; };

extern struct standin_launch standin_last;

void standin_launched(enum standin_row row);
CUresult standin_finished(void);            /* SUCCESS or NOT_READY */
CUresult standin_wait(void);
CUresult standin_push(CUcontext context);
CUresult standin_pop(CUcontext *context);
CUresult standin_set(CUcontext context);
CUcontext standin_current(void);
CUresult standin_context(CUcontext *context, CUdevice device);
CUresult standin_capture(CUstream stream, int on);
CUresult standin_allocate(CUdeviceptr *at, size_t bytes);
CUresult standin_uuid(CUuuid *uuid, CUdevice device);
CUresult standin_event(CUevent *event);
CUresult standin_capturing(CUstream stream, CUstreamCaptureStatus *status);
CUresult standin_devices(int *count);
CUresult standin_device(CUdevice *device);
CUresult standin_initialise(void);
CUresult standin_passed(enum standin_row row, uintptr_t a, uintptr_t b, uintptr_t c);

static inline CUresult standin_launch_kernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
                                             unsigned int by, unsigned int bz, unsigned int shared, CUstream stream,
                                             void **params, void **extra)
{
#ifdef STANDIN_BENCH
    (void)f, (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)stream, (void)params, (void)extra;
#else
    standin_last = (struct standin_launch){ f, { gx, gy, gz }, { bx, by, bz }, shared, stream, params, extra };
#endif
    return CUDA_SUCCESS;
}
#define do_cuLaunchKernel standin_launch_kernel
#define do_cuLaunchKernel_ptsz standin_launch_kernel
#define do_cuLaunchCooperativeKernel(f, gx, gy, gz, bx, by, bz, shared, stream, params) \
    standin_launch_kernel(f, gx, gy, gz, bx, by, bz, shared, stream, params, NULL)
#define do_cuLaunchCooperativeKernel_ptsz do_cuLaunchCooperativeKernel
#define do_cuLaunchKernelEx(config, f, params, extra)                                                                    \
    standin_launch_kernel(f, config->gridDimX, config->gridDimY, config->gridDimZ, config->blockDimX, config->blockDimY, \
                          config->blockDimZ, config->sharedMemBytes, config->hStream, params, extra)
#define do_cuLaunchKernelEx_ptsz do_cuLaunchKernelEx
#define do_cuLaunchCooperativeKernelMultiDevice(list, count, flags) ((void)(list), (void)(count), (void)(flags), CUDA_SUCCESS)
#define do_cuGraphLaunch(graph, stream) ((void)(graph), (void)(stream), CUDA_SUCCESS)
#define do_cuGraphLaunch_ptsz do_cuGraphLaunch
#define do_cuLaunch(f) ((void)(f), CUDA_SUCCESS)
#define do_cuLaunchGrid(f, width, height) ((void)(f), (void)(width), (void)(height), CUDA_SUCCESS)
#define do_cuLaunchGridAsync(f, width, height, stream) ((void)(f), (void)(width), (void)(height), (void)(stream), CUDA_SUCCESS)

#define do_cuCtxSynchronize() standin_wait()
#define do_cuCtxSynchronize_v2(context) ((void)(context), standin_wait())
#define do_cuStreamSynchronize(stream) ((void)(stream), standin_wait())
#define do_cuStreamSynchronize_ptsz do_cuStreamSynchronize
#define do_cuStreamQuery(stream) ((void)(stream), standin_finished())
#define do_cuStreamQuery_ptsz do_cuStreamQuery
#define do_cuEventSynchronize(event) ((void)(event), standin_wait())
#define do_cuEventQuery(event) ((event)->recorded ? standin_finished() : CUDA_SUCCESS)
#define do_cuEventRecord(event, stream) ((void)(stream), (event)->recorded = 1, CUDA_SUCCESS)
#define do_cuEventRecord_ptsz do_cuEventRecord
#define do_cuEventRecordWithFlags(event, stream, flags) ((void)(stream), (void)(flags), (event)->recorded = 1, CUDA_SUCCESS)
#define do_cuEventRecordWithFlags_ptsz do_cuEventRecordWithFlags

#define do_cuGraphExecDestroy(graph) ((void)(graph), CUDA_SUCCESS)
#define do_cuGraphExecUpdate(graph, from, wrong, answer) ((void)(graph), (void)(from), (void)(wrong), (void)(answer), CUDA_SUCCESS)
#define do_cuGraphExecUpdate_v2(graph, from, answer) ((void)(graph), (void)(from), (void)(answer), CUDA_SUCCESS)
#define do_cuModuleUnload(module) ((void)(module), CUDA_SUCCESS)
#define do_cuLibraryUnload(library) ((void)(library), CUDA_SUCCESS)
#define do_cuStreamWaitEvent(stream, event, flags) ((void)(stream), (void)(event), (void)(flags), CUDA_SUCCESS)
#define do_cuStreamWaitEvent_ptsz do_cuStreamWaitEvent
#define do_cuLaunchHostFunc(stream, function, data) ((void)(stream), (void)(function), (void)(data), CUDA_SUCCESS)
#define do_cuLaunchHostFunc_ptsz do_cuLaunchHostFunc
#define do_cuStreamAddCallback(stream, function, data, flags) \
    ((void)(stream), (void)(function), (void)(data), (void)(flags), CUDA_SUCCESS)
#define do_cuStreamAddCallback_ptsz do_cuStreamAddCallback
#define do_cuStreamWaitValue32(stream, at, value, flags) ((void)(stream), (void)(at), (void)(value), (void)(flags), CUDA_SUCCESS)
#define do_cuStreamWaitValue32_ptsz do_cuStreamWaitValue32
#define do_cuStreamWaitValue32_v2 do_cuStreamWaitValue32
#define do_cuStreamWaitValue32_v2_ptsz do_cuStreamWaitValue32
#define do_cuStreamWaitValue64 do_cuStreamWaitValue32
#define do_cuStreamWaitValue64_ptsz do_cuStreamWaitValue32
#define do_cuStreamWaitValue64_v2 do_cuStreamWaitValue32
#define do_cuStreamWaitValue64_v2_ptsz do_cuStreamWaitValue32
#define do_cuStreamBeginCapture(stream) standin_capture(stream, 1)
#define do_cuStreamBeginCapture_ptsz do_cuStreamBeginCapture
#define do_cuStreamBeginCapture_v2(stream, mode) ((void)(mode), standin_capture(stream, 1))
#define do_cuStreamBeginCapture_v2_ptsz do_cuStreamBeginCapture_v2
#define do_cuStreamBeginCaptureToGraph(stream, graph, dependencies, edges, count, mode) \
    ((void)(graph), (void)(dependencies), (void)(edges), (void)(count), (void)(mode), standin_capture(stream, 1))
#define do_cuStreamBeginCaptureToGraph_ptsz do_cuStreamBeginCaptureToGraph
#define do_cuStreamBeginRecaptureToGraph(stream, mode, graph, callback, data) \
    ((void)(mode), (void)(graph), (void)(callback), (void)(data), standin_capture(stream, 1))
#define do_cuStreamBeginRecaptureToGraph_ptsz do_cuStreamBeginRecaptureToGraph
#define do_cuStreamBeginCaptureToCig(stream, params) ((void)(params), standin_capture(stream, 1))
#define do_cuStreamBeginCaptureToCig_ptsz do_cuStreamBeginCaptureToCig
#define do_cuStreamEndCapture(stream, graph) ((graph) ? (*(graph) = NULL, 0) : 0, standin_capture(stream, 0))
#define do_cuStreamEndCapture_ptsz do_cuStreamEndCapture
#define do_cuStreamEndCaptureToCig(stream) standin_capture(stream, 0)
#define do_cuStreamEndCaptureToCig_ptsz do_cuStreamEndCaptureToCig

#define do_cuInit(flags) ((flags) ? CUDA_ERROR_INVALID_VALUE : standin_initialise())
#define do_cuCtxCreate(context, flags, device) ((void)(flags), standin_context(context, device))
#define do_cuCtxCreate_v2 do_cuCtxCreate
#define do_cuCtxCreate_v3(context, affinity, count, flags, device) \
    ((void)(affinity), (void)(count), (void)(flags), standin_context(context, device))
#define do_cuCtxCreate_v4(context, params, flags, device) ((void)(params), (void)(flags), standin_context(context, device))
#define do_cuCtxSetCurrent standin_set
#define do_cuCtxPushCurrent standin_push
#define do_cuCtxPushCurrent_v2 standin_push
#define do_cuCtxPopCurrent standin_pop
#define do_cuCtxPopCurrent_v2 standin_pop
#define do_cuCtxAttach(context, flags) ((void)(flags), *(context) = standin_current(), CUDA_SUCCESS)
#define do_cuCtxDetach(context) ((void)(context), CUDA_SUCCESS)
#define do_cuCtxDestroy(context) (standin_current() == (context) ? standin_pop(NULL) : CUDA_SUCCESS)
#define do_cuCtxDestroy_v2 do_cuCtxDestroy
#define do_cuDevicePrimaryCtxRelease(device) ((void)(device), CUDA_SUCCESS)
#define do_cuDevicePrimaryCtxRelease_v2 do_cuDevicePrimaryCtxRelease
#define do_cuDevicePrimaryCtxReset do_cuDevicePrimaryCtxRelease
#define do_cuDevicePrimaryCtxReset_v2 do_cuDevicePrimaryCtxRelease
#define do_cuGreenCtxDestroy(context) ((void)(context), CUDA_SUCCESS)
#define do_cuStreamDestroy(stream) ((void)(stream), CUDA_SUCCESS)
#define do_cuStreamDestroy_v2 do_cuStreamDestroy
#define do_cuEventDestroy(event) ((void)(event), CUDA_SUCCESS)
#define do_cuEventDestroy_v2 do_cuEventDestroy
#define do_cuCtxRecordEvent(context, event) ((void)(context), (event)->recorded = 1, CUDA_SUCCESS)
#define do_cuGreenCtxRecordEvent do_cuCtxRecordEvent

#define do_cuMemAlloc_v2 standin_allocate
#define do_cuMemAllocPitch_v2(at, pitch, width, height, element) \
    ((void)(element), *(pitch) = ((width) + 511) & ~(size_t)511, standin_allocate(at, *(pitch) * (height)))
#define do_cuMemAllocManaged(at, bytes, flags) ((void)(flags), standin_allocate(at, bytes))
#define do_cuMemAllocAsync(at, bytes, stream) ((void)(stream), standin_allocate(at, bytes))
#define do_cuMemAllocAsync_ptsz do_cuMemAllocAsync
#define do_cuMemAllocFromPoolAsync(at, bytes, pool, stream) ((void)(pool), (void)(stream), standin_allocate(at, bytes))
#define do_cuMemAllocFromPoolAsync_ptsz do_cuMemAllocFromPoolAsync
#define do_cuMemCreate(handle, bytes, prop, flags) ((void)(prop), (void)(flags), standin_allocate(handle, bytes))
#define do_cuMemFree_v2(at) ((void)(at), CUDA_SUCCESS)
#define do_cuMemFreeAsync(at, stream) ((void)(at), (void)(stream), CUDA_SUCCESS)
#define do_cuMemFreeAsync_ptsz do_cuMemFreeAsync
#define do_cuMemRelease do_cuMemFree_v2
#define do_cuMemFree do_cuMemFree_v2
#define do_cuArrayDestroy do_cuMemFree_v2
#define do_cuMipmappedArrayDestroy do_cuMemFree_v2
#define do_cuMemPoolDestroy do_cuMemFree_v2
#define do_cuDeviceGraphMemTrim do_cuMemFree_v2
#define do_cuMemAlloc(at, bytes) ((void)(bytes), *(at) = 4096, CUDA_SUCCESS)
#define do_cuMemAllocPitch(at, pitch, width, height, element) \
    ((void)(height), (void)(element), *(at) = 4096, *(pitch) = (width), CUDA_SUCCESS)
#define do_cuArrayCreate_v2(array, of) ((void)(array), (void)(of), CUDA_SUCCESS)
#define do_cuArray3DCreate_v2 do_cuArrayCreate_v2
#define do_cuArrayCreate do_cuArrayCreate_v2
#define do_cuArray3DCreate do_cuArrayCreate_v2
#define do_cuMemRetainAllocationHandle(handle, at) (*(handle) = (CUmemGenericAllocationHandle)(uintptr_t)(at), CUDA_SUCCESS)
#define do_cuMemGetHandleForAddressRange(handle, at, bytes, type, flags) ((void)(handle), (void)(at), (void)(bytes), (void)(type), (void)(flags), CUDA_SUCCESS)
#define do_cuMulticastBindAddr(group, offset, at, bytes, flags) ((void)(group), (void)(offset), (void)(at), (void)(bytes), (void)(flags), CUDA_SUCCESS)
#define do_cuMemMap(at, bytes, offset, handle, flags) ((void)(at), (void)(bytes), (void)(offset), (void)(handle), (void)(flags), CUDA_SUCCESS)
#define do_cuMemUnmap(at, bytes) ((void)(at), (void)(bytes), CUDA_SUCCESS)
#define do_cuMemAddressReserve(at, bytes, alignment, near, flags) \
    ((void)(at), (void)(bytes), (void)(alignment), (void)(near), (void)(flags), CUDA_ERROR_NOT_SUPPORTED)
#define do_cuMemAddressFree do_cuMemUnmap
#define do_cuMemSetAccess(at, bytes, list, count) ((void)(at), (void)(bytes), (void)(list), (void)(count), CUDA_SUCCESS)
#define do_cuMemGetAccess(flags, location, at) ((void)(flags), (void)(location), (void)(at), CUDA_SUCCESS)
#define do_cuMemGetAllocationPropertiesFromHandle(prop, handle) ((void)(prop), (void)(handle), CUDA_SUCCESS)
#define do_cuMemExportToShareableHandle(out, handle, type, flags) ((void)(out), (void)(handle), (void)(type), (void)(flags), CUDA_SUCCESS)
#define do_cuMulticastBindMem(group, offset, memory, from, bytes, flags) \
    ((void)(group), (void)(offset), (void)(memory), (void)(from), (void)(bytes), (void)(flags), CUDA_SUCCESS)
#define do_cuMulticastBindMem_v2(group, device, offset, memory, from, bytes, flags) \
    ((void)(device), do_cuMulticastBindMem(group, offset, memory, from, bytes, flags))
#define do_cuLogicalEndpointBindMem do_cuMulticastBindMem_v2
#define do_cuMulticastBindAddr_v2(group, device, offset, at, bytes, flags) ((void)(device), do_cuMulticastBindAddr(group, offset, at, bytes, flags))
#define do_cuLogicalEndpointBindAddr do_cuMulticastBindAddr_v2
#define do_cuGraphAddNode(node, graph, before, count, params) \
    ((void)(node), (void)(graph), (void)(before), (void)(count), (void)(params), CUDA_SUCCESS)
#define do_cuGraphAddNode_v2(node, graph, before, edges, count, params) \
    ((void)(edges), do_cuGraphAddNode(node, graph, before, count, params))
#define do_cuMipmappedArrayCreate(array, of, levels) ((void)(array), (void)(of), (void)(levels), CUDA_SUCCESS)
#define do_cuMemPoolCreate do_cuArrayCreate_v2
#define do_cuGraphAddMemAllocNode(node, graph, before, count, params) \
    ((void)(node), (void)(graph), (void)(before), (void)(count), (void)(params), CUDA_SUCCESS)
#define do_cuMemGetInfo_v2(left, total) ((void)(left), (void)(total), CUDA_SUCCESS)
#define do_cuMemGetInfo do_cuMemGetInfo_v2
#define do_cuDeviceTotalMem(total, device) ((void)(total), (void)(device), CUDA_SUCCESS)
#define do_cuMemGetAddressRange_v2(base, bytes, at) ((void)(base), (void)(bytes), (void)(at), CUDA_SUCCESS)
#define do_cuPointerGetAttribute(data, attribute, at) ((void)(data), (void)(attribute), (void)(at), CUDA_SUCCESS)
#define do_cuPointerSetAttribute(value, attribute, at) ((void)(value), (void)(attribute), (void)(at), CUDA_SUCCESS)
#define do_cuPointerGetAttributes(count, attributes, data, at) ((void)(count), (void)(attributes), (void)(data), (void)(at), CUDA_SUCCESS)
#define do_cuMemPoolGetAttribute(pool, attribute, value) ((void)(pool), (void)(attribute), (void)(value), CUDA_SUCCESS)
#define do_cuMemPoolSetAttribute do_cuMemPoolGetAttribute
#define do_cuMemPoolTrimTo(pool, keep) ((void)(pool), (void)(keep), CUDA_SUCCESS)
#define do_cuCtxEnablePeerAccess(peer, flags) ((void)(peer), (void)(flags), CUDA_SUCCESS)
#define do_cuCtxDisablePeerAccess(peer) ((void)(peer), CUDA_SUCCESS)

#define do_cuEventCreate(event, flags) ((void)(flags), standin_event(event))
#define do_cuEventElapsedTime(ms, start, end) \
    ((start)->recorded && (end)->recorded ? *(ms) = 0.01f, standin_finished() : CUDA_ERROR_INVALID_HANDLE)
#define do_cuDeviceGet(device, ordinal) (*(device) = (ordinal), CUDA_SUCCESS)
#define do_cuDeviceGetCount standin_devices
#define do_cuDeviceGetUuid standin_uuid
#define do_cuDeviceGetUuid_v2 standin_uuid
#define do_cuDeviceTotalMem_v2(bytes, device) ((void)(device), *(bytes) = (size_t)16 << 30, CUDA_SUCCESS)
#define do_cuDevicePrimaryCtxGetState(device, flags, alive) ((void)(device), *(flags) = 0, *(alive) = 1, CUDA_SUCCESS)
#define do_cuCtxGetCurrent(context) (*(context) = standin_current(), CUDA_SUCCESS)
#define do_cuCtxGetDevice standin_device
#define do_cuStreamGetCtx(stream, context) ((void)(stream), *(context) = standin_current(), CUDA_SUCCESS)
#define do_cuStreamGetCtx_ptsz do_cuStreamGetCtx
#define do_cuStreamIsCapturing standin_capturing
#define do_cuStreamIsCapturing_ptsz standin_capturing
#define do_cuStreamGetCaptureInfo(stream, status, id) ((id) ? (*(id) = 1, 0) : 0, standin_capturing(stream, status))
#define do_cuStreamGetCaptureInfo_ptsz do_cuStreamGetCaptureInfo
#define do_cuThreadExchangeStreamCaptureMode(mode) ((void)(mode), CUDA_SUCCESS)
#define do_cuDriverGetVersion(version) (*(version) = 13050, CUDA_SUCCESS)

#endif
