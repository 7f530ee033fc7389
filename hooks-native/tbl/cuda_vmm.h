/* cuda_vmm.h: the rows of cuda_symbols.h of virtual memory management: memory by handles, and where it is mapped. Every entry that takes or
 * gives such a handle is here, but for two kinds. cuMemImportFromShareableHandle, cuMulticastCreate, -AddDevice and -Unbind know only handles
 * that are the driver's own; cuMemMapArrayAsync takes only memory made for tiles (CU_MEM_CREATE_USAGE_TILE_POOL), which never is ours. */

CU_POOL(RESERVE, 10020, cuMemCreate,
    (CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *prop, unsigned long long flags),
    (handle, bytes, prop, flags), handle && gpud_vmm_takes(bytes, prop, flags), gpud_vmm_create(handle, bytes, prop),
    GPUD_UNLESS_REFUSED(gpud_reserves_on(prop ? prop->location.type : 0, prop ? prop->location.id : 0, bytes)),
    GPUD_SETTLE(gpud_handle_made(*handle), bytes))
CU_POOL(RELEASE, 10020, cuMemRelease, (CUmemGenericAllocationHandle handle), (handle), gpud_virtual(handle), gpud_vmm_release(handle),
    const struct gpud_freeing freeing_ = gpud_handle_frees(handle), gpud_handle_is_freed(&freeing_, result))
CU_POOL(RESERVE, 11000, cuMemRetainAllocationHandle, (CUmemGenericAllocationHandle *handle, void *at), (handle, at),
    handle && gpud_vmm_covers((uintptr_t)at, 1), gpud_vmm_retain(handle, (uintptr_t)at),
    const struct gpud_pin pin_ = gpud_vmm_covers((uintptr_t)at, 1) ? (struct gpud_pin){ 0 } : gpud_pins((uintptr_t)at, 1),
    if (!result) gpud_handle_retained(*handle, (uintptr_t)at); gpud_pinned(&pin_, result))
CU_POOL(QUERY, 10020, cuMemGetAllocationPropertiesFromHandle, (CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle),
    (prop, handle), gpud_virtual(handle), gpud_vmm_properties(prop, handle), (void)0, (void)0)

/* Addresses. */
CU_AFTER(LIFECYCLE, 10020, cuMemAddressReserve,
    (CUdeviceptr *at, size_t bytes, size_t alignment, CUdeviceptr near, unsigned long long flags), (at, bytes, alignment, near, flags),
    if (!result) gpud_vmm_reserved(*at, bytes))
CU_POOL(LIFECYCLE, 10020, cuMemAddressFree, (CUdeviceptr at, size_t bytes), (at, bytes), used_, CUDA_ERROR_INVALID_VALUE,
    const bool used_ = gpud_vmm_unreserves(at, bytes), gpud_vmm_unreserved(at, result))
CU_POOL(RESERVE, 10020, cuMemMap,
    (CUdeviceptr at, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags),
    (at, bytes, offset, handle, flags), gpud_vmm_maps(at, bytes, handle), gpud_vmm_map(at, bytes, offset, handle, flags), (void)0,
    if (!result) { gpud_vmm_driver_mapped(at, bytes, handle); gpud_handle_mapped(at, bytes, handle); })
CU_POOL(RELEASE, 10020, cuMemUnmap, (CUdeviceptr at, size_t bytes), (at, bytes), gpud_vmm_covers(at, bytes), gpud_vmm_unmap(at, bytes),
    (void)0, if (!result) { gpud_vmm_driver_unmapped(at, bytes); gpud_handle_unmapped(at, bytes); })
CU_POOL(LIFECYCLE, 10020, cuMemSetAccess, (CUdeviceptr at, size_t bytes, const CUmemAccessDesc *list, size_t count), (at, bytes, list, count),
    gpud_vmm_covers(at, bytes), gpud_vmm_set_access(at, bytes, list, count), (void)0, (void)0)
CU_POOL(QUERY, 10020, cuMemGetAccess, (unsigned long long *flags, const CUmemLocation *location, CUdeviceptr at), (flags, location, at),
    gpud_vmm_covers(at, 1), gpud_vmm_get_access(flags, location, at), (void)0, (void)0)

/* Given to somebody outside: by its handle, or by its addresses. */
CU_POOL(LIFECYCLE, 10020, cuMemExportToShareableHandle,
    (void *out, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type, unsigned long long flags), (out, handle, type, flags),
    gpud_virtual(handle), gpud_vmm_export(out, handle, type, flags), (void)0, (void)0)
CU_LENDS(12010, cuMulticastBindMem,
    (CUmemGenericAllocationHandle group, size_t offset, CUmemGenericAllocationHandle memory, size_t from, size_t bytes,
     unsigned long long flags),
    (group, offset, memory, from, bytes, flags))
CU_LENDS(13010, cuMulticastBindMem_v2,
    (CUmemGenericAllocationHandle group, CUdevice device, size_t offset, CUmemGenericAllocationHandle memory, size_t from, size_t bytes,
     unsigned long long flags),
    (group, device, offset, memory, from, bytes, flags))
CU_LENDS(13030, cuLogicalEndpointBindMem,
    (CUlogicalEndpointId endpoint, CUdevice device, cuuint64_t offset, CUmemGenericAllocationHandle memory, cuuint64_t from,
     cuuint64_t bytes, unsigned long long flags),
    (endpoint, device, offset, memory, from, bytes, flags))
CU_PINS(11070, cuMemGetHandleForAddressRange,
    (void *handle, CUdeviceptr at, size_t bytes, CUmemRangeHandleType type, unsigned long long flags), (handle, at, bytes, type, flags))
/* Of the one attribute that can be set: who lets a network card reach the memory past the driver (GPUDirect RDMA) sets it, and it would be gone with
 * the mapping. */
CU_AROUND(LIFECYCLE, 6000, cuPointerSetAttribute, (const void *value, CUpointer_attribute attribute, CUdeviceptr at), (value, attribute, at),
    const struct gpud_pin pin_ = gpud_pins(at, 1), gpud_pinned(&pin_, result))
CU_PINS(12010, cuMulticastBindAddr,
    (CUmemGenericAllocationHandle group, size_t offset, CUdeviceptr at, size_t bytes, unsigned long long flags),
    (group, offset, at, bytes, flags))
CU_PINS(13010, cuMulticastBindAddr_v2,
    (CUmemGenericAllocationHandle group, CUdevice device, size_t offset, CUdeviceptr at, size_t bytes, unsigned long long flags),
    (group, device, offset, at, bytes, flags))
CU_PINS(13030, cuLogicalEndpointBindAddr,
    (CUlogicalEndpointId endpoint, CUdevice device, cuuint64_t offset, void *at, cuuint64_t bytes, unsigned long long flags),
    (endpoint, device, offset, at, bytes, flags))
