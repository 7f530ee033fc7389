/* vmm.h: the program's own virtual memory (cuMemCreate, cuMemMap): what it makes so can leave the device, too. It gets a handle of ours;
 * the driver's own one is behind it only while the memory is on the device. See docs/adr/0010. */
#ifndef GPUD_VMM_H
#define GPUD_VMM_H

#include "chunk.h"

#pragma GCC visibility push(hidden)

/* A handle of ours: an address that no process can have on any machine that gpud runs on (bits 48 … 63 are neither all clear, nor all set,
 * nor those of a tagged one), and no number that a driver comes to by counting. */
#define GPUD_VIRTUAL_MARK UINT64_C(0x6770)
static inline bool gpud_virtual(uint64_t handle)
{
    return handle >> 48 == GPUD_VIRTUAL_MARK;
}

/* vmm_handle.c. True: cuMemCreate of this is ours; all else is the driver's, its refusals too. */
bool gpud_vmm_takes(size_t bytes, const CUmemAllocationProp *prop, unsigned long long flags);
CUresult gpud_vmm_create(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *prop);
CUresult gpud_vmm_release(CUmemGenericAllocationHandle handle);
CUresult gpud_vmm_properties(CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle);
/* vmm_pin.c: around a call that gives the memory to somebody outside. It waits for the device, and for the memory to be on it, and keeps it
 * there until gpud_lent: for good, if the call succeeded. `handle` is the driver's own to call it with; one of ours still: there is none, and
 * `result` is the answer. A handle that is not ours stays as it is. */
struct gpud_loan {
    CUmemGenericAllocationHandle handle, of;
    CUcontext pushed;
    uint64_t counted;
    CUresult result;
    bool ours;
};
struct gpud_loan gpud_lends(CUmemGenericAllocationHandle handle);
CUresult gpud_lent(const struct gpud_loan *loan, CUresult result);
CUresult gpud_vmm_export(void *out, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type, unsigned long long flags);
/* The same by address, of all views that overlap: without the wait. */
void gpud_vmm_pin(uint64_t at, uint64_t bytes, bool more);

/* vmm_map.c. After cuMemAddressReserve; before and after cuMemAddressFree, and between the two nobody else is told that he has these addresses.
 * True: memory of ours is mapped there, and the driver is not called. */
void gpud_vmm_reserved(uint64_t at, uint64_t bytes);
bool gpud_vmm_unreserves(uint64_t at, uint64_t bytes);
void gpud_vmm_unreserved(uint64_t at, CUresult result);
/* Memory of ours is mapped somewhere there. Costs a load where there is none at all. */
bool gpud_vmm_covers(uint64_t at, uint64_t bytes);
/* cuMemMap, where one of ours is concerned: by its handle, or because it lies there. */
bool gpud_vmm_maps(uint64_t at, uint64_t bytes, CUmemGenericAllocationHandle handle);
CUresult gpud_vmm_map(uint64_t at, uint64_t bytes, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags);
/* After cuMemMap and cuMemUnmap of the driver's own handles alone. */
void gpud_vmm_driver_mapped(uint64_t at, uint64_t bytes, CUmemGenericAllocationHandle handle);
void gpud_vmm_driver_unmapped(uint64_t at, uint64_t bytes);
CUresult gpud_vmm_unmap(uint64_t at, uint64_t bytes);
CUresult gpud_vmm_retain(CUmemGenericAllocationHandle *handle, uint64_t at);

/* vmm_access.c: rights, and what the program asks about its addresses. */
CUresult gpud_vmm_set_access(uint64_t at, uint64_t bytes, const CUmemAccessDesc *list, size_t count);
CUresult gpud_vmm_get_access(unsigned long long *flags, const CUmemLocation *location, uint64_t at);
/* Of memory of ours that is mapped there. What is not on the device just now the driver knows nothing of, and these answer. */
CUresult gpud_vmm_range(CUdeviceptr *base, size_t *bytes, CUdeviceptr at);
CUresult gpud_vmm_attribute(void *data, int attribute, CUdeviceptr at);
CUresult gpud_vmm_attributes(unsigned int count, int *attributes, void **data, CUdeviceptr at);

void gpud_vmm_forget(void);                 /* forked child */

/* Within vmm*.c, with gpud_pool_lock held. The span of a handle that the program has, or has mapped; NULL: none. */
struct gpud_span *gpud_vmm_span(CUmemGenericAllocationHandle handle);
/* Its last handle or view may have gone just now, and the memory with it. */
void gpud_vmm_settle(struct gpud_chunk *chunk);
struct gpud_view *gpud_vmm_view(uint64_t at);   /* around the address; NULL: none, or the driver's */
struct gpud_view *gpud_vmm_within(uint64_t at, uint64_t bytes);     /* the first one of ours that overlaps; NULL: none */
/* The views (the driver's too) that are exactly these addresses, without a gap: gpud_vmm_nth from `*first` on. False: they are not. */
bool gpud_vmm_run(uint64_t at, uint64_t bytes, uint32_t *first, uint32_t *count);
struct gpud_view *gpud_vmm_nth(uint32_t index);
/* What the program has reserved around the address; false: nothing. */
bool gpud_vmm_reservation(uint64_t at, uint64_t *start, uint64_t *bytes);
void gpud_vmm_handles_forget(void);

#pragma GCC visibility pop
#endif
