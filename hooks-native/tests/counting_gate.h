/* counting_gate.h: the other half of the hook for the tests of interception: every launch passes and is counted. Never in a
 * release build. */
#ifndef GPUD_COUNTING_GATE_H
#define GPUD_COUNTING_GATE_H

#include <stdbool.h>
#include "launch.h"

/* What the tests read: `counting` is exported by the hook built with this gate. */
struct counting {
    uint64_t started, initialised, entered, left, failed;
    uint64_t proved_context, proved_stream, proved_event, recorded;
    uint64_t context_changed, context_going, context_gone, primary_gone, stream_gone, event_gone;
    uint64_t capture_began, capture_ended;
    uint64_t allocated, allocated_bytes, freed;
    uint64_t copies, copied, copied_bytes;      /* asked, made, bytes of those made */
    uint64_t function_gone, function_changed, stream_waits;
    CUstream stream;        /* of the last launch, or copy, as given */
    const void *function;   /* of the last launch, and its blocks */
    uint64_t blocks;
    int per_thread;         /* of the last launch, proof, record or allocation that says so */
};
extern __attribute__((visibility("default"))) struct counting counting;

#define COUNT(field) __atomic_fetch_add(&counting.field, 1, __ATOMIC_RELAXED)

/* Marks of this thread; `word` is 0 until its first launch has gone the slow way. */
struct counting_thread {
    struct gpud_slot slot;
    uint64_t word;
};
extern __thread struct counting_thread counting_thread __attribute__((tls_model("initial-exec")));

struct gpud_pass gpud_enter_slow(CUstream stream, const void *function, uint64_t blocks);
void gpud_leave_slow(struct gpud_pass *pass, CUstream stream, CUresult result);

static inline bool gpud_enter_fast(CUstream stream, int per_thread, const void *function, uint64_t blocks, struct gpud_slot **own)
{
    struct gpud_slot *slot = &counting_thread.slot;
    uint64_t entered = slot->entered++;

    *own = slot;
    if (entered != slot->left || !counting_thread.word)
        return false;
#ifndef COUNTING_BENCH      /* else bare marks, to measure the way there */
    COUNT(entered);
    counting.stream = stream;
    counting.per_thread = per_thread;
    counting.function = function;
    counting.blocks = blocks;
#else
    (void)stream, (void)per_thread, (void)function, (void)blocks;
#endif
    return true;
}

static inline void gpud_leave_fast(struct gpud_slot *slot, CUstream stream, int per_thread, CUresult result)
{
    (void)stream, (void)per_thread;
    slot->left++;
#ifndef COUNTING_BENCH
    COUNT(left);
    if (result)
        COUNT(failed);
#else
    (void)result;
#endif
}

static inline bool gpud_nested(void)
{
    return counting_thread.word && counting_thread.slot.entered - 1 != counting_thread.slot.left;
}

static inline void gpud_unmark(void)
{
    counting_thread.slot.entered--;
}

/* No pool: the driver is asked. */
#define gpud_pool_takes(bytes) ((void)(bytes), false)
#define gpud_pool_takes_ordered(bytes, pool, stream, per_thread) ((void)(per_thread), false)
#define gpud_pool_owns(at) ((void)(at), false)
#define gpud_pool_alloc(...) CUDA_ERROR_UNKNOWN
#define gpud_pool_alloc_pitch(...) CUDA_ERROR_UNKNOWN
#define gpud_pool_alloc_ordered(...) CUDA_ERROR_UNKNOWN
#define gpud_pool_free(...) CUDA_ERROR_UNKNOWN
#define gpud_pool_free_ordered(...) CUDA_ERROR_UNKNOWN
#define gpud_pool_range(...) CUDA_ERROR_UNKNOWN
#define gpud_pool_attribute(...) CUDA_ERROR_UNKNOWN
#define gpud_pool_attributes(...) CUDA_ERROR_UNKNOWN
#define gpud_pool_of_pool(...) (void)0
#define gpud_pool_of_pool_set(...) (void)0
#define gpud_pool_trimmed(...) (void)0
#define gpud_pool_peer(...) (void)0
#define gpud_vmm_takes(bytes, prop, flags) ((void)(bytes), (void)(prop), (void)(flags), false)
#define gpud_vmm_covers(at, bytes) ((void)(at), (void)(bytes), false)
#define gpud_vmm_maps(at, bytes, handle) ((void)(handle), false)
#define gpud_virtual(handle) ((void)(handle), false)
#define gpud_vmm_create(...) CUDA_ERROR_UNKNOWN
#define gpud_vmm_release(...) CUDA_ERROR_UNKNOWN
#define gpud_vmm_retain(...) CUDA_ERROR_UNKNOWN
#define gpud_vmm_properties(...) CUDA_ERROR_UNKNOWN
#define gpud_vmm_map(...) CUDA_ERROR_UNKNOWN
#define gpud_vmm_unmap(...) CUDA_ERROR_UNKNOWN
#define gpud_vmm_set_access(...) CUDA_ERROR_UNKNOWN
#define gpud_vmm_get_access(...) CUDA_ERROR_UNKNOWN
#define gpud_vmm_export(...) CUDA_ERROR_UNKNOWN
#define gpud_vmm_range(...) CUDA_ERROR_UNKNOWN
#define gpud_vmm_attribute(...) CUDA_ERROR_UNKNOWN
#define gpud_vmm_attributes(...) CUDA_ERROR_UNKNOWN
#define gpud_vmm_reserved(...) (void)0
#define gpud_vmm_unreserves(at, bytes) ((void)(at), (void)(bytes), false)
#define gpud_vmm_unreserved(...) (void)0
#define gpud_vmm_driver_mapped(...) (void)0
#define gpud_vmm_driver_unmapped(...) (void)0
struct gpud_loan {
    CUmemGenericAllocationHandle handle;
    CUresult result;
};
#define gpud_lends(memory) ((struct gpud_loan){ (memory), 0 })
#define gpud_lent(loan, result) ((void)(loan), (result))

#endif
