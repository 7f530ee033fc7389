/* test_sample_life.c: samples under way when captures are open, the driver answers errors, and streams, contexts, functions and processes end. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include "clock.h"
#include "sample_state.h"
#include "sampled.h"

#define US GPUD_MICROSECOND
#define MS GPUD_MILLISECOND

static uint32_t next_function;
static struct gpud_sampler *const sampler = &gpud_samplers[0];

static const void *function(void)
{
    return (const void *)(uintptr_t)(0x560000000000 + 64 * (uintptr_t)++next_function);
}

static uint32_t in_state(enum gpud_pending_state state)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < GPUD_SAMPLE_POOL; i++)
        count += gpud_load(&sampler->pending[i].state) == state;
    return count;
}

static struct gpud_activity_device *activity(void)
{
    return &gpud_activity()->device[0];
}

static void fresh(void)
{
    gpud_sample_context_gone(0, NULL);
    *sampler = (struct gpud_sampler){ .left = 1000 };
}

static void captures(void)
{
    CUstream stream = fake_stream(), captured = fake_stream();
    struct sampled all = sampled_begin();
    const void *f = function();

    fresh();
    for (int i = 0; i < 4; i++)
        sampled_launch(&all, stream, f, 64, 100 * US);
    CHECK(in_state(GPUD_PENDING_WAITING) == 4, "4 under way");
    fake_begin_capture(captured);
    uint32_t calls = fake_event_calls;
    fake_wait_quietly(stream);
    for (int i = 0; i < 20; i++)
        sampled_launch(&all, stream, f, 64, 10 * US);
    gpud_sample_read(0, gpud_now() + GPUD_SECOND);
    gpud_sample_keep(0, gpud_now() + GPUD_SECOND);
    CHECK(fake_event_calls == calls, "nothing is asked while a capture is open: %u calls", fake_event_calls - calls);
    CHECK(in_state(GPUD_PENDING_WAITING) == 4, "nor begun");
    fake_end_capture(captured);
    gpud_sample_read(0, gpud_now() + GPUD_SECOND);
    CHECK(in_state(GPUD_PENDING_WAITING) == 0, "read after it");
    /* One that begins between the two events. */
    struct gpud_sample sample = { 0 };
    CHECK(gpud_sample_begin(&sample, 0, stream, f, 64, 0), "begun");
    fake_begin_capture(stream);
    gpud_sample_end(&sample, stream, CUDA_SUCCESS);
    fake_end_capture(stream);
    CHECK(in_state(GPUD_PENDING_FREE) == GPUD_SAMPLE_POOL, "given up");
}

static void failures(void)
{
    CUstream stream = fake_stream();
    struct sampled all = sampled_begin();
    struct gpud_sample sample = { 0 };
    uint64_t errors = gpud_activity()->errors;

    fresh();
    fake_fail_create = CUDA_ERROR_OUT_OF_MEMORY;
    for (int i = 0; i < 100; i++)
        sampled_launch(&all, stream, function(), 64, US);
    CHECK(gpud_activity()->errors == errors + 1, "no event to be had: tried once, then not for a second");
    fake_fail_create = 0;
    gpud_store(&sampler->quiet_until_ns, 0);
    fake_fail_record = CUDA_ERROR_ILLEGAL_ADDRESS;
    sampled_launch(&all, stream, function(), 64, US);
    CHECK(in_state(GPUD_PENDING_FREE) == GPUD_SAMPLE_POOL && gpud_activity()->errors == errors + 2, "the first event cannot be recorded");
    fake_fail_record = 0;
    gpud_store(&sampler->quiet_until_ns, 0);
    CHECK(gpud_sample_begin(&sample, 0, stream, function(), 64, 0), "begun");
    fake_fail_record = CUDA_ERROR_ILLEGAL_ADDRESS;
    gpud_sample_end(&sample, stream, CUDA_SUCCESS);
    CHECK(in_state(GPUD_PENDING_FREE) == GPUD_SAMPLE_POOL && gpud_activity()->errors == errors + 3, "nor the second");
    fake_fail_record = 0;
    gpud_store(&sampler->quiet_until_ns, 0);
    CHECK(gpud_sample_begin(&sample, 0, stream, function(), 64, 0), "begun");
    gpud_sample_end(&sample, stream, CUDA_ERROR_INVALID_VALUE);
    CHECK(in_state(GPUD_PENDING_FREE) == GPUD_SAMPLE_POOL && sample.pending == NULL, "a launch that failed is no sample");
    const void *f = function();
    sampled_launch(&all, stream, f, 64, US);
    fake_wait_quietly(stream);
    fake_fail_elapsed = CUDA_ERROR_ILLEGAL_ADDRESS;     /* the device is lost */
    gpud_sample_read(0, gpud_now() + GPUD_SECOND);
    CHECK(in_state(GPUD_PENDING_FREE) == GPUD_SAMPLE_POOL && gpud_activity()->errors == errors + 4, "an error instead of a time");
    CHECK(gpud_cost_quick(f, 64) == 0, "nothing is learned from that");
    fake_fail_elapsed = 0;
    uint32_t calls = fake_event_calls;
    for (int i = 0; i < 50; i++)
        sampled_launch(&all, stream, f, 64, US);
    CHECK(fake_event_calls == calls, "the driver is left alone for a while");
    gpud_store(&sampler->quiet_until_ns, 0);
    fake_fail_elapsed = CUDA_ERROR_DEINITIALIZED;
    sampled_launch(&all, stream, f, 64, US);
    fake_wait_quietly(stream);
    gpud_sample_read(0, gpud_now() + GPUD_SECOND);
    CHECK(gpud_load(&gpud_exiting) == 1, "the driver is gone");
    fake_fail_elapsed = 0;
    gpud_store(&gpud_exiting, 0);
}

static void streams_and_contexts(void)
{
    CUstream stream = fake_stream();
    struct sampled all = sampled_begin();
    struct gpud_sample sample = { 0 };
    const void *f = function();
    CUcontext context = gpud_thread.context;
    uint64_t samples = activity()->samples;

    fresh();
    sampled_launch(&all, stream, f, 64, 200 * US);
    fake_stream_destroy(stream);        /* its work goes on, and its events live */
    struct timespec nap = { .tv_nsec = 500000 };
    nanosleep(&nap, NULL);
    gpud_sample_read(0, gpud_now() + GPUD_SECOND);
    CHECK(activity()->samples == samples + 1, "a destroyed stream's sample is read");

    stream = fake_stream();
    for (int i = 0; i < 3; i++)
        sampled_launch(&all, stream, f, 64, 200 * US);
    CHECK(gpud_sample_begin(&sample, 0, stream, f, 64, 0), "one more is begun");
    gpud_context_going();
    CHECK(!gpud_may_ask(), "nobody asks while a context may be going");
    gpud_context_gone(context, CUDA_SUCCESS);
    CHECK(in_state(GPUD_PENDING_WAITING) == 0 && in_state(GPUD_PENDING_LOST) == 1, "its samples went with it");
    uint32_t violations = fake_violations, calls = fake_event_calls;
    gpud_sample_end(&sample, stream, CUDA_SUCCESS);
    CHECK(in_state(GPUD_PENDING_FREE) == GPUD_SAMPLE_POOL && fake_event_calls == calls, "no event of it is touched any more");
    for (uint32_t i = 0; i < GPUD_SAMPLE_POOL; i++)
        CHECK(sampler->pending[i].begin == NULL && sampler->pending[i].end == NULL, "forgotten");
    fake_wait_quietly(stream);

    /* Two contexts: each thread reads its own, the keeper all. */
    sampled_bind();
    stream = fake_stream();
    sampled_launch(&all, stream, f, 64, 10 * US);
    gpud_thread.context = fake_context(1);
    samples = activity()->samples;
    fake_wait_quietly(stream);
    gpud_sample_read(0, gpud_now() + GPUD_SECOND);
    CHECK(activity()->samples == samples, "another context's is left to others");
    gpud_sample_keep(0, gpud_now() + 2 * GPUD_SECOND);
    CHECK(activity()->samples == samples + 1, "the keeper reads it");
    CHECK(gpud_sample_keep(0, gpud_now() + 2 * GPUD_SECOND) == GPUD_NEVER, "and has no more to do");
    CHECK(fake_violations == violations, "the driver was used wrongly");
    sampled_bind();
}

/* The streams that have no handle of their own. */
static void default_streams(void)
{
    const CUstream streams[] = { NULL, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD };

    for (int i = 0; i < 3; i++) {
        struct sampled all = sampled_begin();
        const void *f = function();
        fresh();
        for (int n = 0; n < 40; n++) {
            sampled_launch(&all, streams[i], f, 64, 70 * US);
            if (n % 4 == 3)
                sampled_wait(streams[i]);
        }
        sampled_wait(streams[i]);
        CHECK(gpud_cost_quick(f, 64) == 70000, "default stream %d: %u", i, gpud_cost_quick(f, 64));
    }
}

/* A kernel that never ends takes one place; the rest goes on. */
static void endless(void)
{
    CUstream stuck = fake_stream(), stream = fake_stream();
    struct sampled all = sampled_begin();
    const void *f = function(), *g = function();

    fresh();
    sampled_launch(&all, stuck, g, 64, FAKE_SPINS);
    for (int i = 0; i < 400; i++) {
        sampled_launch(&all, stream, f, 64, 10 * US);
        if (i % 20 == 19)
            sampled_wait(stream);
    }
    CHECK(gpud_cost_quick(f, 64) != 0, "the other stream's are measured");
    CHECK(in_state(GPUD_PENDING_WAITING) == 1, "one waits: %u", in_state(GPUD_PENDING_WAITING));
    uint32_t calls = fake_event_calls;
    for (uint64_t now = gpud_now(), to = now + 2 * GPUD_SECOND; now < to; now += 100 * US)
        gpud_sample_read(0, now);
    CHECK(fake_event_calls - calls < 120, "asked about less and less: %u times in 2 s", fake_event_calls - calls);
    gpud_sample_read(0, gpud_now() + 11 * GPUD_SECOND);
    CHECK(in_state(GPUD_PENDING_FREE) == GPUD_SAMPLE_POOL, "after 10 s its place is needed");
    fake_release();
}

static void functions_go(void)
{
    CUstream stream = fake_stream();
    struct sampled all = sampled_begin();
    const void *f = function(), *g = function();

    fresh();
    for (int i = 0; i < 12; i++) {
        sampled_launch(&all, stream, f, 64, 50 * US);
        sampled_launch(&all, stream, g, 0, 50 * US);
    }
    gpud_sample_forget(g);
    gpud_cost_forget(g);
    sampled_wait(stream);
    gpud_sample_read(0, gpud_now() + GPUD_SECOND);
    gpud_sample_read(0, gpud_now() + GPUD_SECOND);
    for (int i = 0; i < 10; i++)
        gpud_sample_read(0, gpud_now() + GPUD_SECOND);
    CHECK(gpud_cost_quick(f, 64) == 50000, "the other one is known: %u", gpud_cost_quick(f, 64));
    CHECK(gpud_cost_quick(g, 0) == 0, "what is under way says nothing of a new one at its place");
    bool young;
    sampled_launch(&all, stream, g, 0, 20 * US);
    sampled_wait(stream);
    gpud_sample_read(0, gpud_now() + GPUD_SECOND);
    CHECK(gpud_cost_now(0, g, 0, &young) < 30000 && young, "the new one is measured by itself");
}

/* Charged before it was known, then set right, in the pages that it was charged in. */
static void settled(void)
{
    CUstream stream = fake_stream();
    struct sampled all = sampled_begin();
    const void *f = function();

    fresh();
    for (int i = 0; i < 300; i++)
        sampled_launch(&all, stream, f, 6400, 30 * US);     /* far ahead of the device */
    sampled_wait(stream);
    CHECK(gpud_load(&gpud_presence()->device[0].spent_ns) != all.settled_ns, "something was charged by guess");
    CHECK(sampled_ratio(&all) > 0.99 && sampled_ratio(&all) < 1.01, "set right: %.3f", sampled_ratio(&all));
    const void *g = function();
    for (int i = 0; i < 20; i++)
        sampled_launch(&all, stream, g, 64000, 30 * US);
    gpud_add_total(&gpud_attachment, 1);
    gpud_store(&gpud_presence()->device[0].spent_ns, 5);
    sampled_wait(stream);
    CHECK(gpud_load(&gpud_presence()->device[0].spent_ns) == 5, "new pages know nothing of that");
    gpud_bind_forget();
    local_attach(1);
    sampled_bind();
}

static void children(void)
{
    CUstream stream = fake_stream();
    struct sampled all = sampled_begin();
    const void *f = function();
    int status = -1;

    fresh();
    for (int i = 0; i < 5; i++)
        sampled_launch(&all, stream, f, 64, 50 * US);
    pid_t child = fork();
    if (child == 0) {
        bool none = in_state(GPUD_PENDING_FREE) == GPUD_SAMPLE_POOL && sampler->pending[0].begin == NULL;
        local_attach(1);    /* its first CUDA call */
        sampled_bind();
        for (int i = 0; i < 40; i++) {
            sampled_launch(&all, stream, f, 64, 50 * US);
            if (i % 4 == 3)
                sampled_wait(stream);
        }
        if (!none || gpud_cost_quick(f, 64) == 0)
            fprintf(stderr, "in the child: %d, %u ns, %llu samples\n", none, gpud_cost_quick(f, 64), (unsigned long long)activity()->samples);
        _exit(none && gpud_cost_quick(f, 64) != 0 ? 0 : 1);
    }
    waitpid(child, &status, 0);
    CHECK(status == 0, "a child has none of its parent's events, and samples anew");
    sampled_wait(stream);
    CHECK(gpud_cost_quick(f, 64) == 0, "the parent's are its own");
}

/* Time in which a stream waits for others, or copies, is no cost of launches. */
static void beside(void)
{
    CUstream stream = fake_stream();
    struct sampled all = sampled_begin();
    const void *f = function();

    for (int waits = 1; waits >= 0; waits--) {
        fresh();
        for (int i = 0; i < 6000; i++) {
            if (waits && i % 10 == 0)
                gpud_stream_waits();
            sampled_launch(&all, stream, f, 64, 10 * US);
            if (i % 500 == 499)
                sampled_wait(stream);
        }
        CHECK((sampler->stretches == 0) == (waits == 1), "%u stretches measured, %s waits", sampler->stretches, waits ? "with" : "without");
    }
}

static CUstream thread_streams[4];
static const void *thread_functions[4];
static uint32_t running = 4;

static void *sample_on(void *index)
{
    uintptr_t i = (uintptr_t)index;
    struct sampled all = sampled_begin();

    sampled_bind();
    for (int n = 0; n < 1500; n++) {
        sampled_launch(&all, thread_streams[i], thread_functions[(i + (unsigned)n) % 4], 64, 3 * US);
        if (n % 100 == 99)
            fake_wait_quietly(thread_streams[i]);
    }
    gpud_sub_total(&running, 1);
    return NULL;
}

/* Four threads sample, the keeper reads, captures come and go, functions are doubted. */
static void all_at_once(void)
{
    pthread_t threads[4];
    CUstream captured = fake_stream();

    fresh();
    for (uintptr_t i = 0; i < 4; i++) {
        thread_streams[i] = fake_stream();
        thread_functions[i] = function();
    }
    for (uintptr_t i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, sample_on, (void *)i);
    while (gpud_load_total(&running) != 0) {
        gpud_sample_keep(0, gpud_now());
        fake_begin_capture(captured);
        gpud_cost_doubt(thread_functions[0]);
        fake_end_capture(captured);
        gpud_sample_forget(thread_functions[1]);
        struct timespec nap = { .tv_nsec = 50000 };
        nanosleep(&nap, NULL);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 20; i++)
        gpud_sample_keep(0, gpud_now() + GPUD_SECOND);
    CHECK(in_state(GPUD_PENDING_FREE) == GPUD_SAMPLE_POOL, "all read: %u free", in_state(GPUD_PENDING_FREE));
    CHECK(gpud_load(&gpud_asking) == 0, "nobody asks any more");
}

int main(void)
{
    clock_own();
    local_attach(2);
    sampled_bind();
    captures();
    failures();
    streams_and_contexts();
    default_streams();
    endless();
    functions_go();
    settled();
    children();
    beside();
    clock_machines();
    all_at_once();
    CHECK(fake_violations == 0, "the driver was used wrongly");
    return check_summary("sample life");
}
