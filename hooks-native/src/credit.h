/* credit.h: what a thread may still launch without looking at anything: GPU time, blocks and launches, drawn in advance from the
 * levels, rates and the window of its client (budget.c), and spent here by loads and stores of its own cache line.
 *
 * One line per slot, so that whoever finds the client idle can give back what threads hold that may never launch again. */
#ifndef GPUD_CREDIT_H
#define GPUD_CREDIT_H

#include "cost.h"
#include "state.h"

#pragma GCC visibility push(hidden)

/* Launches left, above the nanoseconds left. Whoever takes those at idle sets TAKEN and leaves the rest, so that the thread still
 * knows what it used. */
#define GPUD_CREDIT_TAKEN (UINT64_C(1) << 31)
#define GPUD_CREDIT_LAUNCH (UINT64_C(1) << 32)
#define GPUD_CREDIT_MOST INT32_MAX
#define GPUD_CREDIT_NS(word) ((uint32_t)(word) & INT32_MAX)
#define GPUD_CREDIT_LAUNCHES(word) ((uint32_t)((word) >> 32))

/* A part of the window that the thread may use on one stream (window.h). */
struct gpud_grant {
    CUstream stream;
    uint64_t bound;             /* generation for which it holds */
    uint64_t ns;                /* GPU time left of it */
    uint64_t used_ns;
    uint32_t launches;          /* left of it; 0 and used 0: there is none */
    uint32_t used;
};

struct gpud_credit {
    _Alignas(64) uint64_t word; /* launches << 32 | TAKEN | ns; changed by others atomically, and only in a burst that has ended */
    uint64_t blocks;            /* left, where they are limited */
    uint32_t edges;             /* edge count of the burst that it was drawn in; 0: nobody else may take it */
    uint32_t armed_launches;    /* what it began with, to know what was used */
    uint64_t armed_blocks;
    uint32_t armed_ns;
    uint32_t gate;              /* gate word for which it holds */
    uint64_t bound;             /* generation for which it holds; 0: there is none */
    uint64_t charged_ns;        /* charged to this thread on this device so far, exactly */
    /* 64 */
    uint32_t more;              /* what the thread's `more` says while it holds */
    uint32_t launches_since;    /* launches since the sample countdown was asked last */
    uint32_t rate_launches;     /* taken from the rates in advance, not used yet */
    uint64_t rate_blocks;       /* UINT64_MAX: not limited */
    struct gpud_grant grant;
};

/* One launch, from the thread's credit; false: it takes a look. Nothing is charged then. */
static inline bool gpud_credit_spend(struct gpud_credit *credit, uint32_t more, struct gpud_slot *slot, const void *function,
                                     uint64_t blocks)
{
    uint64_t word = gpud_load(&credit->word), used = GPUD_CREDIT_LAUNCH;

    if (word < GPUD_CREDIT_LAUNCH)
        return false;
    if (__builtin_expect(more & GPUD_MORE_CHARGED, 1)) {
        uint32_t cost = gpud_cost_quick(function, blocks);
        if (cost == 0 || (int64_t)(int32_t)word < (int64_t)cost)
            return false;
        used += cost;
    }
    if (__builtin_expect(more & GPUD_MORE_BLOCKS, 0)) {
        if (blocks > credit->blocks)
            return false;
        credit->blocks -= blocks;
    }
    gpud_store(&credit->word, word - used);
    gpud_store(&slot->blocks, gpud_load(&slot->blocks) + blocks);
    return true;
}

#pragma GCC visibility pop
#endif
