/* test_slab.c: small and large allocations in random order, against a plain model: no two meet, each is aligned and answers for itself,
 * memory that is all freed leaves. */
#include <stdlib.h>
#include "fake_vmm.h"

#define LIVE 400
#define STEPS 40000

static struct { uint64_t at, bytes; unsigned char value; } have[LIVE];
static uint64_t state = 88172645463325252;

static uint64_t roll(uint64_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % below;
}

static uint64_t size(void)
{
    switch (roll(8)) {
    case 0: return 1 + roll(4 * MIB);
    case 1: return MIB + roll(3);
    case 2: return 512 * (1 + roll(40));
    default: return 1 + roll(60000);
    }
}

static void check(int i)
{
    CUdeviceptr base = 0, inside = have[i].at + roll(have[i].bytes);
    size_t bytes = 0;
    CHECK(gpud_pool_range(&base, &bytes, inside) == CUDA_SUCCESS && base == have[i].at && bytes == have[i].bytes, "range of %d", i);
    CHECK(have[i].at % 512 == 0 && *(unsigned char *)(uintptr_t)have[i].at == have[i].value &&
          *(unsigned char *)(uintptr_t)(have[i].at + have[i].bytes - 1) == have[i].value, "contents of %d", i);
    CHECK(gpud_pool_size(have[i].at) == have[i].bytes && (inside == have[i].at || gpud_pool_free(inside) == CUDA_ERROR_INVALID_VALUE), "begin of %d", i);
}

static void step(int i)
{
    if (have[i].at != 0) {
        check(i);
        CHECK(gpud_pool_free(have[i].at) == CUDA_SUCCESS && !gpud_pool_owns(have[i].at) &&
              gpud_pool_free(have[i].at) == CUDA_ERROR_INVALID_VALUE, "free of %d", i);
        have[i].at = 0;
        return;
    }
    CUdeviceptr at = 0;
    have[i].bytes = size();
    have[i].value = (unsigned char)roll(256);
    CHECK(gpud_pool_takes(have[i].bytes) && gpud_pool_alloc(&at, have[i].bytes) == CUDA_SUCCESS, "alloc of %llu", (unsigned long long)have[i].bytes);
    for (int k = 0; k < LIVE; k++) {
        if (have[k].at != 0 && at < have[k].at + have[k].bytes && have[k].at < at + have[i].bytes) {
            CHECK(false, "%d lies over %d", i, k);
            exit(1);
        }
    }
    have[i].at = at;
    *(unsigned char *)(uintptr_t)at = *(unsigned char *)(uintptr_t)(at + have[i].bytes - 1) = have[i].value;
}

int main(void)
{
    uint64_t moved;
    CUdeviceptr at;
    size_t pitch;
    vmm_start(4096 * MIB);
    CHECK(!gpud_pool_takes(0), "nothing");
    vmm_control(2)->memory_flags = 0;
    CHECK(!gpud_pool_takes(100), "a tenant that is not swapped has the driver's memory");
    vmm_control(2)->memory_flags = GPUD_MEMORY_SWAP;
    for (int i = 0; i < STEPS; i++)
        step((int)roll(LIVE));
    for (int i = 0; i < LIVE; i++) {
        if (have[i].at != 0)
            step(i);
    }
    gpud_swap_out(2, UINT64_MAX, 0, &moved);
    CHECK(vmm_live.handles == 0 && vmm_live.reservations == 0 && gpud_pool_counts(2).resident == 0, "something is left");
    CHECK(gpud_pool_alloc_pitch(&at, &pitch, 1001, 7, 4) == CUDA_SUCCESS && pitch == 1024 && gpud_pool_size(at) == 7168, "pitched");
    CHECK(gpud_pool_alloc_pitch(&at, &pitch, 1001, 7, 5) == CUDA_ERROR_INVALID_VALUE &&
          gpud_pool_alloc_pitch(&at, &pitch, SIZE_MAX - 5, 7, 4) == CUDA_ERROR_OUT_OF_MEMORY &&
          gpud_pool_alloc(&at, SIZE_MAX) == CUDA_ERROR_OUT_OF_MEMORY, "what there cannot be");
    uint64_t creates = vmm_live.creates;
    for (int i = 0; i < 100; i++) {
        CHECK(gpud_pool_alloc(&at, 64 * MIB) == CUDA_SUCCESS && gpud_pool_free(at) == CUDA_SUCCESS, "again");
        CHECK(gpud_pool_alloc(&at, MIB) == CUDA_SUCCESS && gpud_pool_free(at) == CUDA_SUCCESS, "again");
    }
    CHECK(vmm_live.creates <= creates + 2, "%llu handles made for the same again and again", (unsigned long long)(vmm_live.creates - creates));
    CHECK(vmm_violations == 0, "wrong uses");
    return check_summary("pool slab");
}
