/* where.h: what memory an address is, of whatever kind; see where.c. */
#ifndef SIM_CUDA_WHERE_H
#define SIM_CUDA_WHERE_H

#include "heap.h"

enum where_kind { WHERE_HEAP, WHERE_MAPPED, WHERE_RESERVED, WHERE_HOST };       /* RESERVED: addresses without memory */

struct where {
    enum where_kind kind;
    struct device *device;          /* whose memory it is; NULL: the host's */
    char *start;                    /* the allocation, mapping, or reservation */
    uint64_t bytes;
    char *reserved;                 /* what it lies in: the reservation, else as above */
    uint64_t reserved_bytes;
    char *backing;                  /* the memory behind it: the segment, else as above */
    uint64_t backing_bytes;
    uint64_t id, backing_id;
    struct ctx *ctx;                /* owner, or NULL */
    struct pool *pool;
    bool managed, legacy_ipc, imported, sync;
    int handle_types;               /* by which it can be exported */
    int access[SIM_MAX_DEVICES];    /* CUmemAccess_flags of the process's devices */
};

bool where_find(const void *address, struct where *out);
/* Device memory, or physical memory that is mapped: what a pageable host address is not. `device` (may be NULL) receives whose. */
bool where_device(const void *address, struct device **device);
/* All of it within one allocation or mappings without a gap, to be read, or written, by work of `ctx`. */
bool where_covers(const void *address, uint64_t bytes, const struct ctx *ctx, bool write);
bool where_sync(const void *address);           /* CU_POINTER_ATTRIBUTE_SYNC_MEMOPS is set */
bool where_set_sync(const void *address, bool sync);    /* false: no such memory */

#endif
