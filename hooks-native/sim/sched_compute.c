/* sched_compute.c: kernels on the SMs of a device, and the time slices of contexts.
 *
 * One context has the device at a time (the holder). Within it, kernels get SMs in order of priority, then of becoming
 * startable; a kernel that gets fewer SMs than it can fill runs proportionally slower. A kernel of lower priority gives
 * its SMs up at the end of its current wave of blocks when one of higher priority lacks some. At the end of the slice the
 * kernels stay where they are and go on when their context has the device again. */
#include "sched_state.h"

#include <stdlib.h>

static bool has_work(const struct sched_context *context)
{
    return context->startable || context->running;
}

static void insert_startable(struct sched_context *context, struct sched_command *c)
{
    struct sched_command **at = &context->startable;
    while (*at && ((*at)->queue->priority < c->queue->priority
                   || ((*at)->queue->priority == c->queue->priority && (*at)->seq < c->seq)))
        at = &(*at)->peer;
    c->state = SCHED_STARTABLE;
    c->peer = *at;
    *at = c;
}

/* The context waits for its turn. The holder, alone till now, has renewed its slice without a trace: its end is known now. */
static void make_ready(struct sched_device *d, struct sched_context *context)
{
    if (context->in_ready)
        return;
    uint64_t now = d->schedule->now;
    if (!d->ready && d->holder) {
        uint64_t past = now > d->slice_start ? (now - d->slice_start) / d->profile.slice_ns : 0;
        d->slice_end = d->slice_start + (past + 1) * d->profile.slice_ns;
    }
    context->in_ready = true;
    context->next_ready = NULL;
    if (d->ready)
        d->ready_tail->next_ready = context;
    else
        d->ready = context;
    d->ready_tail = context;
}

static void leave_ready(struct sched_device *d, struct sched_context *context)
{
    struct sched_context *before = NULL;
    if (!context->in_ready)
        return;
    for (struct sched_context *c = d->ready; c != context; c = c->next_ready)
        before = c;
    if (before)
        before->next_ready = context->next_ready;
    else
        d->ready = context->next_ready;
    if (d->ready_tail == context)
        d->ready_tail = before;
    context->in_ready = false;
}

void sched_compute_add(struct sched_command *c)
{
    struct sched_context *context = c->queue->context;
    sched_size(c);
    insert_startable(context, c);
    if (context != context->device->holder)
        make_ready(context->device, context);
}

/* The command stops for now, or for ever: a piece of it is complete. */
static void end_piece(struct sched_command *c, bool last)
{
    uint64_t now = c->queue->context->device->schedule->now;
    if (c->piece_start >= now) {        /* not on the device, or the switch to its context is still under way */
        c->piece_start = SCHED_NEVER;
        return;
    }
    if (!c->pieces && !last)
        c->pieces = calloc(SCHED_PIECES, sizeof *c->pieces);
    if (c->pieces && c->piece_count < SCHED_PIECES)
        c->pieces[c->piece_count] = (struct sched_piece){ c->piece_start, now };
    c->piece_count++;
    c->piece_start = SCHED_NEVER;
}

void sched_compute_remove(struct sched_command *c)
{
    struct sched_context *context = c->queue->context;
    struct sched_command **at = c->state == SCHED_STARTABLE ? &context->startable : &context->running;
    if (c->state != SCHED_STARTABLE)
        end_piece(c, true);
    for (; *at; at = &(*at)->peer)
        if (*at == c) {
            *at = c->peer;
            break;
        }
    c->have = 0;
    if (!has_work(context))
        leave_ready(context->device, context);
}

void sched_compute_progress(struct sched_device *d, uint64_t now)
{
    uint64_t from = d->at > d->usable_from ? d->at : d->usable_from;
    if (now > from && d->holder && d->holder->running) {
        bool memory = false;
        for (struct sched_command *c = d->holder->running; c; c = c->peer) {
            uint64_t done = (now - from) * c->have;
            c->left -= done < c->left ? done : c->left;
            c->run_ns += now - from;
            memory = memory || c->work.kind != SIM_KERNEL;
        }
        sched_account(d, from, now, true, 0);
        if (memory)
            d->bucket_memory[(now - 1) / SCHED_BUCKET_NS % SCHED_BUCKETS] += now - from;
    }
    if (now > d->at)
        d->at = now;
}

void sched_compute_ends(struct sched_device *d)
{
    if (!d->holder)
        return;
    for (struct sched_command *c = d->holder->running, *next; c; c = next) {
        next = c->peer;
        if (!c->left && c->state == SCHED_RUNNING)
            sched_due(d->schedule, c);
    }
}

/* The best priority that lacks SMs: waiting, or running with fewer than it can fill. INT32_MAX: none lacks any. */
static int lacking(const struct sched_context *context)
{
    int best = context->startable ? context->startable->queue->priority : INT32_MAX;
    for (const struct sched_command *c = context->running; c; c = c->peer)
        if (c->have < c->need && c->state == SCHED_RUNNING && c->queue->priority < best)
            best = c->queue->priority;
    return best;
}

/* Work up to the end of the current wave. 0: it is there (the step came less than one ns, `have` of work, after it). */
static uint64_t to_wave_end(const struct sched_command *c)
{
    uint64_t done = c->total - c->left, into = done % c->wave;
    if (into < c->have && done >= c->wave)
        return 0;
    uint64_t rest = c->wave - into;
    return rest < c->left ? rest : c->left;
}

static void yield_at_wave_ends(struct sched_context *context)
{
    int wanted = lacking(context);
    for (struct sched_command **at = &context->running; *at;) {
        struct sched_command *c = *at;
        if (c->state != SCHED_RUNNING || c->queue->priority <= wanted || !c->left || to_wave_end(c)) {
            at = &c->peer;
            continue;
        }
        *at = c->peer;
        end_piece(c, false);
        c->have = 0;
        insert_startable(context, c);
    }
}

/* Hands the free SMs out: first to those that run with fewer than they can fill, then to those that wait. */
static void dispatch(struct sched_device *d, struct sched_context *context)
{
    uint32_t available = d->profile.sm_count;
    for (struct sched_command *c = context->running; c; c = c->peer)
        available -= c->have;
    while (available) {
        struct sched_command *best = NULL;
        for (struct sched_command *c = context->running; c; c = c->peer)
            if (c->state == SCHED_RUNNING && c->have < c->need
                && (!best || c->queue->priority < best->queue->priority
                    || (c->queue->priority == best->queue->priority && c->seq < best->seq)))
                best = c;
        struct sched_command *waiting = context->startable;
        if (waiting && (!best || waiting->queue->priority < best->queue->priority)) {
            best = waiting;
            context->startable = waiting->peer;
            waiting->peer = context->running;
            context->running = waiting;
            waiting->state = SCHED_RUNNING;
            waiting->piece_start = d->schedule->now;
            if (!waiting->run_ns && !waiting->piece_count)
                waiting->start_ns = d->schedule->now;
        }
        if (!best)
            return;
        uint32_t more = best->need - best->have;
        more = more < available ? more : available;
        best->have += more;
        available -= more;
    }
}

static void cut(struct sched_device *d)
{
    struct sched_context *context = d->holder;
    for (struct sched_command *c = context->running; c; c = c->peer)
        end_piece(c, false);
    d->counters.cuts += context->running != NULL;
    d->holder = NULL;
    make_ready(d, context);
}

static void take(struct sched_device *d)
{
    struct sched_context *context = d->ready;
    uint64_t now = d->schedule->now;
    leave_ready(d, context);
    d->holder = context;
    if (d->usable_from < now || d->last != context->number)
        d->usable_from = now;           /* else the switch to it is still under way: its work had gone and came again */
    if (d->last && d->last != context->number) {
        d->usable_from += d->profile.switch_ns;
        d->counters.switches++;
        d->counters.switch_ns += d->profile.switch_ns;
    }
    d->last = context->number;
    d->slice_start = d->usable_from;
    d->slice_end = d->slice_start + d->profile.slice_ns;
    for (struct sched_command *c = context->running; c; c = c->peer)
        c->piece_start = d->usable_from;
}

void sched_compute_settle(struct sched_device *d)
{
    uint64_t now = d->schedule->now;
    if (d->holder && !has_work(d->holder))
        d->holder = NULL;
    if (d->holder && d->ready && now >= d->slice_end)
        cut(d);
    if (!d->holder && d->ready)
        take(d);
    if (d->holder && now >= d->usable_from) {
        yield_at_wave_ends(d->holder);
        dispatch(d, d->holder);
    }
}

void sched_compute_forget(struct sched_context *context)
{
    leave_ready(context->device, context);
    if (context->device->holder == context)
        context->device->holder = NULL;
    if (context->device->last == context->number)   /* 0: nothing is left to save; a switch broken off is made again */
        context->device->last = context->device->schedule->now < context->device->usable_from ? UINT32_MAX : 0;
}

uint64_t sched_compute_next(const struct sched_device *d)
{
    const struct sched_context *context = d->holder;
    uint64_t next = SCHED_NEVER;
    if (!context)
        return next;
    uint64_t from = d->at > d->usable_from ? d->at : d->usable_from;
    if (d->ready)
        next = d->slice_end;
    if (context->startable && d->at < d->usable_from && d->usable_from < next)
        next = d->usable_from;
    int wanted = lacking(context);
    for (const struct sched_command *c = context->running; c; c = c->peer) {
        if (c->state != SCHED_RUNNING)
            continue;
        uint64_t work = c->left;
        if (c->queue->priority > wanted && to_wave_end(c) && to_wave_end(c) < work)
            work = to_wave_end(c);
        uint64_t end = from + work / c->have + (work % c->have != 0);
        next = end < next ? end : next;
    }
    return next;
}
