/* sched_slice.c: who has a device: time slices, round robin among the groups that have work, and the cost of going from one to
 * another. A group is one context, or under MPS all contexts of the device. */
#include "sched_state.h"

#include <stdlib.h>

bool sched_group_works(const struct sched_group *group)
{
    return group->startable || group->running;
}

bool sched_group_join(struct sched_context *context)
{
    struct sched_device *d = context->device;
    struct sched_group *group = d->merged;
    if (!group) {
        group = calloc(1, sizeof *group);
        if (!group)
            return false;
        group->device = d;
        group->number = context->number;
        d->merged = d->profile.merged ? group : NULL;
    }
    group->contexts++;
    context->group = group;
    return true;
}

void sched_group_leave(struct sched_context *context)
{
    struct sched_device *d = context->device;
    struct sched_group *group = context->group;
    if (d->holder == group && !sched_group_works(group))
        d->holder = NULL;
    if (--group->contexts)
        return;
    sched_slice_unready(group);
    if (d->last == group->number)       /* 0: nothing is left to save; a switch broken off is made again */
        d->last = d->schedule->now < d->usable_from ? UINT32_MAX : 0;
    if (d->merged == group)
        d->merged = NULL;
    free(group);
}

/* The holder, alone till now, has renewed its slice without a trace: its end is known now. */
void sched_slice_ready(struct sched_group *group)
{
    struct sched_device *d = group->device;
    if (group->in_ready)
        return;
    uint64_t now = d->schedule->now;
    if (!d->ready && d->holder) {
        uint64_t past = now > d->slice_start ? (now - d->slice_start) / d->profile.slice_ns : 0;
        d->slice_end = d->slice_start + (past + 1) * d->profile.slice_ns;
    }
    group->in_ready = true;
    group->next_ready = NULL;
    if (d->ready)
        d->ready_tail->next_ready = group;
    else
        d->ready = group;
    d->ready_tail = group;
}

void sched_slice_unready(struct sched_group *group)
{
    struct sched_device *d = group->device;
    struct sched_group *before = NULL;
    if (!group->in_ready)
        return;
    for (struct sched_group *g = d->ready; g != group; g = g->next_ready)
        before = g;
    if (before)
        before->next_ready = group->next_ready;
    else
        d->ready = group->next_ready;
    if (d->ready_tail == group)
        d->ready_tail = before;
    group->in_ready = false;
}

static void cut(struct sched_device *d)
{
    struct sched_group *group = d->holder;
    for (struct sched_command *c = group->running; c; c = c->peer)
        sched_compute_piece(c, false);
    d->counters.cuts += group->running != NULL;
    d->holder = NULL;
    sched_slice_ready(group);
}

static void take(struct sched_device *d)
{
    struct schedule *s = d->schedule;
    struct sched_group *group = d->ready;
    sched_slice_unready(group);
    d->holder = group;
    if (d->usable_from < s->now || d->last != group->number)
        d->usable_from = s->now;        /* else the switch to it is still under way: its work had gone and came again */
    if (d->last && d->last != group->number) {
        d->usable_from += d->profile.switch_ns;
        d->counters.switches++;
        d->counters.switch_ns += d->profile.switch_ns;
        if (s->hooks.switched)
            s->hooks.switched(s->hooks.arg, d->index, d->last, group->number, s->now, d->usable_from);
    }
    d->last = group->number;
    d->slice_start = d->usable_from;
    d->slice_end = d->slice_start + d->profile.slice_ns;
    for (struct sched_command *c = group->running; c; c = c->peer)
        c->piece_start = d->usable_from;
}

void sched_slice_settle(struct sched_device *d)
{
    uint64_t now = d->schedule->now;
    if (d->holder && !sched_group_works(d->holder))
        d->holder = NULL;
    if (d->holder && d->ready && now >= d->slice_end)
        cut(d);
    if (!d->holder && d->ready)
        take(d);
    if (d->holder && now >= d->usable_from)
        sched_compute_dispatch(d);
}
