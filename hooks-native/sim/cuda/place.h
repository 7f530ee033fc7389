/* place.h: where the PTX compiler and the cache of compiled kernels are; see place.c. */
#ifndef SIM_CUDA_PLACE_H
#define SIM_CUDA_PLACE_H

#include <limits.h>
#include <stdbool.h>

struct place {
    char python[PATH_MAX];          /* interpreter */
    char root[PATH_MAX];            /* directory that holds the package gpud, "" when unknown */
    char compiler[65];              /* hash of the compiler's files: changes with them */
    char cache[PATH_MAX];           /* directory of compiled kernels, made; "" when there can be none */
};

const struct place *place(void);    /* found once a process; never NULL */

#endif
