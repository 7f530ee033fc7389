/* test_captures.c: how many stream captures are open. Each ends once: by its end, with its stream, or with its context. */
#include "fake.h"

static uint32_t open_captures(void)
{
    return gpud_load_total(&gpud_captures);
}

static bool word_says_so(void)
{
    return gpud_load(&gpud_word) & GPUD_WORD_CAPTURE;
}

static void with_its_stream(void)
{
    CUstream first = fake_stream(), second = fake_stream(), idle = fake_stream();

    fake_begin_capture(first);
    fake_begin_capture(second);
    CHECK(open_captures() == 2 && word_says_so(), "two are open");
    fake_stream_destroy(idle);
    CHECK(open_captures() == 2, "a stream that captures nothing ends none");
    fake_stream_destroy(first);
    CHECK(open_captures() == 1 && word_says_so(), "one ends with its stream");
    gpud_capture_ended(first);
    CHECK(open_captures() == 1, "and only once");
    fake_end_capture(second);
    CHECK(open_captures() == 0 && !word_says_so(), "the other by its end");
}

/* Begun twice, which the driver refuses: the first goes on. */
static void begun_twice(void)
{
    CUstream stream = fake_stream();

    gpud_capture_began(stream);
    gpud_capture_began(stream);
    gpud_capture_ended(stream);
    CHECK(open_captures() == 1, "the one that began goes on");
    fake_stream_destroy(stream);
    CHECK(open_captures() == 0 && !word_says_so(), "and ends with its stream");
}

static void with_its_context(void)
{
    CUcontext here = fake_context(0), there = fake_context(1);
    CUstream of_it = fake_stream(), other = fake_stream();

    fake_context(0);
    fake_begin_capture(of_it);
    fake_context(1);
    fake_begin_capture(other);
    gpud_context_going();
    gpud_context_gone(here, CUDA_ERROR_INVALID_VALUE);
    CHECK(open_captures() == 2, "it has not gone");
    gpud_context_going();
    gpud_context_gone(here, CUDA_SUCCESS);
    CHECK(open_captures() == 1, "its capture went with it");
    gpud_context_going();
    gpud_context_gone(there, CUDA_SUCCESS);
    CHECK(open_captures() == 0, "the other's with the other");
    fake_context(0);
}

static pthread_barrier_t both;
static void *captures_per_thread(void *unused)
{
    fake_context(0);
    gpud_capture_began(CU_STREAM_PER_THREAD);
    pthread_barrier_wait(&both);
    pthread_barrier_wait(&both);
    gpud_capture_ended(CU_STREAM_PER_THREAD);
    gpud_capture_ended(CU_STREAM_PER_THREAD);
    return unused;
}

/* One name, two streams. */
static void per_thread(void)
{
    pthread_t thread;

    pthread_barrier_init(&both, NULL, 2);
    gpud_capture_began(CU_STREAM_PER_THREAD);
    pthread_create(&thread, NULL, captures_per_thread, NULL);
    pthread_barrier_wait(&both);
    CHECK(open_captures() == 2, "two are open");
    gpud_stream_gone(CU_STREAM_PER_THREAD);
    CHECK(open_captures() == 2, "it is no handle that could be destroyed");
    pthread_barrier_wait(&both);
    pthread_join(thread, NULL);
    CHECK(open_captures() == 1, "one end too many ends not that of another thread");
    gpud_capture_ended(CU_STREAM_PER_THREAD);
    CHECK(open_captures() == 0, "none is");
}

/* More at one time than are known one by one: each is counted, and ends. */
static void many(void)
{
    CUstream streams[100];

    for (int i = 0; i < 100; i++) {
        streams[i] = fake_stream();
        gpud_capture_began(streams[i]);
    }
    CHECK(open_captures() == 100, "all are open");
    for (int i = 99; i >= 0; i--)
        gpud_capture_ended(streams[i]);
    CHECK(open_captures() == 0 && !word_says_so(), "none is");
}

int main(void)
{
    local_attach(2);
    fake_context(0);
    with_its_stream();
    begun_twice();
    with_its_context();
    per_thread();
    many();
    return check_summary("captures");
}
