/* faults.c: the device process's part of faults on demand: uses counted over all processes of the node, devices that fall off the
 * bus, contexts that a fault has ended. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>

#include "device.h"
#include "log.h"

bool device_lost(const struct node *node, uint32_t device)
{
    return device < node->device_count && atomic_load_explicit(&node->page->lost, memory_order_relaxed) >> device & 1;
}

int32_t context_stop(struct client *client, uint32_t id)
{
    struct node *node = client->node;
    if (id >= SIM_MAX_CONTEXTS || !client->contexts[id].context)
        return -EINVAL;
    uint64_t now = pace_catch_up(node);     /* what is due is told; the rest is not */
    for (uint32_t i = 0; i < SIM_MAX_QUEUES; i++) {
        struct device_queue *queue = client->queues[i];
        if (!queue || queue->context != id || queue->stopped)
            continue;
        queue->stopped = true;
        client->outstanding -= sched_queue_stop(node->schedule, queue->queue, now);    /* if it was closed, it is gone now */
        ring_queue_reset(client, i, true);
    }
    return 0;
}

static int32_t lose(struct client *by, uint32_t device)
{
    struct node *node = by->node;
    if (device >= node->device_count)
        return -ENODEV;
    uint32_t parent = node->page->devices[device].parent;
    for (uint32_t unit = 0; unit < node->device_count; unit++) {    /* all MIG instances of it */
        if (node->page->devices[unit].parent != parent || device_lost(node, unit))
            continue;
        atomic_fetch_or_explicit(&node->page->lost, 1u << unit, memory_order_release);
        log_lost(node, by, unit);
        for (struct client *client = node->clients; client; client = client->next)
            for (uint32_t i = 0; i < SIM_MAX_CONTEXTS; i++)
                if (client->contexts[i].context && client->contexts[i].device == unit)
                    context_stop(client, i);
    }
    return 0;
}

int32_t fault_request(struct client *client, struct sim_request *request, struct sim_reply *reply)
{
    struct node *node = client->node;
    switch (request->type) {
    case SIM_FAULT_USE:
        if (request->id >= DEVICE_FAULT_RULES)
            return -EINVAL;
        reply->a = (int64_t)++node->fault_uses[request->id];
        return 0;
    case SIM_FAULT_HAPPENED: {
        uint32_t n = request->text_bytes < SIM_TEXT ? request->text_bytes : SIM_TEXT - 1;
        request->text[n] = 0;
        size_t call = strlen(request->text);
        log_fault(node, client, request->text, call < n ? request->text + call + 1 : "");
        return 0;
    }
    case SIM_LOSE:
        return lose(client, request->device);
    default:
        return context_stop(client, request->id);
    }
}
