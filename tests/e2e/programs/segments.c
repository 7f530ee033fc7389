/* segments PTX KERNEL MIB SEED [ROUNDS [PAUSE_US]]: uses MIB of device memory by handles (cuMemCreate), mapped side by side into one range of
 * addresses, as PyTorch's expandable segments are, and knows all of their bytes. Ends with 0 after `right`, with 1 at the first wrong byte
 * or driver error. SEGMENT_MIB in the environment: of each segment, else 20.
 *
 * A round adds its number to the first words of each segment by KERNEL, and every fourth moves one segment to other addresses. Without ROUNDS it
 * does what stdin says, a line each, and answers `ok`: `r` a round, `m` moves all segments to other addresses, `s` gives back every
 * second one, `x` exports the first one, `g` adds a segment, `c` checks everything; ends with stdin. */
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "driver.h"

#define MIB ((size_t)1 << 20)
#define SEGMENTS 64
#define ADDED 1024u         /* words */

static struct segment {
    unsigned long long handle;
    uint64_t at;
    uint32_t added;
    int used;
} segments[SEGMENTS];
static unsigned count;
static size_t segment_bytes = 20 * MIB;
static uint64_t range, spare;   /* spare: as many addresses again */
static uint32_t seed, rounds_done;
static void *function, *stream;
static uint32_t *host;
static const struct { int type, handles, place, device; void *none; unsigned char flags[8]; } prop = { 1, 1, 1, 0, NULL, { 0 } };
static const struct { int place, device, flags; } rights = { 1, 0, 3 };

static uint32_t word_of(const struct segment *segment, size_t i)
{
    uint32_t x = (uint32_t)i * 2654435761u ^ seed ^ (uint32_t)(segment - segments) << 20;
    x ^= x >> 15;
    return x * 2246822519u + (i < ADDED ? segment->added : 0);
}

static void add_segment(void)
{
    struct segment *segment = &segments[count];

    segment->at = range + count++ * segment_bytes;
    segment->used = 1;
    CALL(cuMemCreate, &segment->handle, segment_bytes, (const void *)&prop, 0ull);
    CALL(cuMemMap, segment->at, segment_bytes, (size_t)0, segment->handle, 0ull);
}

static void fill(struct segment *segment)
{
    for (size_t i = 0; i < segment_bytes / 4; i++)
        host[i] = word_of(segment, i);
    CALL(cuMemcpyHtoD_v2, segment->at, (void *)host, segment_bytes);
}

static void check(const struct segment *segment)
{
    memset(host, 0x5a, segment_bytes);
    CALL(cuMemcpyDtoH_v2, (void *)host, segment->at, segment_bytes);
    for (size_t i = 0; i < segment_bytes / 4; i++) {
        if (host[i] != word_of(segment, i)) {
            fprintf(stderr, "segments: word %zu of segment %u is %08x, should be %08x, round %u\n", i, (unsigned)(segment - segments), host[i],
                    word_of(segment, i), rounds_done);
            exit(1);
        }
    }
}

static void check_all(void)
{
    for (unsigned i = 0; i < count; i++) {
        if (segments[i].used)
            check(&segments[i]);
    }
}

/* To the same place of the other range, with what it holds. */
static void move(struct segment *segment)
{
    uint64_t place = (uint64_t)(segment - segments) * segment_bytes;

    CALL(cuMemUnmap, segment->at, segment_bytes);
    segment->at = segment->at == range + place ? spare + place : range + place;
    CALL(cuMemMap, segment->at, segment_bytes, (size_t)0, segment->handle, 0ull);
    CALL(cuMemSetAccess, segment->at, segment_bytes, (const void *)&rights, (size_t)1);
}

static void do_round(void)
{
    uint32_t amount = ++rounds_done, words = ADDED;

    for (unsigned i = 0; i < count; i++) {
        if (!segments[i].used)
            continue;
        void *parameters[] = { &segments[i].at, &amount, &words };
        CALL(cuLaunchKernel, function, ADDED / 128, 1u, 1u, 128u, 1u, 1u, 0u, stream, parameters, (void **)NULL);
        segments[i].added += amount;
    }
    CALL(cuStreamSynchronize, stream);
    if (rounds_done % 4 == 0 && segments[rounds_done % count].used)
        move(&segments[rounds_done % count]);
}

static void give_half_back(void)
{
    for (unsigned i = 0; i < count; i += 2) {
        if (!segments[i].used)
            continue;
        CALL(cuMemRelease, segments[i].handle);     /* its mapping keeps it */
        CALL(cuMemUnmap, segments[i].at, segment_bytes);
        segments[i].used = 0;
    }
}

static void export_first(void)
{
    int fd = -1;

    CALL(cuMemExportToShareableHandle, (void *)&fd, segments[0].handle, 1, 0ull);
    close(fd);
}

static void say(const char *what)
{
    printf("%s\n", what);
    fflush(stdout);
}

static void by_stdin(void)
{
    char line[64];

    while (fgets(line, sizeof line, stdin)) {
        if (line[0] == 'r')
            do_round();
        else if (line[0] == 's')
            give_half_back();
        else if (line[0] == 'c')
            check_all();
        else if (line[0] == 'x')
            export_first();
        for (unsigned i = 0; line[0] == 'm' && i < count; i++) {
            if (segments[i].used)
                move(&segments[i]);
        }
        if (line[0] == 'g') {
            add_segment();
            CALL(cuMemSetAccess, segments[count - 1].at, segment_bytes, (const void *)&rights, (size_t)1);
            fill(&segments[count - 1]);
        }
        say("ok");
    }
}

int main(int argc, char **argv)
{
    void *context, *module;
    if (argc < 5)
        return 2;
    seed = (uint32_t)atoi(argv[4]);
    if (getenv("SEGMENT_MIB") != NULL)
        segment_bytes = (size_t)atoi(getenv("SEGMENT_MIB")) * MIB;
    host = malloc(segment_bytes);
    CALL(cuInit, 0u);
    CALL(cuCtxCreate_v2, &context, 0u, 0);
    CALL(cuModuleLoad, &module, argv[1]);
    CALL(cuModuleGetFunction, &function, module, argv[2]);
    CALL(cuStreamCreate, &stream, 1u);
    CALL(cuMemAddressReserve, &range, SEGMENTS * segment_bytes, (size_t)0, 0ull, 0ull);
    CALL(cuMemAddressReserve, &spare, SEGMENTS * segment_bytes, (size_t)0, 0ull, 0ull);
    while ((count + 1) * segment_bytes <= (size_t)atoi(argv[3]) * MIB)
        add_segment();
    CALL(cuMemSetAccess, range, count * segment_bytes, (const void *)&rights, (size_t)1);     /* over all of them at once */
    for (unsigned i = 0; i < count; i++)
        fill(&segments[i]);
    say("filled");
    if (argc < 6) {
        by_stdin();
        return 0;
    }
    for (int i = 0; i < atoi(argv[5]); i++) {
        do_round();
        printf("round %d ok\n", i + 1);
        fflush(stdout);
        if (argc > 6)
            usleep((unsigned)atoi(argv[6]));
    }
    check_all();
    say("right");
    return 0;
}
