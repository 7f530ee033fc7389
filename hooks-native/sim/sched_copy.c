/* sched_copy.c: two copy engines, one each way, first come first served over all contexts; not subject to time slices. */
#include "sched_state.h"

static struct sched_engine *engine_of(struct sched_command *c)
{
    return &c->queue->context->device->engines[c->work.kind == SIM_COPY_D2H];
}

static void begin(struct sched_device *d, struct sched_engine *engine)
{
    struct sched_command *c = engine->head;
    engine->end = SCHED_NEVER;
    if (!c)
        return;
    uint64_t rate = c->work.kind == SIM_COPY_D2H ? d->profile.d2h_bytes_per_us : d->profile.h2d_bytes_per_us;
    uint64_t duration = d->profile.copy_latency_ns + c->work.bytes / rate * 1000 + c->work.bytes % rate * 1000 / rate;
    c->state = SCHED_COPYING;
    c->start_ns = c->piece_start = d->schedule->now;
    engine->end = d->schedule->now + (duration ? duration : 1);
}

void sched_copy_add(struct sched_command *c)
{
    struct sched_engine *engine = engine_of(c);
    c->peer = NULL;
    if (engine->head) {
        engine->tail->peer = c;
        engine->tail = c;
        return;
    }
    engine->head = engine->tail = c;
    begin(c->queue->context->device, engine);
}

void sched_copy_remove(struct sched_command *c)
{
    struct sched_device *d = c->queue->context->device;
    struct sched_engine *engine = engine_of(c);
    struct sched_command *before = NULL;
    for (struct sched_command *at = engine->head; at != c; at = at->peer)
        before = at;
    if (before)
        before->peer = c->peer;
    else
        engine->head = c->peer;
    if (engine->tail == c)
        engine->tail = before;
    if (before)
        return;
    c->run_ns = d->schedule->now - c->start_ns;
    c->piece_count = 1;
    d->counters.copy_busy_ns += c->run_ns;
    sched_load_add(&d->load, c->start_ns, d->schedule->now, false, true);
    sched_load_add(&c->queue->context->load, c->start_ns, d->schedule->now, false, true);
    begin(d, engine);
}

void sched_copy_ends(struct sched_device *d)
{
    for (uint32_t i = 0; i < 2; i++) {
        struct sched_engine *engine = &d->engines[i];
        if (engine->head && engine->end <= d->schedule->now) {
            engine->end = SCHED_NEVER;      /* unless it ends, and the next one begins */
            sched_due(d->schedule, engine->head);
        }
    }
}

uint64_t sched_copy_next(const struct sched_device *d)
{
    return d->engines[0].end < d->engines[1].end ? d->engines[0].end : d->engines[1].end;
}
