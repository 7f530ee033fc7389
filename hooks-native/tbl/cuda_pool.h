/* cuda_pool.h: the rows of cuda_symbols.h that ask about memory that may be the pool's (pool.h), or concern all of it. */

CU_POOL(QUERY, 3020, cuMemGetAddressRange_v2, (CUdeviceptr *base, size_t *bytes, CUdeviceptr at), (base, bytes, at),
    owned_ || gpud_vmm_covers(at, 1), owned_ ? gpud_pool_range(base, bytes, at) : gpud_vmm_range(base, bytes, at),
    const bool owned_ = gpud_pool_owns(at), (void)owned_)
CU_POOL(QUERY, 4000, cuPointerGetAttribute, (void *data, CUpointer_attribute attribute, CUdeviceptr at), (data, attribute, at),
    owned_ || gpud_vmm_covers(at, 1), owned_ ? gpud_pool_attribute(data, attribute, at) : gpud_vmm_attribute(data, attribute, at),
    const bool owned_ = gpud_pool_owns(at), (void)owned_)
CU_POOL(QUERY, 7000, cuPointerGetAttributes, (unsigned int count, CUpointer_attribute *attributes, void **data, CUdeviceptr at),
    (count, attributes, data, at), owned_ || gpud_vmm_covers(at, 1),
    owned_ ? gpud_pool_attributes(count, attributes, data, at) : gpud_vmm_attributes(count, attributes, data, at),
    const bool owned_ = gpud_pool_owns(at), (void)owned_)

/* Of the default pool: what the driver says, and what is ours on top. */
CU_AFTER(QUERY, 11020, cuMemPoolGetAttribute, (CUmemoryPool pool, CUmemPool_attribute attribute, void *value), (pool, attribute, value),
    if (!result) gpud_pool_of_pool(pool, attribute, value))
CU_AFTER(QUERY, 11020, cuMemPoolSetAttribute, (CUmemoryPool pool, CUmemPool_attribute attribute, void *value), (pool, attribute, value),
    if (!result) gpud_pool_of_pool_set(pool, attribute, value))
CU_AFTER(RELEASE, 11020, cuMemPoolTrimTo, (CUmemoryPool pool, size_t keep), (pool, keep),
    if (!result) { gpud_pool_trimmed(pool, keep); gpud_pool_changed(); })

/* Peers reach what is mapped for them. */
CU_AFTER(LIFECYCLE, 4000, cuCtxEnablePeerAccess, (CUcontext peer, unsigned int flags), (peer, flags), if (!result) gpud_pool_peer(peer, true))
CU_AFTER(LIFECYCLE, 4000, cuCtxDisablePeerAccess, (CUcontext peer), (peer), if (!result) gpud_pool_peer(peer, false))
