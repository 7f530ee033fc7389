/* vmm_pin.c: memory of the program's handles that somebody outside is given: by a descriptor, a multicast object, for RDMA. It never leaves the
 * device after that. See vmm.h. */
#include "contexts.h"
#include "launch.h"
#include "pool.h"
#include "pool_span.h"
#include "real.h"
#include "state.h"
#include "swap.h"
#include "vmm.h"

/* The gate asks by the current context, which may be another device's: then one of this device's is made current. */
static CUcontext enter(uint32_t ordinal)
{
    CUcontext context;
    uint32_t index = 0;

    gpud_bind(&gpud_thread);
    if (gpud_thread.ordinal == ordinal)
        return NULL;
    while ((context = gpud_context_next(ordinal, &index)) != NULL) {
        if (real.cuCtxPushCurrent_v2(context) == CUDA_SUCCESS) {
            gpud_context_changed(0);
            return context;
        }
    }
    return NULL;
}

static void leave(CUcontext pushed)
{
    CUcontext popped;

    if (pushed == NULL)
        return;
    real.cuCtxPopCurrent_v2(&popped);
    gpud_context_changed(0);
}

static uint32_t ordinal_of(CUmemGenericAllocationHandle handle)
{
    pthread_mutex_lock(&gpud_pool_lock);
    const struct gpud_span *span = gpud_vmm_span(handle);
    uint32_t ordinal = span != NULL && span->chunk[0].origin->handles > 0 ? span->ordinal : UINT32_MAX;
    pthread_mutex_unlock(&gpud_pool_lock);
    return ordinal;
}

/* Its one handle, which it keeps; 0: it is not there in one piece. Lock held. */
static CUmemGenericAllocationHandle pin(struct gpud_chunk *chunk)
{
    if (chunk->state == GPUD_CHUNK_LAZY && gpud_chunk_back(chunk) == CUDA_SUCCESS)
        gpud_chunk_set(chunk, GPUD_CHUNK_RESIDENT_DIRTY);
    return chunk->piece == NULL && gpud_chunk_pin(chunk) ? chunk->handle : 0;
}

struct gpud_loan gpud_lends(CUmemGenericAllocationHandle handle)
{
    struct gpud_loan loan = { .of = handle, .handle = handle, .result = CUDA_ERROR_INVALID_VALUE };
    uint32_t ordinal = ordinal_of(handle);

    if (ordinal == UINT32_MAX)
        return loan;
    loan.ours = true;
    loan.pushed = enter(ordinal);
    loan.counted = gpud_sets(NULL, 0);
    pthread_mutex_lock(&gpud_pool_lock);
    struct gpud_span *span = gpud_vmm_span(handle);
    if (span != NULL) {
        CUmemGenericAllocationHandle lent = pin(&span->chunk[0]);
        loan.handle = lent != 0 ? lent : handle;
        loan.result = CUDA_ERROR_OUT_OF_MEMORY;
        gpud_pool_publish(gpud_load(&gpud_slot_of[ordinal]));
    }
    pthread_mutex_unlock(&gpud_pool_lock);
    return loan;
}

CUresult gpud_lent(const struct gpud_loan *loan, CUresult result)
{
    if (!loan->ours)
        return result;
    if (loan->handle != loan->of && result != CUDA_SUCCESS) {
        pthread_mutex_lock(&gpud_pool_lock);
        struct gpud_span *span = gpud_vmm_span(loan->of);
        if (span != NULL) {
            gpud_chunk_unpin(&span->chunk[0]);
            gpud_pool_publish(gpud_load(&gpud_slot_of[span->ordinal]));
        }
        pthread_mutex_unlock(&gpud_pool_lock);
    }
    gpud_copied(loan->counted, result);
    leave(loan->pushed);
    return result;
}

CUresult gpud_vmm_export(void *out, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type, unsigned long long flags)
{
    const struct gpud_loan loan = gpud_lends(handle);

    return gpud_lent(&loan, gpud_virtual(loan.handle) ? loan.result : real.cuMemExportToShareableHandle(out, loan.handle, type, flags));
}

void gpud_vmm_pin(uint64_t at, uint64_t bytes, bool more)
{
    pthread_mutex_lock(&gpud_pool_lock);
    for (struct gpud_view *view; (view = gpud_vmm_within(at, bytes)) != NULL;) {
        uint64_t end = view->at + view->bytes;
        if (more)
            gpud_chunk_pin(view->chunk);
        else
            gpud_chunk_unpin(view->chunk);
        gpud_pool_publish(gpud_load(&gpud_slot_of[view->chunk->ordinal]));
        bytes = end < at + bytes ? at + bytes - end : 0;
        at = end;
    }
    pthread_mutex_unlock(&gpud_pool_lock);
}
