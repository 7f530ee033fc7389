/* sample_read.c: reading back, without waiting: when, what it says, and what to do when it never comes. */
#include "sample_state.h"

#include "real.h"

#define FIRST_NS (10 * GPUD_MICROSECOND)    /* nothing is asked about sooner than this after it was launched */
#define LONGEST_NS GPUD_SECOND
#define AT_ONCE 4                           /* at most so many are read by one launch */
#define OTHERS_NS (50 * GPUD_MILLISECOND)   /* so long samples of other contexts are left to the keeper */
#define STREAMS 8                           /* of so many streams, if the oldest is not finished */

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

/* From launch to end it takes about as long as it did lately, or longer by some part; where that is not known, up to twice as long as
 * it has been already. */
uint64_t gpud_sample_again(const struct gpud_sampler *sampler, uint64_t launched_ns, uint64_t now)
{
    uint64_t waited = now > launched_ns ? now - launched_ns : 0;
    uint64_t step = gpud_load(&sampler->latency_ns) >= waited / 2 ? waited / 8 : waited;
    return now + (step < FIRST_NS ? FIRST_NS : step > LONGEST_NS ? LONGEST_NS : step);
}

static void follow_latency(struct gpud_sampler *sampler, uint64_t took, bool finished)
{
    uint64_t latency = gpud_load(&sampler->latency_ns);

    if (!finished && took > latency)
        latency = took < 10 * LONGEST_NS ? took : 10 * LONGEST_NS;
    else if (finished)
        latency -= latency / 32;        /* at the first question: maybe it was finished long before */
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

CUresult gpud_sample_ask(uint32_t device, CUcontext enter, CUevent from, CUevent to, double *ns)
{
    if (enter != NULL) {
        gpud_count_calls(device, 1);
        CUresult result = real.cuEventQuery(to);
        if (result != CUDA_SUCCESS)
            return result;
        gpud_count_calls(device, 2);
        if ((result = real.cuCtxPushCurrent_v2(enter)) != CUDA_SUCCESS)
            return result;
    }
    CUresult result = gpud_sample_elapsed(device, from, to, ns);
    if (result != CUDA_SUCCESS)
        gpud_sample_leave(enter);
    return result;
}

void gpud_sample_leave(CUcontext entered)
{
    CUcontext popped;
    if (entered != NULL)
        real.cuCtxPopCurrent_v2(&popped);
}

/* Asks about one that is READING and the caller's; its context is current, or else to be entered. False: not finished. */
static bool read_one(struct gpud_pending *pending, CUcontext enter, uint64_t now)
{
    struct gpud_sampler *sampler = &gpud_samplers[pending->device];
    double ns = 0;
    CUresult result = gpud_sample_ask(pending->device, enter, pending->begin, pending->end, &ns);

    if (result == CUDA_ERROR_NOT_READY && now < pending->launched_ns + GPUD_SAMPLE_ABANDON_NS) {
        pending->next_ns = gpud_sample_again(sampler, pending->launched_ns, now);
        if (pending->busy)
            follow_latency(sampler, now - pending->launched_ns, false);
        gpud_sample_next(sampler, pending->next_ns);
        gpud_store_release(&pending->state, GPUD_PENDING_WAITING);
        return false;
    }
    if (result == CUDA_SUCCESS) {
        gpud_store(&sampler->errors, 0);
        if (pending->busy)
            follow_latency(sampler, now - pending->launched_ns, true);
        if (pending->delay)
            gpud_delay_learn(pending->device, pending, ns, now);
        learn_empty(pending);
        gpud_sample_leave(enter);
        learn(pending, ns, now);
    } else if (result != CUDA_ERROR_NOT_READY) {
        pending->begin = pending->end = NULL;   /* who knows what they are now; the context is lost with them */
        gpud_sample_trouble(pending->device, result, now);
    }
    gpud_store_release(&pending->state, GPUD_PENDING_FREE);
    return true;
}

/* Streams whose oldest sample is not finished, so none of theirs is. */
struct blocked {
    CUstream stream[STREAMS];
    CUcontext context[STREAMS];
    uint32_t count;
};

static bool is_blocked(const struct blocked *blocked, const struct gpud_pending *pending)
{
    for (uint32_t i = 0; i < blocked->count; i++) {
        if (blocked->stream[i] == pending->stream && blocked->context[i] == pending->context)
            return true;
    }
    return false;
}

/* The oldest that waits in a stream that is not blocked. It is READING, and the caller's; NULL: none. */
static struct gpud_pending *oldest(struct gpud_sampler *sampler, CUcontext own, const struct blocked *blocked)
{
    struct gpud_pending *found = NULL;

    for (uint32_t i = 0; i < GPUD_SAMPLE_POOL; i++) {
        struct gpud_pending *pending = &sampler->pending[i];
        if (gpud_load_acquire(&pending->state) != GPUD_PENDING_WAITING || (own != NULL && gpud_load(&pending->context) != own) ||
            !gpud_state_change(&pending->state, GPUD_PENDING_WAITING, GPUD_PENDING_READING))
            continue;
        struct gpud_pending *later = pending;
        if (!is_blocked(blocked, pending) && (found == NULL || pending->launched_ns < found->launched_ns)) {
            later = found;
            found = pending;
        }
        if (later != NULL)
            gpud_store_release(&later->state, GPUD_PENDING_WAITING);
    }
    return found;
}

/* Reads what is due, oldest first. `own`: only what is of this context, which is current; NULL: all, each in its own. */
static void read_due(uint32_t device, CUcontext own, uint64_t now)
{
    struct gpud_sampler *sampler = &gpud_samplers[device];
    struct blocked blocked = { .count = 0 };
    struct gpud_pending *pending;
    uint32_t count = 0;

    gpud_store(&sampler->next_ns, own == NULL ? GPUD_NEVER : now + OTHERS_NS);      /* who sets a time from here on lowers it */
    while (blocked.count < STREAMS && (pending = oldest(sampler, own, &blocked)) != NULL) {
        CUstream stream = pending->stream;
        CUcontext context = pending->context;
        if (pending->next_ns <= now && count < AT_ONCE) {
            count++;
            if (read_one(pending, own == NULL ? context : NULL, now))
                stream = GPUD_NO_STREAM;
        } else {
            gpud_sample_next(sampler, pending->next_ns > now ? pending->next_ns : count == AT_ONCE ? now : now + GPUD_MILLISECOND);
            gpud_store_release(&pending->state, GPUD_PENDING_WAITING);
        }
        if (stream != GPUD_NO_STREAM) {
            blocked.stream[blocked.count] = stream;
            blocked.context[blocked.count++] = context;
        }
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
