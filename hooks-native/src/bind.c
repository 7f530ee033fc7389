/* bind.c: which device and slot a thread's launches belong to, and the word that says when to ask again. */
#include "budget.h"
#include "contexts.h"
#include "real.h"
#include "state.h"

uint64_t gpud_word = GPUD_WORD_STEP;
uint32_t gpud_managed, gpud_was_managed;
uint32_t gpud_slot_of[GPUD_MAX_DEVICES] = { [0 ... GPUD_MAX_DEVICES - 1] = UINT32_MAX };

#define NO_EDGE UINT64_MAX          /* no edge word looks like this */
#define CONTEXT_STALE 1             /* in thread->bound: the generation holds, the context may not */

void gpud_word_raise(uint64_t set, uint64_t clear)
{
    uint64_t before = gpud_load(&gpud_word);
    while (!__atomic_compare_exchange_n(&gpud_word, &before, ((before + GPUD_WORD_STEP) | set) & ~clear, false,
                                        __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
        ;
}

static uint32_t deciding;       /* how many are at it */

void gpud_deciding_begin(void)
{
    gpud_add_total(&deciding, 1);
    __atomic_fetch_or(&gpud_word, GPUD_WORD_DECIDING, __ATOMIC_SEQ_CST);
}

void gpud_deciding_end(void)
{
    if (gpud_sub_total(&deciding, 1) != 1)
        return;
    __atomic_fetch_and(&gpud_word, ~(uint64_t)GPUD_WORD_DECIDING, __ATOMIC_SEQ_CST);
    if (gpud_load_total(&deciding) != 0)        /* another began meanwhile */
        __atomic_fetch_or(&gpud_word, GPUD_WORD_DECIDING, __ATOMIC_SEQ_CST);
}

void gpud_bind_forget(void)
{
    gpud_word = GPUD_WORD_STEP | (gpud_word & GPUD_WORD_FENCE);
    gpud_managed = gpud_was_managed = deciding = 0;
    for (uint32_t ordinal = 0; ordinal < GPUD_MAX_DEVICES; ordinal++)
        gpud_slot_of[ordinal] = UINT32_MAX;
}

void gpud_context_changed(int whole_process)
{
    struct gpud_thread *thread = &gpud_thread;

    if (whole_process) {
        gpud_word_raise(0, 0);
        return;
    }
    thread->word = 0;
    thread->bound |= CONTEXT_STALE;
}

static uint32_t device_slot_of(uint32_t ordinal)
{
    if (!gpud_load_acquire(&gpud_managed) || ordinal >= GPUD_MAX_DEVICES)
        return GPUD_UNMANAGED;
    uint32_t device = gpud_load(&gpud_slot_of[ordinal]);
    return device < GPUD_MAX_DEVICES ? device : GPUD_UNMANAGED;
}

/* What the thread drew where it launched before ends there. Where the pages are new it is gone with the old ones. */
static void end_credit(struct gpud_thread *thread)
{
    struct gpud_credit *credit = thread->credit;

    thread->credit = NULL;
    if (credit != NULL && thread->attachment == gpud_load_acquire(&gpud_attachment))
        gpud_credit_end(thread, thread->device, credit);
}

bool gpud_bind(struct gpud_thread *thread)
{
    uint64_t generation = gpud_load_acquire(&gpud_word) & ~(uint64_t)GPUD_WORD_REASONS;
    CUcontext context = NULL;
    CUdevice ordinal = -1;

    if (thread->bound == generation)
        return thread->device != GPUD_UNMANAGED;
    thread->word = 0;
    if (real.cuCtxGetCurrent == NULL || real.cuCtxGetCurrent(&context) != CUDA_SUCCESS)
        context = NULL;
    if (thread->bound == (generation | CONTEXT_STALE) && context != NULL && context == thread->context) {
        thread->bound = generation;
        return thread->device != GPUD_UNMANAGED;
    }
    if (context == NULL || real.cuCtxGetDevice(&ordinal) != CUDA_SUCCESS)
        ordinal = -1;
    end_credit(thread);
    thread->context = context;
    thread->ordinal = (uint32_t)ordinal;
    gpud_context_note(thread->ordinal, context);
    thread->device = device_slot_of((uint32_t)ordinal);
    thread->stream = GPUD_NO_STREAM;
    if (thread->device == GPUD_UNMANAGED) {
        thread->slot = &thread->own;
        thread->gate = &gpud_open_gate;
        thread->edge = &gpud_no_edge;
        thread->edge_seen = 0;
        thread->flags = 0;
    } else {
        struct gpud_slot *slot = gpud_slot_claim(thread, thread->device);
        thread->flags = thread->shared & 1u << thread->device ? GPUD_PASS_SHARED : 0;
        thread->slot = thread->flags ? &thread->own : slot;
        thread->credit = gpud_credit_of(thread->device, slot);
        thread->gate = &gpud_control()->device[thread->device].gate;
        thread->edge = gpud_edge_word(gpud_presence_at(thread->device));
        thread->edge_seen = NO_EDGE;
    }
    thread->bound = generation;
    return thread->device != GPUD_UNMANAGED;
}
