/* presence.c: is this client active on a device? 0→1 by the launch that finds 0; 1→0 only with proof that all launched work
 * is finished.
 *
 * Each device has the set of streams with work that is not proven finished. A thread that synchronises what only it has
 * used takes that out by itself, exactly. Everything else (streams of several threads, programs that never synchronise) is
 * settled by asking the driver, by the keeper or by a thread that has just learned something. */
#include "presence.h"

#include "budget.h"
#include "real.h"
#include "window.h"

#define CAPTURE_MODE_RELAXED 2

struct gpud_burst gpud_bursts[GPUD_MAX_DEVICES] = {
    [0 ... GPUD_MAX_DEVICES - 1] = { .lock = PTHREAD_MUTEX_INITIALIZER }
};
uint32_t gpud_asking;

/* The set is written under the lock, with `sequence` odd meanwhile; the keeper copies it without the lock. */
void gpud_burst_begin(struct gpud_burst *burst)
{
    pthread_mutex_lock(&burst->lock);
    gpud_store_total(&burst->sequence, burst->sequence + 1);
}

void gpud_burst_end(struct gpud_burst *burst)
{
    gpud_store_total(&burst->sequence, burst->sequence + 1);
    pthread_mutex_unlock(&burst->lock);
}

void gpud_used_set(struct gpud_used *to, const struct gpud_used *from)
{
    gpud_store_release(&to->stream, from->stream);
    gpud_store_release(&to->event, from->event);
    gpud_store_release(&to->context, from->context);
    gpud_store_release(&to->launcher, from->launcher);
    gpud_store_release(&to->last, from->last);
    gpud_store_release(&to->thread, from->thread);
}

struct gpud_used gpud_used_copy(const struct gpud_used *from)
{
    return (struct gpud_used){
        .stream = gpud_load_acquire(&from->stream), .event = gpud_load_acquire(&from->event),
        .context = gpud_load_acquire(&from->context), .launcher = gpud_load_acquire(&from->launcher),
        .last = gpud_load_acquire(&from->last), .thread = gpud_load_acquire(&from->thread),
    };
}

void gpud_used_remove(struct gpud_burst *burst, uint32_t index)
{
    uint32_t last = burst->count - 1;
    if (index != last)
        gpud_used_set(&burst->used[index], &burst->used[last]);
    gpud_store_release(&burst->count, last);
}

/* Whoever copied the set before it was locked may be asking about the event; who comes later sees an odd sequence. */
void gpud_used_end_event(const struct gpud_used *used)
{
    if (used->event == NULL)
        return;
    gpud_wait_for_askers();
    real.cuEventDestroy_v2(used->event);
}

static void used_clear(struct gpud_burst *burst)
{
    for (uint32_t i = 0; i < burst->count; i++)
        gpud_used_end_event(&burst->used[i]);
    gpud_store_release(&burst->count, 0);
    gpud_store_release(&burst->unknown, 0);
}

/* Default streams are one per context, per-thread default streams one per thread and context. */
bool gpud_used_is(const struct gpud_used *used, CUstream stream, CUcontext context, uint32_t thread)
{
    if (used->event != NULL || used->stream != stream)
        return false;
    if (stream == CU_STREAM_PER_THREAD)
        return used->thread == thread && used->context == context;
    return stream != CU_STREAM_LEGACY || used->context == context;
}

CUstream gpud_stream_named(CUstream stream, int per_thread)
{
    if (stream == NULL)
        return per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
    return stream;
}

uint64_t gpud_make_active(uint32_t device, bool *woke)
{
    uint64_t *word = gpud_edge_word(gpud_presence_at(device));
    uint64_t seen = gpud_load_total(word);      /* after the set's sequence: see gpud_presence_ask() */

    while (!GPUD_EDGE_ACTIVE(seen)) {
        uint64_t next = GPUD_EDGE_WORD(1, GPUD_EDGE_COUNT(seen) + 1);
        if (__atomic_compare_exchange_n(word, &seen, next, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {
            *woke = true;
            return next;
        }
    }
    return seen;
}

/* 1→0 if the word still is `active`. */
bool gpud_make_idle(uint32_t device, uint64_t active, uint64_t now)
{
    struct gpud_presence_device *presence = gpud_presence_at(device);
    uint64_t since = gpud_load(&presence->idle_since_ns);

    /* Only ever later: of two who see the end at the same time, the slower one must not set the clock back. */
    while (since < now && !__atomic_compare_exchange_n(&presence->idle_since_ns, &since, now, false, __ATOMIC_RELEASE,
                                                       __ATOMIC_RELAXED))
        ;
    gpud_store(&gpud_activity()->device[device].last_finish_ns, now);
    return __atomic_compare_exchange_n(gpud_edge_word(presence), &active, GPUD_EDGE_WORD(0, GPUD_EDGE_COUNT(active) + 1),
                                       false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

/* The thread goes on to another stream: what it launched so far is the last on the old one. The present launch is marked
 * already. */
static void leave_stream(struct gpud_burst *burst, const struct gpud_thread *thread, const struct gpud_slot *slot)
{
    CUstream old = gpud_stream_named(thread->stream, 0);
    for (uint32_t i = 0; i < burst->count; i++) {
        struct gpud_used *used = &burst->used[i];
        if (gpud_used_is(used, old, thread->context, thread->id) && used->launcher == slot && used->last == UINT64_MAX)
            gpud_store_release(&used->last, gpud_load(&slot->entered) - 1);
    }
}

static void note_stream(struct gpud_burst *burst, const struct gpud_thread *thread, CUstream stream, struct gpud_slot *slot)
{
    for (uint32_t i = 0; i < burst->count; i++) {
        struct gpud_used *used = &burst->used[i];
        if (!gpud_used_is(used, stream, thread->context, thread->id))
            continue;
        if (used->launcher != slot)
            gpud_store_release(&used->launcher, NULL);
        gpud_store_release(&used->last, UINT64_MAX);
        return;
    }
    if (burst->count == GPUD_USED_STREAMS) {
        gpud_store_release(&burst->unknown, 1);
        return;
    }
    /* A shared slot counts for several threads: nobody can tell its launches apart. */
    struct gpud_used fresh = { .stream = stream, .context = thread->context, .thread = thread->id, .last = UINT64_MAX,
                               .launcher = thread->flags & GPUD_PASS_SHARED ? NULL : slot };
    gpud_used_set(&burst->used[burst->count], &fresh);
    gpud_store_release(&burst->count, burst->count + 1);
}

/* What is in the set is from a burst that ended with proof, unless the keeper found that a launch slipped through. */
static void begin_burst(struct gpud_burst *burst, const struct gpud_thread *thread, uint32_t edges)
{
    bool proven = gpud_load_total(&burst->deciding) == 0 && gpud_load_total(&burst->slipped) == 0;

    if (proven)
        used_clear(burst);
    burst->sole = proven && !(thread->flags & GPUD_PASS_SHARED) ? thread->slots[thread->device] : NULL;
    burst->sole_context = thread->context;
    gpud_store_total(&burst->slipped, 0);
    burst->edges = edges;
}

void gpud_presence_enter(struct gpud_thread *thread, CUstream stream, bool *woke)
{
    uint32_t device = thread->device;
    struct gpud_burst *burst = &gpud_bursts[device];
    struct gpud_slot *slot = thread->slots[device];

    gpud_burst_begin(burst);
    uint64_t word = gpud_make_active(device, woke);
    if (burst->edges != GPUD_EDGE_COUNT(word))
        begin_burst(burst, thread, GPUD_EDGE_COUNT(word));
    else if (burst->sole != slot || burst->sole_context != thread->context)
        burst->sole = NULL;
    leave_stream(burst, thread, slot);
    note_stream(burst, thread, gpud_stream_named(stream, 0), slot);
    gpud_burst_end(burst);
    thread->edge_seen = word;
}

/* Asks the driver about one stream or event: true when it is finished. The stream's context is made current for it. */
static bool finished(const struct gpud_used *used, uint32_t asker)
{
    CUcontext popped;
    CUresult answer;

    if (used->event == NULL && used->stream == CU_STREAM_PER_THREAD && used->thread != asker)
        return false;       /* only its own thread can name it */
    if (used->context == NULL || real.cuCtxPushCurrent_v2(used->context) != CUDA_SUCCESS)
        return false;
    answer = used->event != NULL ? real.cuEventQuery(used->event) : real.cuStreamQuery(used->stream);
    real.cuCtxPopCurrent_v2(&popped);
    if (answer == CUDA_ERROR_DEINITIALIZED)
        gpud_store_total(&gpud_exiting, 1);
    /* Any error but this one means that nothing runs there any more. */
    return answer != CUDA_ERROR_NOT_READY && answer != CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
           answer != CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
}

/* All streams of the set, asked while gpud_asking is raised: whoever destroys one waits for that. `sequence` is the set's. */
static bool all_finished(struct gpud_burst *burst, uint32_t *sequence)
{
    struct gpud_used used[GPUD_USED_STREAMS];
    CUstreamCaptureMode mode = CAPTURE_MODE_RELAXED;

    *sequence = gpud_load_total(&burst->sequence);
    uint32_t count = gpud_load_acquire(&burst->count);
    if (*sequence & 1 || count > GPUD_USED_STREAMS || gpud_load_acquire(&burst->unknown))
        return false;
    for (uint32_t i = 0; i < count; i++)
        used[i] = gpud_used_copy(&burst->used[i]);
    if (gpud_load(&burst->sequence) != *sequence || gpud_load_total(&gpud_captures) != 0 || gpud_load_total(&gpud_ending) != 0 ||
        gpud_load_total(&gpud_exiting))
        return false;
    if (real.cuThreadExchangeStreamCaptureMode != NULL)
        real.cuThreadExchangeStreamCaptureMode(&mode);
    bool all = true;
    for (uint32_t i = 0; i < count && all; i++)
        all = finished(&used[i], gpud_thread.id);
    if (real.cuThreadExchangeStreamCaptureMode != NULL)
        real.cuThreadExchangeStreamCaptureMode(&mode);
    return all;
}

bool gpud_presence_decide(uint32_t device, uint64_t active, struct gpud_marks before, uint32_t sequence)
{
    struct gpud_burst *burst = &gpud_bursts[device];

    /* First every launch is sent the long way, where it notes its stream. Then those that had passed before that show by their
     * marks, and the rest by the set, so that a wrong edge is not seen by others for longer than a few instructions. */
    bool idle = false;
    gpud_add_total(&burst->deciding, 1);
    gpud_deciding_begin();
    gpud_barrier();
    uint64_t now = gpud_now();
    struct gpud_marks after = gpud_marks(device);
    if (after.entered == before.entered && gpud_load_total(&burst->sequence) == sequence)
        idle = gpud_make_idle(device, active, now);
    if (idle) {
        after = gpud_marks(device);
        if (after.entered != before.entered || gpud_load_total(&burst->sequence) != sequence) {
            bool woke = false;
            gpud_store_total(&burst->slipped, 1);
            gpud_make_active(device, &woke);
            idle = false;
        } else {
            gpud_window_idle(device, now);
            gpud_store(&gpud_presence_at(device)->inflight, 0);
            gpud_credit_idle(device, GPUD_EDGE_COUNT(active));
        }
    }
    gpud_deciding_end();
    gpud_sub_total(&burst->deciding, 1);
    return idle;
}

bool gpud_presence_ask(uint32_t device)
{
    uint64_t active = gpud_load_acquire(gpud_edge_word(gpud_presence_at(device)));
    struct gpud_marks before = gpud_marks(device);
    uint32_t sequence;

    if (!GPUD_EDGE_ACTIVE(active) || before.entered != before.left)
        return !GPUD_EDGE_ACTIVE(active);
    gpud_add_total(&gpud_asking, 1);
    bool all = all_finished(&gpud_bursts[device], &sequence);
    gpud_sub_total(&gpud_asking, 1);
    return all && gpud_presence_decide(device, active, before, sequence);
}
