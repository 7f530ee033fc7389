/* sample_read.c: reading back, without waiting: when, what it says, and what to do when it never comes. */
#include "sample_state.h"

#include "real.h"

#define FIRST_NS (10 * GPUD_MICROSECOND)    /* nothing is asked about sooner than this after it was launched */
#define LONGEST_NS (50 * GPUD_MILLISECOND)
#define AT_ONCE 4                           /* at most so many are read by one launch */

double gpud_sample_scale(void)
{
    double scale = gpud_real_time_scale != NULL ? gpud_real_time_scale() : 1;
    return scale > 0 ? scale : 1;
}

CUresult gpud_sample_elapsed(uint32_t device, CUevent from, CUevent to, double *ns)
{
    float ms = 0;

    gpud_count_calls(device, 1);
    CUresult result = real.cuEventElapsedTime(&ms, from, to);
    *ns = (double)ms * 1e6 * gpud_sample_scale();
    return result;
}

/* Twice as long after the launch as it is now. */
uint64_t gpud_sample_again(uint64_t launched_ns, uint64_t now)
{
    uint64_t waited = now > launched_ns ? now - launched_ns : 0;
    return now + (waited < FIRST_NS ? FIRST_NS : waited > LONGEST_NS ? LONGEST_NS : waited);
}

static void follow_latency(struct gpud_sampler *sampler, uint64_t took, bool finished)
{
    uint64_t latency = gpud_load(&sampler->latency_ns);

    if (!finished && took > latency)
        latency = took < LONGEST_NS ? took : LONGEST_NS;
    else if (finished)
        latency -= latency / 8;         /* at the first question: maybe it was finished long before */
    gpud_store(&sampler->latency_ns, latency < FIRST_NS ? FIRST_NS : latency);
}

static void learn(const struct gpud_pending *pending, double ns, uint64_t now)
{
    struct gpud_activity_device *activity = &gpud_activity()->device[pending->device];
    struct gpud_others after = gpud_others_look(pending->device, now);
    struct gpud_measure measure = { .busy = pending->busy };

    /* In an empty stream the first event is reached at once, and the device waits while the host makes the launch. */
    if (!pending->busy)
        ns -= (double)pending->host_ns;
    measure.ns = ns > 0 ? (uint64_t)(ns + 0.5) : 0;

    measure.others = after.active > pending->others.active ? after.active : pending->others.active;
    measure.clean = measure.others == 0 && after.trace == pending->others.trace;
    gpud_add(&activity->samples, 1);
    if (measure.clean)
        gpud_add(&activity->clean, 1);
    if (gpud_load(&pending->worth))
        gpud_cost_learn(pending->device, gpud_cost_key(pending->function, pending->blocks), pending->blocks, &measure, now);
}

/* An empty pair, where the anchor was recorded right before, into a stream that was empty then. */
static void learn_empty(const struct gpud_pending *pending)
{
    struct gpud_anchor *anchor = &gpud_samplers[pending->device].anchor;
    double ns;

    if (!pending->anchored || pending->busy || !gpud_state_change(&anchor->busy, 0, 1))
        return;
    if (anchor->context == pending->context &&
        gpud_sample_elapsed(pending->device, anchor->event[anchor->current], pending->begin, &ns) == CUDA_SUCCESS && ns >= 0)
        gpud_cost_empty_pair(pending->device, (uint64_t)ns);
    gpud_store_release(&anchor->busy, 0);
}

/* Asks about one that is READING and the caller's. False: not finished. */
static bool read_one(struct gpud_pending *pending, uint64_t now)
{
    struct gpud_sampler *sampler = &gpud_samplers[pending->device];
    double ns = 0;
    CUresult result = gpud_sample_elapsed(pending->device, pending->begin, pending->end, &ns);

    if (result == CUDA_ERROR_NOT_READY && now < pending->launched_ns + GPUD_SAMPLE_ABANDON_NS) {
        follow_latency(sampler, now - pending->launched_ns, false);
        pending->next_ns = gpud_sample_again(pending->launched_ns, now);
        gpud_sample_next(sampler, pending->next_ns);
        gpud_store_release(&pending->state, GPUD_PENDING_WAITING);
        return false;
    }
    if (result == CUDA_SUCCESS) {
        gpud_store(&sampler->errors, 0);
        follow_latency(sampler, now - pending->launched_ns, true);
        if (pending->delay)
            gpud_delay_learn(pending->device, pending, ns, now);
        learn_empty(pending);
        learn(pending, ns, now);
    } else if (result != CUDA_ERROR_NOT_READY) {
        pending->begin = pending->end = NULL;   /* who knows what they are now; the context is lost with them */
        gpud_sample_trouble(pending->device, result, now);
    }
    gpud_store_release(&pending->state, GPUD_PENDING_FREE);
    return true;
}

bool gpud_sample_enter(uint32_t device, CUcontext context)
{
    gpud_count_calls(device, 2);
    return context != NULL && real.cuCtxPushCurrent_v2(context) == CUDA_SUCCESS;
}

void gpud_sample_leave(void)
{
    CUcontext popped;
    real.cuCtxPopCurrent_v2(&popped);
}

/* Reads what is due. `own`: only what is of this context, which is current; NULL: all, each in its own. */
static void read_due(uint32_t device, CUcontext own, uint64_t now)
{
    struct gpud_sampler *sampler = &gpud_samplers[device];
    CUstream unfinished = GPUD_NO_STREAM;
    uint32_t count = 0;

    gpud_store(&sampler->next_ns, GPUD_NEVER);      /* who sets a time from here on lowers it */
    for (uint32_t i = 0; i < GPUD_SAMPLE_POOL; i++) {
        struct gpud_pending *pending = &sampler->pending[i];
        if (gpud_load(&pending->state) != GPUD_PENDING_WAITING)
            continue;
        if (!gpud_state_change(&pending->state, GPUD_PENDING_WAITING, GPUD_PENDING_READING))
            continue;
        bool due = pending->next_ns <= now && pending->stream != unfinished && count < AT_ONCE;
        if (!due || (own != NULL && pending->context != own) || (own == NULL && !gpud_sample_enter(device, pending->context))) {
            gpud_sample_next(sampler, due ? now + GPUD_MILLISECOND : pending->next_ns);
            gpud_store_release(&pending->state, GPUD_PENDING_WAITING);
            continue;
        }
        count++;
        CUstream stream = pending->stream;
        if (!read_one(pending, now))
            unfinished = stream;
        if (own == NULL)
            gpud_sample_leave();
    }
    gpud_stretch_read(device, own, now);
}

void gpud_sample_read(uint32_t device, uint64_t now)
{
    CUcontext own = gpud_thread.context;

    if (now < gpud_load(&gpud_samplers[device].next_ns) || own == NULL || !gpud_may_ask())
        return;
    read_due(device, own, now);
    gpud_asked();
}

uint64_t gpud_sample_keep(uint32_t device, uint64_t now)
{
    struct gpud_sampler *sampler = &gpud_samplers[device];

    if (now < gpud_load(&sampler->next_ns))
        return gpud_load(&sampler->next_ns);
    if (!gpud_may_ask())
        return now + LONGEST_NS;
    read_due(device, NULL, now);
    gpud_asked();
    return gpud_load(&sampler->next_ns);
}
