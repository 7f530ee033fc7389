/* monitor.c: what monitors ask about a device: how busy it is, and which programs are on it. */
#include <string.h>

#include "device.h"

static uint64_t used_by(const struct client *client, uint32_t device)
{
    uint64_t used = memory_held(&client->node->memory[device], client);
    for (uint32_t i = 0; i < SIM_MAX_CONTEXTS; i++)
        if (client->contexts[i].context && client->contexts[i].device == device)
            used += client->node->profile->info.context_bytes;
    return used;
}

/* What the contexts of a client had of the device in the last second. */
static void load_of(const struct client *client, uint32_t device, uint64_t now, struct sim_process *process)
{
    for (uint32_t i = 0; i < SIM_MAX_CONTEXTS; i++) {
        uint32_t gpu, moved;
        if (!client->contexts[i].context || client->contexts[i].device != device)
            continue;
        sched_context_utilisation(client->contexts[i].context, now, &gpu, &moved);
        process->gpu_percent = process->gpu_percent + gpu < 100 ? process->gpu_percent + gpu : 100;
        process->memory_percent = process->memory_percent + moved < 100 ? process->memory_percent + moved : 100;
    }
}

/* Processes that have a context or memory on the device; the links of one process count together. */
static void processes(const struct node *node, uint32_t device, uint64_t now, struct sim_reply *reply)
{
    uint32_t count = 0, room = SIM_TEXT / sizeof(struct sim_process);
    struct sim_process *list = (struct sim_process *)(void *)reply->text;
    for (const struct client *client = node->clients; client; client = client->next) {
        uint64_t used = client->attached && !client->doomed ? used_by(client, device) : 0;
        uint32_t i = 0;
        if (!used)
            continue;
        while (i < count && i < room && list[i].pid != (uint32_t)client->pid)
            i++;
        if (i == room)
            continue;
        if (i == count)
            list[count++] = (struct sim_process){ .pid = (uint32_t)client->pid };
        list[i].used_bytes += used;
        load_of(client, device, now, &list[i]);
    }
    reply->id = count;
    reply->text_bytes = (uint32_t)(reply->id * sizeof *list);
}

int32_t monitor_request(struct node *node, const struct sim_request *request, struct sim_reply *reply)
{
    uint64_t now = pace_catch_up(node);
    if (request->type == SIM_PROCESSES) {
        processes(node, request->device, now, reply);
    } else if (request->type == SIM_USAGE) {
        struct sched_counters counters = sched_counters(node->schedule, request->device);
        struct sim_usage usage = { now, counters.busy_ns, counters.copy_busy_ns };
        memcpy(reply->text, &usage, sizeof usage);
        reply->text_bytes = sizeof usage;
    } else {
        uint32_t gpu, moved;
        sched_utilisation(node->schedule, request->device, now, &gpu, &moved);
        reply->a = gpu;
        reply->b = moved;
    }
    return 0;
}
