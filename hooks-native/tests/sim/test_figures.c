/* test_figures.c: to the nanosecond, what single commands come to, what counters and monitors are told, and the corners of slices, waves
 * and copy engines. */
#include "timing.h"

static void exactly(int line, uint64_t ticket, uint64_t start_ns, uint64_t end_ns)
{
    CHECK(seen[ticket].start == start_ns && seen[ticket].end == end_ns, "line %d: from %llu to %llu ns, not %llu to %llu", line,
          (unsigned long long)seen[ticket].start, (unsigned long long)seen[ticket].end, (unsigned long long)start_ns, (unsigned long long)end_ns);
}
#define EXACTLY(ticket, start_ns, end_ns) exactly(__LINE__, ticket, start_ns, end_ns)

static uint64_t blocks(struct sched_queue *queue, uint64_t at_us, uint64_t count, uint32_t threads, uint32_t shared)
{
    return put(queue, at_us, (struct sched_work){ .kind = SIM_KERNEL, .blocks = count, .threads_per_block = threads, .shared_bytes = shared });
}

static uint64_t copy(struct sched_queue *queue, uint64_t at_us, uint32_t kind, uint64_t bytes)
{
    return put(queue, at_us, (struct sched_work){ .kind = kind, .bytes = bytes });
}

static void occupancy(void)
{
    begin(&easy);
    struct sched_queue *p = fresh();
    uint64_t warps = blocks(p, 0, 30, 682, 0), large = blocks(p, 1000, 20, 32, 200000), threads = blocks(p, 2000, 40, 992, 0);
    uint64_t endless = blocks(p, 3000, 1ull << 62, 32, 0);
    sched_advance(s, 10000 * US);
    EXPECT(warps, 5, 205);              /* 22 warps of 32: two blocks on an SM, not three */
    EXPECT(large, 1005, 1205);          /* more shared memory than an SM has: one block, two waves */
    EXPECT(threads, 2005, 2205);        /* two blocks of 1024 */
    sched_advance(s, SCHED_NEVER / 8192);
    CHECK(!seen[endless].done, "its length has run over");
    end();
    /* It has SMs for the blocks it has, as few as they are. */
    begin(&easy);
    struct sched_context *c = context();
    uint64_t nothing = put(queue_of(c), 0, (struct sched_work){ .kind = SIM_KERNEL, .duration_ns = 900 * US, .shared_bytes = 60000 });
    uint64_t rest = kernel(queue_of(c), 0, 900);
    sched_advance(s, 10000 * US);
    EXPECT(nothing, 5, 905);
    EXPECT(rest, 5, 995);               /* nine of ten SMs, then all: 9 × 900 + 10 × 90 */
    end();
}

/* Bytes by the bandwidth, to the nanosecond; nothing takes no time at all. Copies within the device and memsets fill it, and are cut. */
static void bytes(void)
{
    struct sched_profile p = easy;
    begin(&p);
    struct sched_context *c = context();
    struct sched_queue *q = queue_of(c);
    uint64_t set = copy(q, 0, SIM_MEMSET, 15000), within = copy(q, 100, SIM_COPY_D2D, 15000), in = copy(q, 200, SIM_COPY_H2D, 1500),
             out = copy(q, 300, SIM_COPY_D2H, 1500);
    sched_advance(s, 1000 * US);
    EXACTLY(set, 0, 11500);
    EXACTLY(within, 100000, 113000);
    EXACTLY(in, 200000, 211500);
    EXACTLY(out, 300000, 313000);
    CHECK(seen[in].run == 11500 && seen[out].run == 13000, "a copy runs from its start to its end");
    /* A kernel on half of the device leaves a memset the other half: at half its speed. */
    uint64_t half = kernel_blocks(q, 995, 5000, 20), beside = copy(queue_of(c), 1000, SIM_MEMSET, 9900000);
    sched_advance(s, 100000 * US);
    EXPECT(half, 1000, 6000);
    EXPECT(beside, 1000, 3000);         /* 1 ms alone */
    uint64_t guest = kernel(fresh(), 9995, 10000), cut = copy(q, 10000, SIM_MEMSET, 39900000);
    sched_advance(s, 100000 * US);
    CHECK(seen[cut].pieces == 2 && seen[guest].pieces > 2 && seen[cut].run == 4000 * US, "a memset takes turns: %u pieces", seen[cut].pieces);
    end();
    p.copy_latency_ns = 0;
    begin(&p);
    q = fresh();
    set = copy(q, 0, SIM_MEMSET, 5);
    in = copy(q, 100, SIM_COPY_H2D, 0);
    sched_advance(s, 1000 * US);
    EXACTLY(set, 0, 1);
    EXACTLY(in, 100000, 100001);
    end();
}

static void counters(void)
{
    begin(&easy);
    struct sched_context *c = context();
    struct sched_queue *p = queue_of(c);
    copy(p, 0, SIM_COPY_H2D, 90000);                        /* 100 us */
    copy(queue_of(c), 0, SIM_COPY_D2H, 95000);              /* 200 us beside it */
    sched_advance(s, 1000 * US);
    struct sched_counters n = sched_counters(s, 0);
    CHECK(n.copy_busy_ns == 300 * US && n.busy_ns == 0 && n.copies == 2 && n.kernels == 0, "copies: %llu and %llu", (unsigned long long)n.copy_busy_ns,
          (unsigned long long)n.busy_ns);
    /* Moved is what came too late for a time of its own; not what waits in its queue anyway, nor what is read off a clock. */
    struct sched_work exact = { .kind = SIM_KERNEL, .duration_ns = 1000 * US, .blocks = 4, .exact = true }, timed = exact;
    timed.exact = false;
    put(p, 2000, exact);
    sched_advance(s, 2500 * US);
    put(queue_of(c), 2000, (struct sched_work){ .kind = SIM_COPY_H2D, .bytes = 1000, .exact = true });
    sched_advance(s, 2600 * US);
    put(p, 2000, exact);                                    /* behind the kernel */
    CHECK(sched_counters(s, 0).moved == 1, "moved %llu", (unsigned long long)sched_counters(s, 0).moved);
    put(queue_of(c), 2000, timed);
    CHECK(sched_counters(s, 0).moved == 1 && sched_counters(s, 0).host_timed == 3, "timed by the host: %llu",
          (unsigned long long)sched_counters(s, 0).host_timed);
    end();
}

/* Percent of the last second: of the device, of each context, and of moving bytes. */
static void expect_use(int line, const struct sched_context *c, uint64_t at_us, uint32_t gpu, uint32_t memory)
{
    uint32_t g, m;
    if (c)
        sched_context_utilisation(c, at_us * US, &g, &m);
    else
        sched_utilisation(s, 0, at_us * US, &g, &m);
    CHECK(g == gpu && m == memory, "line %d: %u %% and %u %%, not %u and %u", line, g, m, gpu, memory);
}
#define USE(context, at_us, gpu, memory) expect_use(__LINE__, context, at_us, gpu, memory)

static void utilisation(void)
{
    begin(&easy);
    struct sched_context *x = context(), *y = context();
    struct sched_queue *a = queue_of(x), *b = queue_of(x), *c = queue_of(y);
    kernel_blocks(a, 99995, 300000, 20);                    /* 100 to 400 ms, on half the device, and another one beside it */
    kernel_blocks(b, 99995, 200000, 20);
    sched_advance(s, 450000 * US);
    copy(c, 500000, SIM_COPY_H2D, 99990000);                /* 500 to 600 ms */
    copy(b, 700000, SIM_MEMSET, 999900000);                 /* 700 to 800 ms */
    sched_advance(s, 1000000 * US);
    USE(NULL, 1000000, 40, 20);
    USE(x, 1000000, 40, 10);
    USE(y, 1000000, 0, 10);
    /* A second later all that is past; what runs now counts up to now. */
    kernel(c, 2199995, 500000);
    sched_advance(s, 2300000 * US);
    USE(NULL, 2300000, 9, 0);                               /* 99.5 ms: the switch to y is none of it */
    USE(x, 2300000, 0, 0);
    USE(y, 2300000, 9, 0);
    sched_advance(s, 2500000 * US);
    USE(y, 2500000, 29, 0);
    USE(NULL, 2500000, 29, 0);
    /* Buckets of the same place, more than a second and a half later, hold nothing of before. */
    kernel(a, 3699995, 100000);
    sched_advance(s, 4000000 * US);
    USE(NULL, 4000000, 10, 0);
    USE(x, 4000000, 10, 0);
    /* Always busy is 100 %, whenever one asks; of the oldest tenth the part counts that lies in the second. A memset of seconds counts
     * where it lies, and while it runs. */
    kernel(a, 4999995, 2000000);                            /* to 7 s */
    copy(c, 6250000, SIM_COPY_H2D, 10);                     /* something happens */
    USE(NULL, 6250000, 100, 0);
    USE(x, 6250000, 100, 0);
    copy(a, 6950000, SIM_MEMSET, 29999900000);              /* to 10 s */
    USE(x, 6950000, 100, 0);
    sched_advance(s, 8850000 * US);
    USE(NULL, 8850000, 100, 100);
    sched_advance(s, 10500000 * US);
    USE(NULL, 10250000, 75, 75);
    USE(x, 10250000, 75, 75);
    USE(y, 10250000, 0, 0);
    end();
}

static void waves(void)
{
    begin(&easy);
    struct sched_context *c = context();
    struct sched_queue *low = queue_of(c), *also = queue_of(c), *high = sched_queue_new(s, c, -5, NULL), *other = sched_queue_new(s, c, -5, NULL);
    /* Of equal priority, nobody gives way. */
    uint64_t a = kernel_blocks(low, 0, 1000, 400), b = kernel_blocks(also, 0, 1000, 400);
    copy(queue_of(c), 0, SIM_COPY_H2D, 95000);              /* so that something happens at the end of the first wave */
    sched_advance(s, 10000 * US);
    EXPECT(a, 5, 1005);
    EXPECT(b, 1005, 2005);
    CHECK(seen[a].pieces == 1 && seen[a].first.end_ns == 0, "one that was never cut has no pieces");
    /* An urgent one takes what is free, and the rest when the wave under way on it ends, though it runs already. */
    a = kernel_blocks(low, 10000, 1000, 400);
    b = kernel_blocks(high, 10250, 200, 24);                /* six SMs, at the wave's end at 10305 */
    uint64_t d = kernel(other, 10495, 100);                 /* six SMs at 10505, four more at 10555: 0.6 × 50 + 70 */
    sched_advance(s, 20000 * US);
    EXPECT(b, 10305, 10505);
    EXPECT(d, 10505, 10625);
    EXPECT(a, 10005, 11225);
    /* A wave on seven SMs ends between two nanoseconds. */
    a = kernel_blocks(low, 20000, 1000, 400);
    kernel_blocks(high, 20250, 200, 12);
    d = kernel(other, 20350, 100);
    sched_advance(s, 30000 * US);
    CHECK(seen[d].start == 20447858, "starts at %llu", (unsigned long long)seen[d].start);
    end();
    /* A wave that has just begun is finished first. */
    struct sched_profile p = easy;
    p.launch_ns = 0;
    begin(&p);
    c = context();
    low = queue_of(c);
    high = sched_queue_new(s, c, -5, NULL);
    kernel_blocks(low, 0, 1000, 400);
    b = kernel(high, 0, 100);
    sched_advance(s, 10000 * US);
    EXPECT(b, 100, 200);
    end();
}

static void turns(void)
{
    begin(&easy);
    struct sched_context *gone_one = context();
    struct sched_queue *a = fresh(), *b = fresh(), *c = queue_of(gone_one), *d = fresh();
    /* The last in the line goes away; who comes then stands behind those that are left. */
    uint64_t first = kernel(a, 0, 1000), second = kernel(b, 0, 1000);
    kernel(c, 0, 1000);
    sched_advance(s, 100 * US);
    sched_context_drop(s, gone_one, 200 * US);
    uint64_t third = kernel(d, 300, 1000);
    sched_advance(s, 100000 * US);
    EXPECT(first, 5, 1005);
    EXPECT(second, 1505, 2505);
    EXPECT(third, 3005, 4005);
    /* Work that is stopped while the device goes to its context, and comes again: the switch under way is the switch. */
    first = kernel(a, 100000, 1000);
    kernel(b, 100000, 1000);
    sched_advance(s, 101600 * US);                          /* a: 100505 to 101505; the switch to b ends at 102005 */
    sched_queue_stop(s, b, 101700 * US);
    second = kernel(b, 101710, 300);
    sched_advance(s, 200000 * US);
    EXPECT(first, 100505, 101505);
    EXPECT(second, 102005, 102305);
    CHECK(sched_counters(s, 0).switches == 4, "%llu switches", (unsigned long long)sched_counters(s, 0).switches);
    end();
    /* A kernel that goes away while the device comes back to it has had the pieces that it had. */
    begin(&easy);
    struct sched_context *x = context();
    first = kernel(queue_of(x), 0, 5000);
    kernel(fresh(), 0, 5000);
    sched_advance(s, 4800 * US);                            /* 5 to 2005, 2505 to 4505, and back until 5005 */
    sched_context_drop(s, x, 4900 * US);
    CHECK(seen[first].dropped && seen[first].pieces == 1 && seen[first].run == 2000 * US, "%u pieces", seen[first].pieces);
    end();
}

/* However often a kernel is cut, all its pieces are known. */
static void pieces(void)
{
    begin(&easy);
    uint64_t a = kernel(fresh(), 0, 2000000);
    kernel(fresh(), 0, 2000000);
    sched_advance(s, 10000000 * US);
    CHECK(seen[a].pieces == 1000 && seen[a].kept == 1000 && seen[a].run == 2000000 * US, "%u pieces, %u kept", seen[a].pieces, seen[a].kept);
    CHECK(seen[a].first.start_ns == 5 * US && seen[a].last.start_ns == (5 + 999 * 5000) * US && seen[a].last.end_ns == seen[a].end, "the last piece");
    end();
}

static void engines(void)
{
    begin(&easy);
    struct sched_context *x = context();
    uint64_t a = copy(fresh(), 0, SIM_COPY_H2D, 90000);
    copy(queue_of(x), 0, SIM_COPY_H2D, 90000);
    sched_context_drop(s, x, 10 * US);
    uint64_t b = copy(fresh(), 20, SIM_COPY_H2D, 90000);
    sched_advance(s, 1000 * US);
    EXPECT(a, 0, 100);
    EXPECT(b, 100, 200);
    end();
}

/* Kernels that are not computed: what is due before they are looked at happens first; those that go away are forgotten. */
static void not_computed(void)
{
    begin(&easy);
    struct sched_context *c = context();
    uncomputed[1] = true;
    uint64_t a = kernel_blocks(queue_of(c), 0, 1000, 4), b = kernel_blocks(queue_of(c), 0, 3000, 4);
    sched_advance(s, 2000 * US);
    uncomputed[1] = false;
    sched_recheck(s, 6000 * US);
    EXPECT(a, 5, 6000);
    EXPECT(b, 5, 3005);
    uncomputed[3] = true;
    kernel(queue_of(c), 10000, 100);
    sched_advance(s, 20000 * US);
    CHECK(sched_holding(s), "held");
    sched_context_drop(s, c, 20000 * US);
    CHECK(!sched_holding(s), "holds what has gone");
    end();
    /* A host function that ends while the clock stands ends at its time, not at that at which the clock stands. */
    timed_calls = true;
    begin(&easy);
    sched_patient(s, true);
    c = context();
    struct sched_queue *p = queue_of(c);
    uncomputed[2] = uncomputed[4] = true;
    kernel_blocks(p, 0, 1000, 20);                          /* to 1005, then the function, of 7 us */
    put(p, 0, (struct sched_work){ .kind = SIM_MEMSET });
    uint64_t after = kernel_blocks(p, 0, 100, 4), late = kernel_blocks(queue_of(c), 0, 1003, 20);
    sched_advance(s, 5000 * US);
    CHECK(sched_standing(s) && sched_now(s) == 1008 * US, "stands at %llu", (unsigned long long)sched_now(s));
    uncomputed[2] = false;
    sched_recheck(s, 5000 * US);
    uncomputed[4] = false;
    sched_recheck(s, 6000 * US);
    sched_advance(s, 10000 * US);
    EXPECT(late, 5, 1008);
    EXPECT(after, 1012, 1112);
    timed_calls = false;
    end();
}

/* What docs/simulator.md says of a request of `length` on a device that another program fills: at whatever moment it comes, no longer than
 * the rest of a slice, a switch, and a slice and two switches after each of its own; and there is a moment at which it is that long. */
static void bound(uint64_t length)
{
    uint64_t slices = (length + 1999) / 2000, most = 2000 + 500 + length + (slices - 1) * (2000 + 2 * 500), longest = 0;
    for (uint64_t at = 0; at < 2000; at += 25) {
        begin(&easy);
        struct sched_queue *p = fresh(), *q = fresh();
        kernel(p, 0, 100000);
        uint64_t a = kernel(q, 10000 + at, length);
        sched_advance(s, 1000000 * US);
        uint64_t took = seen[a].end / US - (10005 + at);
        CHECK(took <= most, "%llu us at %llu", (unsigned long long)took, (unsigned long long)at);
        longest = took > longest ? took : longest;
        end();
    }
    CHECK(longest == most, "%llu us take %llu at most, not %llu", (unsigned long long)length, (unsigned long long)longest, (unsigned long long)most);
}

int main(void)
{
    occupancy();
    bytes();
    counters();
    utilisation();
    waves();
    turns();
    pieces();
    engines();
    not_computed();
    for (uint64_t length = 500; length <= 10000; length += 500)
        bound(length);
    puts("ok");
    return 0;
}
