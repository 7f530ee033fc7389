/* beside_swaps.h: threads that work while the keeper swaps all of their memory, or some, out and in again. Who uses memory does so with `gate`
 * held for reading; work() adds 1 to `ended` when it is over. _GNU_SOURCE before this. */
#ifndef GPUD_TEST_BESIDE_SWAPS_H
#define GPUD_TEST_BESIDE_SWAPS_H

#include "fake_vmm.h"

#define THREADS 4
#define SWAPS 10        /* at least so many */

static pthread_rwlock_t gate = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;     /* held for writing: shut */
static uint32_t wrong, ended, swaps;

static inline void work_beside_swaps(uint32_t slot, void *(*work)(void *number))
{
    pthread_t threads[THREADS];
    uint64_t moved;

    vmm_start(4096 * MIB);
    vmm_host(512 * MIB);
    vmm_control(slot)->gate = GPUD_GATE_GRANT;
    gpud_store_total(&gpud_presence_at(slot)->lock, GPUD_LOCK_HAS);
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    while (gpud_load_total(&ended) < THREADS) {
        pthread_rwlock_wrlock(&gate);
        gpud_store_total(&gpud_presence_at(slot)->lock, GPUD_LOCK_NONE);
        gpud_swap_out(slot, swaps % 3 == 0 ? 8 * MIB : UINT64_MAX, 0, &moved);
        gpud_store_total(&gpud_presence_at(slot)->lock, GPUD_LOCK_COMES_IN);
        enum gpud_swap_result result = gpud_swap_in(slot, UINT64_MAX, 0, &moved);
        gpud_store_total(&gpud_presence_at(slot)->lock, GPUD_LOCK_HAS);
        while (result == GPUD_SWAP_DONE && gpud_pool_lacks(slot) != 0)
            result = gpud_swap_in(slot, UINT64_MAX, 0, &moved);
        CHECK(result == GPUD_SWAP_DONE, "in: %d", result);
        pthread_rwlock_unlock(&gate);
        gpud_add_total(&swaps, 1);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK(gpud_load(&wrong) == 0, "%u wrong answers or words", gpud_load(&wrong));
}

#endif
