/* launches.c PTX NAME ROUNDS: the cost of cuLaunchKernel on whatever driver there is, with a kernel that does next to nothing: bursts of
 * BURST launches, the device idle in between; the median over the rounds of the mean of a burst, ns, as a line of JSON. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BURST = 400, MOST = 1000 };

static void *library;

static void *need(const char *name)
{
    void *address = dlsym(library, name);
    if (!address) {
        fprintf(stderr, "launches: the driver has no %s\n", name);
        exit(1);
    }
    return address;
}

#define CALL(name, ...)                                                     \
    do {                                                                    \
        int code_ = ((int (*)())need(#name))(__VA_ARGS__);                  \
        if (code_) {                                                        \
            fprintf(stderr, "launches: %s answered %d\n", #name, code_);    \
            exit(1);                                                        \
        }                                                                   \
    } while (0)

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int smaller(const void *one, const void *two)
{
    double a = *(const double *)one, b = *(const double *)two;
    return (a > b) - (a < b);
}

int main(int argc, char **argv)
{
    int rounds = argc > 3 ? atoi(argv[3]) : 0;
    if (rounds < 1 || rounds > MOST) {
        fprintf(stderr, "usage: launches PTX NAME ROUNDS (1 … %d)\n", MOST);
        return 2;
    }
    library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) {
        fprintf(stderr, "launches: %s\n", dlerror());
        return 1;
    }
    void *context = NULL, *module = NULL, *function = NULL;
    uint64_t words = 0;
    uint32_t amount = 0, count = 1, got = 0;
    double costs[MOST];
    CALL(cuInit, 0u);
    CALL(cuDevicePrimaryCtxRetain, &context, 0);
    CALL(cuCtxSetCurrent, context);
    CALL(cuModuleLoad, &module, argv[1]);
    CALL(cuModuleGetFunction, &function, module, argv[2]);
    CALL(cuMemAlloc_v2, &words, (size_t)4096);
    CALL(cuMemsetD8_v2, words, (unsigned char)0, (size_t)4096);
    void *parameters[] = { &words, &amount, &count };
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **)
        = (int (*)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **))(uintptr_t)
            need("cuLaunchKernel");
    amount = 1;
    for (int round = -1; round < rounds; round++) {     /* the first one warms up */
        CALL(cuCtxSynchronize);
        double began = now_ns();
        for (int i = 0; i < BURST; i++)
            if (launch(function, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL))
                abort();
        if (round >= 0)
            costs[round] = (now_ns() - began) / BURST;
    }
    CALL(cuCtxSynchronize);
    CALL(cuMemcpyDtoH_v2, &got, words, (size_t)4);
    qsort(costs, (size_t)rounds, sizeof *costs, smaller);
    printf("{\"ns\": %.3f, \"launches\": %d, \"right\": %s}\n", costs[rounds / 2], (rounds + 1) * BURST,
           got == (uint32_t)(rounds + 1) * BURST ? "true" : "false");
    return 0;
}
