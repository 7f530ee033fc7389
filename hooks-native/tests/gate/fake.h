/* fake.h: a driver whose kernels take wall time, for tests of the gate without interception; and ways to play the daemon
 * inside the process. Kernels of a device run one after the other. */
#ifndef GPUD_TEST_FAKE_H
#define GPUD_TEST_FAKE_H

#include <stdbool.h>
#include "checks.h"
#include "gate.h"
#include "real.h"

#define FAKE_SPINS UINT64_MAX       /* duration of a kernel that ends when fake_release() is called */

CUcontext fake_context(int device);         /* made current for the calling thread */
CUstream fake_stream(void);
void fake_stream_destroy(CUstream stream);  /* as the hook's trampoline does it */
/* A launch as the trampoline makes it. */
CUresult fake_launch(CUstream stream, int per_thread, uint64_t duration_ns);
CUresult fake_launch_of(const void *function, uint64_t blocks, CUstream stream, int per_thread, uint64_t duration_ns);
/* The kernel that fake_launch launches: one for each duration. */
const void *fake_function(uint64_t duration_ns);
/* The driver's half of a launch alone, into the calling thread's context: no gate, nobody is told. */
void fake_kernel(CUstream stream, int per_thread, uint64_t duration_ns);
/* Sleeps until the stream is finished and tells the hook, as a synchronise does. */
void fake_synchronise(CUstream stream, int per_thread);
void fake_synchronise_context(void);
/* The work is finished, but nobody is told. */
void fake_wait_quietly(CUstream stream);
CUresult fake_query(CUstream stream);
uint64_t fake_ready(CUstream stream);        /* when what was launched into it is finished */
CUevent fake_event(void);
void fake_record(CUevent event, CUstream stream);
CUresult fake_event_query(CUevent event);
void fake_begin_capture(CUstream stream);
void fake_end_capture(CUstream stream);
void fake_release(void);
/* How the device behaves: from a launch to its start where its stream is empty; and, if not 0, the time slice after which another
 * client's work has the device for as long. */
extern uint64_t fake_latency_ns, fake_slice_ns;
/* Event calls fail with this, if not 0; and how many event calls there were. */
extern CUresult fake_fail_create, fake_fail_record, fake_fail_elapsed;
extern uint32_t fake_event_calls;
/* All launches so far, in order: when each began and ended on the device. */
struct fake_run {
    uint64_t launched_ns, began_ns, ended_ns;
};
uint32_t fake_runs(struct fake_run *runs, uint32_t room);
void fake_forget_runs(void);
/* Wrong uses seen: a destroyed handle, a query of a capturing stream. */
extern uint32_t fake_violations;
extern uint32_t fake_queries;
extern uint32_t fake_primary_owners;        /* what cuDevicePrimaryCtxGetState goes by */

/* The control page, written by the test. Becomes what the hook reads at once. */
struct gpud_control_page *local_control(void);
/* As after an attach: device slot 0 (and 1 …) managed, all gates open, lease for an hour. */
void local_attach(uint32_t devices);
/* Peer `present` on device 0, ranked `rank`. */
struct gpud_presence_page *local_peer(uint32_t present, uint32_t rank);
void local_publish(void);       /* raises the control page's generations */
void local_wake(void);          /* as the daemon does after a change that matters to held threads */

bool is_active(uint32_t device);
#define EVENTUALLY_NS (60 * GPUD_SECOND)
/* Waits until the condition holds, at most EVENTUALLY_NS; checks that it did once (by now it may be otherwise again). */
#define EVENTUALLY(condition, ...)                                              \
    do {                                                                        \
        uint64_t until_ = gpud_now() + EVENTUALLY_NS;                           \
        bool held_;                                                             \
        while (!(held_ = (condition)) && gpud_now() < until_) {                 \
            struct timespec nap_ = { .tv_nsec = 200000 };                       \
            nanosleep(&nap_, NULL);                                             \
        }                                                                       \
        if (held_)                                                              \
            check_count++;                                                      \
        else                                                                    \
            CHECK(condition, __VA_ARGS__);                                      \
    } while (0)

#endif
