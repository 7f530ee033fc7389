/* sim_load PTX KERNEL BLOCKS ROUNDS KERNELS PERIOD_US: work for the simulated GPU, by the driver API alone. Says `ready PID` once it
 * has a context, waits for a line on stdin, then launches KERNELS kernels of BLOCKS blocks of 1024 threads in each of ROUNDS rounds. With
 * a period a round begins that long after the one before began, and waits for its kernels; without, all rounds are queued. At the end
 * it says `done NS KIB`: CPU time of a launch in this thread, and its resident memory. Times are read from the device log. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define CALL(name, ...)                                                                       \
    do {                                                                                      \
        int code_ = ((int (*)())need(#name))(__VA_ARGS__);                                    \
        if (code_ != 0) {                                                                     \
            fprintf(stderr, "sim_load: %s answered %d\n", #name, code_);                      \
            exit(1);                                                                          \
        }                                                                                     \
    } while (0)

typedef int (*launch_fn)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);

static void *library;

static void *need(const char *name)
{
    void *address = dlsym(library, name);
    if (!address) {
        fprintf(stderr, "sim_load: the driver has no %s\n", name);
        exit(1);
    }
    return address;
}

static long long ns_of(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static void sleep_until(long long ns)
{
    struct timespec at = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL))
        ;
}

static long resident_kib(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file || fscanf(file, "%*d %ld", &pages) != 1)
        exit(1);
    fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

int main(int argc, char **argv)
{
    if (argc != 7) {
        fprintf(stderr, "usage: sim_load PTX KERNEL BLOCKS ROUNDS KERNELS PERIOD_US\n");
        return 2;
    }
    unsigned blocks = (unsigned)atoi(argv[3]);
    int rounds = atoi(argv[4]), kernels = atoi(argv[5]);
    long long period_ns = atoll(argv[6]) * 1000, launching_ns = 0;
    library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) {
        fprintf(stderr, "sim_load: %s\n", dlerror());
        return 1;
    }
    void *context = NULL, *module = NULL, *function = NULL, *stream = NULL;
    CALL(cuInit, 0u);
    CALL(cuCtxCreate_v2, &context, 0u, 0);
    CALL(cuModuleLoad, &module, argv[1]);
    CALL(cuModuleGetFunction, &function, module, argv[2]);
    CALL(cuStreamCreate, &stream, 1u);
    launch_fn launch = (launch_fn)need("cuLaunchKernel");
    printf("ready %d\n", (int)getpid());
    fflush(stdout);
    if (getchar() == EOF)
        return 1;
    long long start_ns = ns_of(CLOCK_MONOTONIC);
    for (int round = 0; round < rounds; round++) {
        if (period_ns)
            sleep_until(start_ns + round * period_ns);
        long long cpu_ns = ns_of(CLOCK_THREAD_CPUTIME_ID);
        for (int i = 0; i < kernels; i++)
            if (launch(function, blocks, 1, 1, 1024, 1, 1, 0, stream, NULL, NULL))
                return 1;
        launching_ns += ns_of(CLOCK_THREAD_CPUTIME_ID) - cpu_ns;
        if (period_ns)
            CALL(cuStreamSynchronize, stream);
    }
    CALL(cuStreamSynchronize, stream);
    printf("done %.1f %ld\n", (double)launching_ns / rounds / kernels, resident_kib());
    return 0;
}
