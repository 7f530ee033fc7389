/* pool.c: memory pools and stream-ordered allocation. Freed memory goes back to its pool once its stream has come to the free, and
 * from the pool to the device at the next synchronisation, above the release threshold. */
#include "capture.h"
#include "missing.h"
#include "pool.h"
#include "work.h"

CUresult pool_new(struct device *device, bool builtin, struct pool **out) {
    struct pool *pool = handle_new(H_POOL);
    struct heap *heap = pool ? heap_new(device, HEAP_POOL, pool) : NULL;
    if (!heap) {
        handle_free(pool);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    pool->device = device;
    pool->heap = heap;
    pool->builtin = builtin;
    for (int i = POOL_REUSE_EVENT; i <= POOL_REUSE_INTERNAL; i++)
        pool->reuse[i] = 1;
    sim_lock(sim.link, &device->heap_lock);
    pool->next = device->pools;
    device->pools = pool;
    pthread_mutex_unlock(&device->heap_lock);
    *out = pool;
    return CUDA_SUCCESS;
}

CUresult pools_open(struct device *device) {
    CUresult result = pool_new(device, true, &device->default_pool);
    device->current_pool = device->default_pool;
    return result;
}

void pools_reap(void) {
    for (int i = 0; i < sim.device_count; i++) {
        struct device *device = &sim.device[i];
        sim_lock(sim.link, &device->heap_lock);
        for (struct heap *heap = device->heaps, *next; heap; heap = next) {
            next = heap->next;
            heap_reap(heap);
            bool orphan = heap->kind == HEAP_POOL && !heap->pool;
            if (heap->keeps && heap->reserved > heap->threshold)
                heap_trim(heap, heap->threshold, false);
            if (orphan)
                heap_delete_empty(heap);
        }
        pthread_mutex_unlock(&device->heap_lock);
    }
}

void pools_trim_locked(struct device *device) {
    for (struct pool *pool = device->pools; pool; pool = pool->next) {
        if (pool->reuse[POOL_REUSE_OPPORTUNISTIC])
            heap_reap(pool->heap);
        heap_trim(pool->heap, 0, false);
    }
}

CUresult pool_of(CUmemoryPool handle, struct pool **out) {
    CUresult result = sim_ready();
    if (!result && !handle_ok(H_POOL, handle))
        result = CUDA_ERROR_INVALID_VALUE;
    *out = (struct pool *)handle;
    return result;
}

/* What cuMemPoolCreate can make. */
static CUresult check(const CUmemPoolProps *props) {
    if (!props || props->win32SecurityAttributes)
        return CUDA_ERROR_INVALID_VALUE;
    if (props->allocType == ALLOCATION_MANAGED)
        return MISSING(POOL_MANAGED);
    if (props->allocType != ALLOCATION_PINNED || props->handleTypes & ~(HANDLE_FD | HANDLE_WIN32 | HANDLE_WIN32_KMT | HANDLE_FABRIC))
        return CUDA_ERROR_INVALID_VALUE;
    bool host = props->location.type == LOCATION_HOST || props->location.type == LOCATION_HOST_NUMA;
    if (host && props->location.type == LOCATION_HOST && props->handleTypes)
        return CUDA_ERROR_INVALID_VALUE;
    if (host)
        return MISSING(POOL_HOST);
    if (props->location.type != LOCATION_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    return props->handleTypes & ~HANDLE_FD ? MISSING(POOL_HANDLES) : CUDA_SUCCESS;
}

ENTRY(cuMemPoolCreate, CUmemoryPool *out, const CUmemPoolProps *props) {
    CUresult result = sim_ready();
    if (!result)
        result = out ? check(props) : CUDA_ERROR_INVALID_VALUE;
    if (result)
        return result;
    struct device *device;
    struct pool *pool;
    result = sim_device_of(props->location.id, &device);
    if (!result)
        result = pool_new(device, false, &pool);
    if (result)
        return result == CUDA_ERROR_INVALID_DEVICE ? CUDA_ERROR_INVALID_VALUE : result;
    pool->handle_types = props->handleTypes;
    pool->heap->limit = props->maxSize ? (props->maxSize + HEAP_UNIT - 1) / HEAP_UNIT * HEAP_UNIT : 0;
    *out = (CUmemoryPool)pool;
    return CUDA_SUCCESS;
}

/* The pool goes at once; its memory when the last allocation has been freed. */
ENTRY(cuMemPoolDestroy, CUmemoryPool handle) {
    struct pool *pool;
    CUresult result = pool_of(handle, &pool);
    if (result)
        return result;
    if (pool->builtin)
        return CUDA_ERROR_INVALID_VALUE;
    struct device *device = pool->device;
    struct heap *heap = pool->heap;
    sim_lock(sim.link, &device->heap_lock);
    struct pool **at = &device->pools;
    while (*at != pool)
        at = &(*at)->next;
    *at = pool->next;
    if (device->current_pool == pool)
        device->current_pool = device->default_pool;
    heap->pool = NULL;
    heap->keeps = false;
    heap_reap(heap);
    heap_trim(heap, 0, false);
    heap_delete_empty(heap);            /* else pools_reap will */
    pthread_mutex_unlock(&device->heap_lock);
    handle_free(pool);
    return CUDA_SUCCESS;
}

/* Fills in whose freed memory an allocation in this stream may have; `made`: a dependency made for it. Submit lock held. */
static void reuse_for(const struct pool *pool, const struct stream *stream, struct stream_follow made, struct reuse *reuse) {
    *reuse = (struct reuse){.opportunistic = pool->reuse[POOL_REUSE_OPPORTUNISTIC]};
    if (made.queue)
        reuse->follows[reuse->count++] = made;
    for (int i = 0; i < STREAM_FOLLOWS && pool->reuse[POOL_REUSE_EVENT]; i++)
        if (stream->follows[i].queue)
            reuse->follows[reuse->count++] = stream->follows[i];
    reuse->follows[reuse->count++] = (struct stream_follow){stream->queue, stream->last};
}

/* The stream of a queue, if it still is one. */
struct wanted { uint32_t queue; struct stream *stream; };
static void find_stream(struct ctx *ctx, void *data) {
    struct wanted *wanted = data;
    pthread_mutex_lock(&ctx->lock);
    for (struct stream *s = ctx->streams; s; s = s->next)
        if (s->queue == wanted->queue)
            wanted->stream = s;
    pthread_mutex_unlock(&ctx->lock);
}

/* Lets the stream come after what it wants the memory of: on the device (`on` then says how far), else by waiting here, as far as the
 * pool allows dependencies of its own making. False: there is nothing to wait for. */
static bool depend(const struct pool *pool, struct stream *stream, struct stream_follow *on) {
    struct wanted wanted = {.queue = on->queue};
    if (!pool->reuse[POOL_REUSE_INTERNAL])
        return false;
    pthread_mutex_lock(&sim.submit);
    if (on->queue)
        contexts_each(find_stream, &wanted);
    bool ordered = wanted.stream && wanted.stream->last >= on->ticket && !work_wait_for(stream, wanted.stream);
    if (ordered)
        on->ticket = wanted.stream->last;
    else
        on->queue = 0;
    pthread_mutex_unlock(&sim.submit);
    return ordered || heap_wait_pending(pool->device);
}

/* A call that would be captured as a node that is not simulated ends the capture. */
static CUresult not_captured(struct stream *stream) {
    CUresult result = capture_blocks(stream);
    return result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED ? MISSING(CAPTURE_MEMORY) : result;
}

/* Allocates for a stream. */
static CUresult allocate(CUdeviceptr *out, size_t bytes, struct pool *pool, CUstream handle) {
    struct stream *stream;
    struct reuse reuse;
    char *address;
    CUresult result = stream_of(handle, &stream);
    if (!result)
        result = not_captured(stream);
    if (result)
        return result;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = 0;
    pool = pool ? pool : stream->ctx->device->current_pool;
    if (!bytes || pool->imported)
        return CUDA_ERROR_INVALID_VALUE;
    struct stream_follow made = {0, 0};
    do {
        pthread_mutex_lock(&sim.submit);
        reuse_for(pool, stream, made, &reuse);
        pthread_mutex_unlock(&sim.submit);
        result = heap_alloc(pool->heap, NULL, bytes, &reuse, &address);
        made = reuse.wanted;
    } while (result == CUDA_ERROR_OUT_OF_MEMORY && depend(pool, stream, &made));
    if (!result)
        *out = (CUdeviceptr)(uintptr_t)address;
    return result;
}

PTSZ(cuMemAllocAsync, (CUdeviceptr *out, size_t bytes, CUstream stream), allocate(out, bytes, NULL, S(stream)))

static CUresult allocate_from(CUdeviceptr *out, size_t bytes, CUmemoryPool handle, CUstream stream) {
    struct pool *pool;
    CUresult result = pool_of(handle, &pool);
    return result ? result : allocate(out, bytes, pool, stream);
}
PTSZ(cuMemAllocFromPoolAsync, (CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream stream), allocate_from(out, bytes, pool, S(stream)))

static CUresult free_async(CUdeviceptr address, CUstream handle) {
    struct stream *stream;
    struct range range;
    char *at = (char *)(uintptr_t)address;
    CUresult result = stream_of(handle, &stream);
    if (!result)
        result = not_captured(stream);
    if (result)
        return result;
    if (!heap_find(at, &range) || range.start != at || range.heap->kind == HEAP_IMPORTS)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sim.submit);    /* what the stream has now is what the memory waits for */
    result = work_order(stream);
    if (!result)
        result = heap_free_ordered(at, stream);
    pthread_mutex_unlock(&sim.submit);
    return result;
}
PTSZ(cuMemFreeAsync, (CUdeviceptr address, CUstream stream), free_async(address, S(stream)))
