/* nvml_device.c: what NVML says of a device that does not change. */
#include "nvml.h"

#include <stdio.h>
#include <string.h>

DECLARE(nvmlDeviceGetName, nvmlDevice_t handle, char *name, unsigned length)
{
    QUESTION(name);
    return nvml_give(name, length, info->name);
}

DECLARE(nvmlDeviceGetUUID, nvmlDevice_t handle, char *uuid, unsigned length)
{
    char text[48];
    QUESTION(uuid);
    nvml_uuid(info, text);
    return nvml_give(uuid, length, text);
}

DECLARE(nvmlDeviceGetPciInfo_v3, nvmlDevice_t handle, struct nvml_pci *pci)
{
    QUESTION(pci);
    memset(pci, 0, sizeof *pci);
    pci->bus = info->pci_bus;
    snprintf(pci->bus_id_legacy, sizeof pci->bus_id_legacy, "0000:%02X:00.0", info->pci_bus & 0xff);
    snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", info->pci_bus & 0xff);
    return NVML_SUCCESS;
}
ALSO(nvmlDeviceGetPciInfo_v2, nvmlDeviceGetPciInfo_v3, nvmlDevice_t handle, struct nvml_pci *pci);

DECLARE(nvmlDeviceGetIndex, nvmlDevice_t handle, unsigned *index)
{
    QUESTION(index);
    *index = handle->mig ? info->mig_index : handle->index;
    return NVML_SUCCESS;
}

DECLARE(nvmlDeviceGetMinorNumber, nvmlDevice_t handle, unsigned *minor)
{
    QUESTION(minor);
    *minor = info->parent;
    return handle->mig ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
}

DECLARE(nvmlDeviceGetCudaComputeCapability, nvmlDevice_t handle, int *major, int *minor)
{
    QUESTION(major && minor);
    *major = (int)info->compute_major;
    *minor = (int)info->compute_minor;
    return NVML_SUCCESS;
}

/* nvmlDeviceArchitecture_t, as far as profiles may say. */
DECLARE(nvmlDeviceGetArchitecture, nvmlDevice_t handle, unsigned *architecture)
{
    QUESTION(architecture);
    uint32_t capability = info->compute_major * 10 + info->compute_minor;
    *architecture = capability >= 100 ? 10 : capability >= 90 ? 9 : capability >= 89 ? 8 : capability >= 80 ? 7 : capability >= 75 ? 6
                    : capability >= 70 ? 5 : UINT32_MAX;
    return NVML_SUCCESS;
}

DECLARE(nvmlDeviceGetBrand, nvmlDevice_t handle, unsigned *brand)
{
    QUESTION(brand);
    *brand = 0;                         /* NVML_BRAND_UNKNOWN: it is none */
    return NVML_SUCCESS;
}

DECLARE(nvmlDeviceGetMemoryBusWidth, nvmlDevice_t handle, unsigned *bits)
{
    QUESTION(bits);
    *bits = info->bus_width_bits;
    return NVML_SUCCESS;
}

DECLARE(nvmlDeviceGetNumGpuCores, nvmlDevice_t handle, unsigned *cores)
{
    QUESTION(cores);
    *cores = info->sm_count * (info->compute_major == 8 && !info->compute_minor ? 64 : 128);
    return NVML_SUCCESS;
}

DECLARE(nvmlDeviceGetAttributes_v2, nvmlDevice_t handle, struct nvml_attributes *a)
{
    QUESTION(a);
    if (!handle->mig)
        return NVML_ERROR_NOT_SUPPORTED;
    *a = (struct nvml_attributes){ .sms = info->sm_count, .copy_engines = 1, .gpu_slices = info->mig_slices,
                                   .compute_slices = info->mig_slices, .memory_mib = info->total_bytes >> 20 };
    return NVML_SUCCESS;
}

/* Modes that a simulated device has for ever. */
#define CONSTANT(name, value) \
    DECLARE(name, nvmlDevice_t handle, unsigned *out) \
    { \
        QUESTION(out); \
        *out = value; \
        return NVML_SUCCESS; \
    }
CONSTANT(nvmlDeviceGetPersistenceMode, 1)
CONSTANT(nvmlDeviceGetComputeMode, 0)           /* any number of processes */
CONSTANT(nvmlDeviceGetDisplayMode, 0)
CONSTANT(nvmlDeviceGetDisplayActive, 0)
CONSTANT(nvmlDeviceGetPerformanceState, 0)
CONSTANT(nvmlDeviceGetPowerManagementMode, 1)
CONSTANT(nvmlDeviceGetMultiGpuBoard, 0)

DECLARE(nvmlDeviceGetEccMode, nvmlDevice_t handle, unsigned *current, unsigned *pending)
{
    QUESTION(current && pending);
    *current = *pending = 1;
    return NVML_SUCCESS;
}

/* Memory of a simulated device has no errors. */
DECLARE(nvmlDeviceGetTotalEccErrors, nvmlDevice_t handle, unsigned type, unsigned counter, uint64_t *count)
{
    QUESTION(count && type <= 1 && counter <= 1);
    *count = 0;
    return NVML_SUCCESS;
}

enum { CLOCK_GRAPHICS, CLOCK_SM, CLOCK_MEMORY, CLOCK_VIDEO };

/* Clocks do not change: the model has no slower ones. */
DECLARE(nvmlDeviceGetClockInfo, nvmlDevice_t handle, unsigned type, unsigned *mhz)
{
    QUESTION(mhz && type <= CLOCK_VIDEO);
    if (handle->mig)
        return NVML_ERROR_NOT_SUPPORTED;
    *mhz = (type == CLOCK_MEMORY ? info->memory_clock_khz : info->clock_khz) / 1000;
    return NVML_SUCCESS;
}
ALSO(nvmlDeviceGetMaxClockInfo, nvmlDeviceGetClockInfo, nvmlDevice_t handle, unsigned type, unsigned *mhz);
