/* quota.h: a tenant's limit of device memory, kept by its processes among themselves (ADR 0009). Each writes what it is about to ask the driver
 * for into its presence page, and then looks at the others': of two that see too much, at least one sees that the other gave way. */
#ifndef GPUD_QUOTA_H
#define GPUD_QUOTA_H

#include <stdbool.h>
#include <stdint.h>
#include "cuda_api.h"

#pragma GCC visibility push(hidden)

/* So many bytes of the ordinal are ours from now on, or false: over the limit, and nothing has changed. */
bool gpud_quota_take(uint32_t ordinal, uint64_t bytes);
/* Bytes that the driver gave already, whatever the limit says. */
void gpud_quota_add(uint32_t ordinal, uint64_t bytes);
void gpud_quota_give(uint32_t ordinal, uint64_t bytes);
/* The limit of the ordinal, UINT64_MAX: none, and what the tenant has of it. */
uint64_t gpud_quota_limit(uint32_t ordinal, uint64_t *used);
/* query.c: lowers what is left and what there is in all to the limit; false: there is none. Either may be NULL. */
bool gpud_limit_of(uint32_t ordinal, size_t *left, size_t *total);
/* After an attach, by the keeper: what is held goes into the present page. Takes no lock. */
void gpud_quota_publish(void);
void gpud_quota_forget(void);               /* forked child */

/* quota_pool.c: what the driver's pools (and its graphs) hold is charged, not what the program has not freed yet. */
#define GPUD_POOL_ELSEWHERE GPUD_MAX_DEVICES    /* its memory is not a device's: nothing is charged */
void gpud_pool_known(CUmemoryPool pool, uint32_t ordinal);
void gpud_pool_gone(CUmemoryPool pool);
void gpud_graph_memory(uint32_t ordinal);   /* graphs may hold memory there from now on */
/* What the pool must grow by for so many bytes more: UINT64_MAX where the driver does not say. */
uint64_t gpud_pool_growth(CUmemoryPool pool, uint64_t bytes);
CUmemoryPool gpud_pool_current(uint32_t ordinal);
uint32_t gpud_pool_ordinal(CUmemoryPool pool);  /* GPUD_POOL_ELSEWHERE; UINT32_MAX: unknown */
/* Charges what all pools of the ordinal (UINT32_MAX: any) hold now, less `taken` bytes that were reserved for it. Returns at once where
 * somebody else is at it and `wait` is false. */
void gpud_pools_look(uint32_t ordinal, uint64_t taken, bool wait);
/* The same of the one pool. */
void gpud_pool_look(CUmemoryPool pool, uint32_t ordinal, uint64_t taken);
/* Something was freed that a pool may have given to the driver by now: the keeper looks. */
void gpud_pools_stale(void);
bool gpud_pools_are_stale(void);
void gpud_pools_forget(void);

#pragma GCC visibility pop
#endif
