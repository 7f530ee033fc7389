/* sched_size.c: how large a kernel, memset or copy within the device is: the SMs it can fill, and its work. */
#include "sched_state.h"

/* How many blocks of this kernel fit on one SM; at least 1. */
static uint64_t blocks_per_sm(const struct sched_profile *p, const struct sched_work *w)
{
    uint64_t fit = p->blocks_per_sm;
    uint64_t threads = (w->threads_per_block + 31ull) / 32 * 32;
    if (threads && p->threads_per_sm / threads < fit)
        fit = p->threads_per_sm / threads;
    if (w->shared_bytes && p->shared_per_sm / w->shared_bytes < fit)
        fit = p->shared_per_sm / w->shared_bytes;
    return fit ? fit : 1;
}

void sched_size(struct sched_command *c)
{
    const struct sched_profile *p = &c->queue->context->device->profile;
    uint64_t duration, waves = 1;
    uint32_t given = 0;                 /* SMs that it has when it takes `duration` */
    c->need = p->sm_count;
    if (c->work.kind == SIM_KERNEL) {
        uint64_t fit = blocks_per_sm(p, &c->work), blocks = c->work.blocks ? c->work.blocks : 1;
        uint64_t sms = blocks / fit + (blocks % fit != 0);
        uint32_t whole = p->whole_sm_count ? p->whole_sm_count : p->sm_count;
        c->need = sms < p->sm_count ? (uint32_t)sms : p->sm_count;
        given = sms < whole ? (uint32_t)sms : whole;
        waves = blocks / (fit * p->sm_count) + (blocks % (fit * p->sm_count) != 0);
        duration = c->work.duration_ns;
        if (!duration)
            given = c->need;
        if (!duration)
            duration = waves > SCHED_NEVER / 1024 / p->block_ns ? SCHED_NEVER / 1024 : waves * p->block_ns;
    } else {
        uint64_t bytes = c->work.kind == SIM_COPY_D2D ? c->work.bytes * 2 : c->work.bytes;
        duration = p->copy_latency_ns + bytes / p->memory_bytes_per_us * 1000
                   + bytes % p->memory_bytes_per_us * 1000 / p->memory_bytes_per_us;
    }
    if (duration > SCHED_NEVER / 4096)
        duration = SCHED_NEVER / 4096;
    duration = duration ? duration : 1;
    c->total = c->left = duration * (given ? given : c->need);
    c->wave = c->total / waves ? c->total / waves : 1;
}
