/* api_graph.h: what the driver API says about graphs: structures and constants. Compared with cuda.h by tests/simcuda/sizes.py. */
#ifndef SIM_CUDA_API_GRAPH_H
#define SIM_CUDA_API_GRAPH_H

#include "api_memory.h"

typedef void (*CUhostFn)(void *userData);

enum { CAPTURE_NONE, CAPTURE_ACTIVE, CAPTURE_INVALIDATED };          /* CUstreamCaptureStatus */
enum { CAPTURE_GLOBAL, CAPTURE_THREAD_LOCAL, CAPTURE_RELAXED };      /* CUstreamCaptureMode */
enum { CAPTURE_ADD_DEPENDENCIES, CAPTURE_SET_DEPENDENCIES };         /* CUstreamUpdateCaptureDependencies_flags */

enum { NODE_KERNEL, NODE_MEMCPY, NODE_MEMSET, NODE_HOST, NODE_GRAPH, NODE_EMPTY, NODE_WAIT_EVENT, NODE_EVENT_RECORD };    /* CUgraphNodeType */
enum { INSTANTIATE_AUTO_FREE = 1, INSTANTIATE_UPLOAD = 2, INSTANTIATE_DEVICE_LAUNCH = 4, INSTANTIATE_NODE_PRIORITY = 8 };
enum { INSTANTIATED, INSTANTIATE_ERROR, INSTANTIATE_INVALID_STRUCTURE };     /* CUgraphInstantiateResult */
enum { UPDATED, UPDATE_ERROR, UPDATE_TOPOLOGY, UPDATE_NODE_TYPE, UPDATE_FUNCTION, UPDATE_PARAMETERS, UPDATE_NOT_SUPPORTED,
       UPDATE_UNSUPPORTED_FUNCTION, UPDATE_ATTRIBUTES };                     /* CUgraphExecUpdateResult */

#define CUDA_ERROR_LOSSY_QUERY 402
#define CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE 910

typedef struct {
    CUfunction func;
    unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
    void **kernelParams, **extra;
    CUkernel kern;                  /* _v2 only */
    CUcontext ctx;                  /* _v2 only */
} CUDA_KERNEL_NODE_PARAMS;

typedef struct {
    CUdeviceptr dst;
    size_t pitch;
    unsigned value, elementSize;
    size_t width, height;
    CUcontext ctx;                  /* in CUgraphNodeParams only */
} CUDA_MEMSET_NODE_PARAMS_v2;

typedef struct { CUhostFn fn; void *userData; } CUDA_HOST_NODE_PARAMS;
typedef struct { int flags, reserved; CUcontext copyCtx; CUDA_MEMCPY3D copyParams; } CUDA_MEMCPY_NODE_PARAMS;
typedef struct { CUgraph graph; int ownership; } CUDA_CHILD_GRAPH_NODE_PARAMS;

typedef struct {
    int type, reserved0[3];
    union {
        long long reserved1[29];
        CUDA_KERNEL_NODE_PARAMS kernel;
        CUDA_MEMCPY_NODE_PARAMS memcpy;
        CUDA_MEMSET_NODE_PARAMS_v2 memset;
        CUDA_HOST_NODE_PARAMS host;
        CUDA_CHILD_GRAPH_NODE_PARAMS graph;
        CUevent eventWait, eventRecord;
    };
    long long reserved2;
} CUgraphNodeParams;

typedef struct { unsigned char from_port, to_port, type, reserved[5]; } CUgraphEdgeData;
typedef struct { int result; CUgraphNode errorNode, errorFromNode; } CUgraphExecUpdateResultInfo;
typedef struct { cuuint64_t flags; CUstream hUploadStream; CUgraphNode hErrNode_out; int result_out; } CUDA_GRAPH_INSTANTIATE_PARAMS;

#endif
