/* context_fault.c: errors that stay with a context: what a kernel has done, from when it is due; a device that is lost. */
#include "compute.h"

void ctx_fail(struct ctx *ctx, int error) {
    int none = CUDA_SUCCESS;
    atomic_compare_exchange_strong(&ctx->error, &none, error);
}

void ctx_fault(struct ctx *ctx, int error, uint32_t queue, uint64_t ticket) {
    if (ctx->fault)
        return;
    ctx->fault_queue = queue;
    ctx->fault_ticket = ticket;
    ctx->fault = error;
    compute_fault(ctx, queue, ticket);
}

CUresult ctx_error(struct ctx *ctx) {
    if (ctx->error)
        return ctx->error;
    int fault = ctx->fault;
    if (fault && sim_reached(sim.link, ctx->fault_queue, ctx->fault_ticket))
        ctx_fail(ctx, fault);
    if (sim_lost(sim.link, ctx->device->node_index)) {
        static _Atomic uint32_t said;
        if (!(atomic_fetch_or(&said, 1u << ctx->device->node_index) >> ctx->device->node_index & 1))
            sim_say("device %d has fallen off the bus; its contexts are lost", ctx->device->ordinal);
        ctx_fail(ctx, CUDA_ERROR_UNKNOWN);
    }
    return ctx->error;
}

struct ended { struct ctx *ctx; uint32_t sim_context; };

static void stop(struct ctx *ctx, void *data) {
    const struct ended *ended = data;
    if (ctx == ended->ctx && ctx->sim_context == ended->sim_context && ctx_error(ctx))
        sim_context_stop(sim.link, ended->sim_context);
}

void ctx_fault_due(struct ctx *ctx, uint32_t sim_context) {
    contexts_each(stop, &(struct ended){ctx, sim_context});     /* only if it is alive, and still that one */
}
