/* peer.h: what devices of this process may do with each other's memory; see peer.c. */
#ifndef SIM_CUDA_PEER_H
#define SIM_CUDA_PEER_H

#include "sim.h"

bool peer_possible(const struct device *from, const struct device *to);
bool peer_enabled(struct ctx *ctx, const struct device *device);        /* with some context of that device */
void peer_forget(struct ctx *ctx);              /* the context ends: what it may use, and who may use its memory */

#endif
