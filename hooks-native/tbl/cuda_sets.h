/* cuda_sets.h: the rows of cuda_symbols.h that set memory: held while somebody else has the device (GPUD_GATE_GRANT). */
#define CU_MEMSET_TWINS(since, since2, name, suffix, parameters, arguments, stream) \
    CU_MEMSET(since, name, parameters, arguments, stream, 0)                        \
    CU_MEMSET(since2, name##suffix, parameters, arguments, stream, 1)

CU_MEMSET_TWINS(3020, 7000, cuMemsetD8_v2, _ptds, (CUdeviceptr at, unsigned char value, size_t count), (at, value, count), NULL)
CU_MEMSET_TWINS(3020, 7000, cuMemsetD8Async, _ptsz, (CUdeviceptr at, unsigned char value, size_t count, CUstream stream),
    (at, value, count, stream), stream)
CU_MEMSET_TWINS(3020, 7000, cuMemsetD2D8_v2, _ptds, (CUdeviceptr at, size_t pitch, unsigned char value, size_t width, size_t height),
    (at, pitch, value, width, height), NULL)
CU_MEMSET_TWINS(3020, 7000, cuMemsetD2D8Async, _ptsz,
    (CUdeviceptr at, size_t pitch, unsigned char value, size_t width, size_t height, CUstream stream),
    (at, pitch, value, width, height, stream), stream)
CU_MEMSET_TWINS(3020, 7000, cuMemsetD16_v2, _ptds, (CUdeviceptr at, unsigned short value, size_t count), (at, value, count), NULL)
CU_MEMSET_TWINS(3020, 7000, cuMemsetD16Async, _ptsz, (CUdeviceptr at, unsigned short value, size_t count, CUstream stream),
    (at, value, count, stream), stream)
CU_MEMSET_TWINS(3020, 7000, cuMemsetD2D16_v2, _ptds, (CUdeviceptr at, size_t pitch, unsigned short value, size_t width, size_t height),
    (at, pitch, value, width, height), NULL)
CU_MEMSET_TWINS(3020, 7000, cuMemsetD2D16Async, _ptsz,
    (CUdeviceptr at, size_t pitch, unsigned short value, size_t width, size_t height, CUstream stream),
    (at, pitch, value, width, height, stream), stream)
CU_MEMSET_TWINS(3020, 7000, cuMemsetD32_v2, _ptds, (CUdeviceptr at, unsigned int value, size_t count), (at, value, count), NULL)
CU_MEMSET_TWINS(3020, 7000, cuMemsetD32Async, _ptsz, (CUdeviceptr at, unsigned int value, size_t count, CUstream stream),
    (at, value, count, stream), stream)
CU_MEMSET_TWINS(3020, 7000, cuMemsetD2D32_v2, _ptds, (CUdeviceptr at, size_t pitch, unsigned int value, size_t width, size_t height),
    (at, pitch, value, width, height), NULL)
CU_MEMSET_TWINS(3020, 7000, cuMemsetD2D32Async, _ptsz,
    (CUdeviceptr at, size_t pitch, unsigned int value, size_t width, size_t height, CUstream stream),
    (at, pitch, value, width, height, stream), stream)
#undef CU_MEMSET_TWINS

/* Of the first API: 32-bit addresses and sizes. */
CU_MEMSET(2000, cuMemsetD8, (CUdeviceptr_v1 at, unsigned char value, unsigned int count), (at, value, count), NULL, 0)
CU_MEMSET(2000, cuMemsetD2D8, (CUdeviceptr_v1 at, unsigned int pitch, unsigned char value, unsigned int width, unsigned int height),
    (at, pitch, value, width, height), NULL, 0)
CU_MEMSET(2000, cuMemsetD16, (CUdeviceptr_v1 at, unsigned short value, unsigned int count), (at, value, count), NULL, 0)
CU_MEMSET(2000, cuMemsetD2D16, (CUdeviceptr_v1 at, unsigned int pitch, unsigned short value, unsigned int width, unsigned int height),
    (at, pitch, value, width, height), NULL, 0)
CU_MEMSET(2000, cuMemsetD32, (CUdeviceptr_v1 at, unsigned int value, unsigned int count), (at, value, count), NULL, 0)
CU_MEMSET(2000, cuMemsetD2D32, (CUdeviceptr_v1 at, unsigned int pitch, unsigned int value, unsigned int width, unsigned int height),
    (at, pitch, value, width, height), NULL, 0)
