/* gate.h: the launch path. Included by whoever defines a GATE entry. */
#ifndef GPUD_GATE_H
#define GPUD_GATE_H

#include "state.h"

/* Enters the gate; returns when the launch may be made. Nothing but loads and one store while all is open and known. */
static inline struct gpud_pass gpud_enter(CUstream stream, int per_thread)
{
    struct gpud_thread *thread = &gpud_thread;
    struct gpud_slot *slot = thread->slot;

    if (per_thread && stream == NULL)
        stream = CU_STREAM_PER_THREAD;
    gpud_bump(&slot->entered);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);    /* the mark before the look; the closer's membarrier does the rest */
    uint64_t look = (gpud_load(&gpud_word) ^ thread->word) | ((uintptr_t)stream ^ (uintptr_t)thread->stream) |
                    (gpud_load(thread->edge) ^ thread->edge_seen) | gpud_load(thread->gate);
    if (__builtin_expect(look != 0, 0))
        return gpud_enter_slow(stream);
    return (struct gpud_pass){ .slot = slot, .device = thread->device, .flags = 0 };
}

/* The real call has returned. */
static inline void gpud_leave(struct gpud_pass *pass, CUstream stream, int per_thread, CUresult result)
{
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (__builtin_expect((pass->flags | (uint32_t)result) != 0, 0)) {
        gpud_leave_slow(pass, per_thread && stream == NULL ? CU_STREAM_PER_THREAD : stream, result);
        return;
    }
    gpud_store_release(&pass->slot->left, gpud_load(&pass->slot->left) + 1);
}

#endif
