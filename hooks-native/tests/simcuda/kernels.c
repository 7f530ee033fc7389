/* kernels.c: a module as the PTX compiler would have made it, by hand: the kernels that the C tests launch. They are there to
 * show what the driver does around a kernel, so they need no compiler. */
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "gpud_kernel.h"

extern const struct gpud_module_desc gpud_module;

struct add { int32_t *data; int32_t value; int32_t count; };

/* data[i] += value, one element a thread. */
static int run_add(const struct gpud_launch *launch, const void *params, uint64_t first, uint64_t count)
{
    const struct add *p = params;
    uint64_t threads = (uint64_t)launch->block[0] * launch->block[1] * launch->block[2];
    for (uint64_t i = first * threads; i < (first + count) * threads && i < (uint64_t)p->count; i++)
        p->data[i] += p->value;
    return GPUD_KERNEL_OK;
}

struct shape { uint64_t *out; };

/* Writes what it was launched with: grid, block, dynamic shared memory, first, count. */
static int run_shape(const struct gpud_launch *launch, const void *params, uint64_t first, uint64_t count)
{
    uint64_t *out = ((const struct shape *)params)->out;
    for (int i = 0; i < 3; i++) {
        out[i] = launch->grid[i];
        out[3 + i] = launch->block[i];
    }
    out[6] = launch->dynamic_shared_bytes;
    out[7] = first;
    out[8] = count;
    out[9] = launch->sm_count;
    return GPUD_KERNEL_OK;
}

struct store { volatile int32_t *at; };

/* Writes to any address: the way to fault. */
static int run_store(const struct gpud_launch *launch, const void *params, uint64_t first, uint64_t count)
{
    (void)launch, (void)first, (void)count;
    *((const struct store *)params)->at = 1;
    return GPUD_KERNEL_OK;
}

static int run_trap(const struct gpud_launch *launch, const void *params, uint64_t first, uint64_t count)
{
    (void)launch, (void)params, (void)first, (void)count;
    return GPUD_KERNEL_TRAP;
}

struct times { uint32_t *data; uint32_t factor, add; };

/* data[0] = data[0] * factor + add: the result tells the order in which kernels ran. */
static int run_times(const struct gpud_launch *launch, const void *params, uint64_t first, uint64_t count)
{
    const struct times *p = params;
    (void)launch, (void)first, (void)count;
    p->data[0] = p->data[0] * p->factor + p->add;
    return GPUD_KERNEL_OK;
}

/* The same, and computes for 3 ms of this machine's time. */
static int run_late(const struct gpud_launch *launch, const void *params, uint64_t first, uint64_t count)
{
    struct timespec now, start;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    while ((now.tv_sec - start.tv_sec) * 1000000000 + now.tv_nsec - start.tv_nsec < 3000000);
    return run_times(launch, params, first, count);
}

/* The same with a factor of 1, and sleeps for so many milliseconds. */
static int run_sleepy(const struct gpud_launch *launch, const void *params, uint64_t first, uint64_t count)
{
    struct times p = *(const struct times *)params;
    struct timespec left = { p.factor / 1000, p.factor % 1000 * 1000000 };
    while (nanosleep(&left, &left))
        ;
    p.factor = 1;
    return run_times(launch, &p, first, count);
}

struct big { int32_t *out; unsigned char bytes[3000]; };

/* The sum of a parameter of 3000 bytes. */
static int run_big(const struct gpud_launch *launch, const void *params, uint64_t first, uint64_t count)
{
    const struct big *p = params;
    (void)launch, (void)first, (void)count;
    *p->out = 0;
    for (size_t i = 0; i < sizeof p->bytes; i++)
        *p->out += p->bytes[i];
    return GPUD_KERNEL_OK;
}

/* globals[0]++ and writes globals[1] + globals[0] to out. */
static int run_global(const struct gpud_launch *launch, const void *params, uint64_t first, uint64_t count)
{
    (void)first, (void)count;
    int32_t *counter = launch->globals[0], *base = launch->globals[1];
    *((const struct store *)params)->at = ++*counter + *base;
    return GPUD_KERNEL_OK;
}

static const struct gpud_param_desc add_params[] = {{0, 8}, {8, 4}, {12, 4}}, pointer_param[] = {{0, 8}}, big_params[] = {{0, 8}, {8, 3000}};

#define KERNEL(name, run, params, count, bytes, ...) {name, run, count, bytes, params, __VA_ARGS__}
static const struct gpud_kernel_desc kernels[] = {
    KERNEL("add", run_add, add_params, 3, 16, 0, 0, 1024, 16),
    KERNEL("slow_add", run_add, add_params, 3, 16, 0, 0, 1024, 16),
    KERNEL("shape", run_shape, pointer_param, 1, 8, 1024, 24, 512, 40),
    KERNEL("store", run_store, pointer_param, 1, 8, 0, 0, 1024, 8),
    KERNEL("trap", run_trap, NULL, 0, 0, 0, 0, 1024, 8),
    KERNEL("times", run_times, add_params, 3, 16, 0, 0, 1024, 8),
    KERNEL("late", run_late, add_params, 3, 16, 0, 0, 1024, 8),
    KERNEL("shape_late", run_late, add_params, 3, 16, 0, 0, 1024, 8),
    KERNEL("slow_times", run_times, add_params, 3, 16, 0, 0, 1024, 8),
    KERNEL("sleepy", run_sleepy, add_params, 3, 16, 0, 0, 1024, 8),
    KERNEL("big", run_big, big_params, 2, 3008, 0, 0, 1024, 8),
    KERNEL("global", run_global, pointer_param, 1, 8, 0, 0, 1024, 8),
};

static const int32_t base = 1000;
static const struct gpud_global_desc globals[] = {{"counter", 4, 4, 0, NULL}, {"base", 4, 4, 1, &base}};

__attribute__((visibility("default"))) const struct gpud_module_desc gpud_module = {
    GPUD_KERNEL_ABI, sizeof kernels / sizeof *kernels, sizeof globals / sizeof *globals, 80, 80, 0, kernels, globals};
