/* segment.h: ranges of the device's memory, mapped at their device address. */
#ifndef SIM_CUDA_SEGMENT_H
#define SIM_CUDA_SEGMENT_H

#include "heap.h"

/* Takes `bytes` of capacity (a multiple of HEAP_UNIT), maps it, and gives its only block. heap_lock held. 0 or -errno. */
int segment_new(struct heap *heap, uint64_t bytes, bool small, struct block **block);
/* Opens and maps a range of another process. heap_lock held. 0 or -errno; -ENOENT: there is no such range any more. */
int segment_open(struct heap *heap, uint64_t offset, uint64_t range_id, struct segment **out);
/* Unmaps a segment and lets go of its range. heap_lock held. */
void segment_drop(struct segment *segment);

/* Maps a memory file somewhere, not to be inherited by fork() or dumped. False: no address space left. */
bool segment_map(int fd, void *at, uint64_t offset, uint64_t bytes, int protection);
/* Writes device memory (NULL: zeroes) whatever access its pages have now (view.c). False: the machine has no memory left. */
bool segment_write(const struct device *device, const char *at, const void *data, uint64_t bytes);
/* Takes access to addresses away, without giving up the reservation. */
void segment_seal(void *at, uint64_t bytes);

#endif
