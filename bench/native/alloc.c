/* alloc MIB BATCHES COUNT: BATCHES times COUNT times cuMemAlloc of MIB and cuMemFree; prints the nanoseconds of the first pair, then of a pair
 * in the mean of each batch. Where jobs take turns, it has the device meanwhile. */
#include <stdint.h>

#include "driver.h"
#include "gpud.h"

#define REST_NS 20000000

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: alloc MIB BATCHES COUNT\n");
        return 2;
    }
    size_t bytes = (size_t)atol(argv[1]) << 20;
    long batches = atol(argv[2]), count = atol(argv[3]);
    uint64_t at;
    void *context;
    CALL(cuInit, 0u);
    CALL(cuCtxCreate_v2, &context, 0u, 0);
    int turn = gpud_acquire(0, 60000000000ull);
    if (turn < 0) {
        fprintf(stderr, "alloc: %s\n", gpud_error_text(turn));
        return 1;
    }
    int (*allocate)(uint64_t *, size_t) = (int (*)(uint64_t *, size_t))driver_entry("cuMemAlloc_v2");
    int (*release)(uint64_t) = (int (*)(uint64_t))driver_entry("cuMemFree_v2");
    /* Both with and without turns, the first pair finds a driver at rest: a simulated device that has just made a context is still awake. */
    sleep_until(clock_ns(CLOCK_MONOTONIC) + REST_NS);
    for (long batch = -2; batch < batches; batch++) {   /* one pair alone, and a batch to warm up */
        long pairs = batch == -2 ? 1 : count;
        long long begin = clock_ns(CLOCK_MONOTONIC);
        for (long i = 0; i < pairs; i++)
            if (allocate(&at, bytes) || release(at)) {
                fprintf(stderr, "alloc: an allocation failed\n");
                return 1;
            }
        if (batch != -1)
            printf("%.1f\n", (double)(clock_ns(CLOCK_MONOTONIC) - begin) / (double)pairs);
    }
    if (turn == GPUD_OK)
        gpud_release(0);
    return 0;
}
