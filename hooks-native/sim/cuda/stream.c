/* stream.c: streams, the two default ones among them, and their life: a destroyed stream's work still runs. */
#include <stdlib.h>

#include "capture.h"
#include "heap.h"
#include "pool.h"
#include "work.h"

/* Destroyed streams whose queue still has work. */
struct zombie { struct zombie *next; struct ctx *ctx; uint32_t queue; uint64_t last; };
static struct zombie *zombies;
static pthread_mutex_t zombie_lock = PTHREAD_MUTEX_INITIALIZER;

/* This thread's own default streams, one a context. */
struct own { struct own *next; struct ctx *ctx; struct stream *stream; uint64_t id; };
static __thread struct own *mine;
static pthread_key_t own_key;
static pthread_once_t own_once = PTHREAD_ONCE_INIT;

CUresult stream_new(struct ctx *ctx, unsigned flags, int priority, struct stream **out) {
    struct stream *stream = handle_new(H_STREAM);
    if (!stream)
        return CUDA_ERROR_OUT_OF_MEMORY;
    stream->ctx = ctx;
    stream->flags = flags;
    stream->priority = priority;
    CUresult result = sim_result(sim_queue_create(sim.link, ctx->sim_context, priority, &stream->queue));
    if (result) {
        handle_free(stream);
        return result;
    }
    stream->legacy_seen = 0;
    pthread_mutex_lock(&ctx->lock);
    stream->next = ctx->streams;
    stream->link = &ctx->streams;
    if (stream->next)
        stream->next->link = &stream->next;
    ctx->streams = stream;
    pthread_mutex_unlock(&ctx->lock);
    *out = stream;
    return CUDA_SUCCESS;
}

void stream_destroy(struct stream *stream) {
    struct ctx *ctx = stream->ctx;
    capture_abandon(stream);
    pthread_mutex_lock(&sim.submit);
    pthread_mutex_lock(&ctx->lock);
    if (ctx->legacy && stream->dirty && !sim_reached(sim.link, stream->queue, stream->last))
        work_wait_for(ctx->legacy, stream);     /* the legacy stream must still wait for it */
    *stream->link = stream->next;
    if (stream->next)
        stream->next->link = stream->link;
    pthread_mutex_unlock(&ctx->lock);
    if (stream->mark)
        event_retire(stream->mark, stream->mark_ticket);
    pthread_mutex_unlock(&sim.submit);
    struct zombie *zombie = malloc(sizeof *zombie);
    if (zombie) {
        *zombie = (struct zombie){.ctx = ctx, .queue = stream->queue, .last = stream->last};
        pthread_mutex_lock(&zombie_lock);
        zombie->next = zombies;
        zombies = zombie;
        pthread_mutex_unlock(&zombie_lock);
    } else {
        sim_wait(sim.link, stream->queue, stream->last);
        sim_queue_destroy(sim.link, stream->queue);
    }
    free(stream->attributes);
    handle_free(stream);
    streams_reap();
}

void streams_reap(void) {
    struct zombie *done = NULL, **at = &zombies;
    pthread_mutex_lock(&zombie_lock);
    while (*at) {
        struct zombie *z = *at;
        if (z->last && !sim_reached(sim.link, z->queue, z->last)) {
            at = &z->next;
            continue;
        }
        *at = z->next;
        z->next = done;
        done = z;
    }
    pthread_mutex_unlock(&zombie_lock);
    if (done)
        pools_reap();                   /* their frees are due: nothing may ask for their queues afterwards */
    while (done) {
        struct zombie *next = done->next;
        sim_queue_destroy(sim.link, done->queue);
        free(done);
        done = next;
    }
}

void streams_drain(struct ctx *ctx) {
    for (;;) {
        uint32_t queue = 0;
        uint64_t last = 0;
        pthread_mutex_lock(&zombie_lock);
        for (struct zombie *z = zombies; z && !last; z = z->next) {
            if (z->ctx == ctx && z->last && !sim_reached(sim.link, z->queue, z->last)) {
                queue = z->queue;
                last = z->last;
            }
        }
        pthread_mutex_unlock(&zombie_lock);
        if (!last || sim_wait(sim.link, queue, last))
            break;
    }
    streams_reap();
}

static bool own_valid(const struct own *own) {
    return handle_ok(H_STREAM, own->stream) && own->stream->handle.id == own->id;
}

static void own_end(void *list) {
    for (struct own *own = list, *next; own; own = next) {
        next = own->next;
        if (!sim_ready() && own_valid(own))
            stream_destroy(own->stream);
        free(own);
    }
    mine = NULL;
}

static void own_start(void) { pthread_key_create(&own_key, own_end); }

/* The calling thread's default stream in a context, made at first use. */
static CUresult own_stream(struct ctx *ctx, struct stream **out) {
    struct own **at = &mine;
    while (*at) {
        struct own *own = *at;
        if (!own_valid(own)) {
            *at = own->next;
            pthread_setspecific(own_key, mine);
            free(own);
            continue;
        }
        if (own->ctx == ctx) {
            *out = own->stream;
            return CUDA_SUCCESS;
        }
        at = &own->next;
    }
    struct own *own = malloc(sizeof *own);
    if (!own)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = stream_new(ctx, 0, SIM_LOWEST_PRIORITY, out);
    if (result) {
        free(own);
        return result;
    }
    (*out)->per_thread = true;
    *own = (struct own){.next = mine, .ctx = ctx, .stream = *out, .id = (*out)->handle.id};
    mine = own;
    pthread_once(&own_once, own_start);
    pthread_setspecific(own_key, mine);
    return CUDA_SUCCESS;
}

CUresult stream_of(CUstream handle, struct stream **out) {
    CUresult result = sim_ready();
    if (result)
        return result;
    if (handle && handle != CU_STREAM_LEGACY && handle != CU_STREAM_PER_THREAD) {
        if (!handle_ok(H_STREAM, handle))
            return CUDA_ERROR_INVALID_HANDLE;
        *out = (struct stream *)handle;
        return ctx_check((*out)->ctx);
    }
    struct ctx *ctx;
    result = sim_current(&ctx);
    if (result)
        return result;
    if (handle == CU_STREAM_PER_THREAD)
        return own_stream(ctx, out);
    *out = ctx->legacy;
    return CUDA_SUCCESS;
}

CUresult stream_synchronise(struct stream *stream) {
    uint64_t last = stream->last;
    struct ctx *ctx = stream->ctx;
    CUresult result = last ? sim_result(sim_wait(sim.link, stream->queue, last)) : CUDA_SUCCESS;
    if (!result)
        result = ctx_error(ctx);
    pools_reap();
    return result;
}

static CUresult create(CUstream *out, unsigned flags, int priority) {
    struct ctx *ctx;
    CUresult result = sim_current(&ctx);
    if (result)
        return result;
    if (!out || (flags & ~(unsigned)CU_STREAM_NON_BLOCKING))
        return CUDA_ERROR_INVALID_VALUE;
    if (priority > SIM_LOWEST_PRIORITY)
        priority = SIM_LOWEST_PRIORITY;
    if (priority < SIM_HIGHEST_PRIORITY)
        priority = SIM_HIGHEST_PRIORITY;
    streams_reap();
    struct stream *stream;
    result = stream_new(ctx, flags, priority, &stream);
    if (!result)
        *out = (CUstream)stream;
    return result;
}

ENTRY(cuStreamCreate, CUstream *out, unsigned flags) { return create(out, flags, SIM_LOWEST_PRIORITY); }
ENTRY(cuStreamCreateWithPriority, CUstream *out, unsigned flags, int priority) { return create(out, flags, priority); }

static CUresult destroy(CUstream handle) {
    CUresult result = sim_ready();
    if (result)
        return result;
    struct stream *stream = (struct stream *)handle;
    if (!handle_ok(H_STREAM, stream) || stream->legacy || stream->per_thread)
        return CUDA_ERROR_INVALID_HANDLE;
    struct ctx *ctx = stream->ctx;
    stream_destroy(stream);
    return ctx_error(ctx);              /* it is gone all the same */
}

ENTRY(cuStreamDestroy, CUstream stream) { return destroy(stream); }
ENTRY(cuStreamDestroy_v2, CUstream stream) { return destroy(stream); }
