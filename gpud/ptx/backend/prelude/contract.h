/* gpud_kernel.h: what the PTX compiler (gpud/ptx) emits and the simulated driver (sim/) runs.
 *
 * A module of PTX becomes one shared object with one exported symbol, `gpud_module`. The object has no mutable state of
 * its own: module-scope variables live in device memory, one copy for each loaded module, and reach the kernel as
 * addresses in `globals`. Device pointers are host addresses in the process that computes. */
#ifndef GPUD_KERNEL_H
#define GPUD_KERNEL_H

#include <stdint.h>

#define GPUD_KERNEL_ABI 1
#define GPUD_KERNEL_OK 0
#define GPUD_KERNEL_TRAP 1          /* trap; brkpt; or an assertion */
#define GPUD_KERNEL_BARRIER 2       /* threads of one block wait at different barriers for ever */
#define GPUD_KERNEL_NO_MEMORY 3     /* no host memory for thread state */

struct gpud_launch {
    uint32_t grid[3];
    uint32_t block[3];
    uint32_t dynamic_shared_bytes;
    uint32_t warp_size;             /* 32 */
    uint32_t sm_count;
    uint32_t reserved;
    void *const *globals;           /* address of each variable, in the order of gpud_module_desc.globals */
};

/* Computes blocks [first, first + count) of the grid in row-major order (x fastest). `params` is the parameter block laid
 * out as the PTX .param space (offsets in the description). Blocks are independent, so a caller may split a grid over threads.
 * Returns GPUD_KERNEL_*. */
typedef int (*gpud_kernel_fn)(const struct gpud_launch *launch, const void *params, uint64_t first, uint64_t count);

struct gpud_param_desc {
    uint32_t offset;
    uint32_t bytes;
};

struct gpud_kernel_desc {
    const char *name;               /* as in PTX (mangled) */
    gpud_kernel_fn run;
    uint32_t param_count;
    uint32_t param_bytes;           /* of the whole block */
    const struct gpud_param_desc *params;
    uint32_t static_shared_bytes;
    uint32_t local_bytes;           /* per thread */
    uint32_t max_threads;           /* .maxntid product, else 1024 */
    uint32_t registers;             /* a rough count, for attributes */
};

struct gpud_global_desc {
    const char *name;
    uint64_t bytes;
    uint32_t align;
    uint32_t is_const;
    const void *initial;            /* NULL: zeroes */
};

struct gpud_module_desc {
    uint32_t abi;                   /* GPUD_KERNEL_ABI */
    uint32_t kernel_count;
    uint32_t global_count;
    uint32_t ptx_version;           /* 80 for .version 8.0 */
    uint32_t target;                /* 75 for sm_75 */
    uint32_t reserved;
    const struct gpud_kernel_desc *kernels;
    const struct gpud_global_desc *globals;
};

#define GPUD_MODULE_SYMBOL "gpud_module"    /* const struct gpud_module_desc */

#endif
