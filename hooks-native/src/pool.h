/* pool.h: device memory of tenants that may be asked to leave the device: what the entries call. Everything is found by its address:
 * calls on addresses that are not the pool's answer false, and the driver is asked. All but the takes and finds answer what the
 * program gets. */
#ifndef GPUD_POOL_H
#define GPUD_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "chunk.h"
#include "cuda_api.h"

#pragma GCC visibility push(hidden)

/* True if an allocation of the calling thread's device comes from the pool: GPUD_MEMORY_SWAP, a driver with virtual memory, no
 * capture open. Costs a few loads. */
bool gpud_pool_takes(size_t bytes);
/* The same for stream-ordered ones: of the device's default pool (`pool`; NULL: the current one), and `stream` is not capturing. */
bool gpud_pool_takes_ordered(size_t bytes, CUmemoryPool pool, CUstream stream, int per_thread);
/* While the process has not the device (GPUD_GATE_GRANT and presence.lock neither HAS nor COMES_IN): addresses without memory behind
 * them, backed by the next gpud_swap_in. Who stores HAS asks gpud_pool_lacks afterwards, and swaps in again until it is 0, before
 * the gate opens: an allocation that still saw COMES_IN may be without memory. */
CUresult gpud_pool_alloc(CUdeviceptr *at, size_t bytes);
/* Memory of the ordinal is made so that it can leave, whatever context is current. */
bool gpud_pool_swaps(uint32_t ordinal);
CUresult gpud_pool_alloc_pitch(CUdeviceptr *at, size_t *pitch, size_t width, size_t height, unsigned int element);
CUresult gpud_pool_alloc_ordered(CUdeviceptr *at, size_t bytes, CUstream stream, int per_thread);

CUmemoryPool gpud_pool_default(uint32_t ordinal);   /* the driver's default pool, in whose name stream-ordered ones are; NULL: not asked yet */

/* The driver has no memory for what is not the pool's: gives back all that is kept in no use. True: it was some, ask again. */
bool gpud_pool_give_idle(uint32_t ordinal);

/* True if the address is in an allocation of the pool's. */
bool gpud_pool_owns(CUdeviceptr at);
/* What the program asked for there; 0: not the beginning of an allocation of the pool's. */
size_t gpud_pool_size(CUdeviceptr at);
CUresult gpud_pool_free(CUdeviceptr at);
CUresult gpud_pool_free_ordered(CUdeviceptr at, CUstream stream, int per_thread);

/* cuMemGetAddressRange, cuPointerGetAttribute(s) of an address of the pool's. */
CUresult gpud_pool_range(CUdeviceptr *base, size_t *bytes, CUdeviceptr at);
CUresult gpud_pool_attribute(void *data, int attribute, CUdeviceptr at);
CUresult gpud_pool_attributes(unsigned int count, int *attributes, void **data, CUdeviceptr at);

/* After the driver's own answer for one of its pools: what the default pool holds here comes on top (or is reset, trimmed). */
void gpud_pool_of_pool(CUmemoryPool pool, int attribute, void *value);
void gpud_pool_of_pool_set(CUmemoryPool pool, int attribute, const void *value);
void gpud_pool_trimmed(CUmemoryPool pool, size_t keep);

/* pool_pin.c: somebody outside is given memory of the pool's that lies there, and it stays on the device from now on; `more` false: not after
 * all. What has no memory just now is left alone, and the driver answers an error for it. */
void gpud_pool_pin(uint64_t at, uint64_t bytes, bool more);
/* The number of the memory there among that by handles, a new one where it had none; 0: it is not the pool's. */
uint64_t gpud_pool_number(uint64_t at, uint64_t (*new_number)(void));

/* After the calls that let a device use a peer's memory, or no longer: `peer` is the context whose memory it is. */
void gpud_pool_peer(CUcontext peer, bool may);

/* Beside gpud_context_gone and gpud_primary_gone, once it is known to be gone: the allocations of the context went with it. NULL: which
 * one is not known: those that the driver does not know any more, of the ordinal (UINT32_MAX: of any). Before gpud_ending goes down. */
void gpud_pool_context_gone(uint32_t ordinal, CUcontext context);
/* Beside gpud_stream_gone: a new stream may get the same value. */
void gpud_pool_stream_gone(CUstream stream);
void gpud_pool_forget(void);                /* forked child */

/* Within pool*.c, stream_pool.c and vmm*.c. May chunks get memory now (see above)? Lock held. */
bool gpud_pool_has_device(uint32_t ordinal, bool *comes_in);
bool gpud_context_lives(CUcontext context);     /* the driver still knows it */
struct gpud_found {
    struct gpud_span *span;
    uint64_t at, bytes, id;
    bool small, ordered, freeing;
};
/* The allocation around the address. Lock held. */
bool gpud_pool_find(uint64_t address, struct gpud_found *found);
/* Its memory is nobody's from now on: what used it is finished. Lock held. */
void gpud_pool_release(const struct gpud_found *found);
bool gpud_pool_pins(const struct gpud_found *found);    /* somebody outside has memory of it. Lock held. */
/* Lock held, and given up where it waits for memory that streams are about to free. */
CUresult gpud_pool_new(uint32_t ordinal, CUcontext context, size_t bytes, bool ordered, CUdeviceptr *at);
void gpud_pool_mark(const struct gpud_found *found, bool ordered, bool freeing, uint64_t bytes);

#pragma GCC visibility pop
#endif
