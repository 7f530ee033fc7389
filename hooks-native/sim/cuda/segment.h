/* segment.h: ranges of the device's memory, mapped at their device address. */
#ifndef SIM_CUDA_SEGMENT_H
#define SIM_CUDA_SEGMENT_H

#include "heap.h"

/* Takes `bytes` of capacity (a multiple of HEAP_UNIT), maps it, and gives its only block. heap_lock held. 0 or -errno. */
int segment_new(struct heap *heap, uint64_t bytes, bool small, struct block **block);
/* Unmaps a segment and gives its capacity back. heap_lock held. */
void segment_drop(struct segment *segment);

#endif
