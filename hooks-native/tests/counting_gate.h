/* counting_gate.h: the other half of the hook for the tests of interception: every launch passes and is counted. Never in a
 * release build. */
#ifndef GPUD_COUNTING_GATE_H
#define GPUD_COUNTING_GATE_H

#include "launch.h"

/* What the tests read: `counting` is exported by the hook built with this gate. */
struct counting {
    uint64_t started, initialised, entered, left, failed;
    uint64_t proved_context, proved_stream, proved_event, recorded;
    uint64_t context_changed, context_going, stream_gone, event_gone;
    uint64_t capture_began, capture_ended;
    uint64_t allocated, allocated_bytes, freed;
    CUstream stream;        /* of the last launch, as given */
    int per_thread;         /* of the last launch, proof, record or allocation that says so */
};
extern __attribute__((visibility("default"))) struct counting counting;

#define COUNT(field) __atomic_fetch_add(&counting.field, 1, __ATOMIC_RELAXED)

static inline struct gpud_pass gpud_enter(CUstream stream, int per_thread)
{
#ifdef COUNTING_BENCH       /* bare marks, to measure the way there */
    (void)stream, (void)per_thread;
    __atomic_store_n(&counting.entered, __atomic_load_n(&counting.entered, __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED);
#else
    COUNT(entered);
    counting.stream = stream;
    counting.per_thread = per_thread;
#endif
    return (struct gpud_pass){ 0 };
}

static inline void gpud_leave(struct gpud_pass *pass, CUstream stream, int per_thread, CUresult result)
{
    (void)pass, (void)stream, (void)per_thread;
#ifdef COUNTING_BENCH
    (void)result;
    __atomic_store_n(&counting.left, __atomic_load_n(&counting.left, __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED);
#else
    COUNT(left);
    if (result)
        COUNT(failed);
#endif
}

#endif
