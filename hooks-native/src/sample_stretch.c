/* sample_stretch.c: is the sum of what is charged right? A stretch is some launches of one thread, between two events in one
 * stream. If the first event is not reached yet when the second has been recorded, the device had work all the time in between, so
 * the interval is what the launches took; and if nobody else was at work, it is what they should have been charged with, and are then
 * charged with. Pairs of events cannot tell that: they see few launches, one by one, and those of several streams each as long as all
 * together. Where programs launch far ahead, stretches follow each other without a gap. */
#include "sample_state.h"

#include "presence.h"
#include "real.h"
#include "spent.h"

#define LONGEST 512                     /* launches: three to seven calls for each stretch */
#define FOLLOWS 384                     /* so long ones follow each other at once, where costs vary: then there are fewer pairs */
#define FIRST 64
#define SHORTEST 2
#define DRY_MOST 8                      /* so often in a row dry: tried less often */
#define STALE_NS GPUD_SECOND            /* its thread has not come back for so long */
#define OTHER_STREAM 32                 /* launches after its end, until the thread launches into its stream again */

static uint64_t waits;

void gpud_stream_waits(void)
{
    gpud_add(&waits, 1);
}

uint64_t gpud_sample_beside(uint32_t device)
{
    return gpud_load(&waits) + gpud_load(&gpud_activity()->device[device].copy_bytes);
}

static bool own_stretch(const struct gpud_stretch *stretch)
{
    return gpud_load_acquire(&stretch->state) == GPUD_PENDING_OPEN && gpud_load(&stretch->thread) == gpud_thread.id;
}

/* The slot's count is still the one that the stretch began with. */
static bool same_slot(const struct gpud_stretch *stretch, uint32_t device)
{
    return stretch->attachment == gpud_load_acquire(&gpud_attachment) && stretch->slot == gpud_thread.slots[device];
}

uint32_t gpud_stretch_left(uint32_t device)
{
    struct gpud_stretch *stretch = &gpud_samplers[device].stretch;

    if (!own_stretch(stretch))
        return UINT32_MAX;
    if (!same_slot(stretch, device)) {
        gpud_state_change(&stretch->state, GPUD_PENDING_OPEN, GPUD_PENDING_FREE);
        return UINT32_MAX;
    }
    uint64_t made = gpud_load(&stretch->slot->entered) - stretch->entered;
    return made >= stretch->length ? 0 : stretch->length - (uint32_t)made;
}

static bool is_used(const struct gpud_stretch *stretch, uint32_t event)
{
    for (uint32_t i = 0; i < GPUD_STRETCHES; i++) {
        const struct gpud_measured *one = &stretch->measured[i];
        if (gpud_load_acquire(&one->state) != GPUD_PENDING_FREE && (one->from == event || one->to == event))
            return true;
    }
    return event == stretch->from;
}

/* Records an event that nothing waits for; which one. GPUD_STRETCH_EVENTS: none. */
static uint32_t record(uint32_t device, struct gpud_stretch *stretch, CUstream stream, uint64_t now)
{
    uint32_t event = 0;

    while (event < GPUD_STRETCH_EVENTS && is_used(stretch, event))
        event++;
    if (event == GPUD_STRETCH_EVENTS || !gpud_sample_event(device, &stretch->event[event], 0))
        return GPUD_STRETCH_EVENTS;
    gpud_count_calls(device, 1);
    CUresult result = real.cuEventRecord(stretch->event[event], stream);
    if (result == CUDA_SUCCESS)
        return event;
    gpud_sample_trouble(device, result, now);
    return GPUD_STRETCH_EVENTS;
}

/* From here on, with this event. */
static void open(uint32_t device, struct gpud_stretch *stretch, uint32_t from, CUstream stream, uint64_t charged_ns, uint64_t now)
{
    struct gpud_thread *thread = &gpud_thread;

    stretch->from = from;
    stretch->stream = stream;
    stretch->slot = thread->slots[device];
    stretch->attachment = thread->attachment;
    stretch->entered = gpud_load(&stretch->slot->entered);
    stretch->all_entered = gpud_marks(device).entered;
    stretch->charged_ns = charged_ns;
    stretch->unsure = gpud_cost_unsure();
    stretch->beside = gpud_sample_beside(device);
    stretch->factor = gpud_cost_factor(device);
    stretch->young = gpud_cost_young();
    stretch->began_ns = now;
    stretch->others = gpud_others_look(device, now);
    gpud_store(&stretch->thread, thread->id);
    gpud_store_release(&stretch->state, GPUD_PENDING_OPEN);
}

/* It is the caller's: nobody's, or its thread has not come back for long. */
static bool take(struct gpud_stretch *stretch, uint64_t now)
{
    if (gpud_state_change(&stretch->state, GPUD_PENDING_FREE, GPUD_PENDING_READING))
        return true;
    return gpud_load(&stretch->state) == GPUD_PENDING_OPEN && now > gpud_load(&stretch->began_ns) + STALE_NS &&
           gpud_state_change(&stretch->state, GPUD_PENDING_OPEN, GPUD_PENDING_READING);
}

/* Its events are of this context from now on. False: some of another one are still waited for. */
static bool events_of(struct gpud_stretch *stretch, uint32_t device, CUcontext context)
{
    stretch->from = GPUD_STRETCH_EVENTS;
    for (uint32_t i = 0; stretch->context != context && i < GPUD_STRETCH_EVENTS; i++) {
        if (is_used(stretch, i))
            return false;
    }
    for (uint32_t i = 0; stretch->context != context && i < GPUD_STRETCH_EVENTS; i++) {
        if (stretch->event[i] != NULL) {
            gpud_count_calls(device, 1);
            real.cuEventDestroy_v2(stretch->event[i]);
        }
        stretch->event[i] = NULL;
    }
    gpud_store(&stretch->context, context);
    return true;
}

void gpud_stretch_begin(uint32_t device, CUstream stream, uint64_t charged_ns, uint64_t now)
{
    struct gpud_stretch *stretch = &gpud_samplers[device].stretch;
    struct gpud_thread *thread = &gpud_thread;

    /* A thread without a slot of its own cannot be told from others. One that never finds work waiting tries less and less. */
    if (thread->shared & 1u << device || thread->slots[device] == NULL)
        return;
    if (gpud_load(&stretch->dry) >= DRY_MOST && gpud_add(&stretch->dry, 1) % DRY_MOST != 0)
        return;
    if (!gpud_sample_at_work(device, stream)) {     /* the device has nothing to do for a moment right at its begin */
        gpud_add(&stretch->dry, 1);
        return;
    }
    if (!take(stretch, now))
        return;
    if (stretch->length == 0)
        stretch->length = FIRST;
    uint32_t from = events_of(stretch, device, thread->context) ? record(device, stretch, stream, now) : GPUD_STRETCH_EVENTS;
    if (from < GPUD_STRETCH_EVENTS)
        open(device, stretch, from, stream, charged_ns, now);
    else
        gpud_store_release(&stretch->state, GPUD_PENDING_FREE);
}

/* What is measured by these two events. Other threads' launches are taken to have cost as much each as those of this thread. */
static void note(uint32_t device, struct gpud_stretch *stretch, uint32_t to, uint64_t charged_ns, uint64_t now)
{
    uint64_t own = gpud_load(&stretch->slot->entered) - stretch->entered, all = gpud_marks(device).entered - stretch->all_entered;
    double charged = (double)(charged_ns - stretch->charged_ns);
    struct gpud_measured *one = stretch->measured;

    while (one < stretch->measured + GPUD_STRETCHES && gpud_load_acquire(&one->state) != GPUD_PENDING_FREE)
        one++;
    if (one == stretch->measured + GPUD_STRETCHES || own == 0 || charged_ns <= stretch->charged_ns ||
        stretch->unsure != gpud_cost_unsure() || stretch->beside != gpud_sample_beside(device))
        return;
    one->from = stretch->from;
    one->to = to;
    one->charged_ns = (uint64_t)(charged * (double)(all > own ? all : own) / (double)own);
    one->launches = all > own ? all : own;
    /* Where the factor is another one by now (the very same, not about the same), or estimates still move, it says nothing of it. But streams
     * that run at once make each sample too long: no estimate will be better than now. */
    bool moves = stretch->young != gpud_cost_young() && all <= own && gpud_load_acquire(&gpud_bursts[device].count) <= 1;
    one->factor = stretch->factor == gpud_cost_factor(device) && !moves ? stretch->factor : 0;
    one->alone = all <= own;
    one->attachment = stretch->attachment;
    one->recorded_ns = now;
    one->next_ns = now + gpud_load(&gpud_samplers[device].latency_ns);
    one->others = stretch->others;
    gpud_sample_next(&gpud_samplers[device], one->next_ns);
    gpud_store_release(&one->state, GPUD_PENDING_WAITING);
}

static void note_dry(struct gpud_stretch *stretch, bool dry)
{
    uint32_t length = stretch->length;

    gpud_store(&stretch->dry, dry ? stretch->dry + 1 : 0);
    /* As long as the program launches ahead: found in large steps, then kept in small ones. */
    uint32_t shorter = stretch->was_dry ? length * 3 / 4 : length / 2, longer = stretch->was_dry ? length + length / 2 : length * 4;
    stretch->length = dry ? (shorter > SHORTEST ? shorter : SHORTEST) : longer < LONGEST ? longer : LONGEST;
    stretch->was_dry |= dry;
}

void gpud_stretch_end(uint32_t device, CUstream stream, uint64_t charged_ns, uint64_t now)
{
    struct gpud_stretch *stretch = &gpud_samplers[device].stretch;

    if (!own_stretch(stretch) || gpud_stretch_left(device) != 0)
        return;
    bool same = stream == stretch->stream && gpud_thread.context == stretch->context;
    if (!same && gpud_load(&stretch->slot->entered) - stretch->entered < stretch->length + OTHER_STREAM)
        return;
    if (!gpud_state_change(&stretch->state, GPUD_PENDING_OPEN, GPUD_PENDING_READING))
        return;
    uint32_t to = same ? record(device, stretch, stream, now) : GPUD_STRETCH_EVENTS;
    bool dry = true;
    if (to < GPUD_STRETCH_EVENTS) {
        gpud_count_calls(device, 1);
        dry = real.cuEventQuery(stretch->event[stretch->from]) != CUDA_ERROR_NOT_READY;
        if (!dry)
            note(device, stretch, to, charged_ns, now);
        note_dry(stretch, dry);
    }
    if (!dry && stretch->length >= FOLLOWS && gpud_cost_varies(device))
        open(device, stretch, to, stream, charged_ns, now);
    else
        gpud_store_release(&stretch->state, GPUD_PENDING_FREE);
}

/* Nobody else was at work: what was charged is set right, and what will be charged with it. */
static void settle(uint32_t device, const struct gpud_measured *one, double ns, uint64_t now)
{
    struct gpud_others after = gpud_others_look(device, now);

    if (after.active != 0 || one->others.active != 0 || after.trace != one->others.trace || !(ns > 0))
        return;
    gpud_add(&gpud_samplers[device].stretches, 1);
    if (one->alone && one->attachment == gpud_load_acquire(&gpud_attachment))
        gpud_spend(device, (uint64_t)ns - one->charged_ns);
    if (one->factor > 0)
        gpud_cost_correct(device, one->launches, one->charged_ns, one->factor, (uint64_t)ns);
}

/* False: not finished. */
static bool read_one(uint32_t device, struct gpud_stretch *stretch, struct gpud_measured *one, CUcontext enter, uint64_t now)
{
    double ns = 0;
    CUresult result = gpud_sample_ask(device, enter, stretch->event[one->from], stretch->event[one->to], &ns);

    if (result == CUDA_ERROR_NOT_READY && now < one->recorded_ns + GPUD_SAMPLE_ABANDON_NS) {
        one->next_ns = gpud_sample_again(&gpud_samplers[device], one->recorded_ns, now);
        gpud_sample_next(&gpud_samplers[device], one->next_ns);
        gpud_store_release(&one->state, GPUD_PENDING_WAITING);
        return false;
    }
    if (result == CUDA_SUCCESS)
        gpud_sample_leave(enter);
    if (result == CUDA_SUCCESS)
        settle(device, one, ns, now);
    else if (result != CUDA_ERROR_NOT_READY)
        gpud_sample_trouble(device, result, now);
    gpud_store_release(&one->state, GPUD_PENDING_FREE);
    return true;
}

/* The oldest that waits, READING and the caller's; NULL: none. */
static struct gpud_measured *oldest(struct gpud_stretch *stretch)
{
    struct gpud_measured *found = NULL;

    for (uint32_t i = 0; i < GPUD_STRETCHES; i++) {
        struct gpud_measured *one = &stretch->measured[i], *later = one;
        if (!gpud_state_change(&one->state, GPUD_PENDING_WAITING, GPUD_PENDING_READING))
            continue;
        if (found == NULL || one->recorded_ns < found->recorded_ns) {
            later = found;
            found = one;
        }
        if (later != NULL)
            gpud_store_release(&later->state, GPUD_PENDING_WAITING);
    }
    return found;
}

void gpud_stretch_read(uint32_t device, CUcontext own, uint64_t now)
{
    struct gpud_stretch *stretch = &gpud_samplers[device].stretch;
    CUcontext context = gpud_load(&stretch->context);
    struct gpud_measured *one;

    while ((one = oldest(stretch)) != NULL) {
        bool due = one->next_ns <= now && (own == NULL || own == context);
        if (!due) {
            gpud_sample_next(&gpud_samplers[device], one->next_ns > now ? one->next_ns : now + GPUD_MILLISECOND);
            gpud_store_release(&one->state, GPUD_PENDING_WAITING);
            return;
        }
        if (!read_one(device, stretch, one, own == NULL ? context : NULL, now))
            return;
    }
}
