/* view.c: peer access, enforced. A kernel of one device must not reach the memory of another one that was not opened to it, as on the
 * hardware. All of it lies in this process, so before a kernel runs, pages of other devices that it may not use lose their access, and
 * get it back before anything else needs them. Nothing of this is done while the process sees one device only. Memory that the host
 * may use at any time (managed, page-locked, physical memory of the host) is left alone. */
#include <sys/mman.h>

#include "peer.h"
#include "space.h"
#include "view.h"

static _Atomic uint64_t changes = 1;
/* Of the compute thread: what the pages are set for. */
static struct { uint64_t changes; struct ctx *ctx; bool narrow; } now;

void view_changed(void) { atomic_fetch_add(&changes, 1); }

/* What a kernel of `ctx` (NULL: everybody) may do with a segment. heap_lock held. */
static int wanted(const struct segment *segment, struct ctx *ctx, bool peers) {
    const int all = PROT_READ | PROT_WRITE;
    const struct heap *heap = segment->heap;
    if (!ctx || heap->device == ctx->device || heap->kind == HEAP_MANAGED)
        return all;
    if (heap->kind == HEAP_POOL) {
        int access = heap->access[ctx->device->ordinal];
        return access == ACCESS_READWRITE ? all : access == ACCESS_READ ? PROT_READ : PROT_NONE;
    }
    for (const struct block *b = heap->kind == HEAP_IMPORTS ? segment->first : NULL; b; b = b->next)
        if (b->ctx && b->ctx->device == ctx->device)
            return all;                 /* opened for it */
    return peers ? all : PROT_NONE;
}

static void set_segments(struct device *device, struct ctx *ctx) {
    bool peers = ctx && peer_enabled(ctx, device);
    sim_lock(sim.link, &device->heap_lock);
    for (struct heap *heap = device->heaps; heap; heap = heap->next) {
        for (struct segment *s = heap->segments; s; s = s->next) {
            int protection = wanted(s, ctx, peers);
            now.narrow = now.narrow || protection != (PROT_READ | PROT_WRITE);
            if (protection != s->protection && !mprotect(device->base + s->offset, s->bytes, protection))
                s->protection = protection;
        }
    }
    pthread_mutex_unlock(&device->heap_lock);
}

static void set_mapping(struct mapping *mapping, void *data) {
    const struct ctx *ctx = data;
    int protection = space_protection(mapping);
    if (ctx && mapping->physical->device) {
        int access = mapping->access[ctx->device->ordinal];
        int own = (access & ACCESS_READ ? PROT_READ : 0) | (access == ACCESS_READWRITE ? PROT_WRITE : 0);
        now.narrow = now.narrow || own != protection;
        protection = own;
    }
    space_protect(mapping, protection);
}

static void set(struct ctx *ctx) {
    now.changes = changes;              /* first: what changes from here on is looked at next time */
    now.ctx = ctx;
    now.narrow = false;
    for (int i = 0; i < sim.device_count; i++)
        set_segments(&sim.device[i], ctx);
    sim_lock(sim.link, &space_lock);
    space_each(set_mapping, ctx);
    pthread_mutex_unlock(&space_lock);
}

void view_for(const struct work *work) {
    if (sim.device_count < 2)
        return;
    if (work->kind == WORK_KERNEL && (now.ctx != work->ctx || now.changes != changes))
        set(work->ctx);
    else if (work->kind != WORK_KERNEL && now.narrow)
        set(NULL);
}
