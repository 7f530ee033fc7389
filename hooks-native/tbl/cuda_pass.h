/* cuda_pass.h: the rows of cuda_symbols.h that pass today: the callers hold the driver's own pointers. They are here so that
 * every entry that puts work into a stream has a kind, and nobody can say that it was forgotten. */

/* Copies of the first API (32-bit addresses), kept for completeness, and those between processes. */
CU_PASS_PTSZ(COPY, cuFabricCpyBatchAsync)
CU_PASS(COPY, cuMemcpy2D)
CU_PASS(COPY, cuMemcpy2DAsync)
CU_PASS(COPY, cuMemcpy2DUnaligned)
CU_PASS(COPY, cuMemcpy3D)
CU_PASS(COPY, cuMemcpy3DAsync)
CU_PASS(COPY, cuMemcpyAtoA)
CU_PASS(COPY, cuMemcpyAtoD)
CU_PASS(COPY, cuMemcpyAtoH)
CU_PASS(COPY, cuMemcpyAtoHAsync)
CU_PASS(COPY, cuMemcpyDtoA)
CU_PASS(COPY, cuMemcpyDtoD)
CU_PASS(COPY, cuMemcpyDtoDAsync)
CU_PASS(COPY, cuMemcpyDtoH)
CU_PASS(COPY, cuMemcpyDtoHAsync)
CU_PASS(COPY, cuMemcpyHtoA)
CU_PASS(COPY, cuMemcpyHtoAAsync)
CU_PASS(COPY, cuMemcpyHtoD)
CU_PASS(COPY, cuMemcpyHtoDAsync)

/* Movement of managed memory. */
CU_PASS_PTSZ(PREFETCH, cuMemDiscardAndPrefetchBatchAsync)
CU_PASS_PTSZ(PREFETCH, cuMemDiscardBatchAsync)
CU_PASS_PTSZ(PREFETCH, cuMemPrefetchAsync)
CU_PASS_PTSZ(PREFETCH, cuMemPrefetchAsync_v2)
CU_PASS_PTSZ(PREFETCH, cuMemPrefetchBatchAsync)

/* Batch memory operations: a stream waits for, or writes, a word. */
CU_PASS_PTSZ(MEMOP, cuStreamBatchMemOp)
CU_PASS_PTSZ(MEMOP, cuStreamBatchMemOp_v2)
CU_PASS_PTSZ(MEMOP, cuStreamWriteValue32)
CU_PASS_PTSZ(MEMOP, cuStreamWriteValue32_v2)
CU_PASS_PTSZ(MEMOP, cuStreamWriteValue64)
CU_PASS_PTSZ(MEMOP, cuStreamWriteValue64_v2)

/* Everything else that goes into a stream. Host functions are not wrapped. */
CU_PASS(ENQUEUE, cuCtxWaitEvent)
CU_PASS_PTSZ(ENQUEUE, cuGraphInstantiateWithParams)
CU_PASS_PTSZ(ENQUEUE, cuGraphUpload)
CU_PASS_PTSZ(ENQUEUE, cuGraphicsMapResources)
CU_PASS_PTSZ(ENQUEUE, cuGraphicsUnmapResources)
CU_PASS(ENQUEUE, cuGreenCtxWaitEvent)
CU_PASS_PTSZ(ENQUEUE, cuLaunchHostFunc_v2)
CU_PASS_PTSZ(ENQUEUE, cuMemBatchDecompressAsync)
CU_PASS_PTSZ(ENQUEUE, cuMemMapArrayAsync)
CU_PASS_PTSZ(ENQUEUE, cuSignalExternalSemaphoresAsync)
CU_PASS_PTSZ(ENQUEUE, cuStreamAttachMemAsync)
CU_PASS_PTSZ(ENQUEUE, cuWaitExternalSemaphoresAsync)

CU_PASS(RELEASE, cuGraphAddMemFreeNode)

/* Handles of multicast objects, which are the driver's own. */
CU_PASS(LIFECYCLE, cuMulticastAddDevice)
CU_PASS(LIFECYCLE, cuMulticastUnbind)

/* Takes a stream, and enqueues nothing. */
CU_PASS_PTSZ(QUERY, cuStreamCopyAttributes)
CU_PASS_PTSZ(QUERY, cuStreamGetAttribute)
CU_PASS_PTSZ(QUERY, cuStreamGetCaptureInfo_v2)
CU_PASS_PTSZ(QUERY, cuStreamGetCaptureInfo_v3)
CU_PASS_PTSZ(QUERY, cuStreamGetCtx_v2)
CU_PASS_PTSZ(QUERY, cuStreamGetDevResource)
CU_PASS_PTSZ(QUERY, cuStreamGetDevice)
CU_PASS_PTSZ(QUERY, cuStreamGetFlags)
CU_PASS(QUERY, cuStreamGetGreenCtx)
CU_PASS_PTSZ(QUERY, cuStreamGetId)
CU_PASS_PTSZ(QUERY, cuStreamGetPriority)
CU_PASS_PTSZ(QUERY, cuStreamSetAttribute)
CU_PASS_PTSZ(QUERY, cuStreamUpdateCaptureDependencies)
CU_PASS_PTSZ(QUERY, cuStreamUpdateCaptureDependencies_v2)
