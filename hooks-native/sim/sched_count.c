/* sched_count.c: counters of a device, reports of what has run, and where commands' times came from. */
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
