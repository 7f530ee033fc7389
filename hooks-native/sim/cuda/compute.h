/* compute.h: the thread that computes; see compute.c. */
#ifndef SIM_CUDA_COMPUTE_H
#define SIM_CUDA_COMPUTE_H

#include "work.h"

CUresult compute_start(void);           /* starts the thread once; submit lock held */
void compute_push(struct work *work);   /* takes the work over; submit lock held */

#endif
