/* cuda_copies.h: the rows of cuda_symbols.h that copy: their bytes are counted, and gated under max_copy_rate. Those that prove that
 * work is finished are in cuda_symbols.h. */

CU_COPY_TWINS(4000, 7000, cuMemcpy, _ptds, (CUdeviceptr to, CUdeviceptr from, size_t bytes), (to, from, bytes), bytes, NULL)
CU_COPY_TWINS(4000, 7000, cuMemcpyAsync, _ptsz, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream),
    (to, from, bytes, stream), bytes, stream)
CU_COPY_TWINS(3020, 7000, cuMemcpyHtoD_v2, _ptds, (CUdeviceptr to, const void *from, size_t bytes), (to, from, bytes), bytes, NULL)
CU_COPY_TWINS(3020, 7000, cuMemcpyHtoDAsync_v2, _ptsz, (CUdeviceptr to, const void *from, size_t bytes, CUstream stream),
    (to, from, bytes, stream), bytes, stream)
CU_COPY_TWINS(3020, 7000, cuMemcpyDtoHAsync_v2, _ptsz, (void *to, CUdeviceptr from, size_t bytes, CUstream stream),
    (to, from, bytes, stream), bytes, stream)
CU_COPY_TWINS(3020, 7000, cuMemcpyDtoD_v2, _ptds, (CUdeviceptr to, CUdeviceptr from, size_t bytes), (to, from, bytes), bytes, NULL)
CU_COPY_TWINS(3020, 7000, cuMemcpyDtoDAsync_v2, _ptsz, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream),
    (to, from, bytes, stream), bytes, stream)
CU_COPY_TWINS(4000, 7000, cuMemcpyPeer, _ptds, (CUdeviceptr to, CUcontext there, CUdeviceptr from, CUcontext here, size_t bytes),
    (to, there, from, here, bytes), bytes, NULL)
CU_COPY_TWINS(4000, 7000, cuMemcpyPeerAsync, _ptsz,
    (CUdeviceptr to, CUcontext there, CUdeviceptr from, CUcontext here, size_t bytes, CUstream stream),
    (to, there, from, here, bytes, stream), bytes, stream)

/* Arrays. */
CU_COPY_TWINS(3020, 7000, cuMemcpyDtoA_v2, _ptds, (CUarray to, size_t offset, CUdeviceptr from, size_t bytes),
    (to, offset, from, bytes), bytes, NULL)
CU_COPY_TWINS(3020, 7000, cuMemcpyAtoD_v2, _ptds, (CUdeviceptr to, CUarray from, size_t offset, size_t bytes),
    (to, from, offset, bytes), bytes, NULL)
CU_COPY_TWINS(3020, 7000, cuMemcpyHtoA_v2, _ptds, (CUarray to, size_t offset, const void *from, size_t bytes),
    (to, offset, from, bytes), bytes, NULL)
CU_COPY_TWINS(3020, 7000, cuMemcpyHtoAAsync_v2, _ptsz, (CUarray to, size_t offset, const void *from, size_t bytes, CUstream stream),
    (to, offset, from, bytes, stream), bytes, stream)
CU_COPY_TWINS(3020, 7000, cuMemcpyAtoHAsync_v2, _ptsz, (void *to, CUarray from, size_t offset, size_t bytes, CUstream stream),
    (to, from, offset, bytes, stream), bytes, stream)
CU_COPY_TWINS(3020, 7000, cuMemcpyAtoA_v2, _ptds, (CUarray to, size_t there, CUarray from, size_t here, size_t bytes),
    (to, there, from, here, bytes), bytes, NULL)

/* Shaped. */
CU_COPY_TWINS(3020, 7000, cuMemcpy2D_v2, _ptds, (const CUDA_MEMCPY2D *copy), (copy), gpud_bytes_2d(copy), NULL)
CU_COPY_TWINS(3020, 7000, cuMemcpy2DUnaligned_v2, _ptds, (const CUDA_MEMCPY2D *copy), (copy), gpud_bytes_2d(copy), NULL)
CU_COPY_TWINS(3020, 7000, cuMemcpy2DAsync_v2, _ptsz, (const CUDA_MEMCPY2D *copy, CUstream stream), (copy, stream),
    gpud_bytes_2d(copy), stream)
CU_COPY_TWINS(3020, 7000, cuMemcpy3D_v2, _ptds, (const CUDA_MEMCPY3D *copy), (copy), gpud_bytes_3d(copy), NULL)
CU_COPY_TWINS(3020, 7000, cuMemcpy3DAsync_v2, _ptsz, (const CUDA_MEMCPY3D *copy, CUstream stream), (copy, stream),
    gpud_bytes_3d(copy), stream)
CU_COPY_TWINS(4000, 7000, cuMemcpy3DPeer, _ptds, (const CUDA_MEMCPY3D_PEER *copy), (copy), gpud_bytes_3d_peer(copy), NULL)
CU_COPY_TWINS(4000, 7000, cuMemcpy3DPeerAsync, _ptsz, (const CUDA_MEMCPY3D_PEER *copy, CUstream stream), (copy, stream),
    gpud_bytes_3d_peer(copy), stream)

/* Many at once. Sides of an operation on an array are counted as bytes. */
CU_COPY_TWINS(12080, 12080, cuMemcpyBatchAsync, _ptsz,
    (CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t count, CUmemcpyAttributes *attributes, size_t *indices, size_t kinds,
     size_t *failed, CUstream stream),
    (to, from, sizes, count, attributes, indices, kinds, failed, stream), gpud_bytes_batch(sizes, count), stream)
CU_COPY_TWINS(13000, 13000, cuMemcpyBatchAsync_v2, _ptsz,
    (CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t count, CUmemcpyAttributes *attributes, size_t *indices, size_t kinds,
     CUstream stream),
    (to, from, sizes, count, attributes, indices, kinds, stream), gpud_bytes_batch(sizes, count), stream)
CU_COPY_TWINS(12080, 12080, cuMemcpy3DBatchAsync, _ptsz,
    (size_t count, CUDA_MEMCPY3D_BATCH_OP *list, size_t *failed, unsigned long long flags, CUstream stream),
    (count, list, failed, flags, stream), gpud_bytes_3d_batch(list, count), stream)
CU_COPY_TWINS(13000, 13000, cuMemcpy3DBatchAsync_v2, _ptsz,
    (size_t count, CUDA_MEMCPY3D_BATCH_OP *list, unsigned long long flags, CUstream stream), (count, list, flags, stream),
    gpud_bytes_3d_batch(list, count), stream)
CU_COPY_TWINS(13020, 13020, cuMemcpyWithAttributesAsync, _ptsz,
    (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUmemcpyAttributes *attributes, CUstream stream),
    (to, from, bytes, attributes, stream), bytes, stream)
CU_COPY_TWINS(13020, 13020, cuMemcpy3DWithAttributesAsync, _ptsz,
    (CUDA_MEMCPY3D_BATCH_OP *copy, unsigned long long flags, CUstream stream), (copy, flags, stream),
    gpud_bytes_3d_batch(copy, 1), stream)
