/* sched_queue.c: commands of a queue run in order; records and waits take no time; what ends is told and reported. */
#include "sched_state.h"

#include <stdlib.h>
#include <string.h>

static struct sched_command *command_new(struct schedule *s)
{
    struct sched_command *c = s->spare;
    if (!c)
        return calloc(1, sizeof *c);
    s->spare = c->next;
    memset(c, 0, sizeof *c);
    return c;
}

static void command_recycle(struct schedule *s, struct sched_command *c)
{
    free(c->pieces);
    c->pieces = NULL;
    c->next = s->spare;
    s->spare = c;
}

void sched_look(struct schedule *s, struct sched_queue *queue)
{
    if (queue->in_work)
        return;
    queue->in_work = true;
    queue->next_work = s->work;
    s->work = queue;
}

static uint32_t slot_of(const struct sched_event *event, uint64_t ticket)
{
    uint64_t hash = (ticket ^ (uintptr_t)event) * 0x9e3779b97f4a7c15u;
    return (uint32_t)(hash >> 40) % SCHED_SLOTS;
}

static bool record_pending(const struct schedule *s, const struct sched_event *event, uint64_t ticket)
{
    const struct sched_command *c = s->records[slot_of(event, ticket)];
    while (c && (c->work.event != event || c->work.number != ticket))
        c = c->next_record;
    return c != NULL;
}

/* The record is reached, or will never be: whoever waits for it looks again. */
static void record_remove(struct schedule *s, struct sched_command *c)
{
    uint32_t slot = slot_of(c->work.event, c->work.number);
    for (struct sched_command **at = &s->records[slot]; *at; at = &(*at)->next_record)
        if (*at == c) {
            *at = c->next_record;
            break;
        }
    for (struct sched_queue **at = &s->blocked[slot]; *at;) {
        struct sched_queue *queue = *at;
        const struct sched_work *wait = &queue->head->work;
        if (wait->event != c->work.event || wait->wait_ticket != c->work.number) {
            at = &queue->next_blocked;
            continue;
        }
        *at = queue->next_blocked;
        queue->in_blocked = false;
        sched_look(s, queue);
    }
}

/* Takes the head, which has ended, off its queue and tells so. */
static void pop(struct schedule *s, struct sched_command *c)
{
    struct sched_queue *queue = c->queue;
    queue->head = c->next;
    queue->dry_ns = s->now;
    if (!queue->head)
        queue->tail = NULL;
    queue->length--;
    if (c->work.event)
        sched_event_unref(s, c->work.event);
    s->hooks.done(s->hooks.arg, queue->user, c->work.ticket, s->now);
    command_recycle(s, c);
}

void sched_end(struct schedule *s, struct sched_command *c)
{
    struct sched_queue *queue = c->queue;
    sched_leave_device(c);
    if (!sched_is_host(&c->work))
        sched_report(s, c, false);
    pop(s, c);
    sched_look(s, queue);
}

/* Starts the head if it can start now; records and waits end at once. */
static void examine(struct schedule *s, struct sched_queue *queue)
{
    struct sched_command *c;
    while ((c = queue->head) && !c->started) {
        if (c->earliest > s->now) {
            if (!queue->in_waking) {
                queue->in_waking = true;
                queue->next_waking = s->waking;
                s->waking = queue;
            }
            return;
        }
        switch (c->work.kind) {
        case SIM_RECORD:
            if (c->work.event)
                record_remove(s, c);
            if (c->work.event && !c->work.event->closing)
                s->hooks.recorded(s->hooks.arg, c->work.event->user, c->work.number, s->now);
            pop(s, c);
            break;
        case SIM_WAIT:
            if (c->work.event && record_pending(s, c->work.event, c->work.wait_ticket)) {
                if (!queue->in_blocked) {
                    queue->in_blocked = true;
                    uint32_t slot = slot_of(c->work.event, c->work.wait_ticket);
                    queue->next_blocked = s->blocked[slot];
                    s->blocked[slot] = queue;
                }
                return;
            }
            pop(s, c);
            break;
        case SIM_COPY_H2D:
        case SIM_COPY_D2H:
            c->started = true;
            sched_copy_add(c);
            return;
        default:
            c->started = true;
            if (sched_is_host(&c->work)) {
                sched_due(s, c);        /* it ends at once, or when the host is done; then the queue is looked at again */
                return;
            }
            c->seq = ++s->seq;
            sched_compute_add(c);
            return;
        }
    }
    if (!queue->head && queue->closing) {
        for (struct sched_queue **at = &queue->context->queues; *at; at = &(*at)->next)
            if (*at == queue) {
                *at = queue->next;
                break;
            }
        s->hooks.queue_gone(s->hooks.arg, queue->user);
        free(queue);
    }
}

void sched_work(struct schedule *s)
{
    while (s->work) {
        struct sched_queue *queue = s->work;
        s->work = queue->next_work;
        queue->in_work = false;
        examine(s, queue);
    }
}

void sched_wake(struct schedule *s)
{
    for (struct sched_queue **at = &s->waking; *at;) {
        struct sched_queue *queue = *at;
        if (queue->head && queue->head->earliest > s->now) {
            at = &queue->next_waking;
            continue;
        }
        *at = queue->next_waking;
        queue->in_waking = false;
        sched_look(s, queue);
    }
}

bool sched_submit(struct schedule *s, struct sched_queue *queue, const struct sched_work *work)
{
    struct sched_command *c = command_new(s);
    if (!c)
        return false;
    bool idle = !queue->head;
    sched_advance(s, work->submit_ns);
    idle = idle || !queue->head;
    c->work = *work;
    c->queue = queue;
    c->earliest = work->submit_ns + (work->kind == SIM_KERNEL ? queue->context->device->profile.launch_ns : 0);
    sched_note_time(c, idle);
    if (work->event)
        work->event->references++;
    if (work->kind == SIM_RECORD && work->event) {
        c->work.number = work->number ? work->number : work->ticket;
        uint32_t slot = slot_of(work->event, c->work.number);
        c->next_record = s->records[slot];
        s->records[slot] = c;
    }
    if (queue->tail)
        queue->tail->next = c;
    else
        queue->head = c;
    queue->tail = c;
    queue->length++;
    if (idle)
        sched_look(s, queue);
    if (idle && work->submit_ns > s->now && !sched_standing(s))
        sched_step(s, work->submit_ns);
    else if (idle)
        sched_step(s, s->now);
    return true;
}

static void unlink_queue(struct schedule *s, struct sched_queue *queue)
{
    for (struct sched_queue **at = &s->work; queue->in_work && *at; at = &(*at)->next_work)
        if (*at == queue) {
            *at = queue->next_work;
            queue->in_work = false;
            break;
        }
    for (struct sched_queue **at = &s->waking; queue->in_waking && *at; at = &(*at)->next_waking)
        if (*at == queue) {
            *at = queue->next_waking;
            queue->in_waking = false;
            break;
        }
    if (!queue->in_blocked)
        return;
    queue->in_blocked = false;
    struct sched_queue **at = &s->blocked[slot_of(queue->head->work.event, queue->head->work.wait_ticket)];
    while (*at != queue)
        at = &(*at)->next_blocked;
    *at = queue->next_blocked;
}

uint64_t sched_queue_drop(struct schedule *s, struct sched_queue *queue)
{
    uint64_t dropped = queue->length;
    unlink_queue(s, queue);
    while (queue->head) {
        struct sched_command *c = queue->head;
        if (c->started && c->state == SCHED_HELD)
            sched_unhold(s, c);
        if (c->started)
            sched_leave_device(c);
        if (!sched_is_host(&c->work) && (c->start_ns || c->state == SCHED_RUNNING || c->state == SCHED_COPYING))
            sched_report(s, c, true);
        queue->head = c->next;
        if (c->work.kind == SIM_RECORD && c->work.event) {
            record_remove(s, c);
            if (!c->work.event->closing)        /* others may wait for it, who outlive this queue */
                s->hooks.recorded(s->hooks.arg, c->work.event->user, c->work.number, s->now);
        }
        if (c->work.event)
            sched_event_unref(s, c->work.event);
        command_recycle(s, c);
    }
    queue->tail = NULL;
    queue->length = 0;
    unlink_queue(s, queue);
    return dropped;
}
