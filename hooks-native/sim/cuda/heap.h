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
    bool managed;
};

struct segment { struct heap *heap; struct segment *next, *prev; struct block *first; uint64_t offset, bytes, used; bool small; };

struct heap {
    struct device *device;
    struct pool *pool;              /* NULL: the plain heap, which keeps no empty segment */
    struct segment *segments;
    struct block *pending;
    uint64_t reserved, used, reserved_high, used_high, threshold;
};

struct range { char *start; uint64_t bytes; struct ctx *ctx; struct device *device; struct pool *pool; uint64_t id; bool managed; };

CUresult heap_device_open(struct device *device);               /* reserves the device's addresses */
struct heap *heap_new(struct device *device, struct pool *pool);
/* Allocates; `stream` (may be NULL) says whose freed memory may be reused before that stream has come to the free. */
CUresult heap_alloc(struct heap *heap, struct ctx *ctx, uint64_t bytes, struct stream *stream, char **out);
CUresult heap_free(char *address);                              /* at once; exact start address */
CUresult heap_free_ordered(char *address, struct stream *stream);       /* once the stream has reached what it has now */
bool heap_find(const void *address, struct range *out);         /* any address within a live allocation */
void heap_set_managed(char *address);
struct device *heap_device(const void *address);                /* which device's range it lies in, or NULL */
bool heap_covers(const void *address, uint64_t bytes);          /* all of it within one live allocation */
void heap_reap(struct heap *heap);                              /* pending blocks that are due become free */
void heap_trim(struct heap *heap, uint64_t keep);               /* gives empty segments back until `keep` bytes are reserved */
void heap_release_ctx(struct device *device, struct ctx *ctx);  /* frees all plain memory of a context */
void heap_delete(struct heap *heap);                            /* waits for pending blocks, frees everything */

#endif
