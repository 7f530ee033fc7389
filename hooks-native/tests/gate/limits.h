/* limits.h: for tests of what limits a tenant: words of a control page as the daemon writes them, kernels of known cost, and threads that
 * launch until they are held. */
#ifndef GPUD_TEST_LIMITS_H
#define GPUD_TEST_LIMITS_H

#include "cost.h"
#include "fake.h"
#include "level.h"

#define LIMITS_FOREVER (INT64_MAX / 4)

/* Kernels cost what they are taught to: nothing is measured. */
void limits_begin(uint32_t devices);
/* Launches of this function (1 block) are charged with so much. */
void limits_teach(const void *function, uint64_t blocks, uint64_t ns);
/* The gate word; generation and wake as the daemon does it. */
void limits_gate(uint32_t device, uint32_t gate);
/* The words of the levels, between two odd steps of their sequence; nobody is woken. */
void limits_cap(uint32_t device, int64_t base_ns, uint32_t rate_ppm, uint64_t t0_ns);
void limits_share(uint32_t device, int64_t base_ns, uint32_t rate_ppm, uint64_t t0_ns, uint64_t turn_ns);
/* Another process of this tenant, or of another one, on device 0. */
struct gpud_presence_page *limits_peer(uint32_t present, uint32_t tenant, uint32_t flags);
struct gpud_peer *limits_entry(uint32_t present);
void limits_peers_gone(void);

/* A thread that launches one kernel again and again. */
struct limits_thread {
    pthread_t thread;
    const void *function;
    uint64_t blocks, duration_ns;
    CUstream stream;
    int device;
    uint32_t most;              /* it ends after so many; 0: at stop */
    uint32_t stop, launches;
};
void limits_start(struct limits_thread *it);
void limits_stop(struct limits_thread *it);     /* opens device 0 … 7 for it to end */
uint32_t limits_launched(const struct limits_thread *it);

uint64_t limits_spent(uint32_t device);
void limits_idle(uint32_t device);              /* waits until the keeper's questions find it idle */
bool limits_held(uint32_t threads);             /* so many are held */
uint64_t limits_holds(uint32_t device);         /* how often a launch was held */
const struct gpud_slot *limits_held_slot(uint32_t device);
void limits_pause(uint64_t ns);

#endif
