/* drained.c: does nothing of this process run on a device any more, whatever it takes to know? And what is known of that when the pages are
 * replaced. */
#include "budget.h"
#include "contexts.h"
#include "presence.h"
#include "real.h"

/* The driver can be asked about every stream of the set, by whoever asks; what it answered counts. */
static bool can_be_asked(const struct gpud_burst *burst)
{
    uint32_t count = gpud_load_acquire(&burst->count);

    if (gpud_load_acquire(&burst->unknown) || count > GPUD_USED_STREAMS)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        struct gpud_used used = gpud_used_copy(&burst->used[i]);
        if (used.context == NULL || (used.event == NULL && used.stream == CU_STREAM_PER_THREAD))
            return false;
    }
    return true;
}

bool gpud_presence_drained(uint32_t device)
{
    const struct gpud_burst *burst = &gpud_bursts[device];
    uint32_t sequence = gpud_load_total(&burst->sequence);
    struct gpud_marks before = gpud_marks(device);

    if (before.entered != before.left || gpud_load_total(&gpud_captures) != 0 || sequence & 1)
        return false;
    bool idle = gpud_presence_ask(device);
    if ((idle && !gpud_has_unnoted(device)) || (!idle && can_be_asked(burst)))
        return idle;
    uint64_t active = gpud_load_acquire(gpud_edge_word(gpud_presence_at(device)));
    if (!gpud_contexts_finished(device, before.entered))
        return false;
    return !GPUD_EDGE_ACTIVE(active) || gpud_presence_decide(device, active, before, sequence);
}

/* The keeper takes the lock here alone, where it is not asking: nobody who has it waits for the keeper. */
void gpud_presence_carry(void)
{
    for (uint32_t device = 0; device < GPUD_MAX_DEVICES; device++) {
        struct gpud_burst *burst = &gpud_bursts[device];
        gpud_burst_begin(burst);
        if (GPUD_EDGE_ACTIVE(gpud_load_total(gpud_edge_word(gpud_presence_at(device)))))
            gpud_store_total(&burst->slipped, 1);
        for (uint32_t i = 0; i < burst->count; i++)
            gpud_store_release(&burst->used[i].launcher, NULL);     /* a slot of pages that go */
        burst->sole = NULL;
        burst->edges = 0;       /* no burst of the new pages is this one */
        gpud_burst_end(burst);
    }
    gpud_points_forget(UINT32_MAX, NULL);
    gpud_contexts_renew();
}

void gpud_presence_carried(void)
{
    bool woke;

    for (uint32_t device = 0; device < GPUD_MAX_DEVICES; device++) {
        if (gpud_load_total(&gpud_bursts[device].slipped))
            gpud_make_active(device, &woke);
    }
}

void gpud_presence_own(uint32_t device)
{
    const struct gpud_burst *burst = &gpud_bursts[device];
    uint32_t count = gpud_load_acquire(&burst->count);
    bool mine = false;

    for (uint32_t i = 0; i < count && i < GPUD_USED_STREAMS; i++) {
        struct gpud_used used = gpud_used_copy(&burst->used[i]);
        mine |= used.event == NULL && used.stream == CU_STREAM_PER_THREAD && used.thread == gpud_thread.id &&
                used.context == gpud_thread.context;
    }
    if (!mine)
        return;
    gpud_add_total(&gpud_asking, 1);
    bool may = gpud_load_total(&gpud_captures) == 0 && gpud_load_total(&gpud_ending) == 0 && !gpud_load_total(&gpud_exiting);
    CUresult answer = may ? real.cuStreamQuery(CU_STREAM_PER_THREAD) : CUDA_ERROR_NOT_READY;
    gpud_sub_total(&gpud_asking, 1);
    gpud_proved(GPUD_PROOF_STREAM, NULL, 1, answer);
}
