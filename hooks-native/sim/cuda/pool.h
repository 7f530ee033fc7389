/* pool.h: memory pools of a device; see pool.c. */
#ifndef SIM_CUDA_POOL_H
#define SIM_CUDA_POOL_H

#include "heap.h"

/* pool.c */
CUresult pools_open(struct device *device);     /* makes the default pool */
CUresult pool_new(struct device *device, bool builtin, struct pool **out);
CUresult pool_of(CUmemoryPool handle, struct pool **out);
void pools_reap(void);                          /* after a synchronisation: gives memory above the thresholds back */
void pools_trim_locked(struct device *device);  /* gives all segments back that are known to be empty; heap_lock held */

#endif
