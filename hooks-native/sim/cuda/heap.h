/* heap.h: device memory of this process. Segments of the device's memfd, mapped at the device address, hold blocks. */
#ifndef SIM_CUDA_HEAP_H
#define SIM_CUDA_HEAP_H

#include "sim.h"

#define HEAP_UNIT (2ull << 20)      /* a segment is a multiple of this, as on the hardware */
#define HEAP_ALIGN 512ull

enum block_state { BLOCK_FREE, BLOCK_USED, BLOCK_PENDING };

struct block {
    struct block *prev, *next;      /* in the order of addresses within the segment */
    struct block *pending_next;
    struct segment *segment;
    uint64_t offset, bytes, asked;
    enum block_state state;
    struct ctx *ctx;                /* owner, NULL for a pool's block */
    uint32_t queue;                 /* PENDING: free once this queue has reached the ticket */
    uint64_t ticket, id;
    uint64_t foreign;               /* imports: the block's id in the process that has it */
    uint32_t opened;                /* imports: how often */
    bool hidden;                    /* an array's: not an address for the program */
    bool sync;                      /* CU_POINTER_ATTRIBUTE_SYNC_MEMOPS */
    struct managed *managed;        /* managed.h */
};

struct segment {
    struct heap *heap;
    struct segment *next, *prev;
    struct block *first;
    uint64_t offset, bytes, used;
    bool small;
    int protection;                 /* of its mapping; see view.c */
};

enum heap_kind { HEAP_PLAIN, HEAP_MANAGED, HEAP_POOL, HEAP_IMPORTS };

struct heap {
    struct device *device;
    enum heap_kind kind;
    struct pool *pool;              /* NULL: not a pool's, or its pool is destroyed */
    struct heap *next;              /* device->heaps */
    bool keeps;                     /* empty segments, for later */
    struct segment *segments;
    struct block *pending;
    uint64_t reserved, used, reserved_high, used_high, threshold;
    uint64_t limit;                 /* of what is reserved; 0: none */
    int access[SIM_MAX_DEVICES];    /* a pool's: CUmemAccess_flags of other devices */
};

struct range {
    char *start;
    uint64_t bytes;
    char *segment_start;
    uint64_t segment_bytes;
    struct ctx *ctx;
    struct device *device;
    struct heap *heap;
    uint64_t id;
    uint32_t opened;
    bool sync;
    struct managed *managed;        /* good while the allocation is */
};

/* Whose freed memory a stream-ordered allocation may have before that is known to be free. */
struct reuse {
    struct stream_follow follows[STREAM_FOLLOWS + 2];   /* work that the stream comes after, its own too */
    unsigned count;
    bool opportunistic;             /* also what has been reached meanwhile */
    struct stream_follow wanted;    /* out, with OUT_OF_MEMORY: waiting for this would give a block that fits; queue 0: none */
};

/* heap.c */
CUresult heap_device_open(struct device *device);               /* segment.c: reserves the device's addresses */
struct heap *heap_new(struct device *device, enum heap_kind kind, struct pool *pool);
/* Allocates; `reuse` may be NULL. */
CUresult heap_alloc(struct heap *heap, struct ctx *ctx, uint64_t bytes, struct reuse *reuse, char **out);
CUresult heap_free(char *address);                              /* at once; exact start address */
CUresult heap_free_ordered(char *address, struct stream *stream);       /* once the stream has reached what it has now */
bool heap_wait_pending(struct device *device);                  /* waits for what is to be free next; false: nothing is */
void heap_reap(struct heap *heap);                              /* pending blocks that are due become free; heap_lock held */
/* Gives empty segments back until no more than `keep` bytes are reserved (`least`: but at least as many); heap_lock held. */
void heap_trim(struct heap *heap, uint64_t keep, bool least);
void heap_release_ctx(struct ctx *ctx);                         /* heap_life.c: frees all memory of a context */
bool heap_delete_empty(struct heap *heap);                      /* gives up a heap that has no memory any more; lock held */

/* heap_find.c */
bool heap_find(const void *address, struct range *out);         /* any address within a live allocation that a program can name */
bool heap_change(const void *address, void (*change)(struct block *block, void *data), void *data);   /* the same, under the lock */
struct device *heap_device(const void *address);                /* which device's range it lies in, or NULL */
bool heap_covers(const void *address, uint64_t bytes);          /* all of it within one live allocation */
struct block *heap_block(struct device *device, const void *address);   /* whatever its state, or NULL; heap_lock held */

/* heap_import.c: memory of other processes, at the same place in the device's range. */
/* The block of `bytes` at `inside` of the range, which is opened (once) for this process. `foreign` names it in its owner. */
CUresult heap_import(struct heap *heap, struct ctx *ctx, uint64_t offset, uint64_t range_id, uint64_t inside, uint64_t bytes,
                     uint64_t foreign, char **out);
CUresult heap_import_close(char *address);                      /* one opening less; the last one unmaps it */

/* Parts of heap.c for heap_import.c. heap_lock held. */
struct block *heap_cut(struct block *block, uint64_t bytes);    /* cuts it to `bytes`; the rest, NULL: no host memory */
void heap_take(struct block *block, uint64_t asked, struct ctx *ctx);
void heap_release(struct block *block);

#endif
