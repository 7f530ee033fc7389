/* vmm ROUNDS MIB…: what the calls cost that put device memory behind an address, by size of the piece: `fresh`, with a handle made for it and
 * given back afterwards, and `recycled`, with one that is kept. A line of JSON: {"SIZE": {"fresh": {"create": ns, …}, "recycled": {…}}}, medians.
 * Each piece is written once while it is mapped, so that nothing is put off. */
#include <stdint.h>
#include <string.h>

#include "driver.h"

enum { CREATE, MAP, ACCESS, UNMAP, RELEASE, CALLS, MOST = 1000 };
static const char *const names[CALLS] = {"create", "map", "access", "unmap", "release"};

static double took[CALLS][MOST];

static int smaller(const void *one, const void *two)
{
    double a = *(const double *)one, b = *(const double *)two;
    return (a > b) - (a < b);
}

#define TIMED(call, round, ...)                                                     \
    do {                                                                            \
        long long begin_ = clock_ns(CLOCK_MONOTONIC);                               \
        CALL(__VA_ARGS__);                                                          \
        took[call][round] = (double)(clock_ns(CLOCK_MONOTONIC) - begin_);           \
    } while (0)

/* The address space of one piece is the same all the time. */
static void measure(size_t bytes, int rounds, int fresh)
{
    uint64_t at, handle = 0;
    CALL(cuMemAddressReserve, &at, bytes, (size_t)0, (uint64_t)0, 0ull);
    if (!fresh)
        CALL(cuMemCreate, &handle, bytes, OF_DEVICE, 0ull);
    for (int round = 0; round < rounds; round++) {
        if (fresh)
            TIMED(CREATE, round, cuMemCreate, &handle, bytes, OF_DEVICE, 0ull);
        TIMED(MAP, round, cuMemMap, at, bytes, (size_t)0, handle, 0ull);
        TIMED(ACCESS, round, cuMemSetAccess, at, bytes, BOTH_WAYS, (size_t)1);
        CALL(cuMemsetD8_v2, at, (unsigned char)round, bytes);
        CALL(cuCtxSynchronize);
        TIMED(UNMAP, round, cuMemUnmap, at, bytes);
        if (fresh)
            TIMED(RELEASE, round, cuMemRelease, handle);
    }
    if (!fresh)
        CALL(cuMemRelease, handle);
    CALL(cuMemAddressFree, at, bytes);
    printf("\"%s\": {", fresh ? "fresh" : "recycled");
    const char *comma = "";
    for (int call = 0; call < CALLS; call++) {
        if (!fresh && (call == CREATE || call == RELEASE))
            continue;
        qsort(took[call], (size_t)rounds, sizeof took[call][0], smaller);
        printf("%s\"%s\": %.0f", comma, names[call], took[call][rounds / 2]);
        comma = ", ";
    }
    printf("}%s", fresh ? ", " : "");
}

int main(int argc, char **argv)
{
    int rounds = argc > 2 ? atoi(argv[1]) : 0;
    void *context;
    if (rounds < 1 || rounds > MOST) {
        fprintf(stderr, "usage: vmm ROUNDS (1 … %d) MIB…\n", MOST);
        return 2;
    }
    CALL(cuInit, 0u);
    CALL(cuDevicePrimaryCtxRetain, &context, 0);
    CALL(cuCtxSetCurrent, context);
    printf("{");
    for (int i = 2; i < argc; i++) {
        size_t bytes = (size_t)atol(argv[i]) << 20;
        printf("%s\"%ld\": {", i > 2 ? ", " : "", atol(argv[i]));
        measure(bytes, rounds, 1);
        measure(bytes, rounds, 0);
        printf("}");
    }
    printf("}\n");
    return 0;
}
