/* counting_gate.c: counts what interception reports. */
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
