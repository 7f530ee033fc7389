/* memory MIB PIECE_MIB SEED: a program that holds MIB of device memory in pieces, takes turns, and knows what every word must be. With SEED 0 it
 * allocates without a turn, and puts nothing in. Says `ready PID`, then obeys lines on stdin; times are CLOCK_MONOTONIC nanoseconds:
 *
 *   acquire   `acquired ASKED BEGIN`                 release   `released AT`
 *   work      a kernel for each piece, which adds 1 to one word of each 4 KiB; waits for them: `worked BEGIN FIRST END`, FIRST when the first
 *             launch has returned
 *   graph     the same by a graph, captured by the first such order: `graphed`
 *   enter     acquire and work: `entered ASKED BEGIN FIRST END`
 *   turn      all three: `turn ASKED BEGIN FIRST END RELEASED`
 *   check     `checked WRONG`: words that are not what they must be, of all
 *   cpu       `cpu NS`: of the whole process so far
 *   plain MIB `plain OUT_NS IN_NS CPU_NS`: so much is copied out to pinned memory, and then in, in pieces, two at a time
 *   remap MIB `remapped CPU_NS`: so much is copied out, and its memory given back to the driver; then memory is made, and it is copied in
 *
 * Without gpud (GPUD_OPTIONAL=1) it is the same program and takes no turns. */
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "driver.h"
#include "gpud.h"

#define PIECES 1024
#define PAGE 4096
#define WAIT_NS 120000000000ull

static const char PTX[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry bump(.param .u64 at, .param .u32 count)\n{\n"
    "    .reg .pred %p<2>;\n    .reg .b32 %r<6>;\n    .reg .b64 %rd<6>;\n"
    "    ld.param.u64 %rd1, [at];\n    ld.param.u32 %r1, [count];\n"
    "    mov.u32 %r2, %ctaid.x;\n    mov.u32 %r3, %ntid.x;\n    mov.u32 %r4, %tid.x;\n    mad.lo.s32 %r5, %r2, %r3, %r4;\n"
    "    setp.ge.u32 %p1, %r5, %r1;\n    @%p1 bra done;\n"
    "    cvta.to.global.u64 %rd2, %rd1;\n    mul.wide.u32 %rd3, %r5, 4096;\n    add.s64 %rd4, %rd2, %rd3;\n"
    "    ld.global.u64 %rd5, [%rd4];\n    add.s64 %rd5, %rd5, 1;\n    st.global.u64 [%rd4], %rd5;\n"
    "done:\n    ret;\n}\n";

static struct {
    void *function, *stream, *context, *graph;
    launch_fn launch;
    uint64_t at[PIECES], seed, rounds, bytes;
    unsigned pieces;
    uint64_t *host;     /* one piece */
    int turn;
} me;

static void out_of(const char *what)
{
    fprintf(stderr, "memory: %s\n", what);
    exit(1);
}

static uint64_t word_at(unsigned piece, uint64_t index)
{
    return (me.seed << 48) + (uint64_t)piece * 0x9e3779b97f4a7c15u + index * 0x2545f4914f6cdd1du;
}

static void fill(void)
{
    for (unsigned piece = 0; piece < me.pieces; piece++) {
        for (uint64_t i = 0; i < me.bytes / 8; i++)
            me.host[i] = word_at(piece, i);
        CALL(cuMemcpyHtoD_v2, me.at[piece], (void *)me.host, (size_t)me.bytes);
    }
}

static void check(void)
{
    uint64_t wrong = 0;
    for (unsigned piece = 0; piece < me.pieces; piece++) {
        CALL(cuMemcpyDtoH_v2, (void *)me.host, me.at[piece], (size_t)me.bytes);
        for (uint64_t i = 0; i < me.bytes / 8; i++)
            wrong += me.host[i] != word_at(piece, i) + (i % (PAGE / 8) == 0 ? me.rounds : 0);
    }
    printf("checked %llu\n", (unsigned long long)wrong);
}

static void acquire(long long *asked, long long *begin)
{
    *asked = clock_ns(CLOCK_MONOTONIC);
    me.turn = gpud_acquire(0, WAIT_NS);
    *begin = clock_ns(CLOCK_MONOTONIC);
    if (me.turn < 0)
        out_of(gpud_error_text(me.turn));
}

static long long release(void)
{
    long long at = clock_ns(CLOCK_MONOTONIC);
    int code = me.turn == GPUD_OK ? gpud_release(0) : GPUD_OK;
    if (code < 0)
        out_of(gpud_error_text(code));
    return at;
}

static long long launch_all(void)
{
    unsigned count = (unsigned)(me.bytes / PAGE);
    long long first = 0;
    for (unsigned piece = 0; piece < me.pieces; piece++) {
        void *parameters[] = {&me.at[piece], &count};
        if (me.launch(me.function, (count + 127) / 128, 1, 1, 128, 1, 1, 0, me.stream, parameters, NULL))
            out_of("a launch failed");
        if (piece == 0)
            first = clock_ns(CLOCK_MONOTONIC);
    }
    return first;
}

static void replay(void)
{
    if (!me.graph) {
        void *captured;
        CALL(cuStreamBeginCapture_v2, me.stream, 0);
        launch_all();
        CALL(cuStreamEndCapture, me.stream, &captured);
        CALL(cuGraphInstantiateWithFlags, &me.graph, captured, 0ull);
    }
    CALL(cuGraphLaunch, me.graph, me.stream);
    CALL(cuStreamSynchronize, me.stream);
    me.rounds++;
    printf("graphed\n");
}

static void work(long long *begin, long long *first, long long *end)
{
    *begin = clock_ns(CLOCK_MONOTONIC);
    *first = launch_all();
    CALL(cuStreamSynchronize, me.stream);
    *end = clock_ns(CLOCK_MONOTONIC);
    me.rounds++;
}

/* One way, in pieces, two at a time; the nanoseconds. */
static long long copied(uint64_t mib, char *host[2], void *events[2], int out)
{
    uint64_t pieces = (mib << 20) / me.bytes;
    long long begin = clock_ns(CLOCK_MONOTONIC);
    for (uint64_t i = 0; i < pieces; i++) {
        uint64_t at = me.at[i % me.pieces];
        if (i >= 2)
            CALL(cuEventSynchronize, events[i % 2]);
        if (out)
            CALL(cuMemcpyDtoHAsync_v2, (void *)host[i % 2], at, (size_t)me.bytes, me.stream);
        else
            CALL(cuMemcpyHtoDAsync_v2, at, (void *)host[i % 2], (size_t)me.bytes, me.stream);
        CALL(cuEventRecord, events[i % 2], me.stream);
    }
    CALL(cuStreamSynchronize, me.stream);
    return clock_ns(CLOCK_MONOTONIC) - begin;
}

/* Afterwards its memory is not what it was. */
static void plain(uint64_t mib)
{
    char *host[2];
    void *events[2];
    for (int i = 0; i < 2; i++) {
        CALL(cuMemHostAlloc, &host[i], (size_t)me.bytes, 0u);
        CALL(cuEventCreate, &events[i], 2u);
    }
    copied(2 * me.bytes >> 20, host, events, 1);    /* touches what it copies to */
    long long cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID), out = copied(mib, host, events, 1), in = copied(mib, host, events, 0);
    printf("plain %lld %lld %lld\n", out, in, clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu);
}

/* What the driver's calls for a swap cost by themselves, in memory of its own. */
static void remap(uint64_t mib)
{
    uint64_t pieces = (mib << 20) / me.bytes, handle, at;
    long long cpu = 0;
    char *host;
    CALL(cuMemHostAlloc, &host, (size_t)me.bytes, 0u);
    CALL(cuMemAddressReserve, &at, (size_t)me.bytes, (size_t)0, (uint64_t)0, 0ull);
    for (uint64_t i = 0; i <= pieces; i++) {    /* the first one touches the host's side */
        if (i == 1)
            cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
        CALL(cuMemCreate, &handle, (size_t)me.bytes, OF_DEVICE, 0ull);
        CALL(cuMemMap, at, (size_t)me.bytes, (size_t)0, handle, 0ull);
        CALL(cuMemSetAccess, at, (size_t)me.bytes, BOTH_WAYS, (size_t)1);
        CALL(cuMemcpyHtoDAsync_v2, at, (void *)host, (size_t)me.bytes, me.stream);
        CALL(cuMemcpyDtoHAsync_v2, (void *)host, at, (size_t)me.bytes, me.stream);
        CALL(cuStreamSynchronize, me.stream);
        CALL(cuMemUnmap, at, (size_t)me.bytes);
        CALL(cuMemRelease, handle);
    }
    printf("remapped %lld\n", clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu);
    CALL(cuMemAddressFree, at, (size_t)me.bytes);
}

static void obey(const char *line)
{
    long long asked, begin, worked, first, end;
    unsigned long mib;
    if (!strcmp(line, "acquire\n")) {
        acquire(&asked, &begin);
        printf("acquired %lld %lld\n", asked, begin);
    } else if (!strcmp(line, "release\n")) {
        printf("released %lld\n", release());
    } else if (!strcmp(line, "work\n")) {
        work(&begin, &first, &end);
        printf("worked %lld %lld %lld\n", begin, first, end);
    } else if (!strcmp(line, "graph\n")) {
        replay();
    } else if (!strcmp(line, "enter\n")) {
        acquire(&asked, &begin);
        work(&worked, &first, &end);
        printf("entered %lld %lld %lld %lld\n", asked, begin, first, end);
    } else if (!strcmp(line, "turn\n")) {
        acquire(&asked, &begin);
        work(&worked, &first, &end);
        long long released = release();
        printf("turn %lld %lld %lld %lld %lld\n", asked, begin, first, end, released);
    } else if (!strcmp(line, "check\n")) {
        check();
    } else if (!strcmp(line, "cpu\n")) {
        printf("cpu %lld\n", clock_ns(CLOCK_PROCESS_CPUTIME_ID));
    } else if (sscanf(line, "plain %lu", &mib) == 1) {
        plain(mib);
    } else if (sscanf(line, "remap %lu", &mib) == 1) {
        remap(mib);
    } else {
        out_of("an order that is none");
    }
    fflush(stdout);
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: memory MIB PIECE_MIB SEED\n");
        return 2;
    }
    char line[256];
    void *module;
    long long asked, begin;
    me.bytes = (uint64_t)atol(argv[2]) << 20;
    me.pieces = (unsigned)(((uint64_t)atol(argv[1]) << 20) / me.bytes);
    me.seed = (uint64_t)atol(argv[3]);
    me.host = malloc(me.bytes);
    if (me.pieces > PIECES || !me.host)
        out_of("too much");
    CALL(cuInit, 0u);
    CALL(cuCtxCreate_v2, &me.context, 0u, 0);
    CALL(cuModuleLoadData, &module, PTX);
    CALL(cuModuleGetFunction, &me.function, module, "bump");
    CALL(cuStreamCreate, &me.stream, 1u);
    me.launch = (launch_fn)driver_entry("cuLaunchKernel");
    if (me.seed != 0)
        acquire(&asked, &begin);
    for (unsigned piece = 0; piece < me.pieces; piece++)
        CALL(cuMemAlloc_v2, &me.at[piece], (size_t)me.bytes);
    if (me.seed != 0) {
        fill();
        release();
    }
    printf("ready %d\n", (int)getpid());
    fflush(stdout);
    while (fgets(line, sizeof line, stdin))
        obey(line);
    return 0;
}
