/* sched_hold.c: commands at their modelled end that their program has not computed. They are held: their queue does not go on. They
 * hold their place on the device too, but not for ever: a program that is stopped, or computes for minutes, keeps no other from it. */
#include "sched_state.h"

void sched_leave_device(struct sched_command *c)
{
    if (c->evicted || sched_is_host(&c->work))
        return;
    if (sched_is_copy(c->work.kind))
        sched_copy_remove(c);
    else
        sched_compute_remove(c);
}

static void evict(struct sched_command *c)
{
    sched_compute_piece(c, false);      /* what it had of the device ends here, not when it is computed */
    sched_leave_device(c);
    c->evicted = true;
    c->queue->context->tardy = true;
}

void sched_due(struct schedule *s, struct sched_command *c)
{
    struct sched_context *context = c->queue->context;
    bool host = sched_is_host(&c->work);
    if (s->hooks.computed(s->hooks.arg, c->queue->user, c->work.ticket)) {
        if (!host)
            context->tardy = false;
        sched_end(s, c);
        return;
    }
    c->state = SCHED_HELD;
    c->due_ns = s->now;
    s->late += !host;
    c->next_held = s->held;
    s->held = c;
    s->hooks.held(s->hooks.arg, c->queue->user, c->work.ticket);
    if (context->tardy && !host && !sched_standing(s))
        evict(c);
}

void sched_unhold(struct schedule *s, struct sched_command *c)
{
    for (struct sched_command **at = &s->held; *at; at = &(*at)->next_held)
        if (*at == c) {
            *at = c->next_held;
            s->late -= !sched_is_host(&c->work);
            return;
        }
}

/* When a held command loses its place; SCHED_NEVER: it has none, or keeps it. */
static uint64_t expiry(const struct sched_command *c)
{
    uint64_t hold_ns = c->queue->context->device->profile.hold_ns;
    return c->evicted || !hold_ns || sched_is_host(&c->work) ? SCHED_NEVER : c->due_ns + hold_ns;
}

uint64_t sched_hold_next(const struct schedule *s)
{
    uint64_t next = SCHED_NEVER;
    for (const struct sched_command *c = s->held; c; c = c->next_held)
        next = expiry(c) < next ? expiry(c) : next;
    return next;
}

void sched_hold_ends(struct schedule *s)
{
    if (sched_standing(s))
        return;
    for (struct sched_command *c = s->held; c; c = c->next_held)
        if (expiry(c) <= s->now)
            evict(c);
}
