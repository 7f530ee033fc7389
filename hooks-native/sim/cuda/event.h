/* event.h: making events, for event.c and ipc_event.c. */
#ifndef SIM_CUDA_EVENT_H
#define SIM_CUDA_EVENT_H

#include "sim.h"

/* A usable event, or the error that the context or the handle calls for. */
CUresult event_of(CUevent handle, struct event **out);
struct event *event_new(struct ctx *ctx, unsigned flags);       /* in the context's list, never recorded; NULL: no host memory */

/* Exported, though no part of the driver API: wall time = event time × this. Whoever measures programs by events and the clock needs
 * it, as gpud's hook does; a real driver has no such symbol. */
__attribute__((visibility("default"))) double gpud_sim_time_scale(void);

#endif
