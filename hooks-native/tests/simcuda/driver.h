/* driver.h: the part of the driver API that the C tests call, linked. */
#ifndef SIM_TEST_DRIVER_H
#define SIM_TEST_DRIVER_H

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../sim/cuda/api.h"
#include "../check.h"

CUresult cuInit(unsigned);
CUresult cuDriverGetVersion(int *);
CUresult cuDeviceGet(CUdevice *, int);
CUresult cuDeviceGetCount(int *);
CUresult cuDeviceGetName(char *, int, CUdevice);
CUresult cuDeviceGetUuid_v2(CUuuid *, CUdevice);
CUresult cuDeviceGetAttribute(int *, int, CUdevice);
CUresult cuDeviceTotalMem_v2(size_t *, CUdevice);
CUresult cuDeviceGetPCIBusId(char *, int, CUdevice);
CUresult cuDeviceGetByPCIBusId(CUdevice *, const char *);
CUresult cuDevicePrimaryCtxRetain(CUcontext *, CUdevice);
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice);
CUresult cuDevicePrimaryCtxReset_v2(CUdevice);
CUresult cuDevicePrimaryCtxGetState(CUdevice, unsigned *, int *);
CUresult cuCtxCreate_v2(CUcontext *, unsigned, CUdevice);
CUresult cuCtxCreate_v4(CUcontext *, CUctxCreateParams *, unsigned, CUdevice);
CUresult cuCtxDestroy_v2(CUcontext);
CUresult cuCtxPushCurrent_v2(CUcontext);
CUresult cuCtxPopCurrent_v2(CUcontext *);
CUresult cuCtxSetCurrent(CUcontext);
CUresult cuCtxGetCurrent(CUcontext *);
CUresult cuCtxGetDevice(CUdevice *);
CUresult cuCtxSynchronize(void);
CUresult cuCtxGetLimit(size_t *, int);
CUresult cuCtxGetApiVersion(CUcontext, unsigned *);
CUresult cuCtxGetStreamPriorityRange(int *, int *);
CUresult cuModuleLoadData(CUmodule *, const void *);
CUresult cuModuleLoadDataEx(CUmodule *, const void *, unsigned, int *, void **);
CUresult cuModuleLoad(CUmodule *, const char *);
CUresult cuModuleUnload(CUmodule);
CUresult cuModuleGetFunction(CUfunction *, CUmodule, const char *);
CUresult cuModuleGetGlobal_v2(CUdeviceptr *, size_t *, CUmodule, const char *);
CUresult cuLibraryLoadData(CUlibrary *, const void *, int *, void **, unsigned, int *, void **, unsigned);
CUresult cuLibraryGetKernel(CUkernel *, CUlibrary, const char *);
CUresult cuLibraryGetModule(CUmodule *, CUlibrary);
CUresult cuLibraryUnload(CUlibrary);
CUresult cuKernelGetFunction(CUfunction *, CUkernel);
CUresult cuKernelGetAttribute(int *, int, CUkernel, CUdevice);
CUresult cuKernelSetAttribute(int, int, CUkernel, CUdevice);
CUresult cuFuncGetAttribute(int *, int, CUfunction);
CUresult cuFuncSetAttribute(CUfunction, int, int);
CUresult cuFuncGetParamInfo(CUfunction, size_t, size_t *, size_t *);
CUresult cuFuncSetBlockShape(CUfunction, int, int, int);
CUresult cuParamSetSize(CUfunction, unsigned);
CUresult cuParamSeti(CUfunction, int, unsigned);
CUresult cuParamSetv(CUfunction, int, void *, unsigned);
CUresult cuLaunch(CUfunction);
CUresult cuLaunchGrid(CUfunction, int, int);
CUresult cuLaunchGridAsync(CUfunction, int, int, CUstream);
CUresult cuLinkCreate_v2(unsigned, int *, void **, CUlinkState *);
CUresult cuLinkAddData_v2(CUlinkState, int, void *, size_t, const char *, unsigned, int *, void **);
CUresult cuLinkComplete(CUlinkState, void **, size_t *);
CUresult cuLinkDestroy(CUlinkState);
#define LAUNCH(name) CUresult name(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **, void **);
LAUNCH(cuLaunchKernel)
LAUNCH(cuLaunchKernel_ptsz)
CUresult cuLaunchCooperativeKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **);
CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *, unsigned, unsigned);
CUresult cuLaunchKernelEx(const CUlaunchConfig *, CUfunction, void **, void **);
CUresult cuLaunchHostFunc(CUstream, CUhostFn, void *);
CUresult cuStreamCreate(CUstream *, unsigned);
CUresult cuStreamCreateWithPriority(CUstream *, unsigned, int);
CUresult cuStreamGetPriority(CUstream, int *);
CUresult cuStreamGetCtx(CUstream, CUcontext *);
CUresult cuStreamDestroy_v2(CUstream);
CUresult cuStreamQuery(CUstream);
CUresult cuStreamSynchronize(CUstream);
CUresult cuStreamSynchronize_ptsz(CUstream);
CUresult cuStreamWaitEvent(CUstream, CUevent, unsigned);
CUresult cuStreamBeginCapture_v2(CUstream, int);
CUresult cuStreamEndCapture(CUstream, CUgraph *);
CUresult cuStreamIsCapturing(CUstream, int *);
CUresult cuThreadExchangeStreamCaptureMode(int *);
CUresult cuGraphInstantiateWithFlags(CUgraphExec *, CUgraph, unsigned long long);
CUresult cuGraphLaunch(CUgraphExec, CUstream);
CUresult cuGraphGetNodes(CUgraph, CUgraphNode *, size_t *);
CUresult cuGraphDestroy(CUgraph);
CUresult cuGraphExecDestroy(CUgraphExec);
CUresult cuEventCreate(CUevent *, unsigned);
CUresult cuEventRecord(CUevent, CUstream);
CUresult cuEventQuery(CUevent);
CUresult cuEventSynchronize(CUevent);
CUresult cuEventElapsedTime_v2(float *, CUevent, CUevent);
CUresult cuEventDestroy_v2(CUevent);
CUresult cuMemAlloc_v2(CUdeviceptr *, size_t);
CUresult cuMemAllocPitch_v2(CUdeviceptr *, size_t *, size_t, size_t, unsigned);
CUresult cuMemFree_v2(CUdeviceptr);
CUresult cuMemGetInfo_v2(size_t *, size_t *);
CUresult cuMemGetAddressRange_v2(CUdeviceptr *, size_t *, CUdeviceptr);
CUresult cuMemHostAlloc(void **, size_t, unsigned);
CUresult cuMemFreeHost(void *);
CUresult cuMemHostRegister_v2(void *, size_t, unsigned);
CUresult cuMemHostUnregister(void *);
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *, void *, unsigned);
CUresult cuPointerGetAttribute(void *, int, CUdeviceptr);
CUresult cuMemcpyHtoD_v2(CUdeviceptr, const void *, size_t);
CUresult cuMemcpyDtoH_v2(void *, CUdeviceptr, size_t);
CUresult cuMemcpyDtoD_v2(CUdeviceptr, CUdeviceptr, size_t);
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr, const void *, size_t, CUstream);
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr, CUdeviceptr, size_t, CUstream);
CUresult cuMemcpyDtoHAsync_v2(void *, CUdeviceptr, size_t, CUstream);
CUresult cuMemcpy(CUdeviceptr, CUdeviceptr, size_t);
CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *);
CUresult cuMemsetD8_v2(CUdeviceptr, unsigned char, size_t);
CUresult cuMemsetD32_v2(CUdeviceptr, unsigned, size_t);
CUresult cuMemsetD2D16_v2(CUdeviceptr, size_t, unsigned short, size_t, size_t);
CUresult cuMemAllocAsync(CUdeviceptr *, size_t, CUstream);
CUresult cuMemFreeAsync(CUdeviceptr, CUstream);
CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *, CUdevice);
CUresult cuMemPoolGetAttribute(CUmemoryPool, int, void *);
CUresult cuMemPoolSetAttribute(CUmemoryPool, int, void *);
CUresult cuMemPoolTrimTo(CUmemoryPool, size_t);
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *, CUfunction, int, size_t);
CUresult cuGetProcAddress(const char *, void **, int, cuuint64_t);
CUresult cuGetProcAddress_v2(const char *, void **, int, cuuint64_t, int *);
CUresult cuGetExportTable(const void **, const CUuuid *);
CUresult cuGetErrorName(CUresult, const char **);
CUresult cuGetErrorString(CUresult, const char **);
CUresult cuMulticastCreate(void);               /* one that is not simulated */

/* The call must answer `expected`. */
#define EXPECT(expected, call) \
    do { \
        CUresult got_ = (call); \
        CHECK(got_ == (expected), "%s is %d, not %d", #call, got_, (int)(expected)); \
    } while (0)
#define OK(call) EXPECT(CUDA_SUCCESS, call)

static char own_cache[] = "/tmp/gpud-test-XXXXXX";
static pid_t own_pid;

/* A node and a cache of this process's own, so that tests that run at once or after another do not meet. */
__attribute__((constructor)) static inline void own_place(void)
{
    char name[64];
    snprintf(name, sizeof name, "test-cuda-%d", (int)getpid());
    setenv("GPUD_SIM_NODE", name, 1);
    if (!mkdtemp(own_cache))
        exit(1);
    setenv("GPUD_SIM_CACHE", own_cache, 1);
    own_pid = getpid();
}

static inline int forget(const char *path, const struct stat *info, int type, struct FTW *at)
{
    (void)info, (void)type, (void)at;
    return remove(path);
}

__attribute__((destructor)) static inline void remove_cache(void)
{
    if (own_pid == getpid())
        nftw(own_cache, forget, 8, FTW_DEPTH | FTW_PHYS);
}

/* How many modules the stand-in for the compiler has made. */
static inline int compiles(void)
{
    char path[64];
    int lines = 0;
    snprintf(path, sizeof path, "%s/compiles", own_cache);
    FILE *file = fopen(path, "r");
    for (int c; file && (c = getc(file)) != EOF;)
        lines += c == '\n';
    if (file)
        fclose(file);
    return lines;
}

/* Initialises, makes the primary context of device 0 current. Ends the test if that is not possible. */
static inline CUcontext start(void)
{
    CUcontext ctx = NULL;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&ctx, 0));
    OK(cuCtxSetCurrent(ctx));
    if (check_failures)
        exit(1);
    return ctx;
}

/* The module of kernels.c; the stand-in for the compiler gives it for any PTX. */
static inline CUmodule load(void)
{
    CUmodule module = NULL;
    OK(cuModuleLoadData(&module, ".version 8.0\n.target sm_80\n.address_size 64\n"));
    if (check_failures)
        exit(1);
    return module;
}

static inline CUfunction function(CUmodule module, const char *name)
{
    CUfunction f = NULL;
    OK(cuModuleGetFunction(&f, module, name));
    return f;
}

static inline CUdeviceptr zeroes(size_t bytes)
{
    CUdeviceptr at = 0;
    OK(cuMemAlloc_v2(&at, bytes));
    OK(cuMemsetD8_v2(at, 0, bytes));
    return at;
}

#endif
