/* launches.h: how each launch entry is called, on a driver that does what it is asked. */
#ifndef GPUD_TEST_LAUNCHES_H
#define GPUD_TEST_LAUNCHES_H

#include <stdbool.h>
#include <string.h>

#include "cuda_api.h"

/* One launch of add_all (matrix.ptx): what each entry takes of it is what the entry can say. */
struct shot {
    CUfunction function;
    CUdeviceptr word;
    unsigned int value;
    unsigned int grid[3], block[3];
    CUstream stream;
    CUgraphExec graph;          /* launches the same */
    struct shot *beside;        /* on another device, for entries that launch on several */
};

#define CU_GATE(since, name, parameters, ...) typedef CUresult name##_fn parameters;
#include "../../tbl/cuda_symbols.h"

static inline CUresult call_kernel(void *entry, const struct shot *s)
{
    void *params[] = { (void *)(uintptr_t)&s->word, (void *)(uintptr_t)&s->value };
    return ((cuLaunchKernel_fn *)entry)(s->function, s->grid[0], s->grid[1], s->grid[2], s->block[0], s->block[1], s->block[2], 0,
                                        s->stream, params, NULL);
}

static inline CUresult call_kernel_ex(void *entry, const struct shot *s)
{
    void *params[] = { (void *)(uintptr_t)&s->word, (void *)(uintptr_t)&s->value };
    CUlaunchConfig config = { s->grid[0], s->grid[1], s->grid[2], s->block[0], s->block[1], s->block[2], 0, s->stream, NULL, 0 };
    return ((cuLaunchKernelEx_fn *)entry)(&config, s->function, params, NULL);
}

static inline CUresult call_cooperative(void *entry, const struct shot *s)
{
    void *params[] = { (void *)(uintptr_t)&s->word, (void *)(uintptr_t)&s->value };
    return ((cuLaunchCooperativeKernel_fn *)entry)(s->function, s->grid[0], s->grid[1], s->grid[2], s->block[0], s->block[1], s->block[2],
                                                   0, s->stream, params);
}

static inline CUresult call_several(void *entry, const struct shot *s)
{
    void *params[2][2];
    CUDA_LAUNCH_PARAMS list[2];
    unsigned int count = 0;
    for (const struct shot *one = s; one; one = one->beside, count++) {
        params[count][0] = (void *)(uintptr_t)&one->word;
        params[count][1] = (void *)(uintptr_t)&one->value;
        list[count] = (CUDA_LAUNCH_PARAMS){ one->function, one->grid[0], one->grid[1], one->grid[2], one->block[0], one->block[1],
                                            one->block[2], 0, one->stream, params[count] };
    }
    return ((cuLaunchCooperativeKernelMultiDevice_fn *)entry)(list, count, 0);
}

static inline CUresult call_graph(void *entry, const struct shot *s)
{
    return ((cuGraphLaunch_fn *)entry)(s->graph, s->stream);
}

static inline CUresult call_one(void *entry, const struct shot *s)
{
    return ((cuLaunch_fn *)entry)(s->function);
}

static inline CUresult call_grid(void *entry, const struct shot *s)
{
    return ((cuLaunchGrid_fn *)entry)(s->function, (int)s->grid[0], (int)s->grid[1]);
}

static inline CUresult call_grid_async(void *entry, const struct shot *s)
{
    return ((cuLaunchGridAsync_fn *)entry)(s->function, (int)s->grid[0], (int)s->grid[1], s->stream);
}

struct family {
    const char *name;           /* without _ptsz */
    CUresult (*call)(void *entry, const struct shot *shot);
    unsigned int sides;         /* of the grid that it can say; those beyond are 1 */
    bool streams;               /* it takes a stream … */
    bool named_only;            /* … that must be one that was made */
    bool several;               /* and launches on several devices */
};

static const struct family families[] = {
    { "cuLaunchKernel", call_kernel, 3, true, false, false },
    { "cuLaunchKernelEx", call_kernel_ex, 3, true, false, false },
    { "cuLaunchCooperativeKernel", call_cooperative, 3, true, false, false },
    { "cuLaunchCooperativeKernelMultiDevice", call_several, 3, true, true, true },
    { "cuGraphLaunch", call_graph, 3, true, false, false },
    { "cuLaunch", call_one, 0, false, false, false },
    { "cuLaunchGrid", call_grid, 2, false, false, false },
    { "cuLaunchGridAsync", call_grid_async, 2, true, false, false },
};

/* NULL: an entry that nobody has written a call for. */
static inline const struct family *family_of(const char *name)
{
    size_t length = strlen(name);
    if (length > 5 && !strcmp(name + length - 5, "_ptsz"))
        length -= 5;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (strlen(families[i].name) == length && !strncmp(families[i].name, name, length))
            return &families[i];
    return NULL;
}

#endif
