/* event.c: events. Their times are model time, so what they measure does not depend on this machine. */
#include <stdlib.h>

#include "capture.h"
#include "event.h"
#include "work.h"

/* Simulated events of destroyed events whose newest record is not done yet: others may wait for it. */
struct retired { struct retired *next; uint32_t event; uint64_t ticket; };
static struct retired *retired;         /* under the submit lock */

/* Tickets of a process count up over all its queues, so the newest record is the one with the highest. */
uint64_t event_newest(const struct event *event) {
    return event->number ? sim_event_newest(sim.link, event->sim_event) : event->ticket;
}

bool event_reached(const struct event *event) {
    uint64_t newest = event_newest(event);
    return !newest || sim_event_done(sim.link, event->sim_event).ticket >= newest;
}

void event_retire(uint32_t sim_event, uint64_t ticket) {
    for (struct retired **at = &retired; *at;) {
        struct retired *r = *at;
        if (sim_event_done(sim.link, r->event).ticket < r->ticket) {
            at = &r->next;
            continue;
        }
        *at = r->next;
        sim_event_destroy(sim.link, r->event);
        free(r);
    }
    if (!sim_event)
        return;
    struct retired *r = malloc(sizeof *r);
    if (!r) {
        sim_event_destroy(sim.link, sim_event);
        return;
    }
    *r = (struct retired){retired, sim_event, ticket};
    retired = r;
}

CUresult event_record(struct event *event, struct stream *stream) {
    CUresult result = work_order(stream);
    if (result)
        return result;
    if (!event->sim_event) {
        result = sim_result(sim_event_create(sim.link, stream->ctx->device->node_index, &event->sim_event));
        if (result)
            return result;
    }
    event->capture_id = 0;
    uint64_t ticket;
    struct sim_command record = {.kind = SIM_RECORD, .event = event->sim_event};
    result = work_command(stream, &record, &ticket);
    if (result)
        return result;
    event->queue = event->number ? 0 : stream->queue;
    atomic_store(&event->ticket, ticket);
    /* Other processes must see it before the caller can tell them. */
    return event->number ? sim_result(sim_event_recorded(sim.link, event->sim_event)) : CUDA_SUCCESS;
}

void event_destroy(struct event *event) {
    struct ctx *ctx = event->ctx;
    pthread_mutex_lock(&ctx->lock);
    *event->link = event->next;
    if (event->next)
        event->next->link = event->link;
    pthread_mutex_unlock(&ctx->lock);
    if (event->number) {
        sim_event_destroy(sim.link, event->sim_event);  /* the node's event lives while others have it open */
    } else if (event->sim_event) {
        pthread_mutex_lock(&sim.submit);
        event_retire(event->sim_event, event->ticket);
        pthread_mutex_unlock(&sim.submit);
    }
    if (event->capture_set)
        nodes_end(event->capture_set);
    free(event->capture_set);
    handle_free(event);
}

struct event *event_new(struct ctx *ctx, unsigned flags) {
    struct event *event = handle_new(H_EVENT);
    if (!event)
        return NULL;
    event->ctx = ctx;
    event->flags = flags;
    pthread_mutex_lock(&ctx->lock);
    event->next = ctx->events;
    event->link = &ctx->events;
    if (event->next)
        event->next->link = &event->next;
    ctx->events = event;
    pthread_mutex_unlock(&ctx->lock);
    return event;
}

ENTRY(cuEventCreate, CUevent *out, unsigned flags) {
    struct ctx *ctx;
    CUresult result = sim_current(&ctx);
    if (result)
        return result;
    if (!out || (flags & ~(unsigned)CU_EVENT_ALL))
        return CUDA_ERROR_INVALID_VALUE;
    if (flags & CU_EVENT_INTERPROCESS && !(flags & CU_EVENT_DISABLE_TIMING))
        return CUDA_ERROR_INVALID_VALUE;
    struct event *event = event_new(ctx, flags);
    if (!event)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (flags & CU_EVENT_INTERPROCESS) {
        result = sim_result(sim_event_create_shared(sim.link, ctx->device->node_index, &event->sim_event, &event->number));
        if (result) {
            event_destroy(event);
            return result;
        }
    }
    *out = (CUevent)event;
    return CUDA_SUCCESS;
}

CUresult event_of(CUevent handle, struct event **out) {
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!handle_ok(H_EVENT, handle))
        return CUDA_ERROR_INVALID_HANDLE;
    *out = (struct event *)handle;
    return ctx_check((*out)->ctx);
}

static CUresult record(CUevent handle, CUstream stream_handle, unsigned flags) {
    struct event *event;
    struct stream *stream;
    CUresult result = event_of(handle, &event);
    if (!result)
        result = stream_of(stream_handle, &stream);
    if (result)
        return result;
    if (flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    if (stream->ctx != event->ctx)
        return CUDA_ERROR_INVALID_HANDLE;
    bool captured = false;
    pthread_mutex_lock(&sim.submit);
    result = capture_record(stream, event, flags & CU_EVENT_RECORD_EXTERNAL, &captured);
    if (!result && !captured)
        result = event_record(event, stream);
    pthread_mutex_unlock(&sim.submit);
    return result;
}
PTSZ(cuEventRecord, (CUevent event, CUstream stream), record(event, S(stream), 0))
PTSZ(cuEventRecordWithFlags, (CUevent event, CUstream stream, unsigned flags), record(event, S(stream), flags))

ENTRY(cuEventQuery, CUevent handle) {
    struct event *event;
    CUresult result = event_of(handle, &event);
    if (!result)
        result = capture_event(event);
    if (result)
        return result;
    if (event_reached(event)) {
        sim_saw(sim.link, sim_event_done(sim.link, event->sim_event).model_ns);
        return ctx_error(event->ctx);
    }
    sim_asked(sim.link);
    return CUDA_ERROR_NOT_READY;
}

ENTRY(cuEventSynchronize, CUevent handle) {
    struct event *event;
    CUresult result = event_of(handle, &event);
    if (!result)
        result = capture_event(event);
    if (result)
        return result;
    uint64_t ticket = event_newest(event);
    result = ticket ? sim_result(sim_event_wait(sim.link, event->sim_event, ticket)) : CUDA_SUCCESS;
    return result ? result : ctx_error(event->ctx);
}

static CUresult destroy(CUevent handle) {
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!handle_ok(H_EVENT, handle))
        return CUDA_ERROR_INVALID_HANDLE;
    struct ctx *ctx = ((struct event *)handle)->ctx;
    event_destroy((struct event *)handle);
    return ctx_error(ctx);              /* it is gone all the same */
}

ENTRY(cuEventDestroy, CUevent event) { return destroy(event); }
ENTRY(cuEventDestroy_v2, CUevent event) { return destroy(event); }

static CUresult elapsed(float *out, CUevent from_handle, CUevent to_handle) {
    struct event *from, *to;
    CUresult result = event_of(from_handle, &from);
    if (!result)
        result = event_of(to_handle, &to);
    if (result)
        return result;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (from->capture_id || to->capture_id)
        return CUDA_ERROR_CAPTURED_EVENT;       /* the times of earlier records are no longer theirs */
    if ((from->flags | to->flags) & CU_EVENT_DISABLE_TIMING || !from->ticket || !to->ticket || from->ctx->device != to->ctx->device)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!event_reached(from) || !event_reached(to))
        return CUDA_ERROR_NOT_READY;
    uint64_t start = sim_event_done(sim.link, from->sim_event).model_ns, end = sim_event_done(sim.link, to->sim_event).model_ns;
    *out = (float)(((double)end - (double)start) / 1e6);
    return CUDA_SUCCESS;
}

ENTRY(cuEventElapsedTime, float *ms, CUevent start, CUevent end) { return elapsed(ms, start, end); }
ENTRY(cuEventElapsedTime_v2, float *ms, CUevent start, CUevent end) { return elapsed(ms, start, end); }

double gpud_sim_time_scale(void) {
    return sim_ready() == CUDA_SUCCESS && sim.device_count > 0 ? sim_device(sim.link, sim.device[0].node_index)->time_scale : 1;
}
