/* test_schedule.c: the timing model against times computed by hand: one context and several in turn, copies, events, what goes away. */
#include "timing.h"

static void alone(void)
{
    begin(&easy);
    struct sched_queue *q = fresh();
    uint64_t a = kernel(q, 100, 300), b = kernel(q, 100, 50), c = kernel(q, 1000, 10);
    sched_advance(s, 10000 * US);
    EXPECT(a, 105, 405);                /* launch latency on an idle device */
    EXPECT(b, 405, 455);                /* hidden behind the kernel before it */
    EXPECT(c, 1005, 1015);
    CHECK(sched_next(s) == SCHED_NEVER, "something is due on an idle device");
    CHECK(sched_counters(s, 0).busy_ns == 360 * US && sched_counters(s, 0).switches == 0, "counters");
    end();
}

/* Coming late changes nothing: one advance to the far end is the same as one for each microsecond. */
static void lateness(void)
{
    for (int step = 1; step <= 10000; step *= 10) {
        begin(&easy);
        struct sched_queue *p = fresh(), *q = fresh();
        uint64_t last_p = 0, last_q = 0;
        for (int i = 0; i < 5; i++) {
            last_p = kernel(p, 0, 700);
            last_q = kernel(q, 0, 900);
        }
        for (uint64_t at = 0; at <= 20000; at += (uint64_t)step)
            sched_advance(s, at * US);
        /* p 5–2005, q 2505–4505, p 5005–6505, q 7005–9505 */
        CHECK(seen[last_p].end == 6505 * US && seen[last_q].end == 9505 * US, "step %d: %llu %llu", step,
              (unsigned long long)seen[last_p].end, (unsigned long long)seen[last_q].end);
        end();
    }
}

static void two_contexts(void)
{
    begin(&easy);
    struct sched_queue *p = fresh(), *q = fresh();
    uint64_t a = kernel(p, 0, 3000), b = kernel(q, 0, 3000);
    sched_advance(s, 100000 * US);
    /* p 5–2005, switch, q 2505–4505, switch, p's rest 5005–6005, then q at once after its switch: 6505–7505 */
    EXPECT(a, 5, 6005);
    EXPECT(b, 2505, 7505);
    CHECK(seen[a].run == 3000 * US && seen[b].run == 3000 * US, "time on the device");
    CHECK(seen[a].pieces == 2 && seen[a].first.start_ns == 5 * US && seen[a].first.end_ns == 2005 * US
          && seen[a].second.start_ns == 5005 * US && seen[a].second.end_ns == 6005 * US, "pieces");
    struct sched_counters c = sched_counters(s, 0);
    CHECK(c.switches == 3 && c.cuts == 2 && c.busy_ns == 6000 * US && c.switch_ns == 1500 * US, "%llu switches",
          (unsigned long long)c.switches);
    end();
}

/* Alone, a context renews its slice without cost; a newcomer waits for the end of the slice under way. */
static void lone_renewal(void)
{
    begin(&easy);
    struct sched_queue *p = fresh(), *q = fresh();
    uint64_t a = kernel(p, 0, 10000), b = kernel(q, 5000, 100);
    sched_advance(s, 100000 * US);
    /* slices of p: 5–2005–4005–6005; q is there at 5005, gets the device at 6005, runs 6505–6605; p goes on 7105 */
    EXPECT(b, 6505, 6605);
    EXPECT(a, 5, 11105);
    CHECK(seen[a].pieces == 2, "cut once, not %u times", seen[a].pieces);
    end();
}

/* A context without work gives the device up at once; who comes later starts a slice of its own. */
static void early_release(void)
{
    begin(&easy);
    struct sched_queue *p = fresh(), *q = fresh();
    uint64_t a = kernel(p, 0, 300), b = kernel(q, 100, 2500), c = kernel(p, 1000, 100);
    sched_advance(s, 100000 * US);
    EXPECT(a, 5, 305);
    EXPECT(c, 3305, 3405);              /* q: 805–2805, then p's switch */
    EXPECT(b, 805, 4405);               /* 500 us were left; p's slice ends with its work, and the switch back */
    end();
}

/* Another context than the last one pays for the switch on an idle device too; one after a context that is gone does not. */
static void idle_switch(void)
{
    begin(&easy);
    struct sched_context *x = context();
    struct sched_queue *p = queue_of(x), *q = fresh();
    uint64_t a = kernel(p, 0, 100), b = kernel(q, 1000, 100), c = kernel(q, 3000, 100), d = kernel(p, 5000, 100);
    sched_advance(s, 10000 * US);
    EXPECT(a, 5, 105);
    EXPECT(b, 1505, 1605);
    EXPECT(c, 3005, 3105);
    EXPECT(d, 5505, 5605);
    sched_context_drop(s, x, 10000 * US);
    struct sched_context *y = context(), *z = context();
    uint64_t e = kernel(queue_of(y), 11000, 100);
    sched_advance(s, 20000 * US);
    EXPECT(e, 11005, 11105);
    /* A switch to a context that goes away meanwhile is made again for the next. */
    kernel(queue_of(z), 30000, 100);
    uint64_t f = kernel(fresh(), 30000, 100);
    sched_context_drop(s, z, 30300 * US);
    sched_advance(s, 40000 * US);
    EXPECT(f, 30800, 30900);
    end();
}

static void round_robin(void)
{
    begin(&easy);
    struct sched_queue *q[3] = { fresh(), fresh(), fresh() };
    uint64_t t[3];
    for (int i = 0; i < 3; i++)
        t[i] = kernel(q[i], 0, 4000);
    sched_advance(s, 100000 * US);
    for (int i = 0; i < 3; i++)         /* two slices each, in turn */
        EXPECT(t[i], 5 + 2500 * (uint64_t)i, 5 + 2500 * (uint64_t)(i + 3) + 2000);
    end();
}

/* The fitted profile reproduces what it was fitted to: two compute-bound contexts lose 38 % to the switches. */
static void fitted_loss(void)
{
    struct sched_profile p = easy;
    p.switch_ns = 760 * US;
    begin(&p);
    struct sched_queue *x = fresh(), *y = fresh();
    uint64_t a = kernel(x, 0, 1000000), b = kernel(y, 0, 1000000);
    sched_advance(s, 10000000 * US);
    uint64_t last = seen[a].end > seen[b].end ? seen[a].end : seen[b].end;
    double loss = (double)last / 2e9 - 1;
    CHECK(loss > 0.375 && loss < 0.385, "loss %.4f", loss);
    end();
}

static void overlap(void)
{
    begin(&easy);
    struct sched_context *c = context();
    struct sched_queue *p = queue_of(c), *q = queue_of(c), *r = queue_of(c);
    /* 4 SMs, 4 SMs, 4 SMs of 10: the third gets 2 and runs at half speed until the first has ended */
    uint64_t a = kernel_blocks(p, 0, 1000, 16), b = kernel_blocks(q, 0, 2000, 16), d = kernel_blocks(r, 0, 1000, 16);
    sched_advance(s, 100000 * US);
    EXPECT(a, 5, 1005);
    EXPECT(b, 5, 2005);
    EXPECT(d, 5, 1505);
    CHECK(sched_counters(s, 0).busy_ns == 2000 * US, "the device is busy once");
    end();

    /* One that fills the device holds the others back; blocks that need much memory fit less often. */
    begin(&easy);
    c = context();
    p = queue_of(c);
    q = queue_of(c);
    a = kernel(p, 0, 1000);
    b = kernel_blocks(q, 0, 100, 1);
    sched_advance(s, 100000 * US);
    EXPECT(b, 1005, 1105);
    uint64_t shared = put(p, 10000, (struct sched_work){ .kind = SIM_KERNEL, .blocks = 20, .threads_per_block = 32, .shared_bytes = 60000 });
    uint64_t threads = put(p, 20000, (struct sched_work){ .kind = SIM_KERNEL, .blocks = 30, .threads_per_block = 1024 });
    uint64_t plain = put(p, 30000, (struct sched_work){ .kind = SIM_KERNEL, .blocks = 41, .threads_per_block = 32 });
    uint64_t huge = put(p, 40000, (struct sched_work){ .kind = SIM_KERNEL, .blocks = 1ull << 33, .threads_per_block = 32 });
    sched_advance(s, SCHED_NEVER - 1);
    EXPECT(shared, 10005, 10205);       /* one block on an SM: 2 waves */
    EXPECT(threads, 20005, 20205);      /* two: 2 waves */
    EXPECT(plain, 30005, 30205);        /* four: 2 waves */
    EXPECT(huge, 40005, 40005 + 100 * (((1ull << 33) + 39) / 40));
    end();
}

static void priorities(void)
{
    begin(&easy);
    struct sched_context *c = context();
    struct sched_queue *low = sched_queue_new(s, c, 0, NULL), *high = sched_queue_new(s, c, -5, NULL);
    /* ten waves of 100 us; the urgent one comes during the third and starts at its end */
    uint64_t a = kernel_blocks(low, 0, 1000, 400), b = kernel(high, 250, 200);
    sched_advance(s, 100000 * US);
    EXPECT(b, 305, 505);
    EXPECT(a, 5, 1205);
    CHECK(seen[a].run == 1000 * US && seen[a].pieces == 2, "run %llu", (unsigned long long)seen[a].run);
    end();

    begin(&easy);
    c = context();
    low = sched_queue_new(s, c, 0, NULL);
    high = sched_queue_new(s, c, -5, NULL);
    /* an urgent one of 2 SMs leaves 8 to the other, which runs at 0.8 of its speed meanwhile */
    a = kernel_blocks(low, 0, 1000, 400);
    b = kernel_blocks(high, 250, 200, 8);
    sched_advance(s, 100000 * US);
    EXPECT(b, 305, 505);
    EXPECT(a, 5, 1045);
    end();
}

static void copies(void)
{
    begin(&easy);
    struct sched_queue *p = fresh(), *q = fresh();
    uint64_t k = kernel(p, 0, 5000);
    uint64_t in1 = put(q, 100, (struct sched_work){ .kind = SIM_COPY_H2D, .bytes = 100000 });
    uint64_t out = put(fresh(), 100, (struct sched_work){ .kind = SIM_COPY_D2H, .bytes = 100000 });
    uint64_t in2 = put(fresh(), 100, (struct sched_work){ .kind = SIM_COPY_H2D, .bytes = 100000 });
    uint64_t set = put(p, 200, (struct sched_work){ .kind = SIM_MEMSET, .bytes = 1000000 });
    uint64_t within = put(p, 200, (struct sched_work){ .kind = SIM_COPY_D2D, .bytes = 1000000 });
    sched_advance(s, 100000 * US);
    EXPECT(k, 5, 5005);                 /* copies take no turn */
    EXPECT(in1, 100, 210);
    EXPECT(out, 100, 310);              /* its own engine, half the bandwidth */
    EXPECT(in2, 210, 320);              /* the same engine, in turn */
    EXPECT(set, 5005, 5115);
    EXPECT(within, 5115, 5325);         /* reads and writes */
    end();
}

static void events(void)
{
    begin(&easy);
    struct sched_context *c = context();
    struct sched_queue *p = queue_of(c), *q = queue_of(c), *other = fresh();
    struct sched_event *e = sched_event_new(s, NULL);
    uint64_t a = kernel_blocks(p, 0, 1000, 4);
    uint64_t record = put(p, 0, (struct sched_work){ .kind = SIM_RECORD, .event = e });
    uint64_t more = kernel_blocks(p, 0, 1000, 4);
    put(q, 0, (struct sched_work){ .kind = SIM_WAIT, .event = e, .wait_ticket = record });
    uint64_t b = kernel_blocks(q, 0, 100, 4);
    put(other, 0, (struct sched_work){ .kind = SIM_WAIT, .event = e, .wait_ticket = 0 });
    uint64_t early = put(other, 0, (struct sched_work){ .kind = SIM_COPY_H2D, .bytes = 1000 });
    sched_advance(s, 100000 * US);
    CHECK(recorded[record] == 1005 * US + 1, "recorded at %llu", (unsigned long long)recorded[record]);
    EXPECT(a, 5, 1005);
    EXPECT(more, 1005, 2005);
    EXPECT(b, 1005, 1105);              /* the record lets it pass at the time it was reached */
    EXPECT(early, 0, 11);               /* nothing recorded: no wait */
    /* A record that was reached long ago does not hold; a destroyed event tells nobody. */
    put(q, 5000, (struct sched_work){ .kind = SIM_WAIT, .event = e, .wait_ticket = record });
    uint64_t late = kernel(q, 5000, 10);
    kernel(p, 5000, 100);
    uint64_t untold = put(p, 5000, (struct sched_work){ .kind = SIM_RECORD, .event = e });
    sched_event_close(s, e);
    sched_advance(s, 100000 * US);
    EXPECT(late, 5005, 5015);
    CHECK(!recorded[untold] && seen[untold].done, "told after the end");
    end();
}

static void overruns(void)
{
    begin(&easy);
    struct sched_context *c = context();
    struct sched_queue *p = queue_of(c);
    uncomputed[1] = true;
    uint64_t a = kernel(p, 0, 1000), b = kernel(p, 0, 100);
    sched_advance(s, 5000 * US);
    CHECK(was_held[a] && !seen[a].done && sched_holding(s) && sched_next(s) == SCHED_NEVER, "not held");
    sched_recheck(s, 5500 * US);
    CHECK(!seen[a].done, "not computed, and done");
    uncomputed[1] = false;
    CHECK(sched_held_computed(s), "computed now");
    sched_recheck(s, 6000 * US);
    sched_advance(s, 100000 * US);
    EXPECT(a, 5, 6000);
    EXPECT(b, 6000, 6100);
    CHECK(seen[a].overrun == 4995 * US && seen[b].overrun == 0, "overrun %llu", (unsigned long long)seen[a].overrun);
    CHECK(sched_counters(s, 0).overrun_ns == 4995 * US && sched_counters(s, 0).overruns == 1, "counted");
    /* A host function holds its queue, takes nothing of the device and is no overrun. */
    struct sched_queue *q = queue_of(c);
    uncomputed[3] = true;
    uint64_t call = put(p, 200000, (struct sched_work){ .kind = SIM_MEMSET });
    uint64_t after = kernel(p, 200000, 100), beside = kernel(q, 200000, 100);
    sched_advance(s, 300000 * US);
    EXPECT(beside, 200005, 200105);
    CHECK(!seen[call].done && !seen[after].done, "held");
    uncomputed[3] = false;
    sched_recheck(s, 300000 * US);
    sched_advance(s, 400000 * US);
    EXPECT(after, 300000, 300100);
    CHECK(sched_counters(s, 0).overruns == 1, "a host function is no overrun");
    /* A copy that is late holds its engine, and is counted apart. */
    uncomputed[6] = true;
    uint64_t slow = put(q, 400000, (struct sched_work){ .kind = SIM_COPY_H2D, .bytes = 1000 });
    uint64_t next = put(queue_of(c), 400000, (struct sched_work){ .kind = SIM_COPY_H2D, .bytes = 1000 });
    sched_advance(s, 400100 * US);
    uncomputed[6] = false;
    sched_recheck(s, 400111 * US);
    sched_advance(s, 410000 * US);
    EXPECT(slow, 400000, 400111);
    EXPECT(next, 400111, 400122);
    CHECK(sched_counters(s, 0).copy_overrun_ns == 100 * US && sched_counters(s, 0).overruns == 1, "a late copy");
    /* A held kernel does not keep others from the device for longer than its slice. */
    struct sched_queue *stranger = fresh();
    uncomputed[8] = true;
    kernel(p, 500000, 100);
    uint64_t guest = kernel(stranger, 500000, 100);
    sched_advance(s, 600000 * US);
    CHECK(seen[guest].start == 502505 * US, "guest starts at %llu", (unsigned long long)seen[guest].start);
    end();
}

/* A command that is not computed for longer than it may be held loses its place, and those of its context that follow hold none. */
static void evictions(void)
{
    struct sched_profile impatient = easy;
    impatient.hold_ns = 1000 * US;
    impatient.merged = true;
    begin(&impatient);
    struct sched_context *stopped = context(), *other = context();
    struct sched_queue *p = queue_of(stopped), *p2 = queue_of(stopped), *q = queue_of(other), *q2 = queue_of(other);
    uncomputed[1] = uncomputed[2] = uncomputed[3] = true;
    uint64_t kernel1 = kernel(p, 0, 100);
    uint64_t copy1 = put(p2, 0, (struct sched_work){ .kind = SIM_COPY_H2D, .bytes = 1000 });
    uint64_t copy2 = put(p2, 0, (struct sched_work){ .kind = SIM_COPY_H2D, .bytes = 1000 });
    uint64_t guest = kernel(q, 10, 100), copied = put(q2, 10, (struct sched_work){ .kind = SIM_COPY_H2D, .bytes = 1000 });
    sched_advance(s, 5000 * US);
    EXPECT(guest, 1105, 1205);
    EXPECT(copied, 1011, 1022);
    CHECK(!seen[kernel1].done && !seen[copy1].done && sched_next(s) == SCHED_NEVER, "held, without a place");
    uncomputed[2] = false;
    sched_recheck(s, 6000 * US);
    CHECK(seen[copy1].done && seen[copy1].end == 6000 * US, "it ends when it is computed");
    sched_advance(s, 6500 * US);        /* it has computed something: what comes next holds its place again */
    uint64_t behind = put(q2, 6600, (struct sched_work){ .kind = SIM_COPY_H2D, .bytes = 1000 });
    sched_advance(s, 9000 * US);
    EXPECT(behind, 7011, 7022);
    uncomputed[1] = uncomputed[3] = false;
    sched_recheck(s, 10000 * US);
    CHECK(seen[kernel1].end == 10000 * US && seen[kernel1].run == 1100 * US && seen[copy2].end == 10000 * US, "the rest ends");
    uncomputed[7] = true;
    kernel(p, 11000, 100);
    sched_advance(s, 15000 * US);
    sched_context_drop(s, stopped, 16000 * US);     /* while it is held and has no place */
    uint64_t last = kernel(q, 17000, 100);
    sched_advance(s, 20000 * US);
    EXPECT(last, 17005, 17105);
    end();
}

static void drops(void)
{
    begin(&easy);
    struct sched_context *x = context(), *y = context();
    struct sched_queue *p = queue_of(x), *p2 = queue_of(x), *q = queue_of(y);
    struct sched_event *e = sched_event_new(s, NULL);
    uint64_t a = kernel(p, 0, 100000);
    uint64_t record = put(p, 0, (struct sched_work){ .kind = SIM_RECORD, .event = e });
    put(p2, 0, (struct sched_work){ .kind = SIM_COPY_D2H, .bytes = 1000000 });
    put(q, 0, (struct sched_work){ .kind = SIM_WAIT, .event = e, .wait_ticket = record });
    uint64_t b = kernel(q, 0, 100);
    sched_context_drop(s, x, 700 * US);
    sched_advance(s, 100000 * US);
    CHECK(seen[a].dropped && seen[a].end == 700 * US && seen[a].run == 695 * US && !seen[a].done, "dropped");
    CHECK(seen[b].done && seen[b].start == 700 * US, "a record that never comes holds nobody: %llu", (unsigned long long)seen[b].start);
    uint64_t out = put(q, 200000, (struct sched_work){ .kind = SIM_COPY_D2H, .bytes = 1000 });
    sched_advance(s, 300000 * US);
    EXPECT(out, 200000, 200012);        /* the engine is free */
    kernel(q, 300000, 500);
    sched_queue_close(s, q);
    CHECK(gone == 0, "closed with work");
    sched_advance(s, 400000 * US);
    CHECK(gone == 1, "ran dry");
    end();
}

static void two_devices(void)
{
    begin(&easy);
    struct sched_context *x = context(), *y = sched_context_new(s, 1, NULL);
    struct sched_queue *p = queue_of(x), *q = queue_of(y);
    struct sched_event *e = sched_event_new(s, NULL);
    uint64_t a = kernel(p, 0, 1000), b = kernel(q, 0, 400);
    uint64_t record = put(p, 0, (struct sched_work){ .kind = SIM_RECORD, .event = e });
    put(q, 0, (struct sched_work){ .kind = SIM_WAIT, .event = e, .wait_ticket = record });
    uint64_t c = kernel(q, 0, 100);
    uint32_t gpu, memory;
    sched_advance(s, 100000 * US);
    EXPECT(a, 5, 1005);
    EXPECT(b, 5, 405);
    EXPECT(c, 1005, 1105);
    sched_utilisation(s, 0, 10000 * US, &gpu, &memory);
    CHECK(gpu == 10 && memory == 0, "%u %%", gpu);
    end();
}

/* Nothing gets lost in a long random mixture, and busy time is what the kernels were on the device at least. */
static void random_mixture(unsigned seed)
{
    begin(&easy);
    struct sched_context *c[4];
    struct sched_queue *q[12];
    struct sched_event *e = sched_event_new(s, NULL);
    uint64_t at = 0, record = 0;
    srand(seed);
    for (int i = 0; i < 4; i++)
        c[i] = sched_context_new(s, i == 3, NULL);
    for (int i = 0; i < 12; i++)
        q[i] = sched_queue_new(s, c[i % 4], rand() % 3 - 2, NULL);
    for (int i = 0; i < MAX - 2; i++) {
        struct sched_work w = { .kind = 1 + (uint32_t)rand() % 7, .duration_ns = (uint64_t)(rand() % 3) * 777777, .blocks = 1 + (uint64_t)rand() % 500,
                                .threads_per_block = 1 + (uint32_t)rand() % 1024, .shared_bytes = (uint32_t)rand() % 50000,
                                .bytes = (uint64_t)rand() % 5000000, .event = NULL };
        if (w.kind == SIM_RECORD || w.kind == SIM_WAIT)
            w.event = e;
        w.wait_ticket = record;
        record = w.kind == SIM_RECORD ? tickets + 1 : record;
        at += (uint64_t)rand() % 300;
        put(q[rand() % 12], at, w);
    }
    for (uint64_t next; (next = sched_next(s)) != SCHED_NEVER;)
        sched_advance(s, next);
    for (uint64_t t = 1; t <= tickets; t++)
        CHECK(seen[t].done, "seed %u: command %llu was lost", seed, (unsigned long long)t);
    end();
}

int main(void)
{
    alone();
    lateness();
    two_contexts();
    lone_renewal();
    early_release();
    idle_switch();
    round_robin();
    fitted_loss();
    overlap();
    priorities();
    copies();
    events();
    overruns();
    evictions();
    drops();
    two_devices();
    for (unsigned seed = 1; seed <= 300; seed++)
        random_mixture(seed);
    puts("ok");
    return 0;
}
