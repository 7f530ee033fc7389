/* check_cuda_h.c: compiled, never run, by tools/check_cuda_symbols where a toolkit is installed: the prototypes of the symbol table
 * (those that this version of the header has, written to cuda_h_rows.h) and the layouts that gpud relies on are the header's. */
#define __CUDA_API_VERSION_INTERNAL     /* all versions and both stream flavours of every entry */
#include <cuda.h>
#include <stddef.h>

#include "../src/cuda_layout.h"

#define SAME(name, parameters) \
    _Static_assert(__builtin_types_compatible_p(__typeof__(name), CUresult parameters), #name ": the prototype differs");
#include "cuda_h_rows.h"

/* Values that cuda_types.h repeats. */
_Static_assert(CUDA_SUCCESS == 0 && CUDA_ERROR_INVALID_VALUE == 1 && CUDA_ERROR_OUT_OF_MEMORY == 2, "results");
_Static_assert(CUDA_ERROR_NOT_INITIALIZED == 3 && CUDA_ERROR_DEINITIALIZED == 4 && CUDA_ERROR_NO_DEVICE == 100, "results");
_Static_assert(CUDA_ERROR_INVALID_DEVICE == 101 && CUDA_ERROR_INVALID_IMAGE == 200 && CUDA_ERROR_INVALID_CONTEXT == 201, "results");
_Static_assert(CUDA_ERROR_NO_BINARY_FOR_GPU == 209 && CUDA_ERROR_INVALID_PTX == 218, "results");
_Static_assert(CUDA_ERROR_UNSUPPORTED_PTX_VERSION == 222 && CUDA_ERROR_INVALID_SOURCE == 300, "results");
_Static_assert(CUDA_ERROR_FILE_NOT_FOUND == 301 && CUDA_ERROR_INVALID_HANDLE == 400 && CUDA_ERROR_NOT_FOUND == 500, "results");
_Static_assert(CUDA_ERROR_NOT_READY == 600 && CUDA_ERROR_ILLEGAL_ADDRESS == 700, "results");
_Static_assert(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES == 701 && CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE == 708, "results");
_Static_assert(CUDA_ERROR_CONTEXT_IS_DESTROYED == 709 && CUDA_ERROR_LAUNCH_FAILED == 719, "results");
_Static_assert(CUDA_ERROR_NOT_PERMITTED == 800 && CUDA_ERROR_NOT_SUPPORTED == 801, "results");
_Static_assert(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED == 900 && CUDA_ERROR_STREAM_CAPTURE_IMPLICIT == 906, "results");
_Static_assert(CUDA_ERROR_UNKNOWN == 999 && CUDA_ERROR_ILLEGAL_STATE == 401, "results");
_Static_assert(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED == 901 && CUDA_ERROR_STREAM_CAPTURE_UNJOINED == 904 &&
               CUDA_ERROR_STREAM_CAPTURE_ISOLATION == 905, "captures that are over, trampolines.c");
_Static_assert(CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM == 2, "look-up flags");
