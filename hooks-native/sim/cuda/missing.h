/* missing.h: uses of entry points that are not simulated: NOT_SUPPORTED, and what it is once on stderr. They are rows of
 * tbl/sim_missing.h (SIM_PARTLY). */
#ifndef SIM_CUDA_MISSING_H
#define SIM_CUDA_MISSING_H

#include "sim.h"

enum missing_part {
#define SIM_PARTLY(id, what) PARTLY_##id,
#include "../../tbl/sim_missing.h"
    PARTLY_COUNT
};

CUresult missing_part(enum missing_part part);
#define MISSING(id) missing_part(PARTLY_##id)

#endif
