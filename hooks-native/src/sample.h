/* sample.h: GPU time of single launches, measured by pairs of events around them and read back later without waiting; and of stretches
 * of launches, which tell whether the sum of what is charged is right.
 *
 * The gate samples where launches are charged (GPUD_GATE_CHARGE and all that limit GPU time):
 *
 *     slow path, before the launch     left = gpud_sample_countdown(device, launches made since this thread asked last);
 *                                      if (left == 0 || young) gpud_sample_begin(&sample, …);
 *     the real launch
 *     slow path, after it              gpud_sample_end(&sample, …);          nothing if there is no sample
 *                                      left = gpud_sample_countdown(device, 1);
 *     the fast path then has credit for at most `left` launches
 *
 * Every slow path of a charged launch, and the keeper, also call gpud_sample_read() or gpud_sample_keep(). Nothing here waits for the
 * device, and nothing asks the driver while a stream capture is open. Any thread may call at any time. */
#ifndef GPUD_SAMPLE_H
#define GPUD_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>
#include "cuda_types.h"
#include "state.h"

#pragma GCC visibility push(hidden)

struct gpud_pending;

/* A sample under way, on the stack of the launching thread (beside its pass). Zeroed: none. */
struct gpud_sample {
    struct gpud_pending *pending;
};

/* `used`: launches of this device that the calling thread has made since it called this last. Returns how many launches it may make before
 * it should come back; 0: something is due with the next one. One count for all threads of the client. */
uint32_t gpud_sample_countdown(uint32_t device, uint32_t used);

/* Before the real launch of the calling thread (bound, not capturing, stream named as the slow path has it; marked already). `charged_ns`: GPU time
 * charged so far for launches of this thread on this device, exactly (drawn and not used does not count), this launch NOT included.
 * False: no sample now; the launch is made all the same. */
bool gpud_sample_begin(struct gpud_sample *sample, uint32_t device, CUstream stream, const void *function, uint64_t blocks,
                       uint64_t charged_ns);
/* After the real launch has returned `result`. Nothing if there is no sample. */
void gpud_sample_end(struct gpud_sample *sample, CUstream stream, CUresult result);

/* Reads back what is finished. Cheap where there is nothing to read, or where it was looked at a moment ago. */
void gpud_sample_read(uint32_t device, uint64_t now);
/* The same by the keeper, which has no context of its own: it makes each event's context current for it. Returns when it is worth
 * calling again (GPUD_NEVER: nothing is under way). */
uint64_t gpud_sample_keep(uint32_t device, uint64_t now);

/* Life and death; nobody asks any more who began to before gpud_ending was raised. (going.c) */
void gpud_sample_context_gone(uint32_t device, CUcontext context);     /* NULL: whichever */
/* A sample of this function or graph that is under way is worth nothing; NULL: any. Before gpud_cost_forget() or _doubt(). */
void gpud_sample_forget(const void *handle);
void gpud_sample_fork(void);

/* What one nanosecond of the driver's event times is of wall time (the simulated driver's time scale; 1 on a real one). */
double gpud_sample_scale(void);

#pragma GCC visibility pop
#endif
