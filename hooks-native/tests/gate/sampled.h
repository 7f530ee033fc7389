/* sampled.h: launches that are charged and sampled as the gate does it, on the fake driver, without a gate. */
#ifndef GPUD_TEST_SAMPLED_H
#define GPUD_TEST_SAMPLED_H

#include "cost.h"
#include "fake.h"
#include "sample.h"

#define SAMPLED_DRAW_NS (2 * GPUD_MILLISECOND)    /* charged at most until the next look */

/* What one thread has launched: what it was charged, and what the device took for it. */
struct sampled {
    uint64_t charged_ns, real_ns;
    uint64_t launches;
    uint32_t since, credit;
    uint64_t drawn_ns, settled_ns;
    CUstream stream;
};

/* The calling thread must be bound: fake_context() and gpud_bind(). */
static inline void sampled_launch(struct sampled *of, CUstream stream, const void *function, uint64_t blocks, uint64_t duration_ns)
{
    struct gpud_slot *slot = gpud_thread.slots[0];
    uint32_t cost = gpud_cost_quick(function, blocks);
    struct gpud_sample sample = { 0 };
    bool slow = cost == 0 || of->credit == 0 || of->charged_ns >= of->drawn_ns || stream != of->stream, young = false;

    if (slow) {
        gpud_sample_read(0, gpud_now());
        uint32_t left = gpud_sample_countdown(0, of->since);
        of->since = 0;
        cost = gpud_cost_now(0, function, blocks, &young);
        if (left == 0 || young)
            gpud_sample_begin(&sample, 0, stream, function, blocks, of->charged_ns);
    } else {
        of->credit--;
        of->since++;
    }
    gpud_bump(&slot->entered);
    fake_kernel(stream, 0, duration_ns);
    of->charged_ns += cost;
    of->real_ns += duration_ns;
    of->launches++;
    of->stream = stream;
    gpud_sample_end(&sample, stream, CUDA_SUCCESS);
    gpud_bump(&slot->left);
    if (slow) {
        of->credit = gpud_sample_countdown(0, 1);
        of->drawn_ns = of->charged_ns + SAMPLED_DRAW_NS;
    }
}

static inline struct sampled sampled_begin(void)
{
    return (struct sampled){ .settled_ns = gpud_load(&gpud_presence()->device[0].spent_ns) };
}

/* Charged ÷ taken, of all launches, with what was set right afterwards. */
static inline double sampled_ratio(const struct sampled *of)
{
    uint64_t settled = gpud_load(&gpud_presence()->device[0].spent_ns) - of->settled_ns;
    return (double)(int64_t)(of->charged_ns + settled) / (double)of->real_ns;
}

/* … of the launches since then. */
static inline double sampled_ratio_since(const struct sampled *of, const struct sampled *then, uint64_t settled_then)
{
    uint64_t settled = gpud_load(&gpud_presence()->device[0].spent_ns) - settled_then;
    return (double)(int64_t)(of->charged_ns - then->charged_ns + settled) / (double)(of->real_ns - then->real_ns);
}

/* Waits until the stream is finished, and reads samples meanwhile, as the keeper does. */
static inline void sampled_wait(CUstream stream)
{
    while (fake_ready(stream) > gpud_now()) {
        struct timespec nap = { .tv_nsec = 200000 };
        nanosleep(&nap, NULL);
        gpud_sample_read(0, gpud_now());
    }
}

static inline void sampled_bind(void)
{
    fake_context(0);
    gpud_bind(&gpud_thread);
}

#endif
