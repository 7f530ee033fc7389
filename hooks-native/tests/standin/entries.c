/* entries.c: the stand-in's exported entries, expanded from the table; what they do is in behave.h. */
#include "table.h"
#include "behave.h"

#define EXPORT __attribute__((visibility("default")))

uint64_t standin_counts[ROWS];
CUresult standin_answers[ROWS];

#ifdef STANDIN_BENCH
/* Launches do nothing at all: what a benchmark measures is the way here. */
#define LAUNCH(name, into)
#else
#define LAUNCH(name, into)                             \
    CUresult told = standin_called(ROW_##name);        \
    if (told)                                          \
        return told;                                   \
    standin_last.stream = (into);                      \
    standin_launched(ROW_##name);
#endif

/* Everything that has a prototype in the table. */
#define CU_GATE(since, name, parameters, arguments, into, ...)        \
    EXPORT CUresult name parameters;                                  \
    EXPORT CUresult name parameters                                   \
    {                                                                 \
        LAUNCH(name, into)                                            \
        return do_##name arguments;                                   \
    }
#define ENTRY(name, parameters, arguments)                            \
    EXPORT CUresult name parameters;                                  \
    EXPORT CUresult name parameters                                   \
    {                                                                 \
        CUresult told = standin_called(ROW_##name);                   \
        return told ? told : do_##name arguments;                     \
    }
#define CU_AFTER(kind, since, name, parameters, arguments, ...) ENTRY(name, parameters, arguments)
#define CU_BEFORE(kind, since, name, parameters, arguments, ...) ENTRY(name, parameters, arguments)
#define CU_AROUND(kind, since, name, parameters, arguments, ...) ENTRY(name, parameters, arguments)
/* Copies move nothing; those that the host waits for wait. */
static CUresult copied(enum standin_row row)
{
    int waits = row == ROW_cuMemcpyDtoH_v2 || row == ROW_cuMemcpyDtoH_v2_ptds || row == ROW_cuMemcpyAtoH_v2 ||
                 row == ROW_cuMemcpyAtoH_v2_ptds;
    CUresult told = standin_called(row);
    return told ? told : waits ? standin_wait() : CUDA_SUCCESS;
}
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define CU_COPY(since, name, parameters, arguments, ...)              \
    EXPORT CUresult name parameters;                                  \
    EXPORT CUresult name parameters                                   \
    {                                                                 \
        return copied(ROW_##name);                                    \
    }
#define CU_MEMSET(since, name, parameters, arguments, ...) CU_COPY(since, name, parameters, arguments)
/* Whatever else the driver API has: counted, succeeds, does nothing. */
#define CU_PASS(kind, name)                                                         \
    EXPORT CUresult name(uintptr_t a, uintptr_t b, uintptr_t c);                    \
    EXPORT CUresult name(uintptr_t a, uintptr_t b, uintptr_t c)                     \
    {                                                                               \
        CUresult told = standin_called(ROW_##name);                                 \
        return told ? told : standin_passed(ROW_##name, a, b, c);                   \
    }
#define CU_OWN(kind, since, name, parameters) EXPORT CUresult name parameters;
#define CU_NEED(since, name, parameters) EXPORT CUresult name parameters;
#include "../../tbl/cuda_symbols.h"

#define NEED(name, parameters, arguments) \
    CUresult name parameters { CUresult told = standin_called(ROW_##name); return told ? told : do_##name arguments; }
NEED(cuEventCreate, (CUevent *event, unsigned int flags), (event, flags))
NEED(cuEventElapsedTime, (float *ms, CUevent start, CUevent end), (ms, start, end))
NEED(cuDeviceGet, (CUdevice *device, int ordinal), (device, ordinal))
NEED(cuDeviceGetCount, (int *count), (count))
NEED(cuDeviceGetUuid, (CUuuid *uuid, CUdevice device), (uuid, device))
NEED(cuDeviceGetUuid_v2, (CUuuid *uuid, CUdevice device), (uuid, device))
NEED(cuDevicePrimaryCtxGetState, (CUdevice device, unsigned int *flags, int *alive), (device, flags, alive))
NEED(cuCtxGetCurrent, (CUcontext *context), (context))
NEED(cuCtxGetDevice, (CUdevice *device), (device))
NEED(cuStreamGetCtx, (CUstream stream, CUcontext *context), (stream, context))
NEED(cuStreamGetCtx_ptsz, (CUstream stream, CUcontext *context), (stream, context))
NEED(cuStreamIsCapturing, (CUstream stream, CUstreamCaptureStatus *status), (stream, status))
NEED(cuStreamIsCapturing_ptsz, (CUstream stream, CUstreamCaptureStatus *status), (stream, status))
NEED(cuStreamGetCaptureInfo, (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id), (stream, status, id))
NEED(cuStreamGetCaptureInfo_ptsz, (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id), (stream, status, id))
NEED(cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode *mode), (mode))
NEED(cuDriverGetVersion, (int *version), (version))
/* Needed by the pool, which the stand-in's programs do not use. */
#define UNUSED(name, parameters, ...) CUresult name parameters { return standin_called(ROW_##name); }
UNUSED(cuDeviceCanAccessPeer, (int *can, CUdevice device, CUdevice peer))
UNUSED(cuMemHostRegister_v2, (void *at, size_t bytes, unsigned int flags))
UNUSED(cuDeviceGetDefaultMemPool, (CUmemoryPool *pool, CUdevice device))
UNUSED(cuDeviceGetGraphMemAttribute, (CUdevice device, CUgraphMem_attribute attribute, void *value))
UNUSED(cuDeviceGetMemPool, (CUmemoryPool *pool, CUdevice device))
CUresult cuStreamCreate(CUstream *stream, unsigned int flags)
{
    CUresult told = standin_called(ROW_cuStreamCreate);
    return told ? told : standin_passed(ROW_cuStreamCreate, (uintptr_t)stream, flags, 0);
}

#define CU_GATE(since, name, ...) [ROW_##name] = { #name, since, (void *)name },
#define CU_AFTER(kind, since, name, ...) [ROW_##name] = { #name, since, (void *)name },
#define CU_BEFORE(kind, since, name, ...) [ROW_##name] = { #name, since, (void *)name },
#define CU_AROUND(kind, since, name, ...) [ROW_##name] = { #name, since, (void *)name },
#define CU_OWN(kind, since, name, ...) [ROW_##name] = { #name, since, (void *)name },
#define CU_NEED(since, name, ...) [ROW_##name] = { #name, since, (void *)name },
#define CU_PASS(kind, name) [ROW_##name] = { #name, 0, (void *)name },
const struct standin_entry standin_table[ROWS] = {
#include "../../tbl/cuda_symbols.h"
};
