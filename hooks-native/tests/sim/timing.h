/* timing.h: what the tests of the schedule share: a device of round numbers, kernels whose times can be worked out by hand, and what
 * became of each. Model times in microseconds. */
#ifndef GPUD_TESTS_SIM_TIMING_H
#define GPUD_TESTS_SIM_TIMING_H

#include "check.h"
#include "schedule.h"

#define US 1000ull
#define MAX 512

/* A device on which everything is a round number: 10 SMs of 4 blocks, slices of 2 ms, a switch 0.5 ms, waves of 100 µs. */
static const struct sched_profile easy = {
    .sm_count = 10, .blocks_per_sm = 4, .threads_per_sm = 2048, .shared_per_sm = 100000, .slice_ns = 2000 * US,
    .switch_ns = 500 * US, .launch_ns = 5 * US, .block_ns = 100 * US, .copy_latency_ns = 10 * US,
    .h2d_bytes_per_us = 1000, .d2h_bytes_per_us = 500, .memory_bytes_per_us = 10000,
};

struct seen { uint64_t start, end, run, overrun; uint32_t pieces, kept; bool done, dropped; struct sched_piece first, second, last; };

static struct schedule *s;
static struct seen seen[MAX];           /* by ticket */
static uint64_t recorded[MAX];          /* model time + 1, by ticket of the record */
static bool uncomputed[MAX], was_held[MAX];
static uint64_t tickets;
static int gone;
static const struct sched_profile *second_device;           /* NULL: the same as the first */
static bool timed_calls;                /* host functions take 7 us; else until they are looked at */
static struct { uint32_t device, from, to; uint64_t start, end; } switches[MAX];
static int switch_count;

static inline bool computed(void *arg, void *queue, uint64_t ticket) { (void)arg; (void)queue; return !uncomputed[ticket]; }
static inline void held(void *arg, void *queue, uint64_t ticket) { (void)arg; (void)queue; was_held[ticket] = true; }
static inline void done(void *arg, void *queue, uint64_t ticket, uint64_t ns)
{
    (void)arg; (void)queue;
    seen[ticket].done = true;
    if (!seen[ticket].end)
        seen[ticket].end = ns;
}
static inline void on_record(void *arg, void *event, uint64_t ticket, uint64_t ns) { (void)arg; (void)event; recorded[ticket] = ns + 1; }
static inline void finished(void *arg, const struct sched_report *r)
{
    (void)arg;
    struct seen *one = &seen[r->work->ticket];
    *one = (struct seen){ .start = r->start_ns, .end = r->end_ns, .run = r->run_ns, .overrun = r->overrun_ns, .pieces = r->piece_count,
                          .dropped = r->dropped };
    if (r->piece_kept)
        one->first = r->pieces[0];
    if (r->piece_kept > 1) {
        one->second = r->pieces[1];
        one->last = r->pieces[r->piece_kept - 1];
    }
    one->kept = r->piece_kept;
}
static inline uint64_t took(void *arg, void *queue, uint64_t ticket) { (void)arg; (void)queue; (void)ticket; return 7 * US; }
static inline void switched(void *arg, uint32_t device, uint32_t from, uint32_t to, uint64_t start, uint64_t finish)
{
    (void)arg;
    if (switch_count < MAX) {
        switches[switch_count].device = device;
        switches[switch_count].from = from;
        switches[switch_count].to = to;
        switches[switch_count].start = start;
        switches[switch_count].end = finish;
    }
    switch_count++;
}
static inline void queue_gone(void *arg, void *queue) { (void)arg; (void)queue; gone++; }

static inline void begin(const struct sched_profile *profile)
{
    struct sched_profile profiles[2] = { *profile, second_device ? *second_device : *profile };
    struct sched_hooks hooks = { .computed = computed, .held = held, .done = done, .recorded = on_record, .finished = finished,
                                 .queue_gone = queue_gone, .took = timed_calls ? took : NULL, .switched = switched };
    for (int i = 0; i < MAX; i++) {
        seen[i] = (struct seen){ .start = 0 };
        recorded[i] = uncomputed[i] = was_held[i] = 0;
    }
    tickets = 0;
    gone = switch_count = 0;
    s = sched_new(profiles, 2, &hooks);
    CHECK(s, "no schedule");
}

static inline void end(void)
{
    sched_free(s);
    s = NULL;
}

static inline uint64_t put(struct sched_queue *queue, uint64_t at_us, struct sched_work work)
{
    work.ticket = ++tickets;
    work.submit_ns = at_us * US;
    CHECK(sched_submit(s, queue, &work), "not taken");
    return work.ticket;
}

/* A kernel of `us` that fills the device with one wave of blocks. */
static inline uint64_t kernel(struct sched_queue *queue, uint64_t at_us, uint64_t us)
{
    return put(queue, at_us, (struct sched_work){ .kind = SIM_KERNEL, .duration_ns = us * US, .blocks = 40, .threads_per_block = 512 });
}

static inline uint64_t kernel_blocks(struct sched_queue *queue, uint64_t at_us, uint64_t us, uint64_t blocks)
{
    return put(queue, at_us, (struct sched_work){ .kind = SIM_KERNEL, .duration_ns = us * US, .blocks = blocks, .threads_per_block = 512 });
}

static inline void expect(const char *file, int line, uint64_t ticket, uint64_t start_us, uint64_t end_us)
{
    if (seen[ticket].start != start_us * US || seen[ticket].end != end_us * US) {
        fprintf(stderr, "%s:%d: command %llu ran from %.3f to %.3f us, expected %llu to %llu\n", file, line,
                (unsigned long long)ticket, (double)seen[ticket].start / 1e3, (double)seen[ticket].end / 1e3,
                (unsigned long long)start_us, (unsigned long long)end_us);
        exit(1);
    }
}
#define EXPECT(ticket, start, finish) expect(__FILE__, __LINE__, ticket, start, finish)

static inline struct sched_context *context(void) { return sched_context_new(s, 0, NULL); }
static inline struct sched_queue *queue_of(struct sched_context *c) { return sched_queue_new(s, c, 0, NULL); }
static inline struct sched_queue *fresh(void) { return queue_of(context()); }

#endif
