/* test_window.c: at most max_inflight launches submitted and unfinished, and little time lost between them. */
#include <stdlib.h>
#include "clock.h"
#include "fake.h"
#include "window.h"

#define RUNS 400

static void limit(uint32_t launches)
{
    gpud_store(&local_control()->device[0].gate, GPUD_GATE_WINDOW);
    gpud_store(&local_control()->device[0].max_inflight, launches);
    local_publish();
}

/* At each launch, how many earlier ones were unfinished. */
static uint32_t most_in_flight(const struct fake_run *runs, uint32_t count)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t unfinished = 1;
        for (uint32_t j = 0; j < i; j++)
            unfinished += runs[j].ended_ns > runs[i].launched_ns;
        most = unfinished > most ? unfinished : most;
    }
    return most;
}

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Kernels back to back; the median of the device's idle time between two, by a clock of the test's own. */
static void back_to_back(uint32_t window, uint32_t launches, uint64_t duration_ns, uint64_t jitter_ns, uint64_t most_ns)
{
    static struct fake_run runs[RUNS];
    static uint64_t gaps[RUNS];
    CUstream stream = fake_stream();
    uint32_t random = 12345;

    limit(window);
    fake_forget_runs();
    clock_own();
    for (uint32_t i = 0; i < launches; i++) {
        random = random * 1664525 + 1013904223;
        fake_launch(stream, 0, duration_ns + (jitter_ns ? random % jitter_ns : 0));
    }
    clock_machines();
    uint32_t count = fake_runs(runs, RUNS);
    CHECK(count == launches, "%u launches", count);
    uint32_t most = most_in_flight(runs, count);
    CHECK(most <= window, "window %u: %u in flight", window, most);
    CHECK(window == 1 || most == window, "window %u is used: %u", window, most);
    CHECK(gpud_load(&gpud_presence()->device[0].inflight) <= window, "the page says %llu",
          (unsigned long long)gpud_presence()->device[0].inflight);
    for (uint32_t i = 1; i < count; i++)
        gaps[i - 1] = runs[i].began_ns - runs[i - 1].ended_ns;
    qsort(gaps, count - 1, sizeof gaps[0], by_size);
    printf("window %u, kernels of %llu us (+ %llu): gap %llu us median, %llu us p90\n", window,
           (unsigned long long)duration_ns / 1000, (unsigned long long)jitter_ns / 1000,
           (unsigned long long)gaps[(count - 1) / 2] / 1000, (unsigned long long)gaps[(count - 1) * 9 / 10] / 1000);
    CHECK(gaps[(count - 1) / 2] <= most_ns, "a gap of %llu us", (unsigned long long)gaps[(count - 1) / 2] / 1000);
    fake_synchronise(stream, 0);
    CHECK(gpud_load(&gpud_presence()->device[0].inflight) == 0, "nothing in flight after the proof");
}

static CUstream streams[4];
static void *launch_some(void *index)
{
    fake_context(0);
    for (int i = 0; i < 60; i++)
        fake_launch(streams[(uintptr_t)index], 0, (i % 4) * 100 * GPUD_MICROSECOND);
    return NULL;
}

static void several_threads(uint32_t window)
{
    static struct fake_run runs[RUNS];
    pthread_t threads[4];

    limit(window);
    fake_forget_runs();
    for (uintptr_t i = 0; i < 4; i++) {
        streams[i] = fake_stream();
        pthread_create(&threads[i], NULL, launch_some, (void *)i);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    uint32_t count = fake_runs(runs, RUNS), most = most_in_flight(runs, count);
    CHECK(count == 240, "%u launches", count);
    CHECK(most <= window, "window %u, 4 threads: %u in flight", window, most);
}

/* A host function of the stream waits for a mutex that the held thread has: the window must not close for ever. */
static void own_work_needs_the_held_thread(void)
{
    CUstream stream = fake_stream();
    uint64_t passed = gpud_activity()->device[0].passed, at = gpud_now();

    limit(1);
    gpud_store(&local_control()->device[0].max_pause_ns, 30 * GPUD_MILLISECOND);
    local_publish();
    fake_launch(stream, 0, FAKE_SPINS);     /* ends only when this thread goes on */
    fake_launch(stream, 0, 0);
    CHECK(gpud_now() - at >= 30 * GPUD_MILLISECOND, "held for max_pause");
    CHECK(gpud_activity()->device[0].passed == passed + 1, "passed once");
    fake_release();
    fake_synchronise(stream, 0);
    gpud_store(&local_control()->device[0].max_pause_ns, UINT64_MAX);
    local_publish();
}

static uint32_t in_flight(void)
{
    static const struct gpud_window_limit one = { .launches = 1 };
    return gpud_window_look(0, &one, 0, true).launches;
}

static void captures_and_contexts(void)
{
    CUstream captured = fake_stream(), plain = fake_stream();
    CUcontext other_context = fake_context(1), own_context = fake_context(0);

    limit(1);
    fake_launch(plain, 0, FAKE_SPINS);
    fake_begin_capture(captured);
    for (int i = 0; i < 5; i++)
        fake_launch(captured, 0, 0);        /* not held, or the test would never end */
    fake_end_capture(captured);
    CHECK(gpud_load(&gpud_presence()->device[0].inflight) == 1, "captured launches are not in flight");
    fake_primary_owners = 1;
    gpud_context_going();
    gpud_primary_gone(0, 0, CUDA_SUCCESS);
    CHECK(gpud_load(&gpud_presence()->device[0].inflight) == 1 && is_active(0), "released by one owner of two: it runs on");
    gpud_context_going();
    gpud_context_gone(other_context, CUDA_SUCCESS);
    CHECK(gpud_load(&gpud_presence()->device[0].inflight) == 1 && is_active(0), "another context is destroyed: it runs on");
    gpud_context_going();
    gpud_context_gone(own_context, CUDA_ERROR_INVALID_CONTEXT);
    CHECK(gpud_load(&gpud_presence()->device[0].inflight) == 1 && is_active(0), "not destroyed after all: it runs on");
    fake_primary_owners = 0;
    gpud_context_going();
    gpud_primary_gone(0, 0, CUDA_SUCCESS);
    CHECK(gpud_load(&gpud_presence()->device[0].inflight) == 0 && !is_active(0), "what ran in a context ends with it");
    fake_launch(plain, 0, FAKE_SPINS);
    gpud_context_going();
    gpud_context_gone(own_context, CUDA_SUCCESS);
    CHECK(gpud_load(&gpud_presence()->device[0].inflight) == 0 && !is_active(0), "so does what ran in one that is destroyed");
    fake_release();
    fake_launch(plain, 0, 0);
    gpud_context_going();
    CHECK(in_flight() == 1 && !gpud_presence_ask(0), "nobody asks about what may just be going");
    gpud_context_gone(other_context, CUDA_SUCCESS);
    CHECK(in_flight() == 0 && gpud_presence_ask(0), "asked again after it");
    fake_launch(plain, 0, 0);
    fake_launch(plain, 0, 0);
    fake_synchronise(plain, 0);
}

static void gate_opens_and_closes(void)
{
    CUstream stream = fake_stream();

    CHECK(in_flight() == 0, "all is finished");
    limit(3);
    for (int i = 0; i < 5; i++)
        fake_launch(stream, 0, GPUD_MILLISECOND);
    gpud_store(&local_control()->device[0].gate, 0);
    local_publish();
    for (int i = 0; i < 5; i++)
        fake_launch(stream, 0, GPUD_MILLISECOND);
    limit(1);
    for (int i = 0; i < 5; i++)
        fake_launch(stream, 0, GPUD_MILLISECOND);
    limit(100000);      /* more than can be kept: no more than that many all the same */
    for (int i = 0; i < 1000; i++)
        fake_launch(stream, 0, 10 * GPUD_MICROSECOND);
    fake_synchronise(stream, 0);
}

int main(void)
{
    local_attach(1);
    fake_context(0);
    back_to_back(1, 120, 5 * GPUD_MILLISECOND, 0, 50 * GPUD_MICROSECOND);
    back_to_back(1, 120, 2 * GPUD_MILLISECOND, 1 * GPUD_MILLISECOND, 50 * GPUD_MICROSECOND);
    back_to_back(1, 200, 20 * GPUD_MICROSECOND, 0, 50 * GPUD_MICROSECOND);
    back_to_back(3, 120, 2 * GPUD_MILLISECOND, 0, 50 * GPUD_MICROSECOND);
    several_threads(1);
    several_threads(3);
    own_work_needs_the_held_thread();
    captures_and_contexts();
    gate_opens_and_closes();
    CHECK(fake_violations == 0, "the driver was used wrongly");
    return check_summary("window");
}
