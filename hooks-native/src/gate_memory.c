/* gate_memory.c: copies and memsets. Held while somebody else has the device (GPUD_GATE_GRANT), copies also under max_copy_rate; counted after.
 * Under GPUD_GATE_GRANT they are marked and noted as launches are, so that the device is not given away while one is under way; else they are
 * work that nobody notes (contexts.h), should there be turns before they have ended. */
#include "budget.h"
#include "contexts.h"
#include "gate.h"
#include "gate_memory.h"
#include "lock.h"
#include "presence.h"
#include "sample.h"

/* Gate bits under which copies are counted. */
#define COUNTED (GPUD_GATE_COPY | GPUD_GATE_CHARGE | GPUD_GATE_BUDGET | GPUD_GATE_SHARE)
/* In what gpud_copies answers: */
#define MARKED (UINT64_C(1) << 63)      /* the slot is marked */
#define UNNOTED (UINT64_C(1) << 62)     /* it has begun as work that nobody notes */

/* Waits until it may go on, and takes its bytes from the rate; or until what the thread knows is out of date: false. */
static bool pass(struct gpud_thread *thread, uint64_t bytes, struct gpud_hold *hold)
{
    uint32_t device = thread->device;
    const struct gpud_control_device *knobs = &gpud_control()->device[device];

    for (;;) {
        uint32_t seen = gpud_load_acquire(&knobs->wake);
        if ((gpud_load_acquire(&gpud_word) & ~(uint64_t)GPUD_WORD_REASONS) != thread->bound)
            return false;
        struct gpud_own own = { .held_since_ns = hold->since_ns, .bytes = bytes, .memory = true,
                                .epoch = gpud_load_acquire(&gpud_taken[device]) };
        uint64_t now = gpud_now();
        gpud_rate_read(device, &own);
        struct gpud_decision decision = gpud_decide(gpud_control(), device, gpud_present, GPUD_MAX_PRESENT, &own, now);
        gpud_closed_holds(device, &decision);
        if (!decision.hold) {
            if (bytes != 0 && gpud_load(&knobs->gate) & GPUD_GATE_COPY)
                gpud_rate_copy(device, bytes, now);
            return true;
        }
        gpud_hold_step(thread, hold, &decision, seen, now);
    }
}

/* Marks the slot and notes the stream; false: something changed meanwhile. */
static bool enter(struct gpud_thread *thread, CUstream stream)
{
    struct gpud_slot *slot = thread->slots[thread->device];
    bool woke = false;

    gpud_slot_mark(slot, thread->flags);
    uint64_t word = gpud_load_acquire(&gpud_word);
    if ((word & ~(uint64_t)GPUD_WORD_REASONS) != thread->bound || gpud_load(&gpud_closed) & 1u << thread->device) {
        gpud_slot_unmark(slot, thread->flags);
        return false;
    }
    if (gpud_load(thread->edge) != thread->edge_seen || stream != thread->stream || word & GPUD_WORD_DECIDING) {
        gpud_presence_enter(thread, stream, &woke);
        thread->stream = stream;
    }
    return true;
}

/* It begins without being noted; false: there are turns meanwhile, or something else has changed. */
static bool enter_unnoted(const struct gpud_thread *thread)
{
    gpud_unnoted_begin(thread->ordinal);
    if ((gpud_load_total(&gpud_word) & ~(uint64_t)GPUD_WORD_REASONS) == thread->bound && !(gpud_load_total(thread->gate) & GPUD_GATE_GRANT))
        return true;
    gpud_unnoted_end(thread->ordinal);
    return false;
}

static uint64_t come(uint64_t bytes, bool copies, CUstream stream, int per_thread)
{
    struct gpud_thread *thread = &gpud_thread;
    struct gpud_hold hold = { 0 };
    CUstream named = per_thread && stream == NULL ? CU_STREAM_PER_THREAD : stream;
    uint64_t answer = 0;

    for (;;) {
        bool bound = gpud_bind(thread);
        if (!bound) {
            gpud_hold_end(thread, &hold);
            if (gpud_load(&gpud_closed) != 0 && gpud_wait_open(thread))
                continue;
        }
        if (gpud_is_capturing(gpud_stream_named(named, 0)))
            break;
        uint32_t gate = gpud_load(thread->gate), closed = bound ? gpud_load(&gpud_closed) & 1u << thread->device : 0;
        if ((closed || gate & (GPUD_GATE_COPY | GPUD_GATE_GRANT)) && !pass(thread, bytes, &hold))
            continue;
        answer = gate & (copies ? COUNTED | GPUD_GATE_GRANT : GPUD_GATE_GRANT) ? bytes : 0;
        if (gate & GPUD_GATE_GRANT ? enter(thread, named) : enter_unnoted(thread)) {
            answer |= gate & GPUD_GATE_GRANT ? MARKED : UNNOTED;
            break;
        }
        if (bytes != 0 && gate & GPUD_GATE_COPY)
            gpud_rate_copy_back(thread->device, bytes);
        answer = 0;
    }
    gpud_hold_end(thread, &hold);
    return answer;
}

uint64_t gpud_copies(uint64_t bytes, CUstream stream, int per_thread)
{
    return bytes == 0 ? 0 : come(bytes & ~(MARKED | UNNOTED), true, stream, per_thread);
}

uint64_t gpud_sets(CUstream stream, int per_thread)
{
    return come(0, false, stream, per_thread);
}

void gpud_copied(uint64_t counted, CUresult result)
{
    struct gpud_thread *thread = &gpud_thread;
    uint32_t device = thread->device;
    uint64_t bytes = counted & ~(MARKED | UNNOTED);

    if (counted & UNNOTED)
        gpud_unnoted_end(thread->ordinal);
    if (counted == 0 || device == GPUD_UNMANAGED)
        return;
    if (bytes != 0 && result == CUDA_SUCCESS)
        gpud_add(&gpud_activity()->device[device].copy_bytes, bytes);
    else if (bytes != 0 && gpud_load(thread->gate) & GPUD_GATE_COPY)
        gpud_rate_copy_back(device, bytes);
    if (counted & MARKED) {
        struct gpud_slot *slot = thread->slots[device];
        if (thread->flags & GPUD_PASS_SHARED)
            __atomic_fetch_add(&slot->left, 1, __ATOMIC_RELEASE);
        else
            gpud_store_release(&slot->left, gpud_load(&slot->left) + 1);
        if (gpud_load_total(&gpud_keeper_asleep))
            gpud_keeper_wake();
    }
}
