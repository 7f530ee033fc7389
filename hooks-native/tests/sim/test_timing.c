/* test_timing.c: time slices of two to 64 contexts, MPS and MIG, and how late computing and late submission show, against times
 * computed by hand. */
#include "timing.h"

enum { ROUNDS = 5 };                    /* a kernel of 10 ms is 5 slices of 2 ms */

static struct sched_profile fitted(void)
{
    struct sched_profile p = easy;
    p.switch_ns = 760 * US;             /* as in a100-40gb */
    return p;
}

/* `count` contexts with a kernel of 10 ms each: slice k of context i begins (k count + i) turns of 2.76 ms after the first. Nothing is
 * lost but the switches. */
static void in_turn(uint64_t count)
{
    struct sched_profile p = fitted();
    uint64_t ticket[64], turn = 2760, busy = 0, last = 0;
    begin(&p);
    for (uint64_t i = 0; i < count; i++)
        ticket[i] = kernel(fresh(), 0, 10000);
    sched_advance(s, 10000000 * US);
    for (uint64_t i = 0; i < count; i++) {
        last = 5 + turn * ((ROUNDS - 1) * count + i) + 2000;
        EXPECT(ticket[i], 5 + turn * i, last);
        CHECK(seen[ticket[i]].run == 10000 * US && seen[ticket[i]].pieces == ROUNDS, "run %llu", (unsigned long long)seen[ticket[i]].run);
        busy += seen[ticket[i]].run;
    }
    struct sched_counters c = sched_counters(s, 0);
    CHECK(c.busy_ns == busy && c.switches == ROUNDS * count - 1 && c.switch_ns == c.switches * 760 * US, "%llu switches",
          (unsigned long long)c.switches);
    CHECK((last - 5) * US == busy + c.switch_ns, "capacity is lost");
    end();
}

/* Kernels back to back in each of two contexts: where one ends within the slice, the next goes on in it. */
static void queues_in_turn(void)
{
    struct sched_profile p = fitted();
    begin(&p);
    struct sched_queue *x = fresh(), *y = fresh();
    uint64_t a[4], b[4];
    for (int i = 0; i < 4; i++)
        a[i] = kernel(x, 0, 1500);
    for (int i = 0; i < 4; i++)
        b[i] = kernel(y, 0, 1500);
    sched_advance(s, 100000 * US);
    /* x has 5-2005, 5525-7525, 11045-13045; y 2765-4765, 8285-10285, 13805-15805 */
    EXPECT(a[0], 5, 1505);
    EXPECT(a[1], 1505, 6525);           /* 500 of it in the first slice */
    EXPECT(a[2], 6525, 11545);          /* 1000 in the second */
    EXPECT(a[3], 11545, 13045);
    EXPECT(b[0], 2765, 4265);
    EXPECT(b[1], 4265, 9285);
    EXPECT(b[2], 9285, 14305);
    EXPECT(b[3], 14305, 15805);
    CHECK(switch_count == 5 && switches[0].from == 1 && switches[0].to == 2 && switches[0].start == 2005 * US && switches[0].end == 2765 * US
          && switches[4].from == 1 && switches[4].to == 2 && switches[4].start == 13045 * US, "%d switches are told", switch_count);
    end();
}

static void mps(void)
{
    struct sched_profile p = fitted();
    p.merged = true;
    begin(&p);
    struct sched_context *x = context(), *y = context(), *z = context();
    struct sched_queue *qx = queue_of(x), *qy = queue_of(y), *urgent = sched_queue_new(s, z, -1, NULL);
    /* Two halves of the device at once, and whole ones one after the other: no slices, no switches. */
    uint64_t a = kernel_blocks(qx, 0, 10000, 20), b = kernel_blocks(qy, 0, 10000, 20);
    uint64_t c = kernel(qx, 20000, 10000), d = kernel(qy, 20000, 10000);
    sched_advance(s, 50000 * US);
    EXPECT(a, 5, 10005);
    EXPECT(b, 5, 10005);
    EXPECT(c, 20005, 30005);
    EXPECT(d, 30005, 40005);
    CHECK(!sched_counters(s, 0).switches && !switch_count, "a switch");
    /* Priorities hold across programs: at the end of a wave of 1 ms. */
    uint64_t e = kernel_blocks(qx, 50000, 10000, 400), f = kernel(urgent, 51500, 500);
    sched_advance(s, 70000 * US);
    EXPECT(f, 52005, 52505);
    EXPECT(e, 50005, 60505);
    /* One that goes away takes its own with it, and nothing else. */
    uint64_t g = kernel_blocks(qx, 70000, 10000, 20), h = kernel_blocks(qy, 70000, 10000, 40);
    sched_context_drop(s, x, 75005 * US);
    sched_advance(s, 90000 * US);
    CHECK(seen[g].dropped && seen[g].end == 75005 * US, "dropped");
    EXPECT(h, 70005, 82505);            /* half the device for 5 ms, then all of it for 7.5 */
    sched_context_drop(s, y, 90000 * US);
    sched_context_drop(s, z, 90000 * US);
    uint64_t again = kernel(fresh(), 100000, 1000);
    sched_advance(s, 200000 * US);
    EXPECT(again, 100005, 101005);
    end();
}

/* A MIG instance of 4 of 10 SMs: what fills the device takes 10/4 as long, what fits into it is as fast as before; its neighbour on 6 SMs
 * is as if it were alone. */
static void mig(void)
{
    struct sched_profile four = fitted(), six = fitted();
    four.whole_sm_count = six.whole_sm_count = 10;
    four.sm_count = 4;
    six.sm_count = 6;
    second_device = &six;
    begin(&four);
    struct sched_queue *p = fresh(), *q = queue_of(sched_context_new(s, 1, NULL));
    uint64_t a = kernel(p, 0, 10000), b = kernel_blocks(p, 0, 1000, 16), c = kernel_blocks(p, 0, 1000, 8);
    uint64_t d = kernel(q, 0, 6000);
    uint64_t waves = put(p, 50000, (struct sched_work){ .kind = SIM_KERNEL, .blocks = 40, .threads_per_block = 512 });
    sched_advance(s, 100000 * US);
    EXPECT(a, 5, 25005);
    EXPECT(b, 25005, 26005);
    EXPECT(c, 26005, 27005);
    EXPECT(d, 5, 10005);
    EXPECT(waves, 50005, 50305);        /* 40 blocks on 4 SMs of 4: 3 waves of 100 us, where the whole device needs one */
    CHECK(!sched_counters(s, 0).switches && !sched_counters(s, 1).switches, "instances share nothing");
    /* Two contexts on one instance take turns there. */
    uint64_t e = kernel(fresh(), 100000, 800), f = kernel(fresh(), 100000, 800);
    sched_advance(s, 200000 * US);
    EXPECT(e, 100765, 102765);
    EXPECT(f, 103525, 105525);
    second_device = NULL;
    end();
}

/* While the schedule is patient, the clock stands at the end of what is not computed. */
static void patience(void)
{
    begin(&easy);
    sched_patient(s, true);
    struct sched_context *c = context();
    struct sched_queue *p = queue_of(c), *q = queue_of(c);
    uncomputed[1] = uncomputed[4] = true;
    uint64_t a = kernel_blocks(p, 0, 1000, 16), b = kernel_blocks(p, 0, 500, 16), other = kernel_blocks(q, 0, 3000, 16);
    sched_advance(s, 9000 * US);
    CHECK(sched_standing(s) && sched_now(s) == 1005 * US && sched_next(s) == SCHED_NEVER && !seen[other].done, "the clock goes on");
    uint64_t late = put(queue_of(c), 2000, (struct sched_work){ .kind = SIM_COPY_H2D, .bytes = 1000 });
    CHECK(sched_now(s) == 1005 * US, "a submission moves the clock");
    sched_recheck(s, 9000 * US);
    CHECK(!seen[a].done && !sched_held_computed(s), "not computed, and done");
    uncomputed[1] = false;
    CHECK(sched_held_computed(s), "computed");
    sched_recheck(s, 10000 * US);
    sched_advance(s, 10000 * US);
    EXPECT(a, 5, 1005);
    EXPECT(b, 1005, 1505);
    CHECK(sched_standing(s) && sched_now(s) == 2011 * US, "a copy that is not copied is waited for, too: %llu", (unsigned long long)sched_now(s));
    uncomputed[4] = false;
    sched_recheck(s, 12000 * US);
    sched_advance(s, 20000 * US);
    EXPECT(late, 2000, 2011);
    EXPECT(other, 5, 3005);
    struct sched_counters counters = sched_counters(s, 0);
    CHECK(seen[a].overrun == 8995 * US && counters.overruns == 1 && counters.shifted_ns == 0, "lateness is told, and moves nothing");
    CHECK(counters.copy_overruns == 1 && counters.copy_overrun_ns == (12000 - 2011) * US, "the copy's, too");
    /* Patience ends: all else goes on, and it ends when it is computed. */
    uncomputed[5] = true;
    uint64_t e = kernel_blocks(p, 20000, 1000, 16), f = kernel_blocks(q, 20000, 3000, 16);
    sched_advance(s, 30000 * US);
    CHECK(sched_standing(s) && sched_now(s) == 21005 * US, "stands");
    sched_patient(s, false);
    sched_advance(s, 30000 * US);
    EXPECT(f, 20005, 23005);
    uncomputed[5] = false;
    sched_recheck(s, 30000 * US);
    EXPECT(e, 20005, 30000);
    CHECK(sched_counters(s, 0).shifted_ns == 8995 * US, "shifted");
    end();
}

/* A host function takes as long as it says, not until it is looked at, and never stops the clock. */
static void calls(void)
{
    timed_calls = true;
    begin(&easy);
    sched_patient(s, true);
    struct sched_context *c = context();
    struct sched_queue *p = queue_of(c), *q = queue_of(c);
    uncomputed[2] = true;
    uint64_t a = kernel(p, 0, 1000), call = put(p, 0, (struct sched_work){ .kind = SIM_MEMSET }), b = kernel_blocks(p, 0, 100, 4);
    uint64_t other = kernel_blocks(q, 0, 100, 4);
    sched_advance(s, 50000 * US);
    CHECK(seen[a].done && !seen[call].done && was_held[call] && !sched_standing(s), "held");
    EXPECT(other, 1005, 1105);
    uncomputed[2] = false;
    sched_recheck(s, 60000 * US);       /* too late for 1012: other things have happened */
    sched_advance(s, 60000 * US);
    EXPECT(b, 1105, 1205);
    /* In time, it ends exactly then. */
    uncomputed[6] = true;
    kernel(p, 70000, 1000);
    put(p, 70000, (struct sched_work){ .kind = SIM_MEMSET });
    uint64_t d = kernel(p, 70000, 100);
    sched_advance(s, 80000 * US);
    uncomputed[6] = false;
    sched_recheck(s, 80000 * US);
    sched_advance(s, 90000 * US);
    EXPECT(d, 71012, 71112);
    CHECK(sched_counters(s, 0).overruns == 0, "a host function is no overrun");
    timed_calls = false;
    end();
}

/* A command that comes late, but at a time at which nothing else has happened, is as if it had come in time; one that could not be kept is
 * counted, and so is one whose time is read off a clock. */
static void lateness_counted(void)
{
    begin(&easy);
    struct sched_context *c = context();
    struct sched_queue *p = queue_of(c), *q = queue_of(c);
    struct sched_work exact = { .kind = SIM_KERNEL, .duration_ns = 100 * US, .blocks = 4, .threads_per_block = 512, .exact = true };
    uint64_t a = put(p, 0, exact);
    sched_advance(s, 50000 * US);
    uint64_t b = put(p, 0, exact);      /* in the same burst, seen 50 ms later */
    sched_advance(s, 60000 * US);
    EXPECT(a, 5, 105);
    EXPECT(b, 105, 205);
    struct sched_counters counters = sched_counters(s, 0);
    CHECK(!counters.moved && !counters.host_timed, "moved %llu", (unsigned long long)counters.moved);
    uint64_t d = put(q, 0, exact);      /* in another queue it could have been beside them */
    sched_advance(s, 70000 * US);
    EXPECT(d, 205, 305);
    counters = sched_counters(s, 0);
    CHECK(counters.moved == 1 && counters.moved_ns == 200 * US, "moved by %llu", (unsigned long long)counters.moved_ns);
    kernel(q, 80000, 100);
    CHECK(sched_counters(s, 0).host_timed == 1, "read off a clock");
    end();
}

int main(void)
{
    for (uint64_t count = 2; count <= 64; count *= 2)
        in_turn(count);
    queues_in_turn();
    mps();
    mig();
    patience();
    calls();
    lateness_counted();
    puts("ok");
    return 0;
}
