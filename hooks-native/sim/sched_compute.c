/* sched_compute.c: kernels on the SMs of a device.
 *
 * Within the group that has the device, kernels get SMs in order of priority, then of becoming startable; a kernel that gets
 * fewer SMs than it can fill runs proportionally slower. A kernel of lower priority gives its SMs up at the end of its current
 * wave of blocks when one of higher priority lacks some. At the end of the slice (sched_slice.c) the kernels stay where they
 * are and go on when their group has the device again. */
#include "sched_state.h"

#include <stdlib.h>

static void insert_startable(struct sched_group *group, struct sched_command *c)
{
    struct sched_command **at = &group->startable;
    while (*at && ((*at)->queue->priority < c->queue->priority
                   || ((*at)->queue->priority == c->queue->priority && (*at)->seq < c->seq)))
        at = &(*at)->peer;
    c->state = SCHED_STARTABLE;
    c->peer = *at;
    *at = c;
}

void sched_compute_add(struct sched_command *c)
{
    struct sched_group *group = c->queue->context->group;
    sched_size(c);
    insert_startable(group, c);
    if (group != group->device->holder)
        sched_slice_ready(group);
}

/* As long as there is room, all are kept; then none any more. */
static void keep_piece(struct sched_command *c, struct sched_piece piece)
{
    uint32_t kept = c->piece_kept;
    if (kept < c->piece_count || kept == SCHED_PIECES)
        return;
    if (!kept || (kept >= 16 && !(kept & (kept - 1)))) {
        struct sched_piece *room = realloc(c->pieces, (kept ? 2 * (size_t)kept : 16) * sizeof *room);
        if (!room)
            return;
        c->pieces = room;
    }
    c->pieces[c->piece_kept++] = piece;
}

void sched_compute_piece(struct sched_command *c, bool last)
{
    uint64_t now = c->queue->context->device->schedule->now;
    if (c->piece_start >= now) {        /* not on the device, or the switch to its context is still under way */
        c->piece_start = SCHED_NEVER;
        return;
    }
    if (c->piece_count || !last)        /* one that is never cut needs none */
        keep_piece(c, (struct sched_piece){ c->piece_start, now });
    c->piece_count++;
    c->piece_start = SCHED_NEVER;
}

void sched_compute_remove(struct sched_command *c)
{
    struct sched_group *group = c->queue->context->group;
    struct sched_command **at = c->state == SCHED_STARTABLE ? &group->startable : &group->running;
    if (c->state != SCHED_STARTABLE)
        sched_compute_piece(c, true);
    for (; *at; at = &(*at)->peer)
        if (*at == c) {
            *at = c->peer;
            break;
        }
    c->have = 0;
    if (!sched_group_works(group))
        sched_slice_unready(group);
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
            struct sched_context *context = c->queue->context;
            if (context->counted_ns < now)
                sched_load_add(&context->load, from, now, true, c->work.kind != SIM_KERNEL);
            context->counted_ns = now;
        }
        d->counters.busy_ns += now - from;
        sched_load_add(&d->load, from, now, true, memory);
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
static int lacking(const struct sched_group *group)
{
    int best = group->startable ? group->startable->queue->priority : INT32_MAX;
    for (const struct sched_command *c = group->running; c; c = c->peer)
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

static void yield_at_wave_ends(struct sched_group *group)
{
    int wanted = lacking(group);
    for (struct sched_command **at = &group->running; *at;) {
        struct sched_command *c = *at;
        if (c->state != SCHED_RUNNING || c->queue->priority <= wanted || !c->left || to_wave_end(c)) {
            at = &c->peer;
            continue;
        }
        *at = c->peer;
        sched_compute_piece(c, false);
        c->have = 0;
        insert_startable(group, c);
    }
}

/* Hands the free SMs out: first to those that run with fewer than they can fill, then to those that wait. */
static void dispatch(struct sched_device *d, struct sched_group *group)
{
    uint32_t available = d->profile.sm_count;
    for (struct sched_command *c = group->running; c; c = c->peer)
        available -= c->have;
    while (available) {
        struct sched_command *best = NULL;
        for (struct sched_command *c = group->running; c; c = c->peer)
            if (c->state == SCHED_RUNNING && c->have < c->need
                && (!best || c->queue->priority < best->queue->priority
                    || (c->queue->priority == best->queue->priority && c->seq < best->seq)))
                best = c;
        struct sched_command *waiting = group->startable;
        if (waiting && (!best || waiting->queue->priority < best->queue->priority)) {
            best = waiting;
            group->startable = waiting->peer;
            waiting->peer = group->running;
            group->running = waiting;
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

void sched_compute_dispatch(struct sched_device *d)
{
    yield_at_wave_ends(d->holder);
    dispatch(d, d->holder);
}

uint64_t sched_compute_next(const struct sched_device *d)
{
    const struct sched_group *group = d->holder;
    uint64_t next = SCHED_NEVER;
    if (!group)
        return next;
    uint64_t from = d->at > d->usable_from ? d->at : d->usable_from;
    if (d->ready)
        next = d->slice_end;
    if (group->startable && d->at < d->usable_from && d->usable_from < next)
        next = d->usable_from;
    int wanted = lacking(group);
    for (const struct sched_command *c = group->running; c; c = c->peer) {
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
