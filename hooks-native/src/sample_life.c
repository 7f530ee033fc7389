/* sample_life.c: contexts, functions and processes that end while samples are under way. */
#include <string.h>

#include "sample_state.h"

/* Nobody is READING, and nobody records: whoever ended the context has waited for that. */
static void pending_gone(struct gpud_pending *pending)
{
    if (!gpud_state_change(&pending->state, GPUD_PENDING_WAITING, GPUD_PENDING_FREE))
        gpud_state_change(&pending->state, GPUD_PENDING_OPEN, GPUD_PENDING_LOST);
    pending->begin = pending->end = NULL;       /* they went with it */
    gpud_store(&pending->context, NULL);
}

void gpud_sample_context_gone(uint32_t device, CUcontext context)
{
    struct gpud_sampler *sampler = &gpud_samplers[device];
    struct gpud_stretch *stretch = &sampler->stretch;
    struct gpud_anchor *anchor = &sampler->anchor;

    for (uint32_t i = 0; i < GPUD_SAMPLE_POOL; i++) {
        struct gpud_pending *pending = &sampler->pending[i];
        if (gpud_load(&pending->context) != NULL && (context == NULL || gpud_load(&pending->context) == context))
            pending_gone(pending);
    }
    if (gpud_load(&stretch->context) != NULL && (context == NULL || gpud_load(&stretch->context) == context)) {
        for (uint32_t i = 0; i < GPUD_STRETCHES; i++)
            gpud_store_release(&stretch->measured[i].state, GPUD_PENDING_FREE);
        for (uint32_t i = 0; i < GPUD_STRETCH_EVENTS; i++)
            stretch->event[i] = NULL;
        gpud_store(&stretch->context, NULL);
        gpud_store_release(&stretch->state, GPUD_PENDING_FREE);
    }
    if (anchor->context != NULL && (context == NULL || anchor->context == context)) {
        anchor->event[0] = anchor->event[1] = NULL;
        anchor->context = NULL;
        anchor->known = anchor->fresh = false;
    }
}

void gpud_sample_forget(const void *handle)
{
    for (uint32_t device = 0; device < GPUD_MAX_DEVICES; device++) {
        for (uint32_t i = 0; i < GPUD_SAMPLE_POOL; i++) {
            struct gpud_pending *pending = &gpud_samplers[device].pending[i];
            if (handle == NULL || gpud_load(&pending->function) == handle)
                gpud_store(&pending->worth, 0);
        }
    }
}

void gpud_sample_fork(void)
{
    for (uint32_t device = 0; device < GPUD_MAX_DEVICES; device++) {
        uint32_t random = gpud_samplers[device].random;
        gpud_samplers[device] = (struct gpud_sampler){ .left = 1, .random = random + 1 };
    }
}
