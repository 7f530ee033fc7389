/* compute.h: the thread that computes; see compute.c. */
#ifndef SIM_CUDA_COMPUTE_H
#define SIM_CUDA_COMPUTE_H

#include "work.h"

CUresult compute_start(void);           /* starts the thread at first use; submit lock held */
void compute_push(struct work *work);   /* hands work over, in order */
bool compute_aside(void);               /* may the order of submission not be the order of computing? */
void compute_over(struct work *work);   /* what it waits for has come: its queue goes on */
void compute_drain(struct ctx *ctx);    /* waits until nothing of the context is left to compute */
/* The context's end by a fault in that work is told when it is due. Compute thread only. */
void compute_fault(struct ctx *ctx, uint32_t queue, uint64_t ticket);

/* compute_wait.c: threads that wait, and call the program's host functions. Hands over a CALL, a WAIT for another process, or a
 * FAULT. False: no thread can be had. */
bool wait_start(struct work *work);
void wait_run(struct work *work);       /* the same here and now */

#endif
