/* sample_delay.c: how long a launch waited for its start. The device's clock is not the host's, so an event, the anchor, ties them:
 * recorded at a known host time. How much later than on the host a sampled launch began on the device, seen from the anchor, is its
 * delay and something that is the same for all; the smallest ever seen is taken for no delay. What is smallest grows slowly, since clocks
 * drift. */
#include "sample_state.h"

#include "real.h"

#define ANCHOR_NS (4 * GPUD_SECOND)     /* an event time is a float: from an anchor so old it is still exact to half a microsecond */
#define DRIFT 20e-6                     /* of the two clocks */

void gpud_anchor_record(uint32_t device, struct gpud_pending *pending, CUstream stream, uint64_t now)
{
    struct gpud_anchor *anchor = &gpud_samplers[device].anchor;

    if (!gpud_state_change(&anchor->busy, 0, 1))
        return;
    bool same = anchor->context == pending->context && anchor->event[anchor->current] != NULL;
    if (!same || now >= anchor->host_ns[anchor->current] + ANCHOR_NS) {
        uint32_t next = same ? 1 - anchor->current : 0;
        if (!same) {
            for (int i = 0; i < 2; i++) {
                if (anchor->event[i] != NULL)
                    real.cuEventDestroy_v2(anchor->event[i]);
                anchor->event[i] = NULL;
            }
            anchor->context = pending->context;
            anchor->known = false;
        }
        gpud_count_calls(device, 1);
        if (gpud_sample_event(device, &anchor->event[next], 0) &&
            real.cuEventRecord(anchor->event[next], stream) == CUDA_SUCCESS) {
            anchor->host_ns[next] = now;
            anchor->current = next;
            anchor->fresh = same;
            pending->anchored = true;
        }
    }
    gpud_store_release(&anchor->busy, 0);
}

/* What is no delay, seen from the newer of two anchors. False: not to be had now. */
static bool carry_base(struct gpud_anchor *anchor, uint32_t device)
{
    uint32_t now = anchor->current, before = 1 - now;
    double ns;

    if (!anchor->fresh)
        return true;
    CUresult result = gpud_sample_elapsed(device, anchor->event[before], anchor->event[now], &ns);
    if (result == CUDA_ERROR_NOT_READY)
        return false;
    anchor->fresh = false;
    anchor->known = anchor->known && result == CUDA_SUCCESS;
    anchor->base_ns += (double)(anchor->host_ns[now] - anchor->host_ns[before]) - ns;
    return true;
}

static uint32_t bucket_of(double ns)
{
    uint64_t us = ns > 0 ? (uint64_t)(ns / 1e3) : 0;
    uint32_t bucket = us < 2 ? 0 : 63 - (uint32_t)__builtin_clzll(us);
    return bucket < GPUD_HISTOGRAM_BUCKETS ? bucket : GPUD_HISTOGRAM_BUCKETS - 1;
}

static void learn(struct gpud_anchor *anchor, uint32_t device, const struct gpud_pending *pending, double interval_ns, uint64_t now)
{
    uint64_t host_ns = anchor->host_ns[anchor->current];
    double ns;

    /* Launched before this anchor: its time from there is negative, and not every driver tells that. */
    if (anchor->context != pending->context || anchor->event[anchor->current] == NULL || pending->launched_ns < host_ns ||
        !carry_base(anchor, device) ||
        gpud_sample_elapsed(device, anchor->event[anchor->current], pending->end, &ns) != CUDA_SUCCESS)
        return;
    /* It began its cost before its end. An interval that is longer lies waiting in part: behind its first event, for the device. */
    double cost = gpud_cost_quick(pending->function, pending->blocks);
    cost = cost > 0 && cost < interval_ns ? cost : interval_ns;
    double late = ns - cost - (double)(pending->launched_ns - host_ns);
    if (anchor->known)
        anchor->base_ns += DRIFT * (double)(now - anchor->base_at_ns);
    if (!anchor->known || late < anchor->base_ns)
        anchor->base_ns = late;
    anchor->known = true;
    anchor->base_at_ns = now;
    gpud_add(&gpud_activity()->device[device].delay_histogram[bucket_of(late - anchor->base_ns)], 1);
}

void gpud_delay_learn(uint32_t device, const struct gpud_pending *pending, double interval_ns, uint64_t now)
{
    struct gpud_anchor *anchor = &gpud_samplers[device].anchor;

    if (!gpud_state_change(&anchor->busy, 0, 1))
        return;
    learn(anchor, device, pending, interval_ns, now);
    gpud_store_release(&anchor->busy, 0);
}
