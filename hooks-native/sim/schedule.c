/* schedule.c: the objects of a schedule: contexts, queues, events. */
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
    if (!sched_group_join(context)) {
        free(context);
        return NULL;
    }
    context->next = s->contexts;
    s->contexts = context;
    return context;
}

uint64_t sched_context_drop(struct schedule *s, struct sched_context *context, uint64_t now)
{
    sched_advance(s, now);
    if (now > s->now)
        s->now = now;
    sched_step(s, s->now);                  /* what was on the device has run up to now */
    struct sched_device *device = context->device;
    uint64_t dropped = 0;
    while (context->queues) {
        struct sched_queue *queue = context->queues;
        context->queues = queue->next;
        dropped += sched_queue_drop(s, queue);
        free(queue);
    }
    sched_group_leave(context);
    for (struct sched_context **at = &s->contexts; *at; at = &(*at)->next)
        if (*at == context) {
            *at = context->next;
            break;
        }
    free(context);
    sched_work(s);                          /* records that were dropped let others pass */
    sched_slice_settle(device);
    sched_step(s, s->now);
    return dropped;
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

uint64_t sched_queue_stop(struct schedule *s, struct sched_queue *queue, uint64_t now)
{
    struct sched_device *device = queue->context->device;
    sched_advance(s, now);
    if (now > s->now)
        s->now = now;
    sched_step(s, s->now);                  /* what was on the device has run up to now */
    uint64_t dropped = sched_queue_drop(s, queue);
    sched_look(s, queue);                   /* it may have waited to be empty, to close */
    sched_work(s);
    sched_slice_settle(device);
    sched_step(s, s->now);
    return dropped;
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
