/* trampolines.c: our entries, expanded from the table. Each exists twice: `cuX`, exported, for programs linked with -lcuda, goes on
 * to the next interposer or the driver; `handed_cuX`, for look-ups on the driver, goes on to the driver. */
#include "classify.h"
#include "entry.h"
#include "launch.h"
#include "pointers.h"
#include "real.h"
#include "resolve.h"
#ifdef GPUD_TEST_GATE
#include GPUD_TEST_GATE     /* tests/counting_gate.h */
#else
#include "gate.h"
#include "pool.h"
#include "vmm.h"
#endif

#define EXPORT __attribute__((visibility("default")))
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)
#define GPUD_ARRAY_KEY(array) ((uintptr_t)(array) | GPUD_ARRAY_KEYS)
#define GPUD_FREES(key) const struct gpud_freeing freeing_ = gpud_frees(key)
/* In an entry, before the real call: it is not made where the tenant's limit is reached. */
#define GPUD_UNLESS_REFUSED(how)                    \
    again_: __attribute__((unused));                \
    const struct gpud_charge charge_ = how;         \
    if (UNLIKELY(charge_.refused)) {                \
        gpud_inside = 0;                            \
        return CUDA_ERROR_OUT_OF_MEMORY;            \
    }
/* After it. */
#define GPUD_SETTLE(at, bytes)                                                          \
    if (UNLIKELY(gpud_reserved(&charge_, result ? 0 : (at), bytes, result)))            \
        goto again_

static inline CUstream named_stream(CUstream stream, int per_thread)
{
    return per_thread && !stream ? CU_STREAM_PER_THREAD : stream;
}

/* cuCtxSynchronize_v2: only the current context is known to the other half. */
static inline void gpud_context_proved(CUcontext context, CUresult result)
{
    CUcontext current = NULL;

    if (result || !real.cuCtxGetCurrent || real.cuCtxGetCurrent(&current))
        return;
    if (!context || context == current)
        gpud_proved(GPUD_PROOF_CONTEXT, NULL, 0, result);
}

/* How much a copy moves. What is beyond 64 bits, or behind no pointer, the driver refuses. */
static inline uint64_t gpud_bytes_of(size_t width, size_t height, size_t depth)
{
    uint64_t bytes;

    return __builtin_mul_overflow(width, height, &bytes) || __builtin_mul_overflow(bytes, depth, &bytes) ? UINT64_MAX : bytes;
}

static inline uint64_t gpud_bytes_2d(const CUDA_MEMCPY2D *copy)
{
    return copy ? gpud_bytes_of(copy->WidthInBytes, copy->Height, 1) : 0;
}

static inline uint64_t gpud_bytes_3d(const CUDA_MEMCPY3D *copy)
{
    return copy ? gpud_bytes_of(copy->WidthInBytes, copy->Height, copy->Depth) : 0;
}

static inline uint64_t gpud_bytes_3d_peer(const CUDA_MEMCPY3D_PEER *copy)
{
    return copy ? gpud_bytes_of(copy->WidthInBytes, copy->Height, copy->Depth) : 0;
}

static inline uint64_t gpud_bytes_batch(const size_t *sizes, size_t count)
{
    uint64_t bytes = 0;

    for (size_t i = 0; sizes && i < count; i++)
        bytes += sizes[i];
    return bytes;
}

static inline uint64_t gpud_bytes_3d_batch(const CUDA_MEMCPY3D_BATCH_OP *list, size_t count)
{
    uint64_t bytes = 0;

    for (size_t i = 0; list && i < count; i++)
        bytes += gpud_bytes_of(list[i].extent.width, list[i].extent.height, list[i].extent.depth);
    return bytes;
}

/* Bytes of an array: whole texels, no padding. What the driver refuses anyway counts as nothing. */
static inline uint64_t gpud_bytes_array(size_t width, size_t height, size_t depth, int format, unsigned int channels)
{
    uint64_t each = format == 0x01 || format == 0x08 ? 1 : format == 0x02 || format == 0x09 || format == 0x10 ? 2 : 4;

    return gpud_bytes_of(width * each * (channels ? channels : 1), height ? height : 1, depth ? depth : 1);
}

static inline uint64_t gpud_bytes_array_2d(const CUDA_ARRAY_DESCRIPTOR *array)
{
    return array ? gpud_bytes_array(array->Width, array->Height, 0, array->Format, array->NumChannels) : 0;
}

#define ARRAY3D_WITHOUT_MEMORY 0xC0     /* sparse, deferred mapping: memory comes from cuMemCreate */
#define ARRAY3D_CUBEMAP 0x04
/* With `levels` of mipmaps; layers, of which `Depth` counts, do not shrink. */
static inline uint64_t gpud_bytes_array_3d(const CUDA_ARRAY3D_DESCRIPTOR *array, unsigned int levels)
{
    uint64_t bytes = 0;

    if (!array || array->Flags & ARRAY3D_WITHOUT_MEMORY)
        return 0;
    size_t width = array->Width, height = array->Height, depth = array->Depth;
    for (unsigned int i = 0; i < levels && i < 32; i++) {
        bytes += gpud_bytes_array(width, height, depth, array->Format, array->NumChannels);
        width = width > 1 ? width / 2 : 1;
        height = height > 1 ? height / 2 : height;
        depth = depth > 1 && !(array->Flags & (0x01 | ARRAY3D_CUBEMAP)) ? depth / 2 : depth;
    }
    return bytes;
}

/* Of the first API. */
static inline uint64_t gpud_bytes_array_2d_old(const CUDA_ARRAY_DESCRIPTOR_v1 *array)
{
    return array ? gpud_bytes_array(array->Width, array->Height, 0, array->Format, array->NumChannels) : 0;
}

static inline uint64_t gpud_bytes_array_3d_old(const CUDA_ARRAY3D_DESCRIPTOR_v1 *array)
{
    if (!array)
        return 0;
    const CUDA_ARRAY3D_DESCRIPTOR now = { array->Width, array->Height, array->Depth, array->Format, array->NumChannels, array->Flags };
    return gpud_bytes_array_3d(&now, 1);
}

#define NODE_OF_MEMORY 10               /* CU_GRAPH_NODE_TYPE_MEM_ALLOC */
static inline uint64_t gpud_bytes_node(const CUgraphNodeParams *params)
{
    return params && params->type == NODE_OF_MEMORY ? params->alloc.bytesize : 0;
}

#define PITCH_STEP 512
/* What a pitched allocation will take, before the driver says. */
static inline uint64_t gpud_bytes_pitched(size_t width, size_t height)
{
    return gpud_bytes_of((width + PITCH_STEP - 1) / PITCH_STEP * PITCH_STEP, height, 1);
}

static inline void gpud_begins(CUstream stream, int per_thread)
{
    gpud_capture_began(named_stream(stream, per_thread));
}

/* It did not begin after all. */
static inline void gpud_begun(CUstream stream, int per_thread, CUresult result)
{
    if (result != CUDA_SUCCESS)
        gpud_capture_ended(named_stream(stream, per_thread));
}

/* A capture also ends when its end is answered with invalidated (901), unjoined (904) or isolation (905). */
static inline void gpud_ended(CUstream stream, int per_thread, CUresult result)
{
    if (result == CUDA_SUCCESS || result == 901 || result == 904 || result == 905)
        gpud_capture_ended(named_stream(stream, per_thread));
}

/* Not started, disabled, no driver, or called from within another of our entries: straight on. One comparison while all is well:
 * gpud_live is 1 and gpud_inside 0. */
#define STRAIGHT_ON(next_table, name, arguments)                                         \
    if (UNLIKELY(gpud_inside >= gpud_live) && (gpud_inside || !gpud_first_call()))       \
        return next_table.name ? next_table.name arguments : CUDA_ERROR_NO_DEVICE

/* The same for a launch, which is marked already. Before the start no thread takes the fast path. */
static bool launch_straight_on(void)
{
    if (!gpud_inside && !gpud_nested() && (gpud_live || gpud_first_call()))
        return false;
    gpud_unmark();
    return true;
}

#define GATE_BODY(next_table, name, arguments, stream_argument, per_thread, function, blocks) \
    {                                                                                    \
        CUstream into = (stream_argument);                                               \
        struct gpud_slot *slot;                                                          \
        if (UNLIKELY(!gpud_enter_fast(into, per_thread, function, blocks, &slot)))       \
            return slow_##next_table##_##name arguments;                                 \
        CUresult result = next_table.name arguments;                                     \
        gpud_leave_fast(slot, into, per_thread, result);                                 \
        return result;                                                                   \
    }

/* A function of its own: in line, it would cost the fast path the registers that its calls need. */
#define GATE_SLOW(next_table, name, parameters, arguments, stream_argument, per_thread, function, blocks) \
    __attribute__((noinline, cold)) static CUresult slow_##next_table##_##name parameters \
    {                                                                                    \
        if (launch_straight_on())                                                        \
            return next_table.name ? next_table.name arguments : CUDA_ERROR_NO_DEVICE;   \
        CUstream into = named_stream((stream_argument), per_thread);                     \
        gpud_inside = 1;                                                                 \
        struct gpud_pass pass = gpud_enter_slow(into, function, blocks);                 \
        CUresult result = next_table.name arguments;                                     \
        gpud_leave_slow(&pass, into, result);                                            \
        gpud_inside = 0;                                                                 \
        return result;                                                                   \
    }

#define AROUND_BODY(next_table, name, arguments, before, after)                          \
    {                                                                                    \
        STRAIGHT_ON(next_table, name, arguments);                                        \
        gpud_inside = 1;                                                                 \
        before;                                                                          \
        CUresult result = next_table.name arguments;                                     \
        after;                                                                           \
        gpud_inside = 0;                                                                 \
        return result;                                                                   \
    }

#define POOL_BODY(next_table, name, arguments, takes, instead, before, after)            \
    {                                                                                    \
        STRAIGHT_ON(next_table, name, arguments);                                        \
        gpud_inside = 1;                                                                 \
        before;                                                                          \
        CUresult result = (takes) ? (instead) : next_table.name arguments;               \
        after;                                                                           \
        gpud_inside = 0;                                                                 \
        return result;                                                                   \
    }

#define BOTH(name, parameters, body, ...)                                                \
    EXPORT CUresult name parameters;                                                     \
    EXPORT CUresult name parameters body(gpud_next, name, __VA_ARGS__)                   \
    static CUresult handed_##name parameters body(real, name, __VA_ARGS__)

#define CU_GATE(since, name, parameters, arguments, ...)                   \
    GATE_SLOW(gpud_next, name, parameters, arguments, __VA_ARGS__)         \
    GATE_SLOW(real, name, parameters, arguments, __VA_ARGS__)              \
    BOTH(name, parameters, GATE_BODY, arguments, __VA_ARGS__)
#define CU_AFTER(kind, since, name, parameters, arguments, ...) \
    BOTH(name, parameters, AROUND_BODY, arguments, (void)0, __VA_ARGS__)
#define CU_BEFORE(kind, since, name, parameters, arguments, ...) \
    BOTH(name, parameters, AROUND_BODY, arguments, __VA_ARGS__, (void)0)
#define CU_AROUND(kind, since, name, parameters, arguments, before, after) \
    BOTH(name, parameters, AROUND_BODY, arguments, before, after)
#define CU_POOL(kind, since, name, parameters, arguments, takes, instead, before, after) \
    BOTH(name, parameters, POOL_BODY, arguments, takes, instead, before, after)
#include "../tbl/cuda_symbols.h"

#define CU_GATE(since, name, ...) ROW(name)
#define CU_AFTER(kind, since, name, ...) ROW(name)
#define CU_BEFORE(kind, since, name, ...) ROW(name)
#define CU_AROUND(kind, since, name, ...) ROW(name)
#define CU_OWN(kind, since, name, ...) ROW(name)
#define ROW(name) { (void *)name, (void *)handed_##name },
const struct gpud_entry gpud_entries[] = {
#include "../tbl/cuda_symbols.h"
};
