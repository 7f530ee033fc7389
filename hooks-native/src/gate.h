/* gate.h: the launch path. Included by whoever defines a GATE entry. The fast halves are expanded into each entry: nothing but
 * loads and two stores to the thread's own slot while all is open and known, and some to its credit where launches are charged. */
#ifndef GPUD_GATE_H
#define GPUD_GATE_H

#include "credit.h"
#include "state.h"

/* Marks the entry. True: pass, and leave by gpud_leave_fast(*own). False: something is to be looked at, and the mark is made:
 * gpud_enter_slow, or gpud_unmark. A mark that was there already (the driver came back through our symbols) is such a thing. */
__attribute__((always_inline)) static inline bool gpud_enter_fast(CUstream stream, int per_thread, const void *function,
                                                                 uint64_t blocks, struct gpud_slot **own)
{
    struct gpud_thread *thread = &gpud_thread;
    struct gpud_slot *slot = thread->slot;
    uint64_t entered = gpud_load(&slot->entered);
    uint64_t inside = entered ^ gpud_load(&slot->left);

    if (per_thread && stream == NULL)
        stream = CU_STREAM_PER_THREAD;
    gpud_store(&slot->entered, entered + 1);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);    /* the mark before the look; the closer's membarrier does the rest */
    uint64_t look = (gpud_load(&gpud_word) ^ thread->word) | ((uintptr_t)stream ^ (uintptr_t)thread->stream) |
                    (gpud_load(thread->edge) ^ thread->edge_seen) | (gpud_load(thread->gate) ^ thread->gate_seen) | inside;
    *own = slot;
    uint32_t more = thread->more;
    if (__builtin_expect(more != 0, 0)) {
        /* Under preempt: the peers ranked above are as quiet as they were. */
#pragma GCC unroll 4
        for (uint32_t i = 0; i < (more & GPUD_MORE_WATCHED); i++)
            look |= gpud_load(thread->watch[i].word) ^ thread->watch[i].quiet;
        if (look == 0 && more & GPUD_MORE_CREDIT)
            return gpud_credit_spend(thread->credit, more, slot, function, blocks);
    }
    return __builtin_expect(look == 0, 1);
}

/* The real call has returned. */
static inline void gpud_leave_fast(struct gpud_slot *slot, CUstream stream, int per_thread, CUresult result)
{
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (__builtin_expect(result != CUDA_SUCCESS, 0)) {
        struct gpud_pass pass = { .slot = slot, .device = gpud_thread.device };
        gpud_leave_slow(&pass, per_thread && stream == NULL ? CU_STREAM_PER_THREAD : stream, result);
        return;
    }
    gpud_store_release(&slot->left, gpud_load(&slot->left) + 1);
}

/* The slot is in pages that have been, or are just being, replaced: a mark made a moment ago may lie in either. Pages are
 * replaced only when no launch is under way. */
static inline bool gpud_outdated(const struct gpud_thread *thread, const struct gpud_slot *slot)
{
    return slot != &thread->own && thread->attachment != gpud_load_acquire(&gpud_attachment);
}

/* After gpud_enter_fast said no: was this thread in an entry already? (Its word is 0 until it has a slot of its own.) */
static inline bool gpud_nested(void)
{
    struct gpud_slot *slot = gpud_thread.slot;
    return gpud_thread.word != 0 && gpud_load(&slot->entered) - 1 != gpud_load(&slot->left) && !gpud_outdated(&gpud_thread, slot);
}

/* Takes a mark of this thread back. One more that was made in the old page must not be missing in the new one for ever. */
static inline void gpud_take_back(struct gpud_slot *slot)
{
    if (gpud_outdated(&gpud_thread, slot)) {
        uint64_t left;
        do {
            left = gpud_load(&slot->left);
            gpud_store(&slot->entered, left);
        } while (gpud_load(&slot->left) != left);
    } else {
        gpud_store(&slot->entered, gpud_load(&slot->entered) - 1);
    }
}

/* Takes the mark of gpud_enter_fast back: the launch is none of ours. */
static inline void gpud_unmark(void)
{
    gpud_take_back(gpud_thread.slot);
}

/* The two paths in one: returns when the launch may be made. */
static inline struct gpud_pass gpud_enter(CUstream stream, int per_thread, const void *function, uint64_t blocks)
{
    struct gpud_slot *slot;

    if (gpud_enter_fast(stream, per_thread, function, blocks, &slot))
        return (struct gpud_pass){ .slot = slot, .device = gpud_thread.device, .flags = 0 };
    return gpud_enter_slow(per_thread && stream == NULL ? CU_STREAM_PER_THREAD : stream, function, blocks);
}

static inline void gpud_leave(struct gpud_pass *pass, CUstream stream, int per_thread, CUresult result)
{
    if (pass->flags == 0)
        gpud_leave_fast(pass->slot, stream, per_thread, result);
    else
        gpud_leave_slow(pass, per_thread && stream == NULL ? CU_STREAM_PER_THREAD : stream, result);
}

#endif
