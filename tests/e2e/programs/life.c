/* life MODE PTX KERNEL COUNT: lives and misbehaves in one way, on its first device, by the driver API alone. Ends with stdin.
 *
 *   scribble  launches and synchronises without end, while another thread writes random bytes over every gpud page that this process
 *             can write, some of them each millisecond; COUNT is the seed. Says `pages N`.
 *   lies      the same, but it launches only once
 *   threads   COUNT threads, 40 at a time, each of which launches three times and ends. Says `launched N`.
 *   forks     COUNT children, each of which attaches with its cuInit before the next one is made. Says `attached N`; the children end with their parent. */
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

#include "driver.h"

#define PAGES 64
#define AT_ONCE 40
#define EACH 3

static struct { unsigned char *at; size_t bytes; } pages[PAGES];
static unsigned page_count;
static void *context, *function;
static launch_fn launch;
static unsigned short chance[3];

static void launch_once(void)
{
    if (launch(function, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL)) {
        fprintf(stderr, "life: a launch failed\n");
        exit(1);
    }
}

static void prepare(const char *ptx, const char *kernel)
{
    void *module;
    CALL(cuInit, 0u);
    CALL(cuCtxCreate_v2, &context, 0u, 0);
    CALL(cuModuleLoad, &module, ptx);
    CALL(cuModuleGetFunction, &function, module, kernel);
    launch = (launch_fn)driver_entry("cuLaunchKernel");
}

static void say(const char *what, unsigned count)
{
    printf("%s %u\n", what, count);
    fflush(stdout);
}

/* The pages that may be written: the kernel says so. */
static void find_pages(void)
{
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps && page_count < PAGES && fgets(line, sizeof line, maps)) {
        unsigned long begin, end;
        char rights[8];
        if (strstr(line, "memfd:gpud-page") && sscanf(line, "%lx-%lx %7s", &begin, &end, rights) == 3 && rights[1] == 'w') {
            pages[page_count].at = (unsigned char *)begin; // NOLINT: the kernel says that it is there
            pages[page_count++].bytes = end - begin;
        }
    }
    if (maps)
        fclose(maps);
}

/* Whole pages at times, single words at others, all bits or few: headers and counters alike. */
static void scribble(void)
{
    for (unsigned p = 0; p < page_count; p++) {
        size_t words = pages[p].bytes / 8, some = nrand48(chance) % 4 ? 16 : words;
        for (size_t i = 0; i < some; i++) {
            uint64_t value = (uint64_t)mrand48() << 32 ^ (uint64_t)(uint32_t)jrand48(chance);
            size_t word = some == words ? i : (size_t)nrand48(chance) % words;
            value = nrand48(chance) % 3 ? value : (uint64_t)0 - (uint64_t)(nrand48(chance) % 3);
            __atomic_store_n((uint64_t *)(void *)pages[p].at + word, value, __ATOMIC_RELAXED);
        }
    }
}

static void *scribbling(void *unused)
{
    for (;;) {
        scribble();
        usleep(1000);
    }
    return unused;
}

static void *rounds(void *unused)
{
    CALL(cuCtxSetCurrent, context);
    for (;;) {
        for (int i = 0; i < 10; i++)
            launch_once();
        CALL(cuCtxSynchronize);
    }
    return unused;
}

static void start(pthread_t *thread, void *(*entry)(void *))
{
    if (pthread_create(thread, NULL, entry, NULL)) {
        fprintf(stderr, "life: no thread\n");
        exit(1);
    }
}

static void *short_life(void *unused)
{
    CALL(cuCtxSetCurrent, context);
    for (int i = 0; i < EACH; i++)
        launch_once();
    return unused;
}

static void threads(unsigned count)
{
    pthread_t running[AT_ONCE];
    for (unsigned made = 0; made < count; made += AT_ONCE) {
        for (unsigned i = 0; i < AT_ONCE; i++)
            start(&running[i], short_life);
        for (unsigned i = 0; i < AT_ONCE; i++)
            pthread_join(running[i], NULL);
    }
    CALL(cuCtxSynchronize);
}

static void forks(unsigned count)
{
    int ready[2];
    char byte = 0;
    if (pipe(ready))
        exit(1);
    for (unsigned i = 0; i < count; i++) {
        if (fork()) {
            if (read(ready[0], &byte, 1) != 1)
                exit(1);
            continue;
        }
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        CALL(cuInit, 0u);
        if (write(ready[1], &byte, 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: life MODE PTX KERNEL COUNT\n");
        return 2;
    }
    unsigned count = (unsigned)strtoul(argv[4], NULL, 10);
    pthread_t thread;
    char line[16];
    if (!strcmp(argv[1], "forks")) {
        forks(count);
        say("attached", count);
    } else {
        prepare(argv[2], argv[3]);
        if (!strcmp(argv[1], "threads")) {
            threads(count);
            say("launched", count * EACH);
        } else {
            launch_once();
            find_pages();
            chance[0] = (unsigned short)count;
            srand48(count);
            if (!strcmp(argv[1], "scribble"))
                start(&thread, rounds);
            start(&thread, scribbling);
            say("pages", page_count);
        }
    }
    while (fgets(line, sizeof line, stdin))
        ;
    _exit(0);
}
