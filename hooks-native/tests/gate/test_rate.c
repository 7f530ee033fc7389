/* test_rate.c: launches, thread blocks and bytes per second; how long they take, by a clock of the test's own. */
#include "budget.h"
#include "clock.h"
#include "limits.h"

#define KERNEL ((const void *)0x1000)

static struct limits_thread worker;

static void rates(uint64_t launches_per_s, uint64_t blocks_per_s, uint64_t burst_ns)
{
    struct gpud_control_device *knobs = &local_control()->device[0];

    gpud_store(&knobs->launch_rate, launches_per_s == UINT64_MAX ? UINT64_MAX : launches_per_s * 1000);
    gpud_store(&knobs->block_rate, blocks_per_s == UINT64_MAX ? UINT64_MAX : blocks_per_s * 1000);
    gpud_store(&knobs->burst_ns, burst_ns);
    limits_gate(0, GPUD_GATE_RATE);
}

/* Twenty launches of so many blocks, every 2 ms, after whatever the bucket holds. */
static void on_time(uint64_t blocks)
{
    CUstream stream = fake_stream();
    uint64_t holds = limits_holds(0);

    clock_own();
    while (limits_holds(0) == holds)
        fake_launch_of(KERNEL, blocks, stream, 0, 0);
    uint64_t at = gpud_now();
    for (int i = 0; i < 20; i++)
        fake_launch_of(KERNEL, blocks, stream, 0, 0);
    uint64_t took = gpud_now() - at;
    clock_machines();
    CHECK(took >= 38 * GPUD_MILLISECOND && took <= 41 * GPUD_MILLISECOND, "20 times %llu blocks, every 2 ms, take %llu us",
          (unsigned long long)blocks, (unsigned long long)took / 1000);
}

static void says_why(uint64_t blocks)
{
    worker = (struct limits_thread){ .function = KERNEL, .blocks = blocks };
    limits_start(&worker);
    EVENTUALLY(limits_held(1) && limits_held_slot(0) != NULL && gpud_load(&limits_held_slot(0)->hold_reason) == GPUD_GATE_RATE,
               "held, and its slot says why");
    limits_stop(&worker);
}

static void by_launches(void)
{
    rates(500, UINT64_MAX, 0);
    on_time(1);
    says_why(1);
}

static void by_blocks(void)
{
    uint64_t blocks = 0;

    rates(UINT64_MAX, 100000, 0);
    on_time(200);               /* larger than the bucket: owed */
    says_why(200);
    for (uint32_t i = 0; i < GPUD_MAX_SLOTS; i++)
        blocks += gpud_load(&gpud_activity()->device[0].slots[i].blocks);
    CHECK(blocks >= 20 * 200, "%llu blocks counted", (unsigned long long)blocks);
}

/* A burst passes at once, without a look at each; what is drawn and not used is given back. */
static void burst(void)
{
    struct limits_thread threads[4];
    uint32_t launches = 0;

    rates(1000, UINT64_MAX, GPUD_SECOND);       /* a bucket of 1000, full */
    limits_pause(GPUD_MILLISECOND);
    gpud_rate_fork();
    uint64_t at = gpud_now();
    for (int i = 0; i < 4; i++) {
        threads[i] = (struct limits_thread){ .function = KERNEL };
        limits_start(&threads[i]);
    }
    EVENTUALLY(limits_held(4), "held");
    for (int i = 0; i < 4; i++)
        launches += limits_launched(&threads[i]);
    uint64_t took = gpud_now() - at;
    CHECK(launches >= 1000 && launches <= 1000 + 4 + took / GPUD_MILLISECOND + 1, "%u launches at once", launches);
    for (int i = 0; i < 4; i++)
        gpud_store(&threads[i].stop, 1);
    for (int i = 0; i < 4; i++)
        limits_stop(&threads[i]);

    gpud_rate_fork();
    rates(1000, UINT64_MAX, GPUD_SECOND);
    for (uint32_t thread = 0; thread < 50; thread++) {      /* each draws a lot, uses little, and ends */
        worker = (struct limits_thread){ .function = KERNEL, .most = 10 };
        limits_start(&worker);
        pthread_join(worker.thread, NULL);
    }
    struct gpud_own own;
    gpud_rate_read(0, &own);
    gpud_wide left = own.launches_left.level / GPUD_BUCKET_UNIT;
    CHECK(left >= 500 && left <= 1000, "%lld of 1000 left after 500 launches", (long long)left);
    limits_gate(0, 0);
}

/* A rate that is raised while a launch is held lets it go on without anybody waking it. */
static void raised(void)
{
    gpud_rate_fork();
    rates(1, UINT64_MAX, 0);
    gpud_store(&local_control()->device[0].launch_rate, 1);     /* in 1,000 s */
    worker = (struct limits_thread){ .function = KERNEL };
    limits_start(&worker);
    EVENTUALLY(limits_held(1), "held");
    uint32_t before = limits_launched(&worker);
    gpud_store(&local_control()->device[0].launch_rate, UINT64_MAX);
    EVENTUALLY(limits_launched(&worker) > before + 100, "goes on long before its next launch would have been due");
    limits_stop(&worker);
}

static uint64_t copied(void)
{
    return gpud_load(&gpud_activity()->device[0].copy_bytes);
}

static void copy(uint64_t bytes, CUresult result)
{
    gpud_copied(gpud_copies(bytes, NULL, 0), result);
}

static void by_bytes(void)
{
    struct gpud_control_device *knobs = &local_control()->device[0];
    uint64_t before = copied();

    limits_gate(0, 0);
    copy(1000, CUDA_SUCCESS);
    CHECK(copied() == before, "not counted while nothing is charged");
    limits_gate(0, GPUD_GATE_CHARGE);
    copy(1000, CUDA_SUCCESS);
    copy(1000, CUDA_ERROR_INVALID_VALUE);
    CHECK(copied() == before + 1000, "counted if made: %llu", (unsigned long long)(copied() - before));

    gpud_store(&knobs->copy_rate, 10000000);
    gpud_store(&knobs->burst_ns, 10 * GPUD_MILLISECOND);
    limits_gate(0, GPUD_GATE_COPY);
    clock_own();
    copy(100000, CUDA_SUCCESS);                 /* all that the bucket holds */
    uint64_t at = gpud_now();
    for (int i = 0; i < 5; i++)
        copy(100000, CUDA_SUCCESS);
    uint64_t took = gpud_now() - at;
    CHECK(took >= 49 * GPUD_MILLISECOND && took <= 51 * GPUD_MILLISECOND, "500 kB at 10 MB/s take %llu us", (unsigned long long)took / 1000);
    copy(UINT64_MAX, CUDA_ERROR_INVALID_VALUE); /* refused by the driver: nothing is owed for it */
    at = gpud_now();
    copy(1000, CUDA_SUCCESS);
    CHECK(gpud_now() - at <= 11 * GPUD_MILLISECOND, "a refused copy is not paid for");
    clock_machines();

    CUstream captured = fake_stream();
    gpud_store(&knobs->copy_rate, 0);
    fake_begin_capture(captured);
    before = copied();
    gpud_copied(gpud_copies(1000, captured, 0), CUDA_SUCCESS);      /* not held, or the test would never end */
    CHECK(copied() == before, "captured copies are not counted");
    fake_end_capture(captured);
    fake_launch_of(KERNEL, 1, NULL, 0, 0);      /* nor are launches held */
    limits_gate(0, 0);
}

static void *copy_once(void *unused)
{
    fake_context(0);
    copy(5000, CUDA_SUCCESS);
    return unused;
}

static void held_copy(void)
{
    pthread_t thread;

    gpud_store(&local_control()->device[0].copy_rate, 0);
    limits_gate(0, GPUD_GATE_COPY);
    pthread_create(&thread, NULL, copy_once, NULL);
    EVENTUALLY(limits_held(1), "a copy is held");
    const struct gpud_slot *slot = limits_held_slot(0);
    CHECK(slot != NULL && gpud_load(&slot->hold_reason) == GPUD_GATE_COPY, "its slot says why");
    uint64_t before = copied();
    limits_gate(0, GPUD_GATE_CHARGE);
    pthread_join(thread, NULL);
    CHECK(copied() == before + 5000 && limits_held(0), "it goes on when the gate opens");
    limits_gate(0, 0);
}

int main(void)
{
    limits_begin(1);
    limits_teach(KERNEL, 1, 10 * GPUD_MICROSECOND);
    limits_teach(KERNEL, 200, 10 * GPUD_MICROSECOND);
    by_launches();
    by_blocks();
    burst();
    raised();
    by_bytes();
    held_copy();
    CHECK(fake_violations == 0, "the driver was used wrongly");
    return check_summary("rate");
}
