/* test_groups.c: windows by groups: what they cost in driver calls, that they hold, and what becomes of them when threads sleep and streams,
 * threads and contexts end. */
#include <stdlib.h>
#include "clock.h"
#include "fake.h"
#include "window_state.h"

#define US GPUD_MICROSECOND
#define MS GPUD_MILLISECOND
#define RUNS 20000

static struct fake_run runs[RUNS];

static void limit(uint32_t launches, uint64_t ns)
{
    struct gpud_control_device *knobs = &local_control()->device[0];
    gpud_store(&knobs->max_inflight, launches);
    gpud_store(&knobs->max_inflight_ns, ns);
    gpud_store(&knobs->draw_ns, 10 * MS);
    gpud_store(&knobs->gate, GPUD_GATE_WINDOW);
    local_publish();
}

/* At the launch of each, how many earlier ones were unfinished. Ends grow with the index: kernels of a device run one after another. */
static uint32_t most_in_flight(uint32_t count)
{
    uint32_t most = 0, finished = 0;
    for (uint32_t i = 0; i < count; i++) {
        while (finished < i && runs[finished].ended_ns <= runs[i].launched_ns)
            finished++;
        most = i - finished + 1 > most ? i - finished + 1 : most;
    }
    return most;
}

/* Of the time from this launch to the end, how much the device had nothing to do. */
static double idle_share(uint32_t first, uint32_t count)
{
    uint64_t worked = 0;
    for (uint32_t i = first; i < count; i++)
        worked += runs[i].ended_ns - runs[i].began_ns;
    return 1 - (double)worked / (double)(runs[count - 1].ended_ns - runs[first].began_ns);
}

/* Kernels back to back, by one thread; streams take turns. Driver calls per 1,000 launches, once it has run for a while. */
static double calls_of(uint32_t window, uint64_t ns, uint64_t duration_ns, uint32_t stream_count, double *idle)
{
    CUstream streams[2] = { fake_stream(), fake_stream() };
    uint64_t calls = 0, counted = 0;
    const uint32_t launches = 16000, warm = launches / 2;

    gpud_window_forget();       /* what was learned of other kernels */
    limit(window, ns);
    fake_forget_runs();
    for (uint32_t i = 0; i < launches; i++) {
        if (i == warm) {
            calls = gpud_load(&fake_event_calls) + gpud_load(&fake_queries);
            counted = gpud_load(&gpud_activity()->device[0].calls);
        }
        fake_launch(streams[i % stream_count], 0, duration_ns);
    }
    counted = gpud_load(&gpud_activity()->device[0].calls) - counted;
    calls = gpud_load(&fake_event_calls) + gpud_load(&fake_queries) - calls;
    CHECK(counted == calls, "%llu calls, %llu counted", (unsigned long long)calls, (unsigned long long)counted);
    uint32_t count = fake_runs(runs, RUNS), most = most_in_flight(count);
    CHECK(count == launches, "%u launches", count);
    CHECK(window == 0 || most <= window, "window %u: %u in flight", window, most);
    *idle = idle_share(warm, count);
    fake_synchronise(streams[0], 0);
    fake_synchronise(streams[1], 0);
    CHECK(gpud_load(&gpud_presence()->device[0].inflight) == 0 && gpud_windows[0].count == 0, "nothing in flight after the proof");
    return (double)calls * 1000 / (launches - warm);
}

/* By a clock of the test's own. */
static void what_it_costs(void)
{
    static const struct { uint32_t window; uint64_t ns, duration; uint32_t streams; double most, most_idle; } cases[] = {
        { 16, 0, 20 * US, 1, 150, 0.1 }, { 16, 0, 300 * US, 1, 150, 0.05 }, { 32, 0, 20 * US, 1, 150, 0.05 },
        { 64, 0, 20 * US, 1, 100, 0.05 }, { 16, 0, US, 1, 150, 0.7 }, { 200, 0, 20 * US, 1, 50, 0.05 }, { 64, 0, 50 * US, 2, 150, 0.05 },
        { 0, 2 * MS, 50 * US, 1, 150, 0.05 },
    };

    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double idle, calls = calls_of(cases[i].window, cases[i].ns, cases[i].duration, cases[i].streams, &idle);
        printf("window %u, %llu us, kernels of %llu us, %u streams: %.1f calls per 1,000 launches, device idle %.1f %%\n", cases[i].window,
               (unsigned long long)cases[i].ns / 1000, (unsigned long long)cases[i].duration / 1000, cases[i].streams, calls, idle * 100);
        CHECK(calls <= cases[i].most, "window %u: %.1f calls", cases[i].window, calls);
        CHECK(idle <= cases[i].most_idle, "window %u: idle %.2f", cases[i].window, idle);
    }
}

/* GPU time: once costs are known, never more than the limit is submitted and unfinished, or one launch. */
static void by_time(void)
{
    CUstream stream = fake_stream();
    uint64_t most = 0;

    limit(0, 1 * MS);
    for (int i = 0; i < 100; i++)
        fake_launch(stream, 0, 150 * US);
    fake_forget_runs();
    for (int i = 0; i < 400; i++)
        fake_launch(stream, 0, 150 * US);
    uint32_t count = fake_runs(runs, RUNS);
    for (uint32_t i = 0; i < count; i++)
        most = runs[i].ended_ns - runs[i].launched_ns > most ? runs[i].ended_ns - runs[i].launched_ns : most;
    CHECK(most <= 1100 * US, "%llu us submitted and unfinished", (unsigned long long)most / 1000);
    CHECK(most >= 600 * US, "the window is used: %llu us", (unsigned long long)most / 1000);
    fake_forget_runs();
    for (int i = 0; i < 20; i++)
        fake_launch(stream, 0, 3 * MS);
    count = fake_runs(runs, RUNS);
    CHECK(most_in_flight(count) <= 2, "what is longer than the limit goes one by one: %u", most_in_flight(count));
    fake_synchronise(stream, 0);
}

static CUstream shared_streams[4];
static uint32_t per_thread_streams;

static void *launch_many(void *index)
{
    uintptr_t i = (uintptr_t)index;
    fake_context(0);
    for (int n = 0; n < 300; n++)
        fake_launch(per_thread_streams ? NULL : shared_streams[(i + (uint32_t)n / 7) % 4], (int)per_thread_streams, (n % 4) * 30 * US);
    return NULL;
}

static void several_threads(uint32_t window, uint32_t per_thread)
{
    pthread_t threads[4];

    limit(window, 0);
    per_thread_streams = per_thread;
    fake_forget_runs();
    for (int i = 0; i < 4; i++)
        shared_streams[i] = fake_stream();
    for (uintptr_t i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, launch_many, (void *)i);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    uint32_t count = fake_runs(runs, RUNS), most = most_in_flight(count);
    CHECK(count == 1200, "%u launches", count);
    CHECK(most <= window, "window %u, 4 threads: %u in flight", window, most);
    CHECK(gpud_windows[0].granted == 0, "threads that end give back what they were granted: %u", gpud_windows[0].granted);
    for (int i = 0; i < 4; i++)
        fake_wait_quietly(shared_streams[i]);
    EVENTUALLY(gpud_presence_ask(0) || per_thread, "idle");
}

static pthread_barrier_t step;

/* Launches once and sleeps on what it was granted. */
static void *sleeper(void *per_thread)
{
    fake_context(0);
    fake_launch(per_thread != NULL ? NULL : shared_streams[0], per_thread != NULL, 10 * US);
    pthread_barrier_wait(&step);
    pthread_barrier_wait(&step);        /* the other has launched all it wanted to */
    for (int i = 0; i < 50; i++)
        fake_launch(per_thread != NULL ? NULL : shared_streams[0], per_thread != NULL, 10 * US);
    return NULL;
}

static void sleeping_threads(uintptr_t per_thread)
{
    CUstream stream = fake_stream();
    pthread_t thread;

    limit(16, 0);
    shared_streams[0] = fake_stream();
    pthread_barrier_init(&step, NULL, 2);
    fake_forget_runs();
    pthread_create(&thread, NULL, sleeper, (void *)per_thread);
    pthread_barrier_wait(&step);
    for (int i = 0; i < 200; i++)       /* held by a thread that sleeps, the test would never end */
        fake_launch(stream, 0, 500 * US);
    uint32_t count = fake_runs(runs, RUNS);
    CHECK(most_in_flight(count) >= 12, "what it does not use is others': %u in flight", most_in_flight(count));
    CHECK(most_in_flight(count) <= 16, "not more than there is: %u", most_in_flight(count));
    pthread_barrier_wait(&step);
    pthread_join(thread, NULL);
    count = fake_runs(runs, RUNS);
    CHECK(count == 251 && most_in_flight(count) <= 16, "%u launches, %u in flight", count, most_in_flight(count));
    fake_wait_quietly(stream);
    fake_wait_quietly(shared_streams[0]);
}

/* As at the start: nothing in flight, nothing granted. */
static void fresh(void)
{
    gpud_store(&local_control()->device[0].gate, 0);
    local_publish();
    fake_launch(fake_stream(), 0, 0);
    gpud_window_forget();
}

/* A stream is destroyed while launches into it have no event yet. */
static void streams_end(void)
{
    CUstream stream = fake_stream();

    fresh();
    limit(64, 0);
    for (int i = 0; i < 5; i++)
        fake_launch(stream, 0, FAKE_SPINS);
    CHECK(gpud_windows[0].granted > 0, "a grant is open");
    uint64_t errors = gpud_activity()->errors;
    fake_stream_destroy(stream);
    CHECK(gpud_windows[0].launches == 5 && gpud_windows[0].open_launches == 0, "they have an event: %u, %u", gpud_windows[0].launches,
          gpud_windows[0].open_launches);
    fake_release();
    CUstream other = fake_stream();
    for (int i = 0; i < 100; i++)
        fake_launch(other, 0, 100 * US);
    CHECK(gpud_activity()->errors == errors, "nothing went wrong");
    fake_synchronise(other, 0);
}

/* A context is destroyed with launches in it, granted and grouped; another one's stay. */
static void contexts_end(void)
{
    CUstream stream = fake_stream(), other = fake_stream();
    CUcontext first = fake_context(0);

    fresh();
    limit(64, 0);
    for (int i = 0; i < 40; i++)
        fake_launch(stream, 0, FAKE_SPINS);
    gpud_context_going();
    gpud_context_gone(first, CUDA_SUCCESS);
    CHECK(gpud_windows[0].launches == 0 && gpud_windows[0].granted == 0, "what ran there has ended: %u, %u", gpud_windows[0].launches,
          gpud_windows[0].granted);
    uint32_t violations = fake_violations;
    fake_context(0);
    for (int i = 0; i < 100; i++)
        fake_launch(other, 0, 50 * US);
    fake_synchronise(other, 0);
    CHECK(fake_violations == violations, "nothing of it is touched any more");
    fake_release();
}

static void driver_trouble(void)
{
    CUstream stream = fake_stream();
    uint64_t errors = gpud_activity()->errors;

    limit(16, 0);
    fake_fail_record = CUDA_ERROR_ILLEGAL_ADDRESS;
    for (int i = 0; i < 100; i++)       /* held, the test would never end */
        fake_launch(stream, 0, US);
    CHECK(gpud_activity()->errors > errors, "counted");
    fake_fail_record = 0;
    gpud_window_context_gone(0, NULL);      /* its events too: new ones are needed */
    fake_fail_create = CUDA_ERROR_OUT_OF_MEMORY;
    for (int i = 0; i < 100; i++)
        fake_launch(stream, 0, US);
    fake_fail_create = 0;
    for (int i = 0; i < 100; i++)
        fake_launch(stream, 0, 20 * US);
    fake_synchronise(stream, 0);
    CHECK(gpud_windows[0].count == 0, "all well again");
}

/* A capture of another stream is open: the window goes on, and asks nothing of the captured one. */
static void captures(void)
{
    CUstream stream = fake_stream(), captured = fake_stream();

    limit(16, 0);
    fake_launch(captured, 0, 10 * US);
    fake_begin_capture(captured);
    fake_forget_runs();
    for (int i = 0; i < 200; i++) {
        fake_launch(stream, 0, 20 * US);
        if (i % 10 == 0)
            fake_launch(captured, 0, 0);
    }
    uint32_t count = fake_runs(runs, RUNS);
    CHECK(count == 200 && most_in_flight(count) <= 16, "%u launches, %u in flight", count, most_in_flight(count));
    fake_end_capture(captured);
    fake_launch(captured, 0, 10 * US);
    fake_synchronise(captured, 0);
    fake_synchronise(stream, 0);
}

int main(void)
{
    local_attach(1);
    fake_context(0);
    clock_own();
    what_it_costs();
    by_time();
    clock_machines();
    for (uint32_t window = 1; window <= 64; window *= 4)
        several_threads(window, 0);
    several_threads(8, 1);
    sleeping_threads(0);
    sleeping_threads(1);
    captures();
    streams_end();
    contexts_end();
    driver_trouble();
    CHECK(fake_violations == 0, "the driver was used wrongly");
    return check_summary("groups");
}
