/* held.h: a stream that goes no further until it is told to, however long this machine takes over the calls between. Other host
 * functions wait too: as in CUDA, they are called one after the other. */
#ifndef SIM_TEST_HELD_H
#define SIM_TEST_HELD_H

#include <semaphore.h>

#include "driver.h"

static inline void held_until(void *gate) { sem_wait(gate); }

static inline void hold(CUstream stream, sem_t *gate)
{
    sem_init(gate, 0, 0);
    OK(cuLaunchHostFunc(stream, held_until, gate));
}

static inline void go_on(sem_t *gate) { sem_post(gate); }

#endif
