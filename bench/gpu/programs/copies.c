/* copies PIECE_MIB PIECES ROUNDS: plain copies between pinned host memory and the device: out, in, and both at the same time on two streams, in
 * pieces that are all submitted at once. A line of JSON: bytes per second each way, medians; `both_out` and `both_in` while both are under way. */
#include <stdint.h>

#include "driver.h"

enum { MOST = 100 };

static char *host[2];
static uint64_t device[2], piece, pieces;
static void *stream[2], *first[2], *last[2];

static int smaller(const void *one, const void *two)
{
    double a = *(const double *)one, b = *(const double *)two;
    return (a > b) - (a < b);
}

/* way 0: out, 1: in. */
static void submit(int way)
{
    CALL(cuEventRecord, first[way], stream[way]);
    for (uint64_t i = 0; i < pieces; i++) {
        if (way == 0)
            CALL(cuMemcpyDtoHAsync_v2, (void *)(host[0] + i * piece), device[0] + i * piece, (size_t)piece, stream[0]);
        else
            CALL(cuMemcpyHtoDAsync_v2, device[1] + i * piece, (void *)(host[1] + i * piece), (size_t)piece, stream[1]);
    }
    CALL(cuEventRecord, last[way], stream[way]);
}

static double rate(int way)
{
    float ms = 0;
    CALL(cuEventSynchronize, last[way]);
    CALL(cuEventElapsedTime, &ms, first[way], last[way]);
    return (double)(piece * pieces) / ((double)ms / 1e3);
}

int main(int argc, char **argv)
{
    static double found[4][MOST];
    int rounds = argc == 4 ? atoi(argv[3]) : 0;
    void *context;
    if (rounds < 1 || rounds > MOST) {
        fprintf(stderr, "usage: copies PIECE_MIB PIECES ROUNDS (1 … %d)\n", MOST);
        return 2;
    }
    piece = (uint64_t)atol(argv[1]) << 20;
    pieces = (uint64_t)atol(argv[2]);
    CALL(cuInit, 0u);
    CALL(cuDevicePrimaryCtxRetain, &context, 0);
    CALL(cuCtxSetCurrent, context);
    for (int way = 0; way < 2; way++) {
        CALL(cuMemHostAlloc, &host[way], (size_t)(piece * pieces), 0u);
        CALL(cuMemAlloc_v2, &device[way], (size_t)(piece * pieces));
        CALL(cuStreamCreate, &stream[way], 1u);
        CALL(cuEventCreate, &first[way], 0u);
        CALL(cuEventCreate, &last[way], 0u);
        submit(way);    /* touches both sides */
        rate(way);
    }
    for (int round = 0; round < rounds; round++) {
        for (int way = 0; way < 2; way++) {
            submit(way);
            found[way][round] = rate(way);
        }
        submit(0);
        submit(1);
        for (int way = 0; way < 2; way++)
            found[2 + way][round] = rate(way);
    }
    for (int i = 0; i < 4; i++)
        qsort(found[i], (size_t)rounds, sizeof found[i][0], smaller);
    printf("{\"out\": %.0f, \"in\": %.0f, \"both_out\": %.0f, \"both_in\": %.0f}\n", found[0][rounds / 2], found[1][rounds / 2],
           found[2][rounds / 2], found[3][rounds / 2]);
    return 0;
}
