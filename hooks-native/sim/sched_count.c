/* sched_count.c: counters of a device, reports of what has run, busy time in the last second, and where commands' times came from. */
#include "sched_state.h"

void sched_report(struct schedule *s, struct sched_command *c, bool dropped)
{
    struct sched_device *device = c->queue->context->device;
    struct sched_report r = {
        .work = &c->work, .queue_user = c->queue->user, .context_user = c->queue->context->user, .device = device->index,
        .context = c->queue->context->number, .start_ns = c->start_ns, .end_ns = s->now, .run_ns = c->run_ns,
        .piece_count = c->piece_count, .piece_kept = c->piece_kept, .pieces = c->pieces, .dropped = dropped,
    };
    if (c->state == SCHED_HELD) {
        r.overrun_ns = (s->told > s->now ? s->told : s->now) - c->due_ns;
        device->counters.shifted_ns += s->now - c->due_ns;
    }
    bool copy = sched_is_copy(c->work.kind);
    *(copy ? &device->counters.copy_overrun_ns : &device->counters.overrun_ns) += r.overrun_ns;
    *(copy ? &device->counters.copy_overruns : &device->counters.overruns) += r.overrun_ns > 0;
    *(copy ? &device->counters.copies : &device->counters.kernels) += 1;
    s->hooks.finished(s->hooks.arg, &r);
}

/* Counts where the command's time came from, and whether it could be kept: it starts no earlier than now. */
void sched_note_time(const struct sched_command *c, bool idle)
{
    const struct schedule *s = c->queue->context->device->schedule;
    struct sched_counters *counters = &c->queue->context->device->counters;
    uint64_t earliest = c->earliest > c->queue->dry_ns ? c->earliest : c->queue->dry_ns;
    counters->host_timed += !c->work.exact;
    if (c->work.exact && idle && earliest < s->now) {
        counters->moved++;
        counters->moved_ns += s->now - earliest;
    }
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
