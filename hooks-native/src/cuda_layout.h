/* cuda_layout.h: what gpud believes about the layout of the driver API's types. Asserted against our own declarations
 * whenever the hook is built, and against cuda.h by tools/check_cuda_symbols. Include it after one of the two. */
_Static_assert(sizeof(CUresult) == 4 && sizeof(CUdevice) == 4, "enums and ordinals are 32 bits");
_Static_assert(sizeof(CUdeviceptr) == 8 && sizeof(CUstream) == 8, "addresses and handles are 64 bits");
_Static_assert(sizeof(CUmemGenericAllocationHandle) == 8 && sizeof(cuuint64_t) == 8 && sizeof(cuuint32_t) == 4, "integers");
_Static_assert(sizeof(CUuuid) == 16, "uuid");
_Static_assert(sizeof(CUstreamCaptureMode) == 4 && sizeof(CUstreamCaptureStatus) == 4, "capture enums");
_Static_assert(sizeof(CUdriverProcAddressQueryResult) == 4, "query result");
_Static_assert(sizeof(CUlaunchConfig) == 56 && offsetof(CUlaunchConfig, hStream) == 32, "CUlaunchConfig");
_Static_assert(sizeof(CUDA_LAUNCH_PARAMS) == 56 && offsetof(CUDA_LAUNCH_PARAMS, hStream) == 40, "CUDA_LAUNCH_PARAMS");
_Static_assert(offsetof(CUmemAllocationProp, location) == 8 && offsetof(CUmemLocation, id) == 4, "CUmemAllocationProp");
_Static_assert(sizeof(CUmemAllocationProp) == 32, "CUmemAllocationProp");
_Static_assert(sizeof(CUmemAccessDesc) == 12, "CUmemAccessDesc");
_Static_assert(sizeof(CUDA_MEMCPY2D) == 128 && offsetof(CUDA_MEMCPY2D, WidthInBytes) == 112 && offsetof(CUDA_MEMCPY2D, Height) == 120,
               "CUDA_MEMCPY2D");
_Static_assert(sizeof(CUDA_MEMCPY3D) == 200 && offsetof(CUDA_MEMCPY3D, WidthInBytes) == 176 && offsetof(CUDA_MEMCPY3D, Depth) == 192,
               "CUDA_MEMCPY3D");
_Static_assert(sizeof(CUDA_MEMCPY3D_PEER) == 200 && offsetof(CUDA_MEMCPY3D_PEER, WidthInBytes) == 176 &&
               offsetof(CUDA_MEMCPY3D_PEER, Depth) == 192, "CUDA_MEMCPY3D_PEER");
_Static_assert(sizeof(CUDA_MEMCPY3D_BATCH_OP) == 112 && offsetof(CUDA_MEMCPY3D_BATCH_OP, extent) == 80 &&
               offsetof(CUDA_MEMCPY3D_BATCH_OP, extent.depth) == 96, "CUDA_MEMCPY3D_BATCH_OP");
_Static_assert(CU_MEM_LOCATION_TYPE_DEVICE == 1 && CU_STREAM_CAPTURE_STATUS_NONE == 0, "values");
_Static_assert(sizeof(CUmemPoolProps) == 88 && offsetof(CUmemPoolProps, location) == 8, "CUmemPoolProps");
_Static_assert(offsetof(CUDA_MEM_ALLOC_NODE_PARAMS, bytesize) == 104 && sizeof(CUDA_MEM_ALLOC_NODE_PARAMS) == 120, "memory node");
_Static_assert(sizeof(CUDA_ARRAY_DESCRIPTOR) == 24 && offsetof(CUDA_ARRAY_DESCRIPTOR, Format) == 16, "CUDA_ARRAY_DESCRIPTOR");
_Static_assert(sizeof(CUDA_ARRAY3D_DESCRIPTOR) == 40 && offsetof(CUDA_ARRAY3D_DESCRIPTOR, Flags) == 32, "CUDA_ARRAY3D_DESCRIPTOR");
