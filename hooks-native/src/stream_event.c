/* stream_event.c: events behind frees in stream order: taken from those that are not needed any more, asked, waited for. See stream_pool.h. */
#include "stream_pool.h"

#include <stdlib.h>
#include "real.h"
#include "state.h"

#define EVENT_DISABLE_TIMING 2
#define SPARE_EVENTS 64
#define FOREIGN_NAP_NS (200 * GPUD_MICROSECOND)

static struct { CUcontext context; CUevent event; } *spare;
static uint32_t spare_count, spare_room;
static uint32_t awaiting;           /* threads that wait for an event without the lock: none is destroyed meanwhile */

CUevent gpud_event_in(CUcontext context)
{
    CUevent event = NULL;
    for (uint32_t i = spare_count; i-- > 0;) {
        if (spare[i].context == context) {
            event = spare[i].event;
            spare[i] = spare[--spare_count];
            return event;
        }
    }
    return real.cuEventCreate != NULL && real.cuEventCreate(&event, EVENT_DISABLE_TIMING) == CUDA_SUCCESS ? event : NULL;
}

void gpud_event_put_away(CUcontext context, CUevent event)
{
    if (spare_count == spare_room) {
        void *grown = realloc(spare, (spare_room + SPARE_EVENTS) * sizeof *spare);
        if (grown == NULL)
            return;                 /* it goes with its context */
        spare = grown;
        spare_room += SPARE_EVENTS;
    }
    spare[spare_count].context = context;
    spare[spare_count++].event = event;
    while (awaiting == 0 && spare_count > SPARE_EVENTS)
        real.cuEventDestroy_v2(spare[--spare_count].event);
}

CUresult gpud_event_query(CUcontext context, CUevent event)
{
    CUcontext current = NULL;
    CUresult result = CUDA_ERROR_NOT_READY;

    if (real.cuCtxGetCurrent != NULL && real.cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == context)
        return real.cuEventQuery(event);
    gpud_add_total(&gpud_asking, 1);
    if (gpud_load_total(&gpud_ending) == 0) {
        result = real.cuCtxPushCurrent_v2(context);
        if (result == CUDA_SUCCESS) {
            result = real.cuEventQuery(event);
            real.cuCtxPopCurrent_v2(&current);
        }
    }
    gpud_sub_total(&gpud_asking, 1);
    return result;
}

/* Returns when the event is there, or never will be. Lock not held. */
static void wait_for(CUcontext context, CUevent event)
{
    if (context == gpud_thread.context) {
        real.cuEventSynchronize(event);
        return;
    }
    while (gpud_load_total(&gpud_ending) == 0 && gpud_event_query(context, event) == CUDA_ERROR_NOT_READY) {
        struct timespec nap = gpud_timespec(FOREIGN_NAP_NS);
        nanosleep(&nap, NULL);
    }
}

void gpud_event_await(CUcontext context, CUevent event)
{
    awaiting++;
    pthread_mutex_unlock(&gpud_pool_lock);
    wait_for(context, event);
    pthread_mutex_lock(&gpud_pool_lock);
    awaiting--;
}

void gpud_events_gone(CUcontext context)
{
    for (uint32_t i = spare_count; i-- > 0;) {
        if (spare[i].context == context)
            spare[i] = spare[--spare_count];
    }
}

void gpud_events_forget(void)
{
    spare = NULL;
    spare_count = spare_room = awaiting = 0;
}
