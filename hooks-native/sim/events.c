/* events.c: events of clients. An interprocess event is one event of the node that several clients have open; its records are numbered
 * in the order in which the rings are read, and every client sees the number of the newest and of the newest reached. */
#include <errno.h>
#include <stdlib.h>

#include "device.h"

static int32_t open_slot(struct client *client, struct node_event *shared, struct sim_reply *reply)
{
    uint32_t id = client_free_slot(client->events, SIM_MAX_EVENTS, client->next_event);
    struct device_event *event = id ? calloc(1, sizeof *event) : NULL;
    if (!event)
        return id ? -ENOMEM : -ENOSPC;
    *event = (struct device_event){ .client = client, .id = id, .shared = shared, .next = shared->openers };
    shared->openers = event;
    client->events[id] = event;
    client->next_event = id;
    ring_event_reset(client, id);
    reply->id = id;
    reply->a = (int64_t)shared->number;
    return 0;
}

static void forget(struct node *node, struct node_event *shared)
{
    struct node_event **at = &node->events;
    while (shared->number && *at != shared)
        at = &(*at)->next;
    if (shared->number)
        *at = shared->next;
    sched_event_close(node->schedule, shared->event);
    free(shared);
}

int32_t event_new(struct client *client, bool interprocess, struct sim_reply *reply)
{
    struct node *node = client->node;
    struct node_event *shared = calloc(1, sizeof *shared);
    if (!shared || !(shared->event = sched_event_new(node->schedule, shared))) {
        free(shared);
        return -ENOMEM;
    }
    if (interprocess) {
        shared->number = ++node->event_numbers;
        shared->next = node->events;
        node->events = shared;
    }
    int32_t error = open_slot(client, shared, reply);
    if (error)
        forget(node, shared);
    return error;
}

int32_t event_open(struct client *client, uint64_t number, struct sim_reply *reply)
{
    struct node_event *shared = client->node->events;
    while (shared && shared->number != number)
        shared = shared->next;
    return shared ? open_slot(client, shared, reply) : -ENOENT;
}

int32_t event_taken(const struct client *client, uint32_t id)
{
    return id < SIM_MAX_EVENTS && client->events[id] ? 0 : -EINVAL;     /* the rings have been read before any request is */
}

int32_t event_end(struct client *client, uint32_t id)
{
    if (id >= SIM_MAX_EVENTS || !client->events[id])
        return -EINVAL;
    struct device_event *event = client->events[id];
    struct node_event *shared = event->shared;
    struct device_event **at = &shared->openers;
    while (*at != event)
        at = &(*at)->next;
    *at = event->next;
    client->events[id] = NULL;
    free(event);
    if (!shared->openers)
        forget(client->node, shared);
    return 0;
}
