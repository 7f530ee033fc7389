/* test_presence.c: when is a client active? The keeper's part is played by asking as it does. */
#include <sched.h>
#include "fake.h"

/* As the keeper: asks once nothing was launched between two looks. */
static bool keeper_asks(uint32_t device)
{
    return gpud_presence_ask(device);
}

static uint32_t edges(void)
{
    return GPUD_EDGE_COUNT(gpud_load(gpud_edge_word(&gpud_presence()->device[0])));
}

static uint64_t idle_since(void)
{
    return gpud_load(&gpud_presence()->device[0].idle_since_ns);
}

static void settle(void)
{
    fake_release();
    EVENTUALLY(!is_active(0) || keeper_asks(0), "idle before the next case");
}

static void one_stream(void)
{
    CUstream stream = fake_stream();
    uint32_t before = edges();

    CHECK(!is_active(0), "idle at first");
    fake_launch(stream, 0, FAKE_SPINS);
    CHECK(is_active(0), "active with the first launch");
    fake_launch(stream, 0, FAKE_SPINS);
    CHECK(edges() == before + 1, "one edge for a burst");
    CHECK(!keeper_asks(0) && is_active(0), "the driver says that it runs");
    fake_release();
    uint64_t at = gpud_now();
    fake_synchronise(stream, 0);
    CHECK(!is_active(0) && edges() == before + 2, "a synchronise proves its stream");
    CHECK(idle_since() >= at && idle_since() <= gpud_now(), "idle since the proof");
    fake_launch(stream, 0, 0);
    CHECK(is_active(0) && edges() == before + 3, "active again");
    fake_synchronise_context();
    CHECK(!is_active(0), "a context synchronise proves its context");
}

static void two_streams_one_synchronised(void)
{
    CUstream first = fake_stream(), second = fake_stream();

    fake_launch(first, 0, 0);
    fake_launch(second, 0, FAKE_SPINS);
    fake_synchronise(first, 0);
    CHECK(is_active(0), "the other stream still runs");
    fake_launch(first, 0, 0);
    fake_release();
    fake_synchronise(second, 0);
    CHECK(is_active(0), "the first stream was used again after its proof");
    fake_synchronise(first, 0);
    CHECK(!is_active(0), "both are proven");
}

static void never_synchronises(void)
{
    CUstream stream = fake_stream();

    fake_launch(stream, 0, FAKE_SPINS);
    CHECK(!keeper_asks(0), "it runs");
    fake_release();
    fake_wait_quietly(stream);
    CHECK(is_active(0), "nobody knows yet");
    CHECK(keeper_asks(0) && !is_active(0), "the keeper asks");
    fake_launch(stream, 0, 0);
    CHECK(is_active(0), "active again");
    settle();
}

static void polls_by_event(void)
{
    CUstream stream = fake_stream(), other = fake_stream();
    CUevent early = fake_event(), late = fake_event();

    fake_launch(stream, 0, 0);
    fake_record(early, stream);
    fake_launch(stream, 0, FAKE_SPINS);
    fake_record(late, stream);
    CHECK(fake_event_query(early) == CUDA_SUCCESS && is_active(0), "an event proves only what was launched before it");
    CHECK(fake_event_query(late) == CUDA_ERROR_NOT_READY && is_active(0), "an event that is not reached proves nothing");
    fake_release();
    CHECK(fake_event_query(late) == CUDA_SUCCESS && !is_active(0), "the last event proves the stream");
    fake_launch(stream, 0, 0);
    fake_record(early, stream);
    fake_launch(other, 0, 0);
    CHECK(fake_event_query(early) == CUDA_SUCCESS && is_active(0), "the event is of one stream, two are used");
    fake_synchronise(other, 0);
    CHECK(!is_active(0), "the event's proof counts after the thread went on to another stream");
    fake_launch(stream, 0, 0);
    gpud_event_gone(early);
    CHECK(fake_event_query(early) == CUDA_SUCCESS && is_active(0), "an event that was forgotten proves nothing");
    settle();
}

static void spinning_kernel(void)
{
    CUstream stream = fake_stream();

    fake_launch(stream, 0, FAKE_SPINS);
    for (int i = 0; i < 100; i++)
        CHECK(!keeper_asks(0), "a spinning kernel is never finished");
    fake_release();
    CHECK(keeper_asks(0), "now it is");
}

static void *launch_in_thread(void *stream)
{
    fake_context(0);
    fake_launch(stream, 0, FAKE_SPINS);
    return NULL;
}

static void *launch_per_thread(void *done)
{
    pthread_barrier_t *barrier = done;
    fake_context(0);
    fake_launch(NULL, 1, 0);
    pthread_barrier_wait(barrier);
    pthread_barrier_wait(barrier);
    fake_synchronise(NULL, 1);
    return NULL;
}

static void two_threads(void)
{
    CUstream stream = fake_stream();
    pthread_barrier_t barrier;
    pthread_t thread;

    /* Another thread's launch into a stream that this one synchronises: only the driver can tell. */
    fake_launch(stream, 0, 0);
    pthread_create(&thread, NULL, launch_in_thread, stream);
    pthread_join(thread, NULL);
    gpud_proved(GPUD_PROOF_STREAM, stream, 0, CUDA_SUCCESS);    /* of a wait that began before the other launch */
    CHECK(is_active(0), "the other thread's kernel still runs");
    fake_release();
    fake_synchronise(stream, 0);
    CHECK(!is_active(0), "now it is finished, and the driver says so");

    /* Per-thread default streams are different streams under one name. */
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_create(&thread, NULL, launch_per_thread, &barrier);
    pthread_barrier_wait(&barrier);
    fake_launch(NULL, 1, 0);
    fake_synchronise(NULL, 1);
    CHECK(is_active(0) && !keeper_asks(0), "the other thread's default stream is proven by nobody");
    pthread_barrier_wait(&barrier);
    pthread_join(thread, NULL);
    CHECK(!is_active(0), "its own thread proves it");
}

static void streams_that_go(void)
{
    CUstream idle = fake_stream(), busy = fake_stream();

    fake_launch(idle, 0, 0);
    fake_launch(busy, 0, FAKE_SPINS);
    fake_stream_destroy(idle);
    fake_stream_destroy(busy);
    CHECK(is_active(0) && !keeper_asks(0), "work goes on in a destroyed stream");
    fake_release();
    CHECK(keeper_asks(0) && !is_active(0), "its end is seen all the same");
}

static void captures(void)
{
    CUstream captured = fake_stream(), plain = fake_stream();
    uint64_t before = gpud_marks(0).left;

    fake_begin_capture(captured);
    fake_launch(captured, 0, 0);
    CHECK(!is_active(0) && gpud_marks(0).left == before, "a launch into a capture is not counted");
    fake_launch(plain, 0, 0);
    CHECK(is_active(0) && gpud_marks(0).left == before + 1, "one beside it is");
    CHECK(!keeper_asks(0), "nobody is asked while a capture is open");
    fake_end_capture(captured);
    CHECK(keeper_asks(0), "asked again after it");
    gpud_capture_ended(captured);
    CHECK(gpud_load(&gpud_captures) == 0, "one end too many does no harm");
}

/* Whoever begins a capture, destroys a stream or ends a context waits while the driver is being asked. */
static uint32_t in_query, answer, done;
static CUresult slow_query(CUstream stream)
{
    (void)stream;
    gpud_store_total(&in_query, 1);
    while (!gpud_load_total(&answer))
        gpud_relax();
    return CUDA_ERROR_NOT_READY;
}

static void *ask_once(void *unused)
{
    gpud_presence_ask(0);
    return unused;
}

static void *begin_capture(void *stream)
{
    gpud_capture_began(stream);
    gpud_store_total(&done, 1);
    gpud_capture_ended(stream);
    return NULL;
}

/* done: 2 if the event is destroyed after the answer, else 1. */
static CUresult noted_destroy(CUevent event)
{
    (void)event;
    gpud_store_total(&done, gpud_load_total(&answer) ? 2 : 1);
    return CUDA_SUCCESS;
}

static void *answer_later(void *unused)
{
    struct timespec nap = { .tv_nsec = 20000000 };
    nanosleep(&nap, NULL);      /* time enough to do it wrongly */
    gpud_store_total(&answer, 1);
    return unused;
}

static CUresult slow_event_query(CUevent event)
{
    (void)event;
    return slow_query(NULL);
}

/* The event that stands for a destroyed stream is not destroyed while the driver is asked about it. */
static void asked_about_an_event(void)
{
    CUresult (*query)(CUevent) = real.cuEventQuery;
    CUresult (*destroy)(CUevent) = real.cuEventDestroy_v2;
    CUstream stream = fake_stream();
    pthread_t asker;

    fake_launch(stream, 0, FAKE_SPINS);
    fake_stream_destroy(stream);
    real.cuEventQuery = slow_event_query;
    real.cuEventDestroy_v2 = noted_destroy;
    gpud_store_total(&in_query, 0);
    gpud_store_total(&answer, 0);
    gpud_store_total(&done, 0);
    pthread_create(&asker, NULL, ask_once, NULL);
    EVENTUALLY(gpud_load_total(&in_query), "the driver is being asked");
    pthread_t answerer;
    pthread_create(&answerer, NULL, answer_later, NULL);
    fake_release();
    fake_synchronise_context();
    CHECK(gpud_load_total(&done) == 2, "destroyed %s the answer", gpud_load_total(&done) ? "before" : "without");
    pthread_join(asker, NULL);
    pthread_join(answerer, NULL);
    real.cuEventQuery = query;
    real.cuEventDestroy_v2 = destroy;
    CHECK(!is_active(0), "the context synchronise proved it");
}

static void *destroy_another(void *unused)
{
    gpud_stream_gone(fake_stream());
    gpud_store_total(&done, 1);
    return unused;
}

static void askers_are_waited_for(void)
{
    void *(*const waiters[])(void *) = { begin_capture, destroy_another };
    CUstream stream = fake_stream();
    CUresult (*query)(CUstream) = real.cuStreamQuery;
    pthread_t asker, waiter;

    fake_launch(stream, 0, 0);
    real.cuStreamQuery = slow_query;
    for (int i = 0; i < 2; i++) {
        gpud_store_total(&in_query, 0);
        gpud_store_total(&answer, 0);
        gpud_store_total(&done, 0);
        pthread_create(&asker, NULL, ask_once, NULL);
        EVENTUALLY(gpud_load_total(&in_query), "the driver is being asked");
        pthread_create(&waiter, NULL, waiters[i], stream);
        struct timespec nap = { .tv_nsec = 10000000 };
        nanosleep(&nap, NULL);
        CHECK(!gpud_load_total(&done), "%s waits", i == 0 ? "a capture" : "a destruction");
        gpud_store_total(&answer, 1);
        pthread_join(asker, NULL);
        pthread_join(waiter, NULL);
    }
    real.cuStreamQuery = query;
    fake_synchronise(stream, 0);
    CHECK(!is_active(0), "idle");
}

/* More streams at one time than can be kept. */
static void too_many_streams(void)
{
    CUstream streams[40];

    for (int i = 0; i < 40; i++) {
        streams[i] = fake_stream();
        fake_launch(streams[i], 0, 0);
    }
    for (int i = 0; i < 40; i++)
        fake_synchronise(streams[i], 0);
    CHECK(is_active(0) && !keeper_asks(0), "what is unknown cannot be asked");
    fake_synchronise_context();
    CHECK(!is_active(0), "the one thread that launched synchronises its context");
}

/* Launches against the keeper and against synchronises, as fast as they can: once nobody is in the middle of something, a device with a
 * kernel on it is not idle. A wrong edge before is taken back by who made it. */
enum { ROUNDS = 60, EACH = 40 };
static uint32_t stop, asks, idle;
static pthread_barrier_t quiet;

static void *ask_always(void *unused)
{
    while (!gpud_load(&stop)) {
        gpud_presence_ask(0);
        gpud_add_total(&asks, 1);
    }
    return unused;
}

static void *launch_always(void *looks)
{
    CUstream streams[2] = { fake_stream(), fake_stream() };

    fake_context(0);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < EACH; i++) {
            fake_launch(streams[i % 3 == 0], 0, i % 20 == 0 ? 50 * GPUD_MICROSECOND : 0);
            if (i % 7 == 0)
                fake_synchronise(streams[0], 0);
            if (i % 20 == 0) {
                fake_begin_capture(streams[1]);
                fake_launch(streams[1], 0, 0);
                fake_end_capture(streams[1]);
            }
        }
        fake_launch(streams[0], 0, FAKE_SPINS);
        pthread_barrier_wait(&quiet);
        for (uint32_t seen = gpud_load_total(&asks); looks != NULL && gpud_load_total(&asks) < seen + 3;)
            sched_yield();
        if (looks != NULL) {
            gpud_add(&idle, !is_active(0));
            fake_release();
        }
        pthread_barrier_wait(&quiet);
    }
    return NULL;
}

static void races(void)
{
    pthread_t asker, launchers[2];

    pthread_barrier_init(&quiet, NULL, 2);
    pthread_create(&asker, NULL, ask_always, NULL);
    for (int i = 0; i < 2; i++)
        pthread_create(&launchers[i], NULL, launch_always, i == 0 ? launchers : NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(launchers[i], NULL);
    CHECK(idle == 0, "idle while a kernel ran, %u times of %d", idle, ROUNDS);
    EVENTUALLY(!is_active(0), "idle at the end");
    gpud_store(&stop, 1);
    pthread_join(asker, NULL);
}

int main(void)
{
    local_attach(1);
    fake_context(0);
    one_stream();
    two_streams_one_synchronised();
    never_synchronises();
    polls_by_event();
    spinning_kernel();
    two_threads();
    streams_that_go();
    captures();
    askers_are_waited_for();
    asked_about_an_event();
    too_many_streams();
    races();
    CHECK(fake_violations == 0, "the driver was used wrongly");
    return check_summary("presence");
}
