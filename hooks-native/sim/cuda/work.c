/* work.c: submission. The submit lock makes the order in which work reaches the device process the order in which it is
 * computed, across all streams and threads: that order satisfies every dependency, since a wait can only name a record that was
 * submitted before. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "capture.h"
#include "compute.h"
#include "image.h"
#include "work.h"

#define FREE_LIMIT 1024

static pthread_mutex_t free_lock = PTHREAD_MUTEX_INITIALIZER;
static struct work *free_list;
static int free_count;

struct work *work_new(enum work_kind kind) {
    sim_lock(sim.link, &free_lock);
    struct work *work = free_list;
    if (work) {
        free_list = work->next;
        free_count--;
    }
    pthread_mutex_unlock(&free_lock);
    if (!work)
        work = malloc(sizeof *work);
    if (work) {
        memset(work, 0, offsetof(struct work, inline_params));
        work->kind = kind;
    }
    return work;
}

void work_free(struct work *work) {
    if (!work)
        return;
    if (work->kind == WORK_KERNEL) {
        image_drop(work->kernel.image);
        if (work->kernel.params != work->inline_params)
            free(work->kernel.params);
    }
    if (work->kind == WORK_COPY)
        free(work->copy.owned);
    sim_lock(sim.link, &free_lock);
    bool keep = free_count < FREE_LIMIT;
    if (keep) {
        work->next = free_list;
        free_list = work;
        free_count++;
    }
    pthread_mutex_unlock(&free_lock);
    if (!keep)
        free(work);
}

bool work_params(struct work *work, size_t bytes) {
    work->kernel.params = bytes <= WORK_INLINE_PARAMS ? work->inline_params : malloc(bytes);
    if (work->kernel.params)
        memset(work->kernel.params, 0, bytes);
    return work->kernel.params != NULL;
}

struct work *work_clone(const struct work *from) {
    struct work *work = work_new(from->kind);
    if (!work)
        return NULL;
    memcpy(work, from, offsetof(struct work, inline_params));
    work->next = NULL;
    if (work->kind == WORK_COPY)
        work->copy.owned = NULL;
    if (work->kind == WORK_KERNEL) {
        work->kernel.image = image_hold(from->kernel.image);
        if (!work_params(work, from->kernel.desc->param_bytes)) {
            work_free(work);
            return NULL;
        }
        memcpy(work->kernel.params, from->kernel.params, from->kernel.desc->param_bytes);
    }
    return work;
}

/* Replaces the source of an asynchronous copy by what it holds now; pageable memory may change once the call is over. */
static bool snapshot(struct copy_work *copy) {
    size_t rows = copy->height * copy->depth;
    sim_own_begin(sim.link);
    char *to = malloc(copy->width * rows);
    for (size_t z = 0; to && z < copy->depth; z++)
        for (size_t y = 0; y < copy->height; y++)
            memcpy(to + (z * copy->height + y) * copy->width, copy->src + z * copy->src_plane + y * copy->src_pitch, copy->width);
    sim_own_end(sim.link);
    if (!to)
        return false;
    copy->owned = to;
    copy->src = to;
    copy->src_pitch = copy->width;
    copy->src_plane = copy->width * copy->height;
    copy->snapshot = false;
    return true;
}

CUresult work_command(struct stream *stream, const struct sim_command *command, uint64_t *ticket) {
    uint64_t got = sim_submit(sim.link, stream->queue, command);
    if (!got) {
        ctx_fail(stream->ctx, CUDA_ERROR_UNKNOWN);
        return sim_result(-EPIPE);
    }
    atomic_store(&stream->last, got);
    if (stream->legacy)
        atomic_store(&stream->ctx->legacy_last, got);
    else
        stream->dirty = !(stream->flags & CU_STREAM_NON_BLOCKING);
    if (ticket)
        *ticket = got;
    return CUDA_SUCCESS;
}

/* The stream comes after that record: pool.c may give it memory that was freed before. Submit lock held. */
static void follow(struct stream *stream, uint32_t queue, uint64_t ticket) {
    if (queue)
        stream->follows[stream->follow_next++ % STREAM_FOLLOWS] = (struct stream_follow){queue, ticket};
}

CUresult work_wait(struct stream *stream, uint32_t sim_event, uint64_t ticket, uint32_t queue) {
    follow(stream, queue, ticket);
    struct sim_command wait = {.kind = SIM_WAIT, .event = sim_event, .ticket = ticket};
    uint64_t own = 0;
    CUresult result = work_command(stream, &wait, &own);
    /* While nothing steps aside, the order of submission is all that computing needs. */
    if (result || (queue && !compute_aside()))
        return result;
    struct work *work = compute_start() ? NULL : work_new(WORK_WAIT);
    if (!work)
        return CUDA_ERROR_OUT_OF_MEMORY;
    work->ctx = stream->ctx;
    work->queue = stream->queue;
    work->ticket = own;
    work->wait = (struct wait_work){queue, sim_event, ticket};
    compute_push(work);
    return CUDA_SUCCESS;
}

/* Waits for an interprocess event. It is opened once more for that, since the program may destroy it meanwhile. */
static CUresult wait_remote(struct stream *stream, const struct event *event, uint64_t number) {
    uint32_t own;
    CUresult result = sim_result(sim_event_open(sim.link, event->number, &own));
    if (result)
        return result;
    result = work_wait(stream, own, number, 0);
    if (result)
        sim_event_destroy(sim.link, own);
    return result;
}

CUresult work_wait_event(struct stream *stream, const struct event *event) {
    uint64_t newest = event_newest(event);
    if (!newest || event_reached(event)) {
        follow(stream, event->queue, event->ticket);
        return CUDA_SUCCESS;
    }
    CUresult result = work_order(stream);
    if (result)
        return result;
    return event->number ? wait_remote(stream, event, newest) : work_wait(stream, event->sim_event, newest, event->queue);
}

CUresult work_wait_for(struct stream *waiter, struct stream *runner) {
    uint64_t last = runner->last;
    if (!last || sim_reached(sim.link, runner->queue, last)) {
        follow(waiter, runner->queue, last);
        return CUDA_SUCCESS;
    }
    if (!runner->mark) {
        int made = sim_event_create(sim.link, runner->ctx->device->node_index, &runner->mark);
        if (made)
            return sim_result(made);
    }
    struct sim_command record = {.kind = SIM_RECORD, .event = runner->mark};
    bool dirty = runner->dirty;
    CUresult result = work_command(runner, &record, &runner->mark_ticket);
    runner->dirty = dirty;
    return result ? result : work_wait(waiter, runner->mark, runner->mark_ticket, runner->queue);
}

CUresult work_order(struct stream *stream) {
    struct ctx *ctx = stream->ctx;
    CUresult result = CUDA_SUCCESS;
    if (stream->legacy) {
        pthread_mutex_lock(&ctx->lock);
        for (struct stream *s = ctx->streams; s && !result; s = s->next) {
            if (!s->dirty)
                continue;
            result = work_wait_for(stream, s);
            s->dirty = false;
        }
        pthread_mutex_unlock(&ctx->lock);
    } else if (!(stream->flags & CU_STREAM_NON_BLOCKING) && ctx->legacy && stream->legacy_seen != ctx->legacy_last) {
        result = work_wait_for(stream, ctx->legacy);
        stream->legacy_seen = ctx->legacy_last;
    }
    return result;
}

CUresult work_push(struct stream *stream, struct work *work, uint64_t *ticket) {
    work->ctx = stream->ctx;
    work->queue = stream->queue;
    CUresult result = compute_start();
    if (!result && work->kind == WORK_COPY && work->copy.snapshot && !snapshot(&work->copy))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    if (!result)
        result = work_order(stream);
    if (work->kind == WORK_CALL)
        work->call.after = stream->last;
    if (!result)
        result = work_command(stream, &work->command, &work->ticket);
    if (result) {
        work_free(work);
        return result;
    }
    if (ticket)
        *ticket = work->ticket;
    compute_push(work);
    return CUDA_SUCCESS;
}

CUresult work_submit(struct stream *stream, struct work *work, bool *captured_out) {
    pthread_mutex_lock(&sim.submit);
    bool captured = false;
    CUresult result = capture_work(stream, work, &captured);
    if (result)
        work_free(work);
    else if (!captured)
        result = work_push(stream, work, NULL);
    pthread_mutex_unlock(&sim.submit);
    if (captured_out)
        *captured_out = captured;
    return result;
}
