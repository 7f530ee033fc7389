/* stream_use.c: what one does with streams: ask, wait, let one wait for another, have host functions called. */
#include "capture.h"
#include "work.h"

static CUresult query(CUstream handle) {
    struct stream *stream;
    CUresult result = stream_of(handle, &stream);
    if (!result)
        result = capture_blocks(stream);
    if (result)
        return result;
    uint64_t last = stream->last;
    if (!last || sim_reached(sim.link, stream->queue, last)) {
        sim_saw(sim.link, sim_queue_done(sim.link, stream->queue).model_ns);
        return ctx_error(stream->ctx);
    }
    sim_asked(sim.link);
    return CUDA_ERROR_NOT_READY;
}
PTSZ(cuStreamQuery, (CUstream stream), query(S(stream)))

static CUresult synchronise(CUstream handle) {
    struct stream *stream;
    CUresult result = stream_of(handle, &stream);
    if (!result)
        result = capture_blocks(stream);
    return result ? result : stream_synchronise(stream);
}
PTSZ(cuStreamSynchronize, (CUstream stream), synchronise(S(stream)))

static CUresult priority_of(CUstream handle, int *out) {
    struct stream *stream;
    CUresult result = stream_of(handle, &stream);
    if (result)
        return result;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = stream->priority;
    return CUDA_SUCCESS;
}
PTSZ(cuStreamGetPriority, (CUstream stream, int *priority), priority_of(S(stream), priority))

static CUresult flags_of(CUstream handle, unsigned *out) {
    struct stream *stream;
    CUresult result = stream_of(handle, &stream);
    if (result)
        return result;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = stream->flags;
    return CUDA_SUCCESS;
}
PTSZ(cuStreamGetFlags, (CUstream stream, unsigned *flags), flags_of(S(stream), flags))

static CUresult id_of(CUstream handle, unsigned long long *out) {
    struct stream *stream;
    CUresult result = stream_of(handle, &stream);
    if (result)
        return result;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = stream->handle.id;
    return CUDA_SUCCESS;
}
PTSZ(cuStreamGetId, (CUstream stream, unsigned long long *id), id_of(S(stream), id))

static CUresult ctx_of(CUstream handle, CUcontext *out, void **green) {
    struct stream *stream;
    CUresult result = stream_of(handle, &stream);
    if (result)
        return result;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUcontext)stream->ctx;
    if (green)
        *green = NULL;
    return CUDA_SUCCESS;
}
PTSZ(cuStreamGetCtx, (CUstream stream, CUcontext *ctx), ctx_of(S(stream), ctx, NULL))
PTSZ(cuStreamGetCtx_v2, (CUstream stream, CUcontext *ctx, void **green), ctx_of(S(stream), ctx, green))

static CUresult device_of(CUstream handle, CUdevice *out) {
    struct stream *stream;
    CUresult result = stream_of(handle, &stream);
    if (result)
        return result;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = stream->ctx->device->ordinal;
    return CUDA_SUCCESS;
}
PTSZ(cuStreamGetDevice, (CUstream stream, CUdevice *device), device_of(S(stream), device))

static CUresult wait_event(CUstream handle, CUevent event_handle, unsigned flags) {
    struct stream *stream;
    CUresult result = stream_of(handle, &stream);
    if (result)
        return result;
    struct event *event = (struct event *)event_handle;
    if (!handle_ok(H_EVENT, event))
        return CUDA_ERROR_INVALID_HANDLE;
    if (flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    bool captured = false;
    pthread_mutex_lock(&sim.submit);
    result = capture_wait(stream, event, flags & CU_EVENT_WAIT_EXTERNAL, &captured);
    if (!result && !captured)
        result = work_wait_event(stream, event);
    pthread_mutex_unlock(&sim.submit);
    return result;
}
PTSZ(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags), wait_event(S(stream), event, flags))

/* Queues a host function: a command of no length that the device holds until the function has returned. */
static CUresult host_call(CUstream handle, CUhostFn fn, CUstreamCallback callback, void *data) {
    struct stream *stream;
    CUresult result = stream_of(handle, &stream);
    if (result)
        return result;
    if (!fn && !callback)
        return CUDA_ERROR_INVALID_VALUE;
    if (callback && (result = capture_blocks(stream)))
        return result;
    struct work *work = work_new(WORK_CALL);
    if (!work)
        return CUDA_ERROR_OUT_OF_MEMORY;
    work->call = (struct call_work){.fn = fn, .callback = callback, .data = data, .stream = stream->legacy ? NULL : (CUstream)stream};
    work->command.kind = SIM_MEMSET;
    return work_submit(stream, work, NULL);
}
PTSZ(cuLaunchHostFunc, (CUstream stream, CUhostFn fn, void *data), host_call(S(stream), fn, NULL, data))
PTSZ(cuStreamAddCallback, (CUstream stream, CUstreamCallback callback, void *data, unsigned flags),
     flags ? CUDA_ERROR_INVALID_VALUE : host_call(S(stream), NULL, callback, data))
