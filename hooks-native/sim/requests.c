/* requests.c: what an attached client may ask for, and giving back all that it had. */
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"

static int32_t name_new(struct client *client, struct sim_request *request, struct sim_reply *reply)
{
    if (request->text_bytes >= SIM_TEXT || client->name_count == SIM_MAX_NAMES)
        return client->name_count == SIM_MAX_NAMES ? -ENOSPC : -EINVAL;
    request->text[request->text_bytes] = 0;
    if (client->name_count == client->name_room) {
        uint32_t room = client->name_room ? client->name_room * 2 : 64;
        uint32_t *names = realloc(client->names, room * sizeof *names);
        if (!names)
            return -ENOMEM;
        client->names = names;
        client->name_room = room;
    }
    int64_t index = node_name(client->node, request->text);
    if (index < 0)
        return -ENOMEM;
    client->names[client->name_count++] = (uint32_t)index;
    reply->id = client->name_count;
    return 0;
}

uint32_t client_free_slot(const void *table, uint32_t count, uint32_t from)
{
    const void *const none = NULL;
    for (uint32_t i = 0; i < count - 1; i++) {
        uint32_t slot = 1 + (from + i) % (count - 1);
        if (!memcmp((const char *)table + slot * sizeof none, &none, sizeof none))
            return slot;
    }
    return 0;
}

static int32_t context_new(struct client *client, uint32_t device, struct sim_reply *reply)
{
    struct node *node = client->node;
    uint32_t id = 1;
    while (id < SIM_MAX_CONTEXTS && client->contexts[id].context)
        id++;
    if (id == SIM_MAX_CONTEXTS)
        return -ENOSPC;
    int error = memory_charge(&node->memory[device], node->profile->info.context_bytes);
    if (error)
        return error;
    client->contexts[id].device = device;
    client->contexts[id].context = sched_context_new(node->schedule, device, client);
    if (!client->contexts[id].context) {
        memory_uncharge(&node->memory[device], node->profile->info.context_bytes);
        return -ENOMEM;
    }
    client->context_count++;
    pace_count(node);
    reply->id = id;
    return 0;
}

void requests_queue_free(struct device_queue *queue)
{
    queue->client->queues[queue->id] = NULL;
    free(queue);
}

static int32_t context_end(struct client *client, uint32_t id)
{
    struct node *node = client->node;
    if (id >= SIM_MAX_CONTEXTS || !client->contexts[id].context)
        return -EINVAL;
    struct sched_context *context = client->contexts[id].context;
    uint64_t now = pace_catch_up(node);     /* what is due is told; the rest is not */
    client->outstanding -= sched_context_drop(node->schedule, context, now);
    for (uint32_t i = 0; i < SIM_MAX_QUEUES; i++)
        if (client->queues[i] && client->queues[i]->context == id) {
            ring_queue_reset(client, i, true);
            requests_queue_free(client->queues[i]);
        }
    client->contexts[id].context = NULL;
    client->context_count--;
    pace_count(node);
    memory_uncharge(&node->memory[client->contexts[id].device], node->profile->info.context_bytes);
    return 0;
}

static int32_t queue_new(struct client *client, uint32_t context, int priority, struct sim_reply *reply)
{
    if (context >= SIM_MAX_CONTEXTS || !client->contexts[context].context)
        return -EINVAL;
    uint32_t id = client_free_slot(client->queues, SIM_MAX_QUEUES, client->next_queue);
    struct device_queue *queue = id ? calloc(1, sizeof *queue) : NULL;
    if (!queue)
        return id ? -ENOMEM : -ENOSPC;
    *queue = (struct device_queue){ .client = client, .id = id, .number = ++client->node->queue_numbers, .context = context };
    queue->queue = sched_queue_new(client->node->schedule, client->contexts[context].context, priority, queue);
    if (!queue->queue) {
        free(queue);
        return -ENOMEM;
    }
    client->queues[id] = queue;
    client->next_queue = id;
    ring_queue_reset(client, id, false);
    reply->id = id;
    return 0;
}

static int32_t queue_end(struct client *client, uint32_t id)
{
    if (id >= SIM_MAX_QUEUES || !client->queues[id] || client->queues[id]->closed)
        return -EINVAL;
    client->queues[id]->closed = true;
    sched_queue_close(client->node->schedule, client->queues[id]->queue);
    return 0;
}

static int32_t on_device(struct client *client, const struct sim_request *request, struct sim_reply *reply)
{
    struct node *node = client->node;
    uint32_t device = request->device;
    struct memory *memory = &node->memory[device];
    switch (request->type) {
    case SIM_ALLOC: {
        uint64_t offset = 0;
        int error = memory_alloc(memory, client, (uint64_t)request->a, (uint64_t)request->b, &offset);
        reply->a = (int64_t)offset;
        return error;
    }
    case SIM_FREE:
        return memory_free(memory, client, (uint64_t)request->a);
    case SIM_INFO:
        reply->a = (int64_t)memory_available(memory);
        reply->b = (int64_t)memory->total;
        return 0;
    case SIM_CONTEXT_NEW:
        return context_new(client, device, reply);
    case SIM_EVENT_NEW:
        return event_new(client, request->a != 0, reply);
    case SIM_RANGE: {
        const struct memory_range *range = memory_range_at(memory, (uint64_t)request->a);
        reply->a = range ? (int64_t)range->id : 0;
        reply->b = range ? (int64_t)range->bytes : 0;
        return range ? 0 : -ENOENT;
    }
    case SIM_HOLD: {
        int error = memory_hold(memory, client, (uint64_t)request->a, (uint64_t)request->b);
        reply->b = error ? 0 : (int64_t)memory_range_at(memory, (uint64_t)request->a)->bytes;
        return error;
    }
    case SIM_EXPORT:
        return export_new(client, request, reply);
    default:
        return monitor_request(node, request, reply);
    }
}

void request_handle(struct client *client, struct sim_request *request, struct sim_reply *reply)
{
    switch (request->type) {
    case SIM_ALLOC:
    case SIM_FREE:
    case SIM_INFO:
    case SIM_CONTEXT_NEW:
    case SIM_EVENT_NEW:
    case SIM_PROCESSES:
    case SIM_UTILISATION:
    case SIM_USAGE:
    case SIM_RANGE:
    case SIM_HOLD:
    case SIM_EXPORT:
        reply->result = -ENODEV;        /* what a lost device had may still be given back */
        if (request->device < client->node->device_count && (request->type == SIM_FREE || !device_lost(client->node, request->device)))
            reply->result = on_device(client, request, reply);
        break;
    case SIM_CONTEXT_END:
        reply->result = context_end(client, request->id);
        break;
    case SIM_QUEUE_NEW:
        reply->result = queue_new(client, request->id, (int)request->a, reply);
        break;
    case SIM_QUEUE_END:
        reply->result = queue_end(client, request->id);
        break;
    case SIM_EVENT_END:
        reply->result = event_end(client, request->id);
        break;
    case SIM_EVENT_OPEN:
        reply->result = event_open(client, (uint64_t)request->a, reply);
        break;
    case SIM_EVENT_TAKEN:
        reply->result = event_taken(client, request->id);
        break;
    case SIM_IMPORT:
        reply->result = export_open(client, request, reply);
        break;
    case SIM_FAULT_USE:
    case SIM_FAULT_HAPPENED:
    case SIM_LOSE:
    case SIM_CONTEXT_STOP:
        reply->result = fault_request(client, request, reply);
        break;
    case SIM_NAME_NEW:
        reply->result = name_new(client, request, reply);
        break;
    default:
        client_doom(client, "request of unknown type %u", request->type);
    }
}

void requests_release(struct client *client)
{
    for (uint32_t i = 0; i < SIM_MAX_CONTEXTS; i++)
        if (client->contexts[i].context)
            context_end(client, i);
    for (uint32_t i = 0; i < SIM_MAX_EVENTS; i++)
        if (client->events[i])
            event_end(client, i);
    for (uint32_t i = 0; i < client->node->device_count; i++)
        memory_free_all(&client->node->memory[i], client);
}
