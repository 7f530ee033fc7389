/* gate.c: the slow path of a launch: who is this thread, may it pass, and if not, how it waits. */
#include "gate.h"

#include "budget.h"
#include "contexts.h"
#include "gate_memory.h"
#include "presence.h"
#include "real.h"
#include "sample.h"
#include "turn.h"
#include "wait.h"
#include "watch.h"

/* Beside those of launch.h and state.h: */
#define GPUD_PASS_DRAWN 16      /* it was charged, or counted in the window or the rates */
#define GPUD_PASS_UNNOTED 32    /* without a gate, where there was one before and may be again */

uint32_t gpud_exiting;

/* The marks. One more thread in the gate; and taken back where the launch is not made now. */
static void mark(struct gpud_slot *slot, uint32_t flags)
{
    if (flags & GPUD_PASS_SHARED)
        gpud_add_total(&slot->entered, 1);
    else
        gpud_bump(&slot->entered);
}

static void unmark(struct gpud_slot *slot, uint32_t flags)
{
    if (flags & GPUD_PASS_SHARED)
        gpud_sub_total(&slot->entered, 1);
    else
        gpud_take_back(slot);
}

/* Orders the mark before the next look where the closer cannot do it by membarrier. */
static void fence_if_needed(void)
{
    static uint32_t any;
    if (gpud_load(&gpud_word) & GPUD_WORD_FENCE) {
#if defined(__SANITIZE_THREAD__)
        gpud_add_total(&any, 0);
#else
        (void)any;
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
    }
}

void gpud_slot_mark(struct gpud_slot *slot, uint32_t flags)
{
    mark(slot, flags);
    fence_if_needed();
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

void gpud_slot_unmark(struct gpud_slot *slot, uint32_t flags)
{
    unmark(slot, flags);
}

bool gpud_is_capturing(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return gpud_load(&gpud_captures) != 0 && real.cuStreamIsCapturing != NULL &&
           real.cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* No slot of the thread's is in pages that anybody looks at. Once there was a gate, a launch that is under way as there is one again must be
 * seen: the memory that it uses may be asked to leave. False: there is one again. */
static bool pass_unmanaged(struct gpud_thread *thread, CUstream stream, uint64_t word, struct gpud_pass *pass)
{
    bool seen = gpud_load(&gpud_was_managed);

    *pass = (struct gpud_pass){ .slot = &thread->own, .device = GPUD_UNMANAGED, .flags = seen ? GPUD_PASS_UNNOTED : 0 };
    if (seen)
        gpud_unnoted_begin(thread->ordinal);
    else
        gpud_unnoted(thread->ordinal);
    if (seen && (gpud_load_total(&gpud_word) & ~(uint64_t)GPUD_WORD_REASONS) != thread->bound) {
        gpud_unnoted_end(thread->ordinal);
        return false;
    }
    gpud_bump(&thread->own.entered);
    thread->stream = stream;
    thread->word = seen || word & GPUD_WORD_REASONS ? 0 : word;
    return true;
}

/* The first launch of a burst through an open gate: the edge before all else, since lower clients wait for no longer than this.
 * True if it was made. The stream is noted later; until then the keeper cannot find the device idle, for the launch is marked. */
static inline bool go_active_at_once(const struct gpud_thread *thread)
{
    bool woke = false;
    if (thread->word == gpud_load(&gpud_word) && thread->device != GPUD_UNMANAGED && gpud_load(thread->gate) == 0 &&
        !GPUD_EDGE_ACTIVE(gpud_load(thread->edge)))
        gpud_make_active(thread->device, &woke);
    return woke;
}

/* The launch is not counted after all (something changed since the edge): the keeper finds the device idle again. */
static void edge_for_nothing(bool woke)
{
    if (woke)
        gpud_keeper_wake();
}

/* The gate is open: nothing that was drawn under another one is kept. */
static void pass_open(struct gpud_thread *thread, struct gpud_hold *hold)
{
    if (thread->credit != NULL)
        gpud_credit_end(thread, thread->device, thread->credit);
    if (gpud_load(&gpud_presence_at(thread->device)->turn) != GPUD_TURN_NONE)
        gpud_turn_say(thread->device, GPUD_TURN_NONE, &hold->asks);
}

/* What is left to do just before the launch, which is marked and noted. */
static void begin_sample(struct gpud_thread *thread, const struct gpud_ask *ask, struct gpud_pass *pass)
{
    struct gpud_sample sample = { NULL };

    pass->flags |= GPUD_PASS_DRAWN | (gpud_ask_windowed(ask) ? GPUD_PASS_WINDOW : 0);
    pass->cost_ns = ask->cost_ns;
    if (!ask->charged)
        return;
    if (pass->flags & GPUD_PASS_SHARED)
        gpud_add(&pass->slot->blocks, ask->blocks);
    else
        gpud_store(&pass->slot->blocks, gpud_load(&pass->slot->blocks) + ask->blocks);
    if (thread->credit != NULL && (ask->left == 0 || ask->young))
        gpud_sample_begin(&sample, pass->device, ask->stream, ask->function, ask->blocks, thread->credit->charged_ns - ask->cost_ns);
    pass->sample = sample.pending;
}

struct gpud_pass gpud_enter_slow(CUstream stream, const void *function, uint64_t blocks)
{
    struct gpud_thread *thread = &gpud_thread;
    struct gpud_ask ask = { .stream = stream, .function = function, .blocks = blocks };
    struct gpud_hold hold = { 0 };
    struct gpud_pass pass;
    bool woke = go_active_at_once(thread);
    uint64_t word;

    gpud_unmark();
    for (;;) {
        gpud_unwatch(thread);
        word = gpud_load_acquire(&gpud_word);
        if (!gpud_bind(thread)) {
            gpud_hold_end(thread, &hold);
            if (word & GPUD_WORD_CLOSED && gpud_wait_open(thread))
                continue;
            edge_for_nothing(woke);
            woke = false;
            if (pass_unmanaged(thread, stream, word, &pass))
                return pass;
            continue;
        }
        if (gpud_is_capturing(stream)) {
            gpud_hold_end(thread, &hold);
            edge_for_nothing(woke);
            return (struct gpud_pass){ .slot = NULL, .device = thread->device, .flags = GPUD_PASS_CAPTURING };
        }
        pass = (struct gpud_pass){ .slot = thread->slots[thread->device], .device = thread->device, .flags = thread->flags };
        bool again = false;
        uint32_t closed = gpud_load(&gpud_closed) & 1u << pass.device;
        if (!closed && gpud_load(thread->gate) == 0)
            pass_open(thread, &hold);
        else if (closed || gpud_load(thread->gate) & GPUD_GATE_GRANT || !gpud_credit_again(thread, &ask))
            gpud_pass_gate(thread, &ask, &hold, &again);
        if (again)
            continue;
        gpud_slot_mark(pass.slot, pass.flags);
        word = gpud_load_acquire(&gpud_word);
        if ((word & ~(uint64_t)GPUD_WORD_REASONS) == thread->bound && !(gpud_load(&gpud_closed) & 1u << pass.device))
            break;
        unmark(pass.slot, pass.flags);
        if (ask.drawn)
            gpud_charge_undo(thread, &ask);
    }
    gpud_hold_end(thread, &hold);
    if (gpud_load(thread->edge) != thread->edge_seen || stream != thread->stream || word & GPUD_WORD_DECIDING) {
        gpud_presence_enter(thread, stream, &woke);
        thread->stream = stream;
    }
    if (woke && gpud_load_total(&gpud_keeper_asleep))     /* in one order with the edge: sleep_until() looks the other way round */
        pass.flags |= GPUD_PASS_WAKE;
    thread->word = word & GPUD_WORD_REASONS || pass.flags & GPUD_PASS_SHARED ? 0 : word;
    if (ask.drawn)
        begin_sample(thread, &ask, &pass);
    return pass;
}

static void count_failure(uint32_t device, CUresult result)
{
    if (device != GPUD_UNMANAGED)
        gpud_add(&gpud_activity()->device[device].launches_failed, 1);
    if (result == CUDA_ERROR_DEINITIALIZED)
        gpud_store_total(&gpud_exiting, 1);
}

/* The launch that drew has been made, or has failed. */
static void end_drawn(const struct gpud_pass *pass, CUstream stream, CUresult result)
{
    struct gpud_thread *thread = &gpud_thread;
    struct gpud_sample sample = { pass->sample };

    if (pass->sample != NULL)
        gpud_sample_end(&sample, stream, result);
    if (pass->flags & GPUD_PASS_WINDOW && thread->credit == NULL)
        gpud_window_close(thread, pass->device, stream, result == CUDA_SUCCESS, pass->cost_ns);
    else if (pass->flags & GPUD_PASS_WINDOW && result != CUDA_SUCCESS)
        gpud_credit_end(thread, pass->device, thread->credit);
    else if (pass->flags & GPUD_PASS_WINDOW && thread->credit->grant.launches == 0)
        gpud_grant_end(thread, pass->device, thread->credit);
    gpud_credit_arm(thread, pass->cost_ns != 0);
}

void gpud_leave_slow(struct gpud_pass *pass, CUstream stream, CUresult result)
{
    if (pass->flags & GPUD_PASS_CAPTURING)
        return;
    if (pass->flags & GPUD_PASS_UNNOTED)
        gpud_unnoted_end(gpud_thread.ordinal);
    if (pass->flags & GPUD_PASS_DRAWN)
        end_drawn(pass, stream, result);
    if (result != CUDA_SUCCESS)
        count_failure(pass->device, result);
    if (pass->flags & GPUD_PASS_SHARED)
        __atomic_fetch_add(&pass->slot->left, 1, __ATOMIC_RELEASE);
    else
        gpud_store_release(&pass->slot->left, gpud_load(&pass->slot->left) + 1);
    if (pass->flags & GPUD_PASS_WAKE)
        gpud_keeper_wake();
}
