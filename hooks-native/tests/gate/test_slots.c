/* test_slots.c: a slot per thread and device; counts outlive threads; more threads than slots. */
#include "fake.h"

#define SHORT_THREADS 400
#define CROWD 100

static pthread_barrier_t gate;

static uint64_t left_of(uint32_t device)
{
    return gpud_marks(device).left;
}

static void *launch_three(void *stream)
{
    fake_context(0);
    for (int i = 0; i < 3; i++)
        fake_launch(stream, 0, 0);
    return NULL;
}

/* One after the other: the slot of the dead serves the next, and nothing that was counted is lost. */
static void short_threads(void)
{
    CUstream stream = fake_stream();
    uint64_t before = left_of(0);
    uint32_t highest = 0;

    for (int i = 0; i < SHORT_THREADS; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, launch_three, stream);
        pthread_join(thread, NULL);
    }
    for (uint32_t i = 0; i < GPUD_MAX_SLOTS; i++) {
        const struct gpud_slot *slot = &gpud_activity()->device[0].slots[i];
        highest = gpud_load(&slot->entered) != 0 ? i : highest;
        CHECK(gpud_load(&slot->entered) == gpud_load(&slot->left), "slot %u: %llu entered, %llu left", i,
              (unsigned long long)slot->entered, (unsigned long long)slot->left);
    }
    CHECK(left_of(0) - before == 3 * SHORT_THREADS, "%llu launches counted", (unsigned long long)(left_of(0) - before));
    CHECK(highest <= 2, "slot %u was used by threads that never lived at the same time", highest);
}

static void *crowd(void *stream)
{
    fake_context(0);
    fake_launch(stream, 0, 0);
    pthread_barrier_wait(&gate);        /* all have a slot now */
    for (int i = 0; i < 99; i++)
        fake_launch(stream, 0, 0);
    pthread_barrier_wait(&gate);
    return NULL;
}

static void many_threads(void)
{
    pthread_t threads[CROWD];
    CUstream stream = fake_stream();
    uint64_t before = left_of(0);

    pthread_barrier_init(&gate, NULL, CROWD + 1);
    for (int i = 0; i < CROWD; i++)
        pthread_create(&threads[i], NULL, crowd, stream);
    pthread_barrier_wait(&gate);
    pthread_barrier_wait(&gate);
    const struct gpud_slot *last = &gpud_activity()->device[0].slots[GPUD_MAX_SLOTS - 1];
    CHECK(gpud_load(&last->thread) != 0 && gpud_load(&last->left) > 100, "the last slot is shared");
    for (int i = 0; i < CROWD; i++)
        pthread_join(threads[i], NULL);
    struct gpud_marks marks = gpud_marks(0);
    CHECK(marks.left - before == 100 * CROWD, "%llu launches counted", (unsigned long long)(marks.left - before));
    CHECK(marks.entered == marks.left, "%llu entered, %llu left", (unsigned long long)marks.entered,
          (unsigned long long)marks.left);
    for (uint32_t i = 0; i < GPUD_MAX_SLOTS - 1; i++)
        CHECK(gpud_load(&gpud_activity()->device[0].slots[i].thread) == 0 || i == 0, "slot %u is not free", i);
}

/* A thread that vanishes without a trace (raw thread, key not run) does not keep its slot for ever. */
static void dead_owners(void)
{
    struct gpud_slot *slots = gpud_activity()->device[1].slots;
    struct gpud_thread newcomer = { .attachment = gpud_attachment, .id = 1 };

    for (uint32_t i = 0; i < GPUD_MAX_SLOTS - 1; i++)
        gpud_store(&slots[i].thread, 0x7ffffff0);       /* no such thread */
    slots[0].entered = 5;
    slots[0].left = 4;
    struct gpud_slot *slot = gpud_slot_claim(&newcomer, 1);
    CHECK(slot == &slots[0] && newcomer.shared == 0, "the first dead one's slot is taken");
    CHECK(slot->entered == 5 && slot->left == 5, "what it had under way is closed");
}

/* A thread of two devices, and one that changes between them. */
static void two_devices(void)
{
    CUstream stream = fake_stream();
    uint64_t before[2] = { left_of(0), left_of(1) };

    for (int i = 0; i < 10; i++) {
        fake_context(i & 1);
        for (int j = 0; j <= (i & 1); j++)
            fake_launch(stream, 0, 0);
    }
    CHECK(left_of(0) - before[0] == 5 && left_of(1) - before[1] == 10, "%llu and %llu launches",
          (unsigned long long)(left_of(0) - before[0]), (unsigned long long)(left_of(1) - before[1]));
    fake_context(5);
    fake_launch(stream, 0, 0);
    CHECK(left_of(0) - before[0] == 5 && left_of(1) - before[1] == 10, "an unmanaged device counts nowhere");
}

/* New pages come between a launch's mark and its look: the mark was made in the old page, and is taken back in the new one. */
static void marked_while_pages_change(void)
{
    CUstream stream = fake_stream();
    struct gpud_slot *slot;

    fake_context(0);
    fake_launch(stream, 0, 0);
    gpud_word_raise(0, 0);
    CHECK(!gpud_enter_fast(stream, 0, NULL, 1, &slot), "something is to be looked at");
    gpud_slots_outdate();
    gpud_store(&slot->entered, 0);
    gpud_store(&slot->left, 0);
    CHECK(!gpud_nested(), "this thread was in no entry");
    gpud_unmark();
    CHECK(gpud_load(&slot->entered) == 0 && gpud_load(&slot->left) == 0, "%llu entered", (unsigned long long)slot->entered);
    gpud_slots_renew();
    struct gpud_marks before = gpud_marks(0);
    fake_launch(stream, 0, 0);
    struct gpud_marks after = gpud_marks(0);
    CHECK(after.left == before.left + 1 && after.entered == after.left, "its next launch is counted");
}

int main(void)
{
    local_attach(2);
    short_threads();
    many_threads();
    dead_owners();
    two_devices();
    marked_while_pages_change();
    return check_summary("slots");
}
