/* test_busy.c: threads allocate, use and free while the keeper swaps out and in. Who uses memory does so with the gate open, here a lock;
 * who allocates and frees does not ask. */
#define _GNU_SOURCE
#include "beside_swaps.h"

#define ROUNDS 60
#define HAVE 6

static void *work(void *number)
{
    uint64_t seed = 7 + (uintptr_t)number * 1000003;
    struct { CUdeviceptr at; size_t bytes; bool filled; } have[HAVE] = { 0 };

    vmm_context(0, 0);
    for (int round = 0; round < ROUNDS * HAVE || gpud_load_total(&swaps) < SWAPS; round++) {
        int i = round % HAVE;
        seed = seed * 6364136223846793005 + 1442695040888963407;
        if (have[i].at != 0 && seed >> 62 == 0) {
            bool ordered = seed >> 61 & 1;
            CUresult result = ordered ? gpud_pool_free_ordered(have[i].at, vmm_stream((int)(uintptr_t)number), 0) : gpud_pool_free(have[i].at);
            gpud_add(&wrong, result != CUDA_SUCCESS);
            have[i].at = 0;
        }
        if (have[i].at == 0) {
            have[i].bytes = seed >> 40 & 1 ? 3 * MIB + (seed >> 44) % MIB : 1 + (seed >> 44) % 90000;
            CUresult result = seed >> 39 & 1 ? gpud_pool_alloc(&have[i].at, have[i].bytes)
                                             : gpud_pool_alloc_ordered(&have[i].at, have[i].bytes, vmm_stream((int)(uintptr_t)number), 0);
            gpud_add(&wrong, result != CUDA_SUCCESS);
            have[i].filled = false;
        }
        pthread_rwlock_rdlock(&gate);
        for (int k = 0; k < HAVE; k++) {
            uint64_t *word = (uint64_t *)(uintptr_t)have[k].at;
            if (word == NULL || have[k].bytes < 8)
                continue;
            if (have[k].filled)
                gpud_add(&wrong, *word != (have[k].at ^ (uintptr_t)number));
            *word = have[k].at ^ (uintptr_t)number;
            have[k].filled = true;
        }
        pthread_rwlock_unlock(&gate);
    }
    for (int i = 0; i < HAVE; i++)
        gpud_add(&wrong, have[i].at != 0 && gpud_pool_free(have[i].at) != CUDA_SUCCESS);
    gpud_add_total(&ended, 1);
    return NULL;
}

int main(void)
{
    uint64_t moved;

    work_beside_swaps(2, work);
    gpud_swap_out(2, UINT64_MAX, 0, &moved);
    CHECK(vmm_live.handles == 0 && vmm_live.reservations == 0 && gpud_host_used == 0 && vmm_violations == 0, "%llu handles, %llu addresses left",
          (unsigned long long)vmm_live.handles, (unsigned long long)vmm_live.reservations);
    return check_summary("pool busy");
}
