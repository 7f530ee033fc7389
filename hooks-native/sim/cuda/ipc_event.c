/* ipc_event.c: interprocess events: events of the node, which this process and others have open. */
#include <errno.h>
#include <string.h>

#include "event.h"
#include "ipc.h"

ENTRY(cuIpcGetEventHandle, CUipcEventHandle *out, CUevent handle) {
    struct event *event;
    CUresult result = event_of(handle, &event);
    if (result)
        return result;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!event->number || event->imported)
        return CUDA_ERROR_INVALID_HANDLE;       /* it was not made for other processes, or not by this one */
    struct ipc_event data = {.magic = IPC_EVENT_MAGIC, .number = event->number};
    memcpy(data.device, event->ctx->device->info.uuid, sizeof data.device);
    memcpy(out, &data, sizeof data);
    return CUDA_SUCCESS;
}

/* Is it one of our own? */
struct own { uint64_t number; bool found; };
static void look(struct ctx *ctx, void *data) {
    struct own *own = data;
    pthread_mutex_lock(&ctx->lock);
    for (struct event *e = ctx->events; e; e = e->next)
        own->found = own->found || (e->number == own->number && !e->imported);
    pthread_mutex_unlock(&ctx->lock);
}

ENTRY(cuIpcOpenEventHandle, CUevent *out, CUipcEventHandle handle) {
    struct ctx *ctx;
    struct device *device;
    struct ipc_event data;
    CUresult result = sim_current(&ctx);
    if (result)
        return result;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&data, &handle, sizeof data);
    result = data.magic == IPC_EVENT_MAGIC && data.number ? ipc_device(data.device, &device) : CUDA_ERROR_INVALID_HANDLE;
    if (result)
        return result;
    struct own own = {.number = data.number};
    contexts_each(look, &own);
    if (own.found)
        return CUDA_ERROR_INVALID_CONTEXT;      /* a handle is for other processes */
    struct event *event = event_new(ctx, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
    if (!event)
        return CUDA_ERROR_OUT_OF_MEMORY;
    event->number = data.number;
    event->imported = true;
    int error = sim_event_open(sim.link, data.number, &event->sim_event);
    if (error) {
        event->number = 0;              /* nothing of the node's to give back */
        event_destroy(event);
        return error == -ENOENT ? CUDA_ERROR_INVALID_HANDLE : sim_result(error);
    }
    *out = (CUevent)event;
    return CUDA_SUCCESS;
}
