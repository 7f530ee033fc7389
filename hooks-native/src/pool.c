/* pool.c: allocations and frees of the pool. */
#include "pool.h"

#include "contexts.h"
#include "gpud_page.h"
#include "pool_span.h"
#include "real.h"
#include "slab.h"
#include "state.h"
#include "stream_pool.h"
#include "swap.h"
#include "vmm.h"

#define PITCH 512u

static uint32_t some_ended;     /* bit per ordinal: a context has ended there, and may be somebody's current one still */

bool gpud_context_lives(CUcontext context)
{
    CUcontext popped;

    if (real.cuCtxPushCurrent_v2(context) != CUDA_SUCCESS)
        return false;
    CUresult answer = real.cuStreamQuery(NULL);
    real.cuCtxPopCurrent_v2(&popped);
    return answer != CUDA_ERROR_INVALID_CONTEXT && answer != CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

/* Memory for a context that has ended could never come in; the driver answers who asks for it. */
static bool has_ended(struct gpud_thread *thread)
{
    if (!(gpud_load_total(&some_ended) & 1u << thread->ordinal) || thread->alive == thread->bound)
        return false;
    if (!gpud_context_lives(thread->context))
        return true;
    thread->alive = thread->bound;
    return false;
}

bool gpud_pool_swaps(uint32_t ordinal)
{
    if (ordinal >= GPUD_POOL_DEVICES || !gpud_load_acquire(&gpud_managed))
        return false;
    uint32_t device = gpud_load(&gpud_slot_of[ordinal]);
    return device < GPUD_MAX_DEVICES && gpud_load(&gpud_control()->device[device].memory_flags) & GPUD_MEMORY_SWAP &&
           gpud_load(&gpud_captures) == 0 && gpud_chunk_able();
}

bool gpud_pool_takes(size_t bytes)
{
    struct gpud_thread *thread = &gpud_thread;

    return bytes != 0 && gpud_load_acquire(&gpud_managed) && gpud_bind(thread) && gpud_pool_swaps(thread->ordinal) && !has_ended(thread);
}

bool gpud_pool_has_device(uint32_t ordinal, bool *comes_in)
{
    uint32_t device = gpud_load(&gpud_slot_of[ordinal]);

    *comes_in = false;
    if (device >= GPUD_MAX_DEVICES || !gpud_load_acquire(&gpud_managed) ||
        !(gpud_load(&gpud_control()->device[device].gate) & GPUD_GATE_GRANT))
        return true;
    uint32_t lock = gpud_load_total(&gpud_presence_at(device)->lock);
    *comes_in = lock == GPUD_LOCK_COMES_IN;
    return lock == GPUD_LOCK_HAS || *comes_in;
}

static CUresult place(uint32_t ordinal, CUcontext context, size_t bytes, bool ordered, bool backed, CUdeviceptr *at)
{
    struct gpud_span *span;
    uint64_t small;
    CUresult result;

    if (bytes <= GPUD_SLAB_LARGEST) {
        result = gpud_slab_alloc(ordinal, context, bytes, ordered, backed, &small);
        if (result == CUDA_SUCCESS)
            *at = small;
        return result;
    }
    result = gpud_span_new(ordinal, context, bytes, GPUD_SPAN_LARGE, backed, &span);
    if (result == CUDA_SUCCESS) {
        span->ordered = ordered;
        *at = span->at;
    }
    return result;
}

CUresult gpud_pool_new(uint32_t ordinal, CUcontext context, size_t bytes, bool ordered, CUdeviceptr *at)
{
    bool comes_in, backed = gpud_pool_has_device(ordinal, &comes_in);
    CUresult result = place(ordinal, context, bytes, ordered, backed, at);
    uint64_t after = 0, last = gpud_ordered_serial;

    while (result == CUDA_ERROR_OUT_OF_MEMORY && backed && gpud_ordered_await(ordinal, &after, last)) {
        backed = gpud_pool_has_device(ordinal, &comes_in);
        result = place(ordinal, context, bytes, ordered, backed, at);
    }
    if (result == CUDA_ERROR_OUT_OF_MEMORY && comes_in) {
        backed = false;
        result = place(ordinal, context, bytes, ordered, false, at);
    }
    /* Whatever opens the gate (no turns any more, no daemon): no launch passes before there is memory. */
    if (result == CUDA_SUCCESS && !backed)
        gpud_shut(gpud_load(&gpud_slot_of[ordinal]));
    return result;
}

CUresult gpud_pool_alloc(CUdeviceptr *at, size_t bytes)
{
    const struct gpud_thread *thread = &gpud_thread;

    pthread_mutex_lock(&gpud_pool_lock);
    gpud_ordered_reclaim(thread->ordinal, false);
    CUresult result = gpud_pool_new(thread->ordinal, thread->context, bytes, false, at);
    gpud_pool_publish(thread->device);
    pthread_mutex_unlock(&gpud_pool_lock);
    return result;
}

CUresult gpud_pool_alloc_pitch(CUdeviceptr *at, size_t *pitch, size_t width, size_t height, unsigned int element)
{
    size_t row, bytes;

    if (at == NULL || pitch == NULL || width == 0 || height == 0 || (element != 4 && element != 8 && element != 16))
        return CUDA_ERROR_INVALID_VALUE;
    if (__builtin_add_overflow(width, PITCH - 1, &row) || __builtin_mul_overflow(row / PITCH * PITCH, height, &bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = gpud_pool_alloc(at, bytes);
    if (result == CUDA_SUCCESS)
        *pitch = row / PITCH * PITCH;
    return result;
}

bool gpud_pool_find(uint64_t address, struct gpud_found *found)
{
    struct gpud_span *span = gpud_span_at(address);
    struct gpud_small small;

    if (span == NULL || span->use == GPUD_SPAN_HANDLE)
        return false;
    if (span->use == GPUD_SPAN_LARGE) {
        *found = (struct gpud_found){ .span = span, .at = span->at, .bytes = span->user, .id = span->id, .ordered = span->ordered,
                                      .freeing = span->freeing };
        return address - span->at < span->user;
    }
    if (!gpud_slab_find(span, address, &small))
        return false;
    *found = (struct gpud_found){ .span = span, .at = small.at, .bytes = small.bytes, .id = small.id, .small = true,
                                  .ordered = small.ordered, .freeing = small.freeing };
    return address - small.at < small.bytes;
}

bool gpud_pool_owns(CUdeviceptr at)
{
    struct gpud_found found;

    if (at == 0 || gpud_span_count() == 0)      /* a stale count: that of an allocation whose address nobody can have yet */
        return false;
    pthread_mutex_lock(&gpud_pool_lock);
    bool owned = gpud_pool_find(at, &found) && !found.freeing;
    pthread_mutex_unlock(&gpud_pool_lock);
    return owned;
}

size_t gpud_pool_size(CUdeviceptr at)
{
    struct gpud_found found;

    pthread_mutex_lock(&gpud_pool_lock);
    bool owned = gpud_pool_find(at, &found) && !found.freeing && found.at == at;
    pthread_mutex_unlock(&gpud_pool_lock);
    return owned ? found.bytes : 0;
}

void gpud_pool_mark(const struct gpud_found *found, bool ordered, bool freeing, uint64_t bytes)
{
    if (found->small) {
        gpud_slab_mark(found->span, found->at, ordered, freeing, bytes);
    } else {
        found->span->ordered = ordered;
        found->span->freeing = freeing;
        found->span->user = bytes;
    }
}

void gpud_pool_release(const struct gpud_found *found)
{
    if (found->small)
        gpud_slab_free(found->span, found->at);
    else
        gpud_span_drop(found->span, true);
}

/* Work may still use the memory: as the driver does, the context is waited for. Where nothing of it is on the device nothing runs. */
static CUresult drain(CUcontext context)
{
    CUcontext current = NULL;

    if (real.cuCtxGetCurrent != NULL)
        real.cuCtxGetCurrent(&current);
    if (current == context)
        return real.cuCtxSynchronize();
    CUresult result = real.cuCtxPushCurrent_v2(context);
    if (result == CUDA_SUCCESS) {
        result = real.cuCtxSynchronize();
        real.cuCtxPopCurrent_v2(&current);
    }
    return result;
}

/* May work of the program be under way? Who has just been asked back may still be draining, and then its edge says so. */
static bool may_work(uint32_t ordinal)
{
    bool comes_in, has = gpud_pool_has_device(ordinal, &comes_in);
    uint32_t device = gpud_load(&gpud_slot_of[ordinal]);

    return (has && !comes_in) || GPUD_EDGE_ACTIVE(gpud_load_total(gpud_edge_word(gpud_presence_at(device)))) || gpud_has_unnoted(device);
}

CUresult gpud_pool_free(CUdeviceptr at)
{
    struct gpud_found found;
    CUcontext context = NULL;
    bool wait = true;

    pthread_mutex_lock(&gpud_pool_lock);
    bool right = gpud_pool_find(at, &found) && found.at == at && !found.freeing;
    if (right) {
        gpud_pool_mark(&found, found.ordered, true, found.bytes);
        context = found.span->context;
        wait = may_work(found.span->ordinal);
    }
    pthread_mutex_unlock(&gpud_pool_lock);
    if (!right)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = wait ? drain(context) : CUDA_SUCCESS;
    pthread_mutex_lock(&gpud_pool_lock);
    /* Its context may have gone meanwhile, and taken it along. */
    struct gpud_found now;
    if (gpud_pool_find(at, &now) && now.id == found.id) {
        uint32_t ordinal = now.span->ordinal;
        if (result != CUDA_SUCCESS) {
            gpud_pool_mark(&now, now.ordered, false, now.bytes);
        } else {
            if (now.ordered)
                gpud_ordered_count(ordinal, -(int64_t)now.bytes);
            gpud_pool_release(&now);
            gpud_pool_publish(gpud_load(&gpud_slot_of[ordinal]));
        }
    }
    pthread_mutex_unlock(&gpud_pool_lock);
    return result;
}

/* Of one context. Lock held. */
static void context_gone(CUcontext context)
{
    gpud_ordered_context_gone(context);
    for (uint32_t i = gpud_span_count(); i-- > 0;) {
        struct gpud_span *span = gpud_span_nth(i);
        if (span->use == GPUD_SPAN_FREE || span->gone || span->context != context)
            continue;
        uint64_t ordered = span->use == GPUD_SPAN_SLAB ? gpud_slab_ordered(span) : span->ordered && !span->freeing ? span->user : 0;
        gpud_ordered_count(span->ordinal, -(int64_t)ordered);
        if (span->use == GPUD_SPAN_SLAB)
            gpud_slab_gone(span);
        gpud_span_drop(span, false);
    }
    for (uint32_t i = 0; i < GPUD_POOL_DEVICES; i++) {
        gpud_swap_context_gone(i, context);
        gpud_pool_publish(gpud_load(&gpud_slot_of[i]));
    }
}

/* The context of a span of the ordinal (UINT32_MAX: of any), or that of our own streams, which the driver does not know any more; NULL: of
 * none. Lock held. */
static CUcontext find_dead(uint32_t ordinal)
{
    CUcontext last = NULL;

    for (uint32_t i = 0; i < gpud_span_count(); i++) {
        const struct gpud_span *span = gpud_span_nth(i);
        bool other = span->use == GPUD_SPAN_FREE || span->gone || (ordinal != UINT32_MAX && span->ordinal != ordinal);
        if (other || span->context == NULL || span->context == last)
            continue;
        last = span->context;
        if (!gpud_context_lives(last))
            return last;
    }
    for (uint32_t i = 0; i < GPUD_POOL_DEVICES; i++) {
        CUcontext ours = ordinal == UINT32_MAX || ordinal == i ? gpud_swap_context(i) : NULL;
        if (ours != NULL && !gpud_context_lives(ours))
            return ours;
    }
    return NULL;
}

void gpud_pool_context_gone(uint32_t ordinal, CUcontext context)
{
    __atomic_fetch_or(&some_ended, ordinal < GPUD_POOL_DEVICES ? 1u << ordinal : UINT32_MAX, __ATOMIC_SEQ_CST);
    pthread_mutex_lock(&gpud_pool_lock);
    CUcontext gone = context != NULL ? context : find_dead(ordinal);
    while (gone != NULL) {
        context_gone(gone);
        gone = context != NULL ? NULL : find_dead(ordinal);
    }
    pthread_mutex_unlock(&gpud_pool_lock);
}

void gpud_pool_forget(void)
{
    gpud_vmm_forget();
    gpud_chunk_forget();
    gpud_span_forget();
    gpud_slab_forget();
    gpud_ordered_forget();
    gpud_swap_forget();
}
