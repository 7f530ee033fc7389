/* driver_memory.h: the memory side of the driver API, for the C tests, and what several of them need. */
#ifndef SIM_TEST_DRIVER_MEMORY_H
#define SIM_TEST_DRIVER_MEMORY_H

#include "driver.h"

CUresult cuMemAddressReserve(CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long);
CUresult cuMemAddressFree(CUdeviceptr, size_t);
CUresult cuMemCreate(CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *, unsigned long long);
CUresult cuMemRelease(CUmemGenericAllocationHandle);
CUresult cuMemMap(CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long);
CUresult cuMemUnmap(CUdeviceptr, size_t);
CUresult cuMemSetAccess(CUdeviceptr, size_t, const CUmemAccessDesc *, size_t);
CUresult cuMemGetAccess(unsigned long long *, const CUmemLocation *, CUdeviceptr);
CUresult cuMemGetAllocationGranularity(size_t *, const CUmemAllocationProp *, int);
CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *, CUmemGenericAllocationHandle);
CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *, void *);
CUresult cuMemExportToShareableHandle(void *, CUmemGenericAllocationHandle, int, unsigned long long);
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *, void *, int);
CUresult cuIpcGetMemHandle(CUipcMemHandle *, CUdeviceptr);
CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *, CUipcMemHandle, unsigned);
CUresult cuIpcCloseMemHandle(CUdeviceptr);
CUresult cuIpcGetEventHandle(CUipcEventHandle *, CUevent);
CUresult cuIpcOpenEventHandle(CUevent *, CUipcEventHandle);
CUresult cuMemPoolCreate(CUmemoryPool *, const CUmemPoolProps *);
CUresult cuMemPoolDestroy(CUmemoryPool);
CUresult cuMemPoolSetAccess(CUmemoryPool, const CUmemAccessDesc *, size_t);
CUresult cuMemPoolGetAccess(int *, CUmemoryPool, CUmemLocation *);
CUresult cuMemPoolExportToShareableHandle(void *, CUmemoryPool, int, unsigned long long);
CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *, void *, int, unsigned long long);
CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *, CUdeviceptr);
CUresult cuMemPoolImportPointer(CUdeviceptr *, CUmemoryPool, CUmemPoolPtrExportData *);
CUresult cuMemAllocFromPoolAsync(CUdeviceptr *, size_t, CUmemoryPool, CUstream);
CUresult cuDeviceGetMemPool(CUmemoryPool *, CUdevice);
CUresult cuDeviceSetMemPool(CUdevice, CUmemoryPool);
CUresult cuMemGetDefaultMemPool(CUmemoryPool *, CUmemLocation *, int);
CUresult cuMemGetMemPool(CUmemoryPool *, CUmemLocation *, int);
CUresult cuMemSetMemPool(CUmemLocation *, int, CUmemoryPool);
CUresult cuMemAllocManaged(CUdeviceptr *, size_t, unsigned);
CUresult cuMemAdvise_v2(CUdeviceptr, size_t, int, CUmemLocation);
CUresult cuMemAdvise(CUdeviceptr, size_t, int, CUdevice);
CUresult cuMemPrefetchAsync_v2(CUdeviceptr, size_t, CUmemLocation, unsigned, CUstream);
CUresult cuMemRangeGetAttribute(void *, size_t, int, CUdeviceptr, size_t);
CUresult cuMemRangeGetAttributes(void **, size_t *, int *, size_t, CUdeviceptr, size_t);
CUresult cuStreamAttachMemAsync(CUstream, CUdeviceptr, size_t, unsigned);
CUresult cuArrayCreate_v2(CUarray *, const CUDA_ARRAY_DESCRIPTOR *);
CUresult cuArray3DCreate_v2(CUarray *, const CUDA_ARRAY3D_DESCRIPTOR *);
CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *, CUarray);
CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *, CUarray);
CUresult cuArrayDestroy(CUarray);
CUresult cuMipmappedArrayCreate(CUmipmappedArray *, const CUDA_ARRAY3D_DESCRIPTOR *, unsigned);
CUresult cuMipmappedArrayGetLevel(CUarray *, CUmipmappedArray, unsigned);
CUresult cuMipmappedArrayDestroy(CUmipmappedArray);
CUresult cuMemcpyHtoA_v2(CUarray, size_t, const void *, size_t);
CUresult cuMemcpyAtoH_v2(void *, CUarray, size_t, size_t);
CUresult cuMemcpyAtoA_v2(CUarray, size_t, CUarray, size_t, size_t);
CUresult cuMemcpyDtoA_v2(CUarray, size_t, CUdeviceptr, size_t);
CUresult cuMemcpyAtoD_v2(CUdeviceptr, CUarray, size_t, size_t);
CUresult cuMemcpyHtoAAsync_v2(CUarray, size_t, const void *, size_t, CUstream);
CUresult cuMemcpyAtoHAsync_v2(void *, CUarray, size_t, size_t, CUstream);
CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *);
CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *);
CUresult cuMemcpyPeer(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t);
CUresult cuCtxEnablePeerAccess(CUcontext, unsigned);
CUresult cuCtxDisablePeerAccess(CUcontext);
CUresult cuDeviceCanAccessPeer(int *, CUdevice, CUdevice);
CUresult cuDeviceGetP2PAttribute(int *, int, CUdevice, CUdevice);
CUresult cuPointerGetAttributes(unsigned, int *, void **, CUdeviceptr);
CUresult cuPointerSetAttribute(const void *, int, CUdeviceptr);
CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice, unsigned);
CUresult cuCtxGetFlags(unsigned *);

#define MIB ((size_t)1 << 20)
#define UNIT (2 * MIB)

/* Attributes of a pointer. */
enum { P_CONTEXT = 1, P_TYPE, P_DEVICE_POINTER, P_HOST_POINTER, P_SYNC = 6, P_ID, P_MANAGED, P_ORDINAL, P_IPC, P_START, P_SIZE, P_MAPPED,
       P_HANDLES, P_RDMA, P_ACCESS, P_POOL, P_MAPPING_SIZE, P_MAPPING_BASE, P_BLOCK };

/* An attribute as a number; a value that none has when the call fails with `failed`. */
static inline unsigned long long attribute_of(CUdeviceptr at, int which)
{
    unsigned long long value = 0;
    CUresult result = cuPointerGetAttribute(&value, which, at);
    return result ? 0xbad0000ull + (unsigned)result : value;
}

/* Free bytes of the current context's device. */
static inline size_t left(void)
{
    size_t bytes = 0;
    OK(cuMemGetInfo_v2(&bytes, NULL));
    return bytes;
}

static inline CUmemAllocationProp on_device(int device)
{
    return (CUmemAllocationProp){.type = ALLOCATION_PINNED, .requestedHandleTypes = HANDLE_FD, .location = {LOCATION_DEVICE, device}};
}

static inline CUresult grant(CUdeviceptr at, size_t bytes, int device, int flags)
{
    CUmemAccessDesc desc = {{LOCATION_DEVICE, device}, flags};
    return cuMemSetAccess(at, bytes, &desc, 1);
}

static inline unsigned word(CUdeviceptr at)
{
    unsigned value = 0;
    OK(cuMemcpyDtoH_v2(&value, at, sizeof value));
    return value;
}

static inline void put_word(CUdeviceptr at, unsigned value) { OK(cuMemcpyHtoD_v2(at, &value, sizeof value)); }

/* Launches data[0] = data[0] * factor + add. */
static inline void times(CUmodule module, const char *name, CUdeviceptr data, unsigned factor, unsigned add, CUstream stream)
{
    void *params[] = {&data, &factor, &add};
    OK(cuLaunchKernel(function(module, name), 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

#endif
