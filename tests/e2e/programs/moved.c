/* moved PTX KERNEL MIB SEED: uses MIB of device memory by the plain driver API in ways that a memory that moves might not bear, and knows
 * all of its bytes. Does what stdin says, a line each, and answers with a line each (`ok`, or what it has found); ends with stdin, or with 1
 * at the first wrong byte or driver error.
 *
 *   r        adds 1 to the first words of each buffer by KERNEL, waits
 *   n        the same, without waiting
 *   g        captures such a round into a graph
 *   l N      launches the graph N times, waits
 *   t N      two threads do N rounds each, one of the even buffers, one of the odd ones
 *   k        forks; the child frees, copies and allocates, whatever the answer, and exits
 *   e        forks and the child becomes /bin/true
 *   x        resets the device's context while a round is under way, and begins anew
 *   s SEED   answers `saw N`, N: how many words of a program of that seed are in memory that it has just allocated, and in its host slots
 *   c        checks everything */
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver.h"

#define MIB ((size_t)1 << 20)
#define BUFFERS 64
#define ADDED 1024u         /* words */
#define FRESH 24            /* MiB, to look for others' words in */

static struct buffer {
    uint64_t at;
    size_t bytes;
    uint32_t added;
} buffers[BUFFERS];
static unsigned count;
static uint32_t seed;
static size_t asked;
static const char *ptx, *kernel;
static void *context, *function, *graph;
static void *streams[2];

/* The upper half is the program's own: whoever finds it elsewhere has found its bytes. */
static uint32_t word_of(const struct buffer *buffer, size_t i)
{
    uint32_t number = (uint32_t)(buffer - buffers), place = ((uint32_t)i * 2654435761u ^ number * 40503u) >> 20;
    return (seed ^ 0xa5c3u) << 16 | (place + (i < ADDED ? buffer->added : 0));
}

static void fill(struct buffer *buffer)
{
    uint32_t *host = malloc(buffer->bytes);
    buffer->added = 0;
    for (size_t i = 0; i < buffer->bytes / 4; i++)
        host[i] = word_of(buffer, i);
    CALL(cuMemcpyHtoD_v2, buffer->at, (void *)host, buffer->bytes);
    free(host);
}

static void check(const struct buffer *buffer)
{
    uint32_t *host = malloc(buffer->bytes);
    memset(host, 0x5a, buffer->bytes);
    CALL(cuMemcpyDtoH_v2, (void *)host, buffer->at, buffer->bytes);
    for (size_t i = 0; i < buffer->bytes / 4; i++) {
        if (host[i] != word_of(buffer, i)) {
            fprintf(stderr, "moved: word %zu of buffer %u is %08x, should be %08x\n", i, (unsigned)(buffer - buffers), host[i],
                    word_of(buffer, i));
            exit(1);
        }
    }
    free(host);
}

static void begin(void)
{
    static const size_t sizes[] = { 40 * MIB, 9 * MIB, MIB, 70 * 1024 };
    void *module;

    CALL(cuDevicePrimaryCtxRetain, &context, 0);
    CALL(cuCtxSetCurrent, context);
    CALL(cuModuleLoad, &module, ptx);
    CALL(cuModuleGetFunction, &function, module, kernel);
    for (int i = 0; i < 2; i++)
        CALL(cuStreamCreate, &streams[i], 1u);
    count = 0;
    for (size_t left = asked; left >= 70 * 1024 && count < BUFFERS; count++) {
        size_t size = sizes[count % 4] <= left ? sizes[count % 4] : 70 * 1024;
        buffers[count].bytes = size;
        CALL(cuMemAlloc_v2, &buffers[count].at, size);
        left -= size;
        fill(&buffers[count]);
    }
}

static void launch(struct buffer *buffer, void *stream)
{
    uint32_t one = 1, words = ADDED;
    void *parameters[] = { &buffer->at, &one, &words };
    CALL(cuLaunchKernel, function, ADDED / 128, 1u, 1u, 128u, 1u, 1u, 0u, stream, parameters, (void **)NULL);
}

static void launch_all(void)
{
    for (unsigned i = 0; i < count; i++)
        launch(&buffers[i], streams[0]);
}

static void add_all(uint32_t by)
{
    for (unsigned i = 0; i < count; i++)
        buffers[i].added += by;
}

static void capture(void)
{
    void *captured;
    CALL(cuStreamBeginCapture_v2, streams[0], 0);
    launch_all();
    CALL(cuStreamEndCapture, streams[0], &captured);
    CALL(cuGraphInstantiateWithFlags, &graph, captured, 0ull);
}

static unsigned thread_rounds;

static void *in_thread(void *which)
{
    unsigned first = which != NULL;
    CALL(cuCtxSetCurrent, context);
    for (unsigned round = 0; round < thread_rounds; round++) {
        for (unsigned i = first; i < count; i += 2) {
            launch(&buffers[i], streams[first]);
            buffers[i].added++;
        }
        CALL(cuStreamSynchronize, streams[first]);
        check(&buffers[first]);
    }
    return NULL;
}

static void threads(unsigned rounds)
{
    pthread_t two[2];
    thread_rounds = rounds;
    for (int i = 0; i < 2; i++) {
        if (pthread_create(&two[i], NULL, in_thread, i ? &two : NULL) != 0)
            exit(1);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(two[i], NULL);
}

/* The driver cannot be used in a child; what it answers is not ours, what becomes of the parent is. */
static void forked(int becomes)
{
    uint64_t at;
    char bytes[64];
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        if (becomes)
            execl("/bin/true", "true", (char *)NULL);
        ((int (*)(void *, uint64_t, size_t))driver_entry("cuMemcpyDtoH_v2"))(bytes, buffers[0].at, sizeof bytes);
        ((int (*)(uint64_t))driver_entry("cuMemFree_v2"))(buffers[0].at);
        ((int (*)(uint64_t *, size_t))driver_entry("cuMemAlloc_v2"))(&at, MIB);
        exit(0);        /* with all that runs at an end */
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        fprintf(stderr, "moved: the child ended with %x\n", status);
        exit(1);
    }
}

static void reset(void)
{
    launch_all();
    CALL(cuDevicePrimaryCtxReset_v2, 0);
    begin();
}

static size_t count_words(const uint32_t *at, size_t words, uint32_t other)
{
    size_t seen = 0;
    for (size_t i = 0; i < words; i++)
        seen += at[i] >> 16 == ((other ^ 0xa5c3u) & 0xffff);
    return seen;
}

static size_t look(uint32_t other, size_t *looked)
{
    size_t seen = 0, bytes = FRESH * MIB;
    unsigned long from, to;
    uint32_t *host = malloc(bytes);
    uint64_t at;
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");

    CALL(cuMemAlloc_v2, &at, bytes);
    CALL(cuMemcpyDtoH_v2, (void *)host, at, bytes);
    CALL(cuMemFree_v2, at);
    seen += count_words(host, bytes / 4, other);
    free(host);
    *looked = 0;
    while (maps != NULL && fgets(line, sizeof line, maps)) {
        if (strstr(line, "gpud-host") == NULL || sscanf(line, "%lx-%lx", &from, &to) != 2)
            continue;
        *looked += to - from;
        seen += count_words((const uint32_t *)from, (to - from) / 4, other);
    }
    fclose(maps);
    return seen;
}

static void answer(const char *line)
{
    unsigned long number = strtoul(line + 1, NULL, 10);
    size_t looked;

    switch (line[0]) {
    case 'r':
    case 'n':
        launch_all();
        add_all(1);
        if (line[0] == 'r')
            CALL(cuStreamSynchronize, streams[0]);
        break;
    case 'g':
        capture();
        break;
    case 'l':
        for (unsigned long i = 0; i < number; i++)
            CALL(cuGraphLaunch, graph, streams[0]);
        add_all((uint32_t)number);
        CALL(cuStreamSynchronize, streams[0]);
        break;
    case 't':
        threads((unsigned)number);
        break;
    case 'k':
    case 'e':
        forked(line[0] == 'e');
        break;
    case 'x':
        reset();
        break;
    case 's':
        number = look((uint32_t)number, &looked);
        printf("saw %lu in %zu\n", number, looked);
        return;
    default:
        for (unsigned i = 0; i < count; i++)
            check(&buffers[i]);
    }
    puts("ok");
}

int main(int argc, char **argv)
{
    char line[64];
    if (argc < 5)
        return 2;
    ptx = argv[1];
    kernel = argv[2];
    asked = (size_t)atoi(argv[3]) * MIB;
    seed = (uint32_t)atoi(argv[4]);
    CALL(cuInit, 0u);
    begin();
    puts("filled");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        answer(line);
        fflush(stdout);
    }
    return 0;
}
