/* schedule.c: the schedule as a whole: its objects, its clock, its counters. */
#include "sched_state.h"

#include <stdlib.h>

struct schedule *sched_new(const struct sched_profile *profiles, uint32_t devices, const struct sched_hooks *hooks)
{
    struct schedule *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->hooks = *hooks;
    s->device_count = devices;
    for (uint32_t i = 0; i < devices; i++) {
        s->devices[i].schedule = s;
        s->devices[i].index = i;
        s->devices[i].profile = profiles[i];
        s->devices[i].engines[0].end = s->devices[i].engines[1].end = SCHED_NEVER;
    }
    return s;
}

void sched_free(struct schedule *s)
{
    if (!s)
        return;
    while (s->contexts)
        sched_context_drop(s, s->contexts, s->now);
    while (s->events) {
        struct sched_event *event = s->events;
        s->events = event->next;
        free(event);
    }
    while (s->spare) {
        struct sched_command *c = s->spare;
        s->spare = c->next;
        free(c);
    }
    free(s);
}

struct sched_context *sched_context_new(struct schedule *s, uint32_t device, void *user)
{
    struct sched_context *context = calloc(1, sizeof *context);
    if (!context)
        return NULL;
    context->device = &s->devices[device];
    context->user = user;
    context->number = ++s->context_numbers;
    context->next = s->contexts;
    s->contexts = context;
    return context;
}

void sched_context_drop(struct schedule *s, struct sched_context *context, uint64_t now)
{
    sched_advance(s, now);
    if (now > s->now)
        s->now = now;
    sched_step(s, s->now);                  /* what was on the device has run up to now */
    struct sched_device *device = context->device;
    while (context->queues) {
        struct sched_queue *queue = context->queues;
        context->queues = queue->next;
        sched_queue_drop(s, queue);
        free(queue);
    }
    sched_compute_forget(context);
    for (struct sched_context **at = &s->contexts; *at; at = &(*at)->next)
        if (*at == context) {
            *at = context->next;
            break;
        }
    free(context);
    sched_work(s);                          /* records that were dropped let others pass */
    sched_compute_settle(device);
    sched_step(s, s->now);
}

struct sched_queue *sched_queue_new(struct schedule *s, struct sched_context *context, int priority, void *user)
{
    struct sched_queue *queue = calloc(1, sizeof *queue);
    (void)s;
    if (!queue)
        return NULL;
    queue->context = context;
    queue->priority = priority;
    queue->user = user;
    queue->next = context->queues;
    context->queues = queue;
    return queue;
}

void sched_queue_close(struct schedule *s, struct sched_queue *queue)
{
    queue->closing = true;
    sched_look(s, queue);
    sched_work(s);
}

struct sched_event *sched_event_new(struct schedule *s, void *user)
{
    struct sched_event *event = calloc(1, sizeof *event);
    if (!event)
        return NULL;
    event->user = user;
    event->references = 1;
    event->next = s->events;
    event->link = &s->events;
    if (event->next)
        event->next->link = &event->next;
    s->events = event;
    return event;
}

void sched_event_close(struct schedule *s, struct sched_event *event)
{
    event->closing = true;
    event->user = NULL;
    sched_event_unref(s, event);
}

void sched_event_unref(struct schedule *s, struct sched_event *event)
{
    (void)s;
    if (--event->references)
        return;
    *event->link = event->next;
    if (event->next)
        event->next->link = event->link;
    free(event);
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
    sched_wake(s);
    sched_work(s);
    for (uint32_t i = 0; i < s->device_count; i++)
        sched_compute_settle(&s->devices[i]);
}

uint64_t sched_next(const struct schedule *s)
{
    uint64_t next = SCHED_NEVER;
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

void sched_advance(struct schedule *s, uint64_t until)
{
    for (uint64_t next = sched_next(s); next <= until && next != SCHED_NEVER; next = sched_next(s))
        sched_step(s, next > s->now ? next : s->now);
}

bool sched_held_computed(const struct schedule *s)
{
    for (const struct sched_command *c = s->held; c; c = c->next_held)
        if (s->hooks.computed(s->hooks.arg, c->queue->user, c->work.ticket))
            return true;
    return false;
}

void sched_recheck(struct schedule *s, uint64_t now)
{
    sched_advance(s, now);
    if (!sched_held_computed(s))
        return;
    sched_step(s, now > s->now ? now : s->now);
    for (struct sched_command *c = s->held, *next; c; c = next) {
        next = c->next_held;
        if (s->hooks.computed(s->hooks.arg, c->queue->user, c->work.ticket)) {
            sched_unhold(s, c);
            sched_end(s, c);
        }
    }
    sched_work(s);
    for (uint32_t i = 0; i < s->device_count; i++)
        sched_compute_settle(&s->devices[i]);
}

bool sched_holding(const struct schedule *s)
{
    return s->held != NULL;
}

uint64_t sched_queue_length(const struct sched_queue *queue)
{
    return queue->length;
}

struct sched_counters sched_counters(const struct schedule *s, uint32_t device)
{
    return s->devices[device].counters;
}

/* Adds [from, to) to the counters and to the buckets of the last second. `memory`: how many engines moved bytes. */
void sched_account(struct sched_device *device, uint64_t from, uint64_t to, bool busy, uint32_t memory)
{
    if (to <= from)
        return;
    if (busy)
        device->counters.busy_ns += to - from;
    device->counters.copy_busy_ns += (to - from) * memory;
    uint64_t oldest = to > SCHED_BUCKETS * SCHED_BUCKET_NS ? to - SCHED_BUCKETS * SCHED_BUCKET_NS : 0;
    for (uint64_t at = from > oldest ? from : oldest; at < to;) {
        uint64_t id = at / SCHED_BUCKET_NS, end = (id + 1) * SCHED_BUCKET_NS;
        end = end < to ? end : to;
        uint32_t slot = id % SCHED_BUCKETS;
        if (device->bucket_id[slot] != id) {
            device->bucket_id[slot] = id;
            device->bucket_busy[slot] = device->bucket_memory[slot] = 0;
        }
        if (busy)
            device->bucket_busy[slot] += end - at;
        if (memory)
            device->bucket_memory[slot] += end - at;
        at = end;
    }
}

void sched_utilisation(const struct schedule *s, uint32_t index, uint64_t now, uint32_t *gpu, uint32_t *memory)
{
    const struct sched_device *device = &s->devices[index];
    uint64_t busy = 0, moved = 0, from = now > 1000000000ull ? now - 1000000000ull : 0;
    for (uint32_t i = 0; i < SCHED_BUCKETS; i++) {
        uint64_t start = device->bucket_id[i] * SCHED_BUCKET_NS;
        if (start >= from && start <= now) {
            busy += device->bucket_busy[i];
            moved += device->bucket_memory[i];
        }
    }
    /* What is on the device now has been accounted for only up to `at`. */
    if (now > device->at && device->holder && device->holder->running) {
        uint64_t start = device->at > device->usable_from ? device->at : device->usable_from;
        start = start > from ? start : from;
        busy += now > start ? now - start : 0;
    }
    uint64_t window = now - from ? now - from : 1;
    *gpu = busy >= window ? 100 : (uint32_t)(busy * 100 / window);
    *memory = moved >= window ? 100 : (uint32_t)(moved * 100 / window);
}
