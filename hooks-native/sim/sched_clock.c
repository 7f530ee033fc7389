/* sched_clock.c: the model clock: what is due next and lets happen, and what holds it up: commands that are not computed. */
#include "sched_state.h"

void sched_settle(struct schedule *s)
{
    for (uint32_t i = 0; i < s->device_count; i++)
        sched_slice_settle(&s->devices[i]);
}

/* Everything that is due at exactly `now` (or became possible by it), on all devices. */
void sched_step(struct schedule *s, uint64_t now)
{
    s->now = now;
    for (uint32_t i = 0; i < s->device_count; i++)
        sched_compute_progress(&s->devices[i], now);
    for (uint32_t i = 0; i < s->device_count; i++) {
        sched_compute_ends(&s->devices[i]);
        sched_copy_ends(&s->devices[i]);
    }
    sched_hold_ends(s);
    sched_wake(s);
    sched_work(s);
    sched_settle(s);
}

uint64_t sched_next(const struct schedule *s)
{
    if (sched_standing(s))
        return SCHED_NEVER;
    uint64_t next = sched_hold_next(s);
    for (uint32_t i = 0; i < s->device_count; i++) {
        uint64_t compute = sched_compute_next(&s->devices[i]);
        uint64_t copy = sched_copy_next(&s->devices[i]);
        next = compute < next ? compute : next;
        next = copy < next ? copy : next;
    }
    for (const struct sched_queue *queue = s->waking; queue; queue = queue->next_waking)
        if (queue->head && queue->head->earliest < next)
            next = queue->head->earliest;
    return next;
}

uint64_t sched_now(const struct schedule *s)
{
    return s->now;
}

void sched_once(struct schedule *s)
{
    uint64_t next = sched_next(s);
    if (next != SCHED_NEVER)
        sched_step(s, next > s->now ? next : s->now);
}

void sched_advance(struct schedule *s, uint64_t until)
{
    for (uint64_t next = sched_next(s); next <= until && next != SCHED_NEVER; next = sched_next(s))
        sched_step(s, next > s->now ? next : s->now);
}

void sched_patient(struct schedule *s, bool patient)
{
    s->patient = patient;
}

bool sched_standing(const struct schedule *s)
{
    return s->patient && s->late;
}

/* When this command, which is held, may end by the clock's `now`. SCHED_NEVER: not yet. */
static uint64_t release_time(const struct schedule *s, const struct sched_command *c, uint64_t now)
{
    bool host = sched_is_host(&c->work);
    if ((host && sched_standing(s)) || !s->hooks.computed(s->hooks.arg, c->queue->user, c->work.ticket))
        return SCHED_NEVER;
    uint64_t at = sched_standing(s) ? s->now : now;
    if (host && s->hooks.took)
        at = c->due_ns + s->hooks.took(s->hooks.arg, c->queue->user, c->work.ticket);
    at = at < now ? at : now;
    return at > s->now ? at : s->now;
}

bool sched_held_computed(const struct schedule *s)
{
    for (const struct sched_command *c = s->held; c; c = c->next_held)
        if (release_time(s, c, s->now) != SCHED_NEVER)
            return true;
    return false;
}

void sched_recheck(struct schedule *s, uint64_t now)
{
    for (;;) {
        struct sched_command *first = NULL;
        uint64_t at = SCHED_NEVER;
        for (struct sched_command *c = s->held; c; c = c->next_held) {
            uint64_t time = release_time(s, c, now);
            if (time < at) {
                at = time;
                first = c;
            }
        }
        if (!first)
            return;
        bool standing = sched_standing(s);
        if (!standing) {
            sched_advance(s, at);       /* what is due before; it may be that the clock stands then */
            if (sched_standing(s))
                continue;
            sched_step(s, at);
            if (sched_standing(s))
                continue;
        }
        s->told = now;
        if (!sched_is_host(&first->work))
            first->queue->context->tardy = false;
        sched_unhold(s, first);
        sched_end(s, first);
        s->told = 0;
        sched_work(s);
        sched_settle(s);
    }
}

bool sched_holding(const struct schedule *s)
{
    return s->held != NULL;
}
