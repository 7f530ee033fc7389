/* vmm_program.h: what tests of the program's own virtual memory do over and over. */
#ifndef GPUD_TEST_VMM_PROGRAM_H
#define GPUD_TEST_VMM_PROGRAM_H

#include "fake_vmm.h"
#include "vmm.h"

#define SLOT 2
#define UNIT (2 * MIB)

static const CUmemAllocationProp of_device = { .type = CU_MEM_ALLOCATION_TYPE_PINNED, .requestedHandleTypes = 1,
                                               .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };

/* As the entries do it. */
static inline CUresult make_handle(CUmemGenericAllocationHandle *handle, uint64_t bytes)
{
    return gpud_vmm_takes(bytes, &of_device, 0) ? gpud_vmm_create(handle, bytes, &of_device) : CUDA_ERROR_UNKNOWN;
}

static inline CUdeviceptr reserve_addresses(uint64_t bytes)
{
    CUdeviceptr at = 0;
    while (real.cuMemAddressReserve(&at, bytes, UNIT, 0, 0) != CUDA_SUCCESS)
        ;
    gpud_vmm_reserved(at, bytes);
    return at;
}

static inline CUresult rights(CUdeviceptr at, uint64_t bytes, int device, int flags)
{
    const CUmemAccessDesc desc = { { CU_MEM_LOCATION_TYPE_DEVICE, device }, flags };
    return gpud_vmm_set_access(at, bytes, &desc, 1);
}

static inline uint64_t out(void)
{
    uint64_t moved = 0;
    gpud_swap_out(SLOT, UINT64_MAX, 0, &moved);
    return moved;
}

static inline uint64_t in(void)
{
    uint64_t moved = 0;
    CHECK(gpud_swap_in(SLOT, UINT64_MAX, 0, &moved) == GPUD_SWAP_DONE && gpud_pool_lacks(SLOT) == 0, "in");
    return moved;
}

static inline volatile uint64_t *word_at(CUdeviceptr at)
{
    return (volatile uint64_t *)(uintptr_t)at;
}
#endif
