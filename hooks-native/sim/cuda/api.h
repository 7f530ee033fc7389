/* api.h: what of the driver API the simulated libcuda speaks beyond cuda_types.h: structures, constants, and the macros that
 * define entry points. Layouts are compared with cuda.h by tests/simcuda/sizes.py where a toolkit is installed. */
#ifndef SIM_CUDA_API_H
#define SIM_CUDA_API_H

#include <stdbool.h>

#include "../../src/cuda_types.h"
#include "api_graph.h"
#include "api_memory.h"

/* Defines an entry point (and declares it first, as the warnings want). Its code has the name sim_do_NAME in the object file; the
 * exported NAME is a piece of entry_*.S, which every call passes, so that faults can be injected (inject.h). */
#define ENTRY(name, ...) \
    CUresult name(__VA_ARGS__) __asm__("sim_do_" #name); \
    CUresult name(__VA_ARGS__)

/* An entry point with its per-thread-default-stream twin. `call` names streams as S(handle): 0 means the legacy default
 * stream in the plain form and the calling thread's own stream in the twin. */
#define TWINS(suffix, name, params, call) \
    ENTRY(name, UNPACK params) { enum { PER_THREAD = 0 }; return call; } \
    ENTRY(name##suffix, UNPACK params) { enum { PER_THREAD = 1 }; return call; }
#define UNPACK(...) __VA_ARGS__
#define PTSZ(name, params, call) TWINS(_ptsz, name, params, call)
#define PTDS(name, params, call) TWINS(_ptds, name, params, call)
#define S(handle) ((handle) ? (handle) : (PER_THREAD ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY))

#define CUDA_ERROR_CONTEXT_ALREADY_CURRENT 202
#define CUDA_ERROR_UNSUPPORTED_LIMIT 215
#define CUDA_ERROR_JIT_COMPILER_NOT_FOUND 221
#define CUDA_ERROR_SHARED_OBJECT_INIT_FAILED 303
#define CUDA_ERROR_OPERATING_SYSTEM 304
#define CUDA_ERROR_ILLEGAL_STATE 401
#define CUDA_ERROR_PEER_ACCESS_UNSUPPORTED 217
#define CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED 712
#define CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED 713
#define CUDA_ERROR_ILLEGAL_INSTRUCTION 715
#define CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE 720
#define CUDA_ERROR_STREAM_CAPTURE_INVALIDATED 901
#define CUDA_ERROR_STREAM_CAPTURE_MERGE 902
#define CUDA_ERROR_STREAM_CAPTURE_UNMATCHED 903
#define CUDA_ERROR_STREAM_CAPTURE_UNJOINED 904
#define CUDA_ERROR_STREAM_CAPTURE_ISOLATION 905
#define CUDA_ERROR_CAPTURED_EVENT 907
#define CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD 908

enum { CU_MEMORYTYPE_HOST = 1, CU_MEMORYTYPE_DEVICE = 2, CU_MEMORYTYPE_ARRAY = 3, CU_MEMORYTYPE_UNIFIED = 4 };
enum { CU_CTX_SCHED_MASK = 0x07, CU_CTX_MAP_HOST = 0x08, CU_CTX_FLAGS_MASK = 0xff };
enum { CU_STREAM_NON_BLOCKING = 1 };
enum { CU_EVENT_BLOCKING_SYNC = 1, CU_EVENT_DISABLE_TIMING = 2, CU_EVENT_INTERPROCESS = 4, CU_EVENT_ALL = 7 };
enum { CU_EVENT_RECORD_EXTERNAL = 1, CU_EVENT_WAIT_EXTERNAL = 1 };
enum { CU_MEMHOSTALLOC_ALL = 7, CU_MEMHOSTREGISTER_ALL = 15 };
enum { CU_MEM_ATTACH_GLOBAL = 1, CU_MEM_ATTACH_HOST = 2, CU_MEM_ATTACH_SINGLE = 4 };

enum { CU_JIT_WALL_TIME = 2, CU_JIT_INFO_LOG_BUFFER = 3, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES = 4, CU_JIT_ERROR_LOG_BUFFER = 5,
       CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6 };
enum { CU_JIT_INPUT_CUBIN, CU_JIT_INPUT_PTX, CU_JIT_INPUT_FATBINARY, CU_JIT_INPUT_OBJECT, CU_JIT_INPUT_LIBRARY, CU_JIT_INPUT_NVVM };

enum { CU_FUNC_MAX_THREADS = 0, CU_FUNC_SHARED_SIZE, CU_FUNC_CONST_SIZE, CU_FUNC_LOCAL_SIZE, CU_FUNC_NUM_REGS, CU_FUNC_PTX_VERSION,
       CU_FUNC_BINARY_VERSION, CU_FUNC_CACHE_MODE_CA, CU_FUNC_MAX_DYNAMIC_SHARED, CU_FUNC_CARVEOUT, CU_FUNC_CLUSTER_MUST_BE_SET,
       CU_FUNC_CLUSTER_WIDTH, CU_FUNC_CLUSTER_HEIGHT, CU_FUNC_CLUSTER_DEPTH, CU_FUNC_NON_PORTABLE_CLUSTER, CU_FUNC_CLUSTER_POLICY,
       CU_FUNC_ATTRIBUTES };

enum { CU_LAUNCH_PARAM_END = 0, CU_LAUNCH_PARAM_BUFFER_POINTER = 1, CU_LAUNCH_PARAM_BUFFER_SIZE = 2 };
enum { CU_LAUNCH_ATTRIBUTE_COOPERATIVE = 2, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION = 4, CU_LAUNCH_ATTRIBUTE_PRIORITY = 8 };

enum { POOL_REUSE_EVENT = 1, POOL_REUSE_OPPORTUNISTIC, POOL_REUSE_INTERNAL, POOL_RELEASE_THRESHOLD, POOL_RESERVED_CURRENT,
       POOL_RESERVED_HIGH, POOL_USED_CURRENT, POOL_USED_HIGH };      /* CUmemPool_attribute */

typedef struct { void *execAffinityParams; int numExecAffinityParams; void *cigParams; } CUctxCreateParams;

typedef struct { int id; char pad[4]; union { char bytes[64]; int number; struct { unsigned x, y, z; } dim; } value; } CUlaunchAttribute;
typedef struct {
    unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
    CUstream hStream;
    CUlaunchAttribute *attrs;
    unsigned numAttrs;
} CUlaunchConfig;

typedef struct {
    CUfunction function;
    unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
    CUstream hStream;
    void **kernelParams;
} CUDA_LAUNCH_PARAMS;

typedef struct {
    int maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3], sharedMemPerBlock, totalConstantMemory, SIMDWidth, memPitch, regsPerBlock,
        clockRate, textureAlign;
} CUdevprop;

typedef void (*CUstreamCallback)(CUstream hStream, CUresult status, void *userData);
typedef size_t (*CUoccupancyB2DSize)(int blockSize);

#endif
