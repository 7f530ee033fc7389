/* going.c: streams and contexts that go away, and what of their work is still to be waited for. */
#include <sched.h>

#include "alloc.h"
#include "budget.h"
#include "captures.h"
#include "contexts.h"
#include "pool.h"
#include "presence.h"
#include "real.h"
#include "sample.h"
#include "window.h"

#define EVENT_DISABLE_TIMING 2

uint32_t gpud_ending;

void gpud_wait_for_askers(void)
{
    while (gpud_load_total(&gpud_asking) != 0)
        sched_yield();
}

void gpud_wait_for_contexts(void)
{
    while (gpud_load_total(&gpud_synchronising) != 0)
        sched_yield();
}

/* Work goes on in a destroyed stream: from now on an event of ours, of the stream's context, stands for its end. False if none can
 * be had. */
static bool leave_event(struct gpud_used *used)
{
    CUevent event = NULL;
    CUcontext popped;
    bool left = false;

    if (real.cuEventCreate == NULL || used->context == NULL || real.cuCtxPushCurrent_v2(used->context) != CUDA_SUCCESS)
        return false;
    if (real.cuEventCreate(&event, EVENT_DISABLE_TIMING) == CUDA_SUCCESS) {
        left = real.cuEventRecord(event, used->stream) == CUDA_SUCCESS;
        if (!left)
            real.cuEventDestroy_v2(event);
    }
    real.cuCtxPopCurrent_v2(&popped);
    if (left) {
        struct gpud_used changed = *used;
        changed.event = event;
        gpud_used_set(used, &changed);
    }
    return left;
}

void gpud_stream_gone(CUstream stream)
{
    bool found = false;

    if ((uintptr_t)stream <= (uintptr_t)CU_STREAM_PER_THREAD)      /* no handle: the driver refuses, and other threads may use that name */
        return;
    gpud_window_stream_gone(stream);
    gpud_pool_stream_gone(stream);
    for (uint32_t device = 0; device < GPUD_MAX_DEVICES; device++) {
        struct gpud_burst *burst = &gpud_bursts[device];
        gpud_burst_begin(burst);
        for (uint32_t i = burst->count; i-- > 0;) {
            struct gpud_used *used = &burst->used[i];
            if (used->event != NULL || used->stream != stream)
                continue;
            found = true;
            bool asked = gpud_load(&gpud_captures) == 0, runs = !asked || real.cuStreamQuery(stream) == CUDA_ERROR_NOT_READY;
            if (asked && runs && leave_event(used))
                continue;
            if (runs)       /* what it was is not known any more */
                gpud_unnoted_on(device);
            gpud_used_remove(burst, i);
        }
        gpud_burst_end(burst);
    }
    if (found)
        gpud_word_raise(0, 0);      /* a new stream may get the same value */
    gpud_captures_gone(stream, NULL);
    gpud_wait_for_askers();
}

/* Nobody asks about what may be going while it goes. Whether it really does is known only afterwards: a primary context has several
 * owners, and work goes on in it until the last has released it. */
void gpud_context_going(void)
{
    gpud_add_total(&gpud_ending, 1);
    gpud_wait_for_askers();
    gpud_wait_for_contexts();
    gpud_window_settle();
}

/* What ran on the device in `context` (NULL: in any) has ended with it. */
static void ended_on(uint32_t device, CUcontext context)
{
    struct gpud_burst *burst = &gpud_bursts[device];
    const uint64_t *word = gpud_edge_word(gpud_presence_at(device));
    bool found = context == NULL;

    gpud_burst_begin(burst);
    if (context == NULL || burst->unknown)      /* others may be left, and work in them */
        gpud_unnoted_on(device);
    for (uint32_t i = burst->count; i-- > 0;) {
        if (context != NULL && burst->used[i].context != context)
            continue;
        found = true;
        gpud_used_remove(burst, i);     /* an event of ours went with the context */
    }
    if (found && burst->count == 0) {   /* what did not fit into the set was of the same context, as all that did */
        gpud_store_release(&burst->unknown, 0);
        gpud_store_total(&burst->slipped, 0);
    }
    uint64_t active = gpud_load_acquire(word);
    bool idle = burst->count == 0 && !burst->unknown && GPUD_EDGE_ACTIVE(active) && GPUD_EDGE_COUNT(active) == burst->edges &&
                gpud_make_idle(device, active, gpud_now());
    gpud_burst_end(burst);
    gpud_window_context_gone(device, context);
    gpud_sample_context_gone(device, context);
    if (idle) {
        gpud_store(&gpud_presence_at(device)->inflight, 0);
        gpud_credit_idle(device, GPUD_EDGE_COUNT(active));
    }
}

static void ended(uint32_t only_device, CUcontext context)
{
    for (uint32_t device = 0; device < GPUD_MAX_DEVICES; device++) {
        if (only_device == UINT32_MAX || device == only_device)
            ended_on(device, context);
    }
    gpud_points_forget(only_device, context);
    gpud_word_raise(0, 0);
}

void gpud_context_gone(CUcontext context, CUresult result)
{
    if (result == CUDA_SUCCESS) {
        gpud_context_forget(context, UINT32_MAX);
        if (context != NULL)
            gpud_captures_gone(NULL, context);
        ended(UINT32_MAX, context);
        gpud_pool_context_gone(UINT32_MAX, context);
        if (context != NULL)
            gpud_ledger_context_gone(UINT32_MAX, context);
    }
    gpud_sub_total(&gpud_ending, 1);
}

void gpud_primary_gone(CUdevice ordinal, int reset, CUresult result)
{
    unsigned int flags;
    int alive = 0;

    if (result == CUDA_SUCCESS && !reset && real.cuDevicePrimaryCtxGetState != NULL &&
        real.cuDevicePrimaryCtxGetState(ordinal, &flags, &alive) != CUDA_SUCCESS)
        alive = 0;
    if (result == CUDA_SUCCESS && !alive) {
        gpud_context_forget(NULL, (uint32_t)ordinal);
        ended((uint32_t)ordinal < GPUD_MAX_DEVICES ? gpud_load(&gpud_slot_of[ordinal]) : GPUD_UNMANAGED, NULL);
        if ((uint32_t)ordinal < GPUD_POOL_DEVICES)
            gpud_pool_context_gone((uint32_t)ordinal, NULL);
        gpud_ledger_context_gone((uint32_t)ordinal, NULL);
    }
    gpud_sub_total(&gpud_ending, 1);
}
