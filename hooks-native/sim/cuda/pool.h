/* pool.h: memory pools of a device; see pool.c. */
#ifndef SIM_CUDA_POOL_H
#define SIM_CUDA_POOL_H

#include "heap.h"

CUresult pools_open(struct device *device);     /* makes the default pool */
void pools_reap(void);                          /* after a synchronisation: gives memory above the thresholds back */
void pools_trim_locked(struct device *device);  /* gives all empty segments of all pools back; heap_lock held */

#endif
