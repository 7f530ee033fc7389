/* capture_forbid.c: calls that may not be made while something is captured. They end the captures that they conflict with. */
#include "capture.h"

CUresult capture_unsafe(void) {
    if (!captures_active || capture_thread_mode == CAPTURE_RELAXED)
        return CUDA_SUCCESS;
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&sim.submit);
    for (struct capture *c = captures; c; c = c->next) {
        bool own = pthread_equal(c->thread, pthread_self());
        if (own ? c->mode == CAPTURE_RELAXED : c->mode != CAPTURE_GLOBAL || capture_thread_mode != CAPTURE_GLOBAL)
            continue;
        c->status = CAPTURE_INVALIDATED;
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    pthread_mutex_unlock(&sim.submit);
    return result;
}

CUresult capture_allows(struct ctx **ctx) {
    CUresult result = sim_current(ctx);
    return result ? result : capture_unsafe();
}

CUresult capture_blocks(struct stream *stream) {
    if (!captures_active)
        return CUDA_SUCCESS;
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&sim.submit);
    struct capture *capture = capture_implicit(stream);
    if (capture)
        result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    else if ((capture = stream->capture))
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (capture)
        capture->status = CAPTURE_INVALIDATED;
    pthread_mutex_unlock(&sim.submit);
    return result;
}

CUresult capture_event(const struct event *event) {
    if (!event->capture_id)
        return capture_unsafe();        /* even of an event that has nothing to do with the capture */
    pthread_mutex_lock(&sim.submit);
    for (struct capture *c = captures; c; c = c->next)
        if (c->id == event->capture_id)
            c->status = CAPTURE_INVALIDATED;
    pthread_mutex_unlock(&sim.submit);
    return CUDA_ERROR_CAPTURED_EVENT;
}

CUresult capture_context(const struct ctx *ctx) {
    if (!captures_active)
        return CUDA_SUCCESS;
    CUresult result = capture_unsafe();
    pthread_mutex_lock(&sim.submit);
    for (struct capture *c = captures; c; c = c->next)
        for (const struct stream *s = c->streams; s; s = s->next_captured)
            if (s->ctx == ctx) {
                c->status = CAPTURE_INVALIDATED;
                result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
            }
    pthread_mutex_unlock(&sim.submit);
    return result;
}
