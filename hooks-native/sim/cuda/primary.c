/* primary.c: the primary context of each device: one handle for ever, alive while it is retained. */
#include "sim.h"

ENTRY(cuDevicePrimaryCtxRetain, CUcontext *out, CUdevice ordinal) {
    struct device *device;
    CUresult result = sim_device_of(ordinal, &device);
    if (result)
        return result;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&device->primary_lock);
    if (!device->primary)
        result = ctx_new(device, device->primary_flags, 3020, true, &device->primary);
    else if (!device->primary->active)
        result = ctx_open(device->primary);
    if (!result) {
        device->primary_count++;
        *out = (CUcontext)device->primary;
    }
    pthread_mutex_unlock(&device->primary_lock);
    return result;
}

static CUresult release(CUdevice ordinal) {
    struct device *device;
    CUresult result = sim_device_of(ordinal, &device);
    if (result)
        return result;
    pthread_mutex_lock(&device->primary_lock);
    if (!device->primary_count)
        result = CUDA_ERROR_INVALID_CONTEXT;
    else if (!--device->primary_count && device->primary->active)
        ctx_teardown(device->primary);
    pthread_mutex_unlock(&device->primary_lock);
    return result;
}

ENTRY(cuDevicePrimaryCtxRelease, CUdevice device) { return release(device); }
ENTRY(cuDevicePrimaryCtxRelease_v2, CUdevice device) { return release(device); }

static CUresult reset(CUdevice ordinal) {
    struct device *device;
    CUresult result = sim_device_of(ordinal, &device);
    if (result)
        return result;
    pthread_mutex_lock(&device->primary_lock);
    /* What was retained stays retained: it is released by whoever retained it, and retaining once more makes it active again. */
    if (device->primary && device->primary->active)
        ctx_teardown(device->primary);
    pthread_mutex_unlock(&device->primary_lock);
    return CUDA_SUCCESS;
}

ENTRY(cuDevicePrimaryCtxReset, CUdevice device) { return reset(device); }
ENTRY(cuDevicePrimaryCtxReset_v2, CUdevice device) { return reset(device); }

static CUresult set_flags(CUdevice ordinal, unsigned flags) {
    struct device *device;
    CUresult result = sim_device_of(ordinal, &device);
    if (result)
        return result;
    if (!ctx_flags_ok(flags))
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&device->primary_lock);
    device->primary_flags = flags;
    if (device->primary)
        device->primary->flags = flags | CU_CTX_MAP_HOST;
    pthread_mutex_unlock(&device->primary_lock);
    return CUDA_SUCCESS;
}

ENTRY(cuDevicePrimaryCtxSetFlags, CUdevice device, unsigned flags) { return set_flags(device, flags); }
ENTRY(cuDevicePrimaryCtxSetFlags_v2, CUdevice device, unsigned flags) { return set_flags(device, flags); }

ENTRY(cuDevicePrimaryCtxGetState, CUdevice ordinal, unsigned *flags, int *active) {
    struct device *device;
    CUresult result = sim_device_of(ordinal, &device);
    if (result)
        return result;
    if (!flags || !active)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&device->primary_lock);
    *flags = device->primary_flags;
    *active = device->primary && device->primary->active;
    pthread_mutex_unlock(&device->primary_lock);
    return CUDA_SUCCESS;
}
