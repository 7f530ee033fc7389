/* cost.h: what a launch costs, in nanoseconds of GPU time. A bounded table, process-wide, of what was learned per function (or
 * executable graph) and grid size class. The launch path reads it without a lock, one cache line for a hit; everything else
 * (learning, forgetting, making room) happens under a lock in cost.c, on slow paths and in the keeper.
 *
 *     ns = gpud_cost_quick(function, blocks);            0: slow path
 *     ns = gpud_cost_now(device, function, blocks, &young);
 *
 * Both include the factor that corrects charges of the device (activity.factor_ppm). For a graph the function is its CUgraphExec
 * and `blocks` is 0. Handles are pointers of the driver: their upper byte is zero. */
#ifndef GPUD_COST_H
#define GPUD_COST_H

#include <stdbool.h>
#include <stdint.h>
#include "page.h"

#pragma GCC visibility push(hidden)

#define GPUD_COST_WAYS 4
#define GPUD_COST_SETS 1024             /* × GPUD_COST_WAYS = 4096 entries */
#define GPUD_COST_LEAST_NS 1000         /* every launch costs at least this */

struct gpud_cost {
    uint64_t key;           /* gpud_cost_key(); 0: free */
    uint32_t ns;            /* to charge, factor included; 0: not to be had quickly (young) */
    uint32_t flags;         /* GPUD_COST_* */
};
#define GPUD_COST_YOUNG 1   /* known by fewer samples than it takes: each launch is worth a sample */
#define GPUD_COST_GUESS 2   /* nothing measured with nobody else at work */
#define GPUD_COST_UNSURE 4  /* known by so few that what is charged will be set right */

struct gpud_cost_set {
    _Alignas(64) struct gpud_cost way[GPUD_COST_WAYS];
};
extern struct gpud_cost_set gpud_costs[GPUD_COST_SETS];

/* Function and size class in one word: four classes to each power of two of blocks. A graph (0 blocks) is of the first class. */
static inline uint64_t gpud_cost_key(const void *function, uint64_t blocks)
{
    uint32_t zeros = (uint32_t)__builtin_clzll(blocks | 1);
    uint64_t class = (uint64_t)(63 - zeros) << 2 | ((blocks << zeros) >> 61 & 3);

    return (uint64_t)(uintptr_t)function << 8 | class;
}

static inline struct gpud_cost_set *gpud_cost_set_of(uint64_t key)
{
    return &gpud_costs[(key * UINT64_C(0x9e3779b97f4a7c15)) >> 54];
}

/* What this launch is charged with, or 0: not known, young, or moved out: the slow path answers. Loads only. */
static inline uint32_t gpud_cost_quick(const void *function, uint64_t blocks)
{
    uint64_t key = gpud_cost_key(function, blocks);
    const struct gpud_cost_set *set = gpud_cost_set_of(key);

    for (uint32_t i = 0; i < GPUD_COST_WAYS; i++) {
        if (gpud_load(&set->way[i].key) == key)
            return gpud_load(&set->way[i].ns);
    }
    return 0;
}

/* The same on the slow path: always an answer, at least GPUD_COST_LEAST_NS. Where nothing is known it is a prior: blocks × what a block
 * costs on average over all kernels, else 20 µs. `young` is set if the launch is worth a sample by itself. */
uint32_t gpud_cost_now(uint32_t device, const void *function, uint64_t blocks, bool *young);

/* The handle will be destroyed (cuGraphExecDestroy): a new one may get its value. Before the real call; any thread. */
void gpud_cost_forget(const void *handle);
/* What is behind the handle may have changed (cuGraphExecUpdate; NULL: any handle, cuModuleUnload and cuLibraryUnload): what was learned
 * counts only until the first new sample, and every launch is worth one until there are enough again. Any thread. */
void gpud_cost_doubt(const void *handle);
void gpud_cost_fork(void);      /* forked child: the table holds (handles live on), locks are new */

/* Is a launch of it worth a sample by itself, as gpud_cost_now() says? Then one is taken for it now. */
bool gpud_cost_take_sample(const void *function, uint64_t blocks);

/* Between sample*.c and cost.c. */
struct gpud_measure {
    uint64_t ns;            /* from event to event, of wall time */
    bool busy;              /* the stream was still at work when the second event was recorded: nothing but the launch lies between */
    bool clean;             /* nobody else was at work on the device */
    uint32_t others;        /* not clean: other clients at work, as far as seen */
};
void gpud_cost_learn(uint32_t device, uint64_t key, uint64_t blocks, const struct gpud_measure *measure, uint64_t now);
/* What a pair of events with nothing in between measured, in an empty stream. */
void gpud_cost_empty_pair(uint32_t device, uint64_t ns);
/* Over a stretch of `launches` in which this client alone kept the device busy, `charged_ns` was charged, with this factor in it, for `took_ns`. */
void gpud_cost_correct(uint32_t device, uint64_t launches, uint64_t charged_ns, double factor, uint64_t took_ns);
double gpud_cost_factor(uint32_t device);
bool gpud_cost_varies(uint32_t device);     /* launches of one kind differ in their cost, by their data maybe */
/* Launches so far for whose cost there was nothing good to go by; and of functions that were still worth a sample each. */
uint64_t gpud_cost_unsure(void);
uint64_t gpud_cost_young(void);
void gpud_cost_publish(void);   /* new activity pages: factor_ppm, estimated */

#pragma GCC visibility pop
#endif
