/* counting_gate.c: counts what interception reports. */
#include "classify.h"
#include "entry.h"
#include "counting_gate.h"

struct counting counting;
__thread struct counting_thread counting_thread;

struct gpud_pass gpud_enter_slow(CUstream stream, const void *function, uint64_t blocks)
{
    counting_thread.word = 1;
    counting.function = function;
    counting.blocks = blocks;
    COUNT(entered);
    counting.stream = stream;
    counting.per_thread = stream == CU_STREAM_PER_THREAD;
    return (struct gpud_pass){ .slot = &counting_thread.slot };
}

void gpud_leave_slow(struct gpud_pass *pass, CUstream stream, CUresult result)
{
    (void)stream;
    pass->slot->left++;
    COUNT(left);
    if (result)
        COUNT(failed);
}

void gpud_proved(enum gpud_proof proof, void *handle, int per_thread, CUresult result)
{
    (void)handle;
    counting.per_thread = per_thread;
    if (result)
        return;
    if (proof == GPUD_PROOF_CONTEXT)
        COUNT(proved_context);
    else if (proof == GPUD_PROOF_STREAM)
        COUNT(proved_stream);
    else
        COUNT(proved_event);
}

void gpud_event_recorded(CUevent event, CUstream stream, int per_thread)
{
    (void)event, (void)stream;
    counting.per_thread = per_thread;
    COUNT(recorded);
}

void gpud_context_changed(int whole_process)
{
    (void)whole_process;
    COUNT(context_changed);
}

void gpud_context_going(void)
{
    COUNT(context_going);
}

void gpud_context_gone(CUcontext context, CUresult result)
{
    (void)context, (void)result;
    COUNT(context_gone);
}

void gpud_primary_gone(CUdevice device, int reset, CUresult result)
{
    (void)device, (void)reset, (void)result;
    COUNT(primary_gone);
}

void gpud_stream_gone(CUstream stream)
{
    (void)stream;
    COUNT(stream_gone);
}

void gpud_event_gone(CUevent event)
{
    (void)event;
    COUNT(event_gone);
}

CUresult gpud_initialised(void)
{
    COUNT(initialised);
    return CUDA_SUCCESS;
}

void gpud_capture_began(CUstream stream)
{
    (void)stream;
    COUNT(capture_began);
}

void gpud_capture_ended(CUstream stream)
{
    (void)stream;
    COUNT(capture_ended);
}

void gpud_allocated(uint64_t address, uint64_t bytes)
{
    (void)address;
    COUNT(allocated);
    __atomic_fetch_add(&counting.allocated_bytes, bytes, __ATOMIC_RELAXED);
}

void gpud_freed(uint64_t address)
{
    (void)address;
    COUNT(freed);
}

struct gpud_charge gpud_reserves_managed(uint64_t bytes) { return gpud_reserves(bytes); }
struct gpud_charge gpud_reserves(uint64_t bytes)
{
    return (struct gpud_charge){ .bytes = bytes };
}

struct gpud_charge gpud_reserves_on(int type, int ordinal, uint64_t bytes)
{
    (void)ordinal;
    return (struct gpud_charge){ .bytes = bytes, .ordinal = type == CU_MEM_LOCATION_TYPE_DEVICE ? 0 : UINT32_MAX };
}

struct gpud_charge gpud_reserves_ordered(uint64_t bytes, CUmemoryPool pool, CUstream stream, int per_thread)
{
    (void)pool, (void)stream;
    counting.per_thread = per_thread;
    return (struct gpud_charge){ .bytes = bytes };
}

struct gpud_charge gpud_fits(uint64_t bytes)
{
    return (struct gpud_charge){ .bytes = bytes };
}

bool gpud_reserved(const struct gpud_charge *charge, uint64_t address, uint64_t bytes, CUresult result)
{
    if (result == CUDA_SUCCESS && charge->ordinal == 0)
        gpud_allocated(address, bytes);
    return false;
}

struct gpud_freeing gpud_frees(uint64_t address)
{
    gpud_freed(address);
    return (struct gpud_freeing){ .address = address };
}

void gpud_is_freed(const struct gpud_freeing *freeing, CUresult result) { (void)freeing, (void)result; }
void *gpud_dlsym_nvml(void *handle, const char *name) { return gpud_next_dlsym(handle, name); }
uint64_t gpud_handle_made(uint64_t handle) { return handle; }
void gpud_handle_retained(uint64_t handle, uint64_t address) { (void)handle, (void)address; }
struct gpud_pin gpud_pins(uint64_t at, uint64_t bytes) { return (struct gpud_pin){ .at = at, .bytes = bytes }; }
void gpud_pinned(const struct gpud_pin *pin, CUresult result) { (void)pin, (void)result; }
void gpud_handle_mapped(uint64_t start, uint64_t bytes, uint64_t handle) { (void)start, (void)bytes, (void)handle; }
void gpud_handle_unmapped(uint64_t start, uint64_t bytes) { (void)start, (void)bytes; }
struct gpud_freeing gpud_handle_frees(uint64_t handle) { return gpud_frees(handle); }
void gpud_handle_is_freed(const struct gpud_freeing *freeing, CUresult result) { (void)freeing, (void)result; }
void gpud_pool_made(CUmemoryPool pool, const CUmemPoolProps *props) { (void)pool, (void)props; }
uint32_t gpud_pool_ended(CUmemoryPool pool) { (void)pool; return 0; }
void gpud_pool_stays(CUmemoryPool pool, uint32_t home) { (void)pool, (void)home; }
void gpud_pool_changed(void) {}
void gpud_limit_info(size_t *left, size_t *total) { (void)left, (void)total; }
void gpud_limit_total(size_t *total, int ordinal) { (void)total, (void)ordinal; }
void gpud_limit_info_old(unsigned int *left, unsigned int *total) { (void)left, (void)total; }
void gpud_limit_total_old(unsigned int *total, int ordinal) { (void)total, (void)ordinal; }

uint64_t gpud_sets(CUstream stream, int per_thread)
{
    counting.stream = stream;
    counting.per_thread = per_thread;
    return 0;
}

uint64_t gpud_copies(uint64_t bytes, CUstream stream, int per_thread)
{
    COUNT(copies);
    counting.stream = stream;
    counting.per_thread = per_thread;
    return bytes;
}

void gpud_copied(uint64_t counted, CUresult result)
{
    if (result)
        return;
    COUNT(copied);
    __atomic_fetch_add(&counting.copied_bytes, counted, __ATOMIC_RELAXED);
}

void gpud_function_gone(const void *handle)
{
    (void)handle;
    COUNT(function_gone);
}

void gpud_function_changed(const void *handle)
{
    (void)handle;
    COUNT(function_changed);
}

void gpud_stream_waits(void)
{
    COUNT(stream_waits);
}

void gpud_start(void)
{
    COUNT(started);
}
