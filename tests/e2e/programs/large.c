/* large PTX KERNEL MIB SEED [ROUNDS [PAUSE_US]]: uses MIB of device memory by the plain driver API, and knows all of its bytes. Ends with 0 after
 * `right`, with 1 at the first wrong byte or driver error, with 3 when an allocation is refused.
 *
 * Buffers are of all sizes that a pool might treat differently. A round adds its number to the first words of each by KERNEL, writes one of
 * them anew, and reads another one back; at the end all are read. Without ROUNDS it does what stdin says, a line each, and answers with a
 * line each: `r` a round, `f` frees every second buffer, `a MIB` allocates so much more, `c` checks everything; ends with stdin. */
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "driver.h"

#define MIB ((size_t)1 << 20)
#define BUFFERS 4096
#define ADDED 1024u         /* words */

static struct buffer {
    uint64_t at;
    size_t bytes;
    uint32_t written, added;    /* round in which it was written; what the kernel has added to its first words since */
} buffers[BUFFERS];
static unsigned count;
static uint32_t seed, rounds_done;
static void *function, *stream;
static uint32_t *host;
static size_t host_bytes;

static uint32_t word_of(const struct buffer *buffer, size_t i)
{
    uint32_t x = (uint32_t)i * 2654435761u ^ seed ^ buffer->written * 40503u ^ (uint32_t)(buffer - buffers) << 20;
    x ^= x >> 15;
    return x * 2246822519u + (i < ADDED ? buffer->added : 0);
}

static void need_host(size_t bytes)
{
    if (bytes <= host_bytes)
        return;
    free(host);
    host = malloc(bytes);
    host_bytes = bytes;
    if (host == NULL)
        exit(1);
}

static void write_anew(struct buffer *buffer)
{
    buffer->written = rounds_done;
    buffer->added = 0;
    for (size_t i = 0; i < buffer->bytes / 4; i++)
        host[i] = word_of(buffer, i);
    CALL(cuMemcpyHtoD_v2, buffer->at, (void *)host, buffer->bytes);
}

static void check(const struct buffer *buffer)
{
    memset(host, 0x5a, buffer->bytes);
    CALL(cuMemcpyDtoH_v2, (void *)host, buffer->at, buffer->bytes);
    for (size_t i = 0; i < buffer->bytes / 4; i++) {
        if (host[i] != word_of(buffer, i)) {
            fprintf(stderr, "large: word %zu of buffer %u (%zu bytes, written in round %u) is %08x, should be %08x, round %u\n", i,
                    (unsigned)(buffer - buffers), buffer->bytes, buffer->written, host[i], word_of(buffer, i), rounds_done);
            exit(1);
        }
    }
}

static void check_all(void)
{
    for (unsigned i = 0; i < count; i++) {
        if (buffers[i].bytes)
            check(&buffers[i]);
    }
}

/* Of all sizes: 5/8 in large ones, then smaller and smaller. */
static int allocate(size_t bytes)
{
    static const size_t sizes[] = { 64 * MIB, 33 * MIB, 7 * MIB, 2 * MIB, MIB, 300 * 1024, 4096 };
    unsigned first = count, kind = 0;

    for (size_t left = bytes; left >= 4096 && count < BUFFERS; kind = (kind + 1) % 7) {
        size_t size = sizes[kind];
        if (size > left)
            continue;
        int code = ((int (*)(uint64_t *, size_t))driver_entry("cuMemAlloc_v2"))(&buffers[count].at, size);
        if (code != 0) {
            fprintf(stderr, "large: cuMemAlloc of %zu bytes answered %d after %zu MiB\n", size, code, (bytes - left) / MIB);
            return code;
        }
        buffers[count++].bytes = size;
        left -= size;
        need_host(size);
    }
    for (unsigned i = first; i < count; i++)
        write_anew(&buffers[i]);
    return 0;
}

static void do_round(void)
{
    uint32_t amount = ++rounds_done, words = ADDED;

    for (unsigned i = 0; i < count; i++) {
        if (!buffers[i].bytes)
            continue;
        void *parameters[] = { &buffers[i].at, &amount, &words };
        CALL(cuLaunchKernel, function, ADDED / 128, 1u, 1u, 128u, 1u, 1u, 0u, stream, parameters, (void **)NULL);
        buffers[i].added += amount;
    }
    CALL(cuStreamSynchronize, stream);
    struct buffer *anew = &buffers[(rounds_done * 7) % count], *read = &buffers[(rounds_done * 5) % count];
    if (anew->bytes)
        write_anew(anew);
    if (read->bytes)
        check(read);
}

static void free_half(void)
{
    for (unsigned i = 0; i < count; i += 2) {
        if (buffers[i].bytes)
            CALL(cuMemFree_v2, buffers[i].at);
        buffers[i].bytes = 0;
    }
}

static void say(const char *what)
{
    printf("%s\n", what);
    fflush(stdout);
}

static int by_stdin(void)
{
    char line[64];
    while (fgets(line, sizeof line, stdin)) {
        if (line[0] == 'r')
            do_round();
        else if (line[0] == 'f')
            free_half();
        else if (line[0] == 'c')
            check_all();
        else if (line[0] == 'a' && allocate((size_t)atoi(line + 1) * MIB) != 0) {
            say("refused");
            continue;
        }
        say("ok");
    }
    return 0;
}

int main(int argc, char **argv)
{
    void *context, *module;
    if (argc < 5)
        return 2;
    seed = (uint32_t)atoi(argv[4]);
    CALL(cuInit, 0u);
    CALL(cuCtxCreate_v2, &context, 0u, 0);
    CALL(cuModuleLoad, &module, argv[1]);
    CALL(cuModuleGetFunction, &function, module, argv[2]);
    CALL(cuStreamCreate, &stream, 1u);
    if (allocate((size_t)atoi(argv[3]) * MIB) != 0)
        return 3;
    say("filled");
    if (argc < 6)
        return by_stdin();
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
