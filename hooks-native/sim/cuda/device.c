/* device.c: what devices there are and what they are. */
#include <stdio.h>
#include <string.h>

#include "sim.h"

ENTRY(cuDeviceGetCount, int *count) {
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    *count = sim.device_count;
    return CUDA_SUCCESS;
}

ENTRY(cuDeviceGet, CUdevice *out, int ordinal) {
    struct device *device;
    CUresult result = sim_device_of(ordinal, &device);
    if (result)
        return result;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = ordinal;
    return CUDA_SUCCESS;
}

ENTRY(cuDeviceGetName, char *name, int length, CUdevice ordinal) {
    struct device *device;
    CUresult result = sim_device_of(ordinal, &device);
    if (result)
        return result;
    if (!name || length <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    snprintf(name, (size_t)length, "%s", device->info.name);
    return CUDA_SUCCESS;
}

static CUresult uuid(CUuuid *out, CUdevice ordinal) {
    struct device *device;
    CUresult result = sim_device_of(ordinal, &device);
    if (result)
        return result;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(out->bytes, device->info.uuid, sizeof out->bytes);
    return CUDA_SUCCESS;
}

ENTRY(cuDeviceGetUuid, CUuuid *out, CUdevice ordinal) { return uuid(out, ordinal); }
ENTRY(cuDeviceGetUuid_v2, CUuuid *out, CUdevice ordinal) { return uuid(out, ordinal); }

ENTRY(cuDeviceTotalMem_v2, size_t *bytes, CUdevice ordinal) {
    struct device *device;
    CUresult result = sim_device_of(ordinal, &device);
    if (result)
        return result;
    if (!bytes)
        return CUDA_ERROR_INVALID_VALUE;
    *bytes = device->info.total_bytes;
    return CUDA_SUCCESS;
}

ENTRY(cuDeviceComputeCapability, int *major, int *minor, CUdevice ordinal) {
    struct device *device;
    CUresult result = sim_device_of(ordinal, &device);
    if (result)
        return result;
    if (!major || !minor)
        return CUDA_ERROR_INVALID_VALUE;
    *major = (int)device->info.compute_major;
    *minor = (int)device->info.compute_minor;
    return CUDA_SUCCESS;
}

ENTRY(cuDeviceGetProperties, CUdevprop *out, CUdevice ordinal) {
    struct device *device;
    CUresult result = sim_device_of(ordinal, &device);
    if (result)
        return result;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUdevprop){1024, {1024, 1024, 64}, {0x7fffffff, 65535, 65535}, (int)device->info.shared_per_block, 65536, 32, 0x7fffffff,
                       65536, (int)device->info.clock_khz, 512};
    return CUDA_SUCCESS;
}

ENTRY(cuDeviceGetPCIBusId, char *out, int length, CUdevice ordinal) {
    struct device *device;
    CUresult result = sim_device_of(ordinal, &device);
    if (result)
        return result;
    if (!out || length < 13)
        return CUDA_ERROR_INVALID_VALUE;
    snprintf(out, (size_t)length, "0000:%02X:00.0", device->info.pci_bus & 0xff);
    return CUDA_SUCCESS;
}

ENTRY(cuDeviceGetByPCIBusId, CUdevice *out, const char *id) {
    CUresult result = sim_ready();
    if (result)
        return result;
    unsigned domain = 0, bus, slot, function;
    if (!out || !id)
        return CUDA_ERROR_INVALID_VALUE;
    if (sscanf(id, "%x:%x:%x.%x", &domain, &bus, &slot, &function) != 4 && sscanf(id, "%x:%x.%x", &bus, &slot, &function) != 3)
        return CUDA_ERROR_INVALID_VALUE;
    for (int i = 0; i < sim.device_count; i++) {
        if ((sim.device[i].info.pci_bus & 0xff) == bus && !domain && !slot && !function) {
            *out = i;
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_INVALID_DEVICE;
}

ENTRY(cuDeviceGetExecAffinitySupport, int *supported, int type, CUdevice ordinal) {
    struct device *device;
    CUresult result = sim_device_of(ordinal, &device);
    if (result)
        return result;
    if (!supported || type != 0)
        return CUDA_ERROR_INVALID_VALUE;
    *supported = 0;
    return CUDA_SUCCESS;
}
