/* proof.c: what SYNC entries prove. */
#include <string.h>

#include "budget.h"
#include "captures.h"
#include "contexts.h"
#include "presence.h"
#include "real.h"
#include "window.h"

#define EVENTS 256      /* application events whose stream is remembered; a collision forgets the older one */

/* The point of a stream that an application event stands for. */
struct point {
    CUevent event;
    CUstream stream;
    CUcontext context;
    struct gpud_slot *slot;     /* of the thread that recorded it; NULL: a shared one */
    uint64_t count;             /* its launches by then */
    uint32_t thread;
    uint32_t device;
};
static struct point points[EVENTS];
static pthread_mutex_t points_lock = PTHREAD_MUTEX_INITIALIZER;

static struct point *place_of(CUevent event)
{
    return &points[((uintptr_t)event * UINT64_C(0x9e3779b97f4a7c15)) >> 56];
}

void gpud_event_gone(CUevent event)
{
    pthread_mutex_lock(&points_lock);
    struct point *place = place_of(event);
    if (place->event == event)
        place->event = NULL;
    pthread_mutex_unlock(&points_lock);
}

void gpud_event_recorded(CUevent event, CUstream stream, int per_thread)
{
    struct gpud_thread *thread = &gpud_thread;

    if (!gpud_load(&gpud_managed))
        return;
    if (!gpud_bind(thread) || gpud_is_capturing(gpud_stream_named(stream, per_thread))) {
        gpud_event_gone(event);
        return;
    }
    struct gpud_slot *slot = thread->flags & GPUD_PASS_SHARED ? NULL : thread->slots[thread->device];
    struct point point = { .event = event, .stream = gpud_stream_named(stream, per_thread), .context = thread->context,
                           .slot = slot, .count = slot != NULL ? gpud_load(&slot->entered) : 0, .thread = thread->id,
                           .device = thread->device };
    pthread_mutex_lock(&points_lock);
    *place_of(event) = point;
    pthread_mutex_unlock(&points_lock);
}

/* What one SYNC call says. */
struct evidence {
    enum gpud_proof proof;
    struct point point;         /* STREAM: stream, context, thread; EVENT: all of it */
    struct gpud_slot *slot;     /* of the proving thread on the device; NULL: none, or shared */
};

enum worth { NOTHING, ASK, PROVEN };

/* What the evidence is worth for one stream of the set. A thread proves exactly what only it has launched; what others launched may
 * have come while it waited: then the driver must be asked. */
static enum worth weigh(const struct evidence *evidence, const struct gpud_used *used)
{
    const struct point *point = &evidence->point;

    if (evidence->proof == GPUD_PROOF_CONTEXT) {
        if (used->context != point->context)
            return NOTHING;
    } else if (!gpud_used_is(used, point->stream, point->context, point->thread)) {
        return NOTHING;
    }
    if (used->launcher == NULL || used->launcher != evidence->slot)
        return ASK;
    if (evidence->proof != GPUD_PROOF_EVENT)
        return PROVEN;
    if (point->slot != used->launcher)
        return ASK;
    uint64_t last = used->last == UINT64_MAX ? gpud_load(&used->launcher->entered) : used->last;
    return point->count >= last ? PROVEN : NOTHING;
}

static void prove_on(struct gpud_thread *thread, uint32_t device, struct evidence *evidence)
{
    struct gpud_burst *burst = &gpud_bursts[device];
    const uint64_t *word = gpud_edge_word(gpud_presence_at(device));
    bool ask = false;

    if (!GPUD_EDGE_ACTIVE(gpud_load_acquire(word)))
        return;
    bool shared = thread->shared & 1u << device;
    evidence->slot = thread->attachment == gpud_load_acquire(&gpud_attachment) && !shared ? thread->slots[device] : NULL;
    gpud_burst_begin(burst);
    for (uint32_t i = burst->count; i-- > 0;) {
        struct gpud_used *used = &burst->used[i];
        enum worth worth = weigh(evidence, used);
        ask |= worth == ASK;
        if (worth != PROVEN)
            continue;
        gpud_used_end_event(used);
        if (thread->device == device)
            thread->stream = GPUD_NO_STREAM;    /* so that its next launch is noted again */
        gpud_used_remove(burst, i);
    }
    if (evidence->proof == GPUD_PROOF_CONTEXT && burst->unknown && burst->sole != NULL && burst->sole == evidence->slot &&
        burst->sole_context == evidence->point.context) {
        gpud_store_release(&burst->unknown, 0);
        thread->stream = GPUD_NO_STREAM;
    }
    uint64_t active = gpud_load_acquire(word), now = gpud_now();
    bool idle = burst->count == 0 && !burst->unknown && !gpud_load_total(&burst->slipped) && GPUD_EDGE_ACTIVE(active) &&
                GPUD_EDGE_COUNT(active) == burst->edges && gpud_make_idle(device, active, now);
    gpud_burst_end(burst);
    if (idle) {
        gpud_window_idle(device, now);
        gpud_store(&gpud_presence_at(device)->inflight, 0);
        gpud_credit_idle(device, GPUD_EDGE_COUNT(active));
    } else if (ask) {
        gpud_presence_ask(device);
    }
}

void gpud_proved(enum gpud_proof proof, void *handle, int per_thread, CUresult result)
{
    struct gpud_thread *thread = &gpud_thread;
    struct evidence evidence = { .proof = proof };

    if (result != CUDA_SUCCESS || !gpud_load(&gpud_managed))
        return;
    bool bound = gpud_bind(thread);
    evidence.point.context = thread->context;
    evidence.point.thread = thread->id;
    if (proof == GPUD_PROOF_EVENT) {
        pthread_mutex_lock(&points_lock);
        evidence.point = *place_of(handle);
        pthread_mutex_unlock(&points_lock);
        if (evidence.point.event == handle && handle != NULL)
            prove_on(thread, evidence.point.device, &evidence);
        return;
    }
    if (proof == GPUD_PROOF_STREAM)
        evidence.point.stream = gpud_stream_named(handle, per_thread);
    bool named = evidence.point.stream == CU_STREAM_LEGACY || evidence.point.stream == CU_STREAM_PER_THREAD;
    if (proof == GPUD_PROOF_CONTEXT || named) {
        if (bound)
            prove_on(thread, thread->device, &evidence);
        return;
    }
    for (uint32_t device = 0; device < GPUD_MAX_DEVICES; device++)
        prove_on(thread, device, &evidence);    /* the stream may be another device's than the current one */
}

void gpud_points_forget(uint32_t device, CUcontext context)
{
    pthread_mutex_lock(&points_lock);
    for (uint32_t i = 0; i < EVENTS; i++) {
        if ((device == UINT32_MAX || points[i].device == device) && (context == NULL || points[i].context == context))
            points[i].event = NULL;
    }
    pthread_mutex_unlock(&points_lock);
}

void gpud_presence_forget(void)
{
    for (uint32_t device = 0; device < GPUD_MAX_DEVICES; device++)
        gpud_bursts[device] = (struct gpud_burst){ .lock = PTHREAD_MUTEX_INITIALIZER };
    memset(points, 0, sizeof points);
    points_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    gpud_asking = gpud_ending = 0;
    gpud_captures_forget();
    gpud_contexts_forget();
}
