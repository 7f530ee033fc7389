/* chunk.h: pieces of address space of a device, backed by physical memory or not: their states, and the driver calls that change
 * them. Everything here is called with gpud_pool_lock held, unless said otherwise. */
#ifndef GPUD_CHUNK_H
#define GPUD_CHUNK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include "cuda_api.h"
#include "gpud_page.h"

#pragma GCC visibility push(hidden)

#define GPUD_MIB (UINT64_C(1) << 20)
#define GPUD_CHUNK_UNIT (2 * GPUD_MIB)      /* sizes are whole units; the smallest class */
#define GPUD_CHUNK_LARGEST (64 * GPUD_MIB)
#define GPUD_CHUNK_CLASSES 3                /* 2, 32, 64 MiB */
#define GPUD_POOL_DEVICES 8                 /* client ordinals 0 … 7 */
#define GPUD_NO_HOST UINT32_MAX

/* Every chunk that is not LAZY or LOST has a complete valid copy at every instant: on the device in RESIDENT_*, PINNED and OUT_COPYING, in the
 * host slots in HOST, IN_COPYING (and RESIDENT_CLEAN). A chunk that is copied belongs to the mover. */
enum gpud_chunk_state {
    GPUD_CHUNK_LAZY,            /* no contents; with or without a handle under way */
    GPUD_CHUNK_RESIDENT_DIRTY,
    GPUD_CHUNK_RESIDENT_CLEAN,  /* the host copy is valid too: reserved, nothing makes it yet */
    GPUD_CHUNK_OUT_COPYING,
    GPUD_CHUNK_HOST,
    GPUD_CHUNK_IN_COPYING,
    GPUD_CHUNK_PINNED,          /* somebody outside has its memory: never leaves */
    GPUD_CHUNK_LOST,            /* its host copy has changed in the host's memory: addresses that the driver answers an error for */
    GPUD_CHUNK_STATES
};

/* Where the program has mapped the memory of a handle of its own. */
struct gpud_view {
    uint64_t at, bytes;
    struct gpud_chunk *chunk;   /* NULL: the driver's own handle lies there */
    struct gpud_view *next;     /* of the same memory */
    uint32_t mapped_pieces;
    uint8_t access[GPUD_MAX_DEVICES];   /* CU_MEM_ACCESS_* that the program has given to each ordinal */
    bool mapped, reachable;     /* reachable: these rights are set */
};

/* What a chunk is that the program has made itself (vmm_handle.c). It lives for as long as one of the two is left. */
struct gpud_origin {
    uint64_t value;             /* the handle that the program has */
    uint64_t handles;           /* how often it has it */
    struct gpud_view *views;
    CUmemAllocationProp prop;   /* as the program wanted it; each time that the memory is made anew */
};

struct gpud_chunk {
    uint64_t at, bytes;         /* of an origin: addresses of ours, mapped only once it is copied */
    struct gpud_origin *origin; /* NULL: the pool's own */
    CUmemGenericAllocationHandle handle;
    CUmemGenericAllocationHandle *piece;    /* instead of the one: as many of the smallest class, where none of its size was to be had */
    uint32_t mapped_pieces;
    uint64_t sum;               /* checksum of the host copy */
    uint64_t number;            /* of its memory among that by handles (alloc_handle.c); 0: the program has no handle of it */
    uint32_t host;              /* first unit of the host copy; GPUD_NO_HOST: none */
    uint32_t ordinal;
    uint32_t pins;              /* calls that gave its memory to somebody outside */
    uint8_t state;
    bool has_handle, mapped, reachable;     /* reachable: access is set */
};

extern pthread_mutex_t gpud_pool_lock;

/* The largest class that fits into `bytes` (≥ a unit). */
uint64_t gpud_chunk_class(uint64_t bytes);
/* Memory behind the chunk (and its views), reachable by its device and that device's peers. On failure nothing has changed but what could not be taken
 * back, and that the next call goes on with. CUDA_ERROR_OUT_OF_MEMORY only after recycled handles were given back. */
CUresult gpud_chunk_back(struct gpud_chunk *chunk);
/* No memory behind the chunk any more. `keep`: its handle may be recycled by this process, as far as there is room for it. On failure the
 * chunk is as mapped as before. Where its contents are is the caller's to say. */
CUresult gpud_chunk_strip(struct gpud_chunk *chunk, bool keep);
/* It has memory: from now on it is also at `at`, where it is copied. On failure nothing has changed that matters. */
CUresult gpud_chunk_reach(struct gpud_chunk *chunk);
/* The view shows the memory, with its rights, if there is memory; does not any more. On failure it is as before. */
CUresult gpud_view_back(struct gpud_view *view);
CUresult gpud_view_strip(struct gpud_view *view);
/* Somebody outside is given its memory: it never leaves from now on. False: it is not there just now. */
bool gpud_chunk_pin(struct gpud_chunk *chunk);
void gpud_chunk_unpin(struct gpud_chunk *chunk);
/* The only way to another state; keeps the counts. */
void gpud_chunk_set(struct gpud_chunk *chunk, enum gpud_chunk_state state);
/* Bytes in each state, per ordinal; and of handles that no chunk has. Read without the lock too. */
extern uint64_t gpud_chunk_bytes[GPUD_POOL_DEVICES][GPUD_CHUNK_STATES];
extern uint64_t gpud_chunk_spare[GPUD_POOL_DEVICES];
extern uint64_t gpud_chunk_lost;            /* bytes that the driver would not take back */
/* Gives recycled handles back to the driver, at least so many bytes if there are. Returns how many. */
uint64_t gpud_chunk_trim(uint32_t ordinal, uint64_t bytes);
/* Device `peer` may use (or no longer) memory of `ordinal`: chunks that are mapped follow by gpud_chunk_access. */
void gpud_chunk_peer(uint32_t ordinal, uint32_t peer, bool may);
CUresult gpud_chunk_access(struct gpud_chunk *chunk);
/* Called before a look at whether there is memory fails for good: gives back what is mapped but of no use (pool_span.c). */
uint64_t gpud_chunk_make_room(uint32_t ordinal, uint64_t bytes);
/* The device answers all entries that chunks need. */
bool gpud_chunk_able(void);
void gpud_chunk_forget(void);               /* forked child */

/* Within chunk*.c: the memory at addresses, the chunk's own or a view's; all views, or none. */
CUresult gpud_chunk_map(const struct gpud_chunk *chunk, uint64_t at, uint64_t bytes, uint32_t *pieces);
CUresult gpud_chunk_unmap(const struct gpud_chunk *chunk, uint64_t at, uint64_t bytes, bool mapped, uint32_t *pieces);
CUresult gpud_views_back(const struct gpud_chunk *chunk);
CUresult gpud_views_strip(const struct gpud_chunk *chunk);
void gpud_chunk_peers_forget(void);

#pragma GCC visibility pop
#endif
