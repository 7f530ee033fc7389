/* test_busy.c: threads allocate, use and free while the keeper swaps out and in. Who uses memory does so with the gate open, here a lock;
 * who allocates and frees does not ask. */
#define _GNU_SOURCE
#include "fake_vmm.h"

#define THREADS 4
#define ROUNDS 60
#define HAVE 6
#define SWAPS 10

static pthread_rwlock_t gate = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;     /* held for writing: shut */
static uint32_t wrong, ended, swaps;

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
    pthread_t threads[THREADS];
    uint64_t moved;
    vmm_start(4096 * MIB);
    vmm_host(512 * MIB);
    vmm_control(2)->gate = GPUD_GATE_GRANT;
    gpud_store_total(&gpud_presence_at(2)->lock, GPUD_LOCK_HAS);
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    while (gpud_load_total(&ended) < THREADS) {
        pthread_rwlock_wrlock(&gate);
        gpud_store_total(&gpud_presence_at(2)->lock, GPUD_LOCK_NONE);
        gpud_swap_out(2, swaps % 3 == 0 ? 8 * MIB : UINT64_MAX, 0, &moved);
        gpud_store_total(&gpud_presence_at(2)->lock, GPUD_LOCK_COMES_IN);
        enum gpud_swap_result result = gpud_swap_in(2, UINT64_MAX, 0, &moved);
        gpud_store_total(&gpud_presence_at(2)->lock, GPUD_LOCK_HAS);
        while (result == GPUD_SWAP_DONE && gpud_pool_lacks(2) != 0)
            result = gpud_swap_in(2, UINT64_MAX, 0, &moved);
        CHECK(result == GPUD_SWAP_DONE, "in: %d", result);
        pthread_rwlock_unlock(&gate);
        gpud_add_total(&swaps, 1);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    gpud_swap_out(2, UINT64_MAX, 0, &moved);
    CHECK(gpud_load(&wrong) == 0, "%u wrong answers or words", gpud_load(&wrong));
    CHECK(vmm_live.handles == 0 && vmm_live.reservations == 0 && gpud_host_used == 0 && vmm_violations == 0, "%llu handles, %llu addresses left",
          (unsigned long long)vmm_live.handles, (unsigned long long)vmm_live.reservations);
    return check_summary("pool busy");
}
