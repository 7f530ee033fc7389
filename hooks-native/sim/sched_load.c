/* sched_load.c: how much of a device each context had, in the last model second: what monitors say of processes. */
#include "sched_state.h"

/* Adds [from, to): it computed, or (`memory`) bytes were moved or set for it. */
void sched_load_add(struct sched_load *load, uint64_t from, uint64_t to, bool busy, bool memory)
{
    uint64_t oldest = to > SCHED_BUCKETS * SCHED_BUCKET_NS ? to - SCHED_BUCKETS * SCHED_BUCKET_NS : 0;
    for (uint64_t at = from > oldest ? from : oldest; at < to;) {
        uint64_t id = at / SCHED_BUCKET_NS, end = (id + 1) * SCHED_BUCKET_NS;
        uint32_t slot = id % SCHED_BUCKETS;
        end = end < to ? end : to;
        if (load->id[slot] != id) {
            load->id[slot] = id;
            load->busy[slot] = load->memory[slot] = 0;
        }
        load->busy[slot] += busy ? end - at : 0;
        load->memory[slot] += memory ? end - at : 0;
        at = end;
    }
}

static uint32_t percent(uint64_t part, uint64_t whole)
{
    return part >= whole ? 100 : (uint32_t)(part * 100 / whole);
}

void sched_context_utilisation(const struct sched_context *context, uint64_t now, uint32_t *gpu, uint32_t *memory)
{
    const struct sched_device *device = context->device;
    uint64_t busy = 0, moved = 0, from = now > 1000000000ull ? now - 1000000000ull : 0;
    for (uint32_t i = 0; i < SCHED_BUCKETS; i++) {
        uint64_t start = context->load.id[i] * SCHED_BUCKET_NS;
        if (start >= from && start <= now) {
            busy += context->load.busy[i];
            moved += context->load.memory[i];
        }
    }
    /* What is on the device now has been accounted for only up to `at`. */
    for (const struct sched_command *c = device->holder ? device->holder->running : NULL; c; c = c->peer) {
        if (c->queue->context != context || now <= device->at)
            continue;
        uint64_t start = device->at > device->usable_from ? device->at : device->usable_from;
        start = start > from ? start : from;
        busy += now > start ? now - start : 0;
        moved += now > start && c->work.kind != SIM_KERNEL ? now - start : 0;
        break;
    }
    *gpu = percent(busy, now - from ? now - from : 1);
    *memory = percent(moved, now - from ? now - from : 1);
}
