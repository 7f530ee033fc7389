/* sched_load.c: how busy a device was in the last model second, and how much of it each context had: what monitors say. */
#include "sched_state.h"

#define SECOND_NS 1000000000ull

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

/* Of the second before `now`. The oldest tenth counts by the part of it that lies in that second. `only`: what this context has on the
 * device now; NULL: what any has. */
static void utilisation(const struct sched_device *device, const struct sched_load *load, const struct sched_context *only, uint64_t now,
                        uint32_t *gpu, uint32_t *memory)
{
    uint64_t busy = 0, moved = 0, from = now > SECOND_NS ? now - SECOND_NS : 0;
    for (uint32_t i = 0; i < SCHED_BUCKETS; i++) {
        uint64_t start = load->id[i] * SCHED_BUCKET_NS, end = start + SCHED_BUCKET_NS;
        uint64_t part = end <= from || start > now ? 0 : start >= from ? SCHED_BUCKET_NS : end - from;
        busy += load->busy[i] * part / SCHED_BUCKET_NS;
        moved += load->memory[i] * part / SCHED_BUCKET_NS;
    }
    /* What is on the device now has been accounted for only up to `at`. */
    uint64_t start = device->at > device->usable_from ? device->at : device->usable_from;
    start = start > from ? start : from;
    bool runs = false, moves = false;
    for (const struct sched_command *c = device->holder && now > start ? device->holder->running : NULL; c; c = c->peer)
        if (!only || c->queue->context == only) {
            runs = true;
            moves = moves || c->work.kind != SIM_KERNEL;
        }
    busy += runs ? now - start : 0;
    moved += moves ? now - start : 0;
    *gpu = percent(busy, now - from ? now - from : 1);
    *memory = percent(moved, now - from ? now - from : 1);
}

void sched_utilisation(const struct schedule *s, uint32_t index, uint64_t now, uint32_t *gpu, uint32_t *memory)
{
    utilisation(&s->devices[index], &s->devices[index].load, NULL, now, gpu, memory);
}

void sched_context_utilisation(const struct sched_context *context, uint64_t now, uint32_t *gpu, uint32_t *memory)
{
    utilisation(context->device, &context->load, context, now, gpu, memory);
}
