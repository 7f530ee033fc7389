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
#endif

#define EXPORT __attribute__((visibility("default")))
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)
/* cuMemCreate's handles and addresses share one ledger. */
#define GPUD_HANDLE_KEY(handle) ((handle) | UINT64_C(1) << 63)

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

#define GATE_BODY(next_table, name, arguments, stream_argument, per_thread)              \
    {                                                                                    \
        STRAIGHT_ON(next_table, name, arguments);                                        \
        CUstream into = (stream_argument);                                               \
        gpud_inside = 1;                                                                 \
        struct gpud_pass pass = gpud_enter(into, per_thread);                            \
        CUresult result = next_table.name arguments;                                     \
        gpud_leave(&pass, into, per_thread, result);                                     \
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

#define BOTH(name, parameters, body, ...)                                                \
    EXPORT CUresult name parameters;                                                     \
    EXPORT CUresult name parameters body(gpud_next, name, __VA_ARGS__)                   \
    static CUresult handed_##name parameters body(real, name, __VA_ARGS__)

#define CU_GATE(since, name, parameters, arguments, stream, per_thread) \
    BOTH(name, parameters, GATE_BODY, arguments, stream, per_thread)
#define CU_AFTER(kind, since, name, parameters, arguments, ...) \
    BOTH(name, parameters, AROUND_BODY, arguments, (void)0, __VA_ARGS__)
#define CU_BEFORE(kind, since, name, parameters, arguments, ...) \
    BOTH(name, parameters, AROUND_BODY, arguments, __VA_ARGS__, (void)0)
#define CU_AROUND(kind, since, name, parameters, arguments, before, after) \
    BOTH(name, parameters, AROUND_BODY, arguments, before, after)
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
