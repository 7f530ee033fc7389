/* peer.c: peer access between devices of the node: which contexts may use memory of which others. view.c holds kernels to it. */
#include <stdlib.h>

#include "peer.h"
#include "view.h"

struct ctx_peer { struct ctx_peer *next; struct ctx *ctx; };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;        /* the peers of all contexts */

bool peer_possible(const struct device *from, const struct device *to) {
    bool whole = !from->info.mig_slices && !to->info.mig_slices;        /* MIG instances cannot, as on the hardware */
    return from != to && whole && from->info.compute_major == to->info.compute_major;
}

/* The place of `peer` in the list, or the list's end; lock held. */
static struct ctx_peer **find(struct ctx *ctx, const struct ctx *peer) {
    struct ctx_peer **at = &ctx->peers;
    while (*at && (*at)->ctx != peer)
        at = &(*at)->next;
    return at;
}

bool peer_enabled(struct ctx *ctx, const struct device *device) {
    bool enabled = false;
    pthread_mutex_lock(&lock);
    for (struct ctx_peer *p = ctx->peers; p && !enabled; p = p->next)
        enabled = p->ctx->device == device;
    pthread_mutex_unlock(&lock);
    return enabled;
}

/* Takes `gone` off the list of a context; lock held. */
static bool remove_peer(struct ctx *ctx, const struct ctx *gone) {
    struct ctx_peer **at = find(ctx, gone), *peer = *at;
    if (!peer)
        return false;
    *at = peer->next;
    free(peer);
    return true;
}

static void visit(struct ctx *ctx, void *gone) { remove_peer(ctx, gone); }

void peer_forget(struct ctx *ctx) {
    pthread_mutex_lock(&lock);
    while (ctx->peers)
        remove_peer(ctx, ctx->peers->ctx);
    contexts_each(visit, ctx);
    pthread_mutex_unlock(&lock);
    view_changed();
}

/* The current context, and another that is alive. */
static CUresult both(CUcontext handle, struct ctx **ctx, struct ctx **peer) {
    CUresult result = sim_current(ctx);
    if (result)
        return result;
    *peer = (struct ctx *)handle;
    return handle_ok(H_CONTEXT, *peer) && (*peer)->active ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

ENTRY(cuCtxEnablePeerAccess, CUcontext handle, unsigned flags) {
    struct ctx *ctx, *peer;
    CUresult result = both(handle, &ctx, &peer);
    if (result)
        return result;
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (ctx == peer)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!peer_possible(ctx->device, peer->device))
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    pthread_mutex_lock(&lock);
    struct ctx_peer *made = *find(ctx, peer) ? NULL : malloc(sizeof *made);
    if (*find(ctx, peer))
        result = CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    else if (!made)
        result = CUDA_ERROR_OUT_OF_MEMORY;
    if (!result) {
        *made = (struct ctx_peer){ctx->peers, peer};
        ctx->peers = made;
    }
    pthread_mutex_unlock(&lock);
    view_changed();
    return result;
}

ENTRY(cuCtxDisablePeerAccess, CUcontext handle) {
    struct ctx *ctx, *peer;
    CUresult result = both(handle, &ctx, &peer);
    if (result)
        return result;
    pthread_mutex_lock(&lock);
    bool was = remove_peer(ctx, peer);
    pthread_mutex_unlock(&lock);
    view_changed();
    return was ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}

/* Two devices of the process; INVALID_DEVICE if one is none. */
static CUresult devices(CUdevice from, CUdevice to, struct device **a, struct device **b) {
    CUresult result = sim_device_of(from, a);
    return result ? result : sim_device_of(to, b);
}

ENTRY(cuDeviceCanAccessPeer, int *can, CUdevice from, CUdevice to) {
    struct device *a, *b;
    CUresult result = devices(from, to, &a, &b);
    if (result)
        return result;
    if (!can)
        return CUDA_ERROR_INVALID_VALUE;
    *can = peer_possible(a, b);
    return CUDA_SUCCESS;
}

ENTRY(cuDeviceGetP2PAttribute, int *value, int attribute, CUdevice from, CUdevice to) {
    struct device *a, *b;
    CUresult result = devices(from, to, &a, &b);
    if (result)
        return result;
    if (a == b)
        return CUDA_ERROR_INVALID_DEVICE;
    enum { RANK = 1, ACCESS, ATOMICS, ARRAYS, SOME_ATOMICS };
    if (!value || attribute < RANK || attribute > SOME_ATOMICS)
        return CUDA_ERROR_INVALID_VALUE;
    *value = (attribute == ACCESS || attribute == ATOMICS || attribute == ARRAYS) && peer_possible(a, b);
    return CUDA_SUCCESS;
}
