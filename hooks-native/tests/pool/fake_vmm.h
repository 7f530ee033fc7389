/* fake_vmm.h: a driver with virtual memory whose device memory is the host's, for tests of the pool without interception: addresses can
 * be read and written by the test, what is not mapped kills it. Copies happen when somebody waits for them, not before. */
#ifndef GPUD_TEST_FAKE_VMM_H
#define GPUD_TEST_FAKE_VMM_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include "../gate/checks.h"
#include "host_slots.h"
#include "pool.h"
#include "real.h"
#include "state.h"
#include "swap.h"

#define MIB (UINT64_C(1) << 20)

/* number: below zero, work that is under way */
struct CUstream_st { int number; CUstream next; CUcontext context; uint32_t life; };
/* Attached, devices 0 … managed and swappable, a context of device 0 current; `capacity` bytes on each device. */
void vmm_start(uint64_t capacity);
static inline struct gpud_control_device *vmm_control(uint32_t device)
{
    return &((struct gpud_control_page *)(void *)gpud_region.control)->device[device];
}
CUcontext vmm_context(int device, int which);   /* made current; `which` 0 or 1 */
void vmm_end_context(bool stays);               /* the current one (and it stays current), until vmm_context has it again: as cuDevicePrimaryCtxReset */
CUstream vmm_stream(int which);
/* Host slots of so many bytes are added. */
void vmm_host(uint64_t bytes);
/* The n-th driver call from now on fails with `code` (0: none); all after it too if `on`. */
void vmm_fail(uint64_t n, CUresult code, bool on);
bool vmm_failed(void);                          /* that call was made */
extern uint64_t vmm_capacity, vmm_calls, vmm_violations;
extern CUresult vmm_refuse_register;
/* What the program has, as the driver sees it. */
struct vmm_live {
    uint64_t handles, handle_bytes, mapped_bytes, reservations, copies, creates, registered;
};
extern struct vmm_live vmm_live;
/* Runs before each wait for an event or a stream (NULL: nothing). */
extern void (*vmm_at_wait)(void);
bool vmm_is_mapped(uint64_t at);
int vmm_rights(uint64_t at, int device);         /* CU_MEM_ACCESS_* of the mapping there; -1: there is none */
#endif
