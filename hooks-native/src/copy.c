/* copy.c: copies under max_copy_rate: gated by bytes before they are made, counted after. Nothing else holds a copy. */
#include "budget.h"
#include "gate.h"
#include "presence.h"
#include "sample.h"

/* Gate bits under which copies are counted. */
#define COUNTED (GPUD_GATE_COPY | GPUD_GATE_CHARGE | GPUD_GATE_BUDGET | GPUD_GATE_SHARE)

/* Waits until so many bytes may be copied, and takes them; or until what the thread knows is out of date: false. */
static bool pass_rate(struct gpud_thread *thread, uint64_t bytes, struct gpud_hold *hold)
{
    uint32_t device = thread->device;
    const struct gpud_control_device *knobs = &gpud_control()->device[device];

    for (;;) {
        uint32_t seen = gpud_load_acquire(&knobs->wake);
        if ((gpud_load_acquire(&gpud_word) & ~(uint64_t)GPUD_WORD_REASONS) != thread->bound)
            return false;
        struct gpud_own own = { .held_since_ns = hold->since_ns, .bytes = bytes };
        uint64_t now = gpud_now();
        gpud_rate_read(device, &own);
        struct gpud_decision decision = gpud_decide(gpud_control(), device, gpud_present, GPUD_MAX_PRESENT, &own, now);
        if (!decision.hold) {
            gpud_rate_copy(device, bytes, now);
            return true;
        }
        gpud_hold_step(thread, hold, &decision, seen, now);
    }
}

uint64_t gpud_copies(uint64_t bytes, CUstream stream, int per_thread)
{
    struct gpud_thread *thread = &gpud_thread;
    struct gpud_hold hold = { 0 };

    if (bytes == 0 || !gpud_load_acquire(&gpud_managed))
        return 0;
    for (;;) {
        if (!gpud_bind(thread) || !(gpud_load(thread->gate) & COUNTED) || gpud_is_capturing(gpud_stream_named(stream, per_thread))) {
            bytes = 0;
            break;
        }
        if (!(gpud_load(thread->gate) & GPUD_GATE_COPY) || pass_rate(thread, bytes, &hold))
            break;
    }
    gpud_hold_end(thread, &hold);
    return bytes;
}

void gpud_copied(uint64_t counted, CUresult result)
{
    uint32_t device = gpud_thread.device;

    if (counted == 0 || device == GPUD_UNMANAGED)
        return;
    if (result == CUDA_SUCCESS)
        gpud_add(&gpud_activity()->device[device].copy_bytes, counted);
    else
        gpud_rate_copy_back(device, counted);
}

void gpud_function_gone(const void *handle)
{
    gpud_sample_forget(handle);
    gpud_cost_forget(handle);
}

void gpud_function_changed(const void *handle)
{
    gpud_sample_forget(handle);
    gpud_cost_doubt(handle);
}
