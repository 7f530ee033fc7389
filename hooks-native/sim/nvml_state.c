/* nvml_state.c: what NVML says of a device that changes: memory and utilisation; and power and temperature, which follow from
 * the utilisation by two lines: from the idle power to the limit, from 30 to 80 degrees. */
#include "nvml.h"

#define PERIOD_US 1000000u              /* utilisation is that of the last model second */
#define COOL 30u
#define WARM 80u

/* Total, free and used bytes; the driver's own are in `reserved`. What a divided device has in use is what its instances have. */
static int memory_of(nvmlDevice_t handle, struct nvml_memory_v2 *m)
{
    const struct sim_device_info *info;
    uint32_t first, units;
    int result = nvml_look_up(handle, &info, &first, &units);
    if (result)
        return result;
    m->used = 0;
    for (uint32_t i = first; i < first + units && !result; i++) {
        uint64_t left = 0, total = 0;
        result = nvml_result(sim_memory_info(nvml_link(), i, &left, &total));
        m->used += result ? 0 : total - left - sim_device(nvml_link(), i)->reserved_bytes;
    }
    m->total = info->total_bytes;
    m->reserved = info->reserved_bytes;
    m->free = m->total - m->reserved - m->used;
    return result;
}

DECLARE(nvmlDeviceGetMemoryInfo, nvmlDevice_t handle, struct nvml_memory *memory)
{
    struct nvml_memory_v2 m;
    int result = memory ? memory_of(handle, &m) : NVML_ERROR_INVALID_ARGUMENT;
    if (!result)
        *memory = (struct nvml_memory){ .total = m.total, .free = m.free, .used = m.used + m.reserved };
    return result;
}

DECLARE(nvmlDeviceGetMemoryInfo_v2, nvmlDevice_t handle, struct nvml_memory_v2 *memory)
{
    struct nvml_memory_v2 m = { .version = (uint32_t)sizeof m | 2u << 24 };
    if (!memory)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (memory->version != m.version)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    int result = memory_of(handle, &m);
    if (!result)
        *memory = m;
    return result;
}

/* All of the memory can be mapped, and nobody maps it. */
DECLARE(nvmlDeviceGetBAR1MemoryInfo, nvmlDevice_t handle, struct nvml_bar1 *bar)
{
    QUESTION(bar);
    uint64_t size = 1u << 20;
    while (size < info->total_bytes)
        size *= 2;
    *bar = (struct nvml_bar1){ size, size, 0 };
    return NVML_SUCCESS;
}

static int load(nvmlDevice_t handle, const struct sim_device_info **info, uint32_t *gpu, uint32_t *memory)
{
    uint32_t unit;
    int result = nvml_undivided(handle, info, &unit);
    return result ? result : nvml_result(sim_utilisation(nvml_link(), unit, gpu, memory));
}

DECLARE(nvmlDeviceGetUtilizationRates, nvmlDevice_t handle, struct nvml_utilization *utilization)
{
    const struct sim_device_info *info;
    return utilization ? load(handle, &info, &utilization->gpu, &utilization->memory) : NVML_ERROR_INVALID_ARGUMENT;
}

/* There are neither encoders nor decoders that anybody could use. */
DECLARE(nvmlDeviceGetEncoderUtilization, nvmlDevice_t handle, unsigned *percent, unsigned *period_us)
{
    const struct sim_device_info *info;
    uint32_t unit;
    int result = nvml_undivided(handle, &info, &unit);
    if (result || !percent || !period_us)
        return result ? result : NVML_ERROR_INVALID_ARGUMENT;
    *percent = 0;
    *period_us = PERIOD_US;
    return NVML_SUCCESS;
}
ALSO(nvmlDeviceGetDecoderUtilization, nvmlDeviceGetEncoderUtilization, nvmlDevice_t handle, unsigned *percent, unsigned *period_us);
ALSO(nvmlDeviceGetJpgUtilization, nvmlDeviceGetEncoderUtilization, nvmlDevice_t handle, unsigned *percent, unsigned *period_us);
ALSO(nvmlDeviceGetOfaUtilization, nvmlDeviceGetEncoderUtilization, nvmlDevice_t handle, unsigned *percent, unsigned *period_us);

/* Power. */

static int power_of(nvmlDevice_t handle, unsigned *mw, bool limit)
{
    const struct sim_device_info *info;
    uint32_t gpu = 0, memory, first, units;
    int result = nvml_look_up(handle, &info, &first, &units);
    if (result || !mw)
        return result ? result : NVML_ERROR_INVALID_ARGUMENT;
    if (handle->mig || !info->power_mw)
        return NVML_ERROR_NOT_SUPPORTED;
    for (uint32_t i = first; i < first + units && !limit && !result; i++) {
        uint32_t of_unit = 0;
        result = nvml_result(sim_utilisation(nvml_link(), i, &of_unit, &memory));
        gpu += of_unit * sim_device(nvml_link(), i)->sm_count / info->sm_count;
    }
    gpu = gpu < 100 ? gpu : 100;
    *mw = limit ? info->power_mw : info->idle_mw + (uint32_t)((uint64_t)(info->power_mw - info->idle_mw) * gpu / 100);
    return result;
}

DECLARE(nvmlDeviceGetPowerUsage, nvmlDevice_t handle, unsigned *mw)
{
    return power_of(handle, mw, false);
}

DECLARE(nvmlDeviceGetPowerManagementLimit, nvmlDevice_t handle, unsigned *mw)
{
    return power_of(handle, mw, true);
}
ALSO(nvmlDeviceGetPowerManagementDefaultLimit, nvmlDeviceGetPowerManagementLimit, nvmlDevice_t handle, unsigned *mw);
ALSO(nvmlDeviceGetEnforcedPowerLimit, nvmlDeviceGetPowerManagementLimit, nvmlDevice_t handle, unsigned *mw);

/* Since the node began, in modelled time. */
DECLARE(nvmlDeviceGetTotalEnergyConsumption, nvmlDevice_t handle, uint64_t *mj)
{
    const struct sim_device_info *info;
    struct sim_usage usage;
    uint32_t unit;
    int result = nvml_undivided(handle, &info, &unit);
    if (!result && !info->power_mw)
        result = NVML_ERROR_NOT_SUPPORTED;
    if (result || !mj)
        return result ? result : NVML_ERROR_INVALID_ARGUMENT;
    result = nvml_result(sim_usage(nvml_link(), unit, &usage));
    if (!result)
        *mj = (uint64_t)(((double)info->idle_mw * (double)usage.at_ns + (double)(info->power_mw - info->idle_mw) * (double)usage.busy_ns) / 1e9);
    return result;
}

/* Temperature. */

static int celsius(nvmlDevice_t handle, unsigned sensor, int *degrees)
{
    const struct sim_device_info *info;
    unsigned mw = 0, limit = 0;
    int result = nvml_look_up(handle, &info, NULL, NULL);
    if (!result && sensor)
        result = NVML_ERROR_INVALID_ARGUMENT;           /* there is one, in the middle */
    if (!result)
        result = power_of(handle, &mw, false);
    if (!result)
        result = power_of(handle, &limit, true);
    if (!result)
        *degrees = (int)(COOL + (WARM - COOL) * (uint64_t)(mw - info->idle_mw) / (limit > info->idle_mw ? limit - info->idle_mw : 1));
    return result;
}

DECLARE(nvmlDeviceGetTemperature, nvmlDevice_t handle, unsigned sensor, unsigned *out)
{
    int degrees, result = out ? celsius(handle, sensor, &degrees) : NVML_ERROR_INVALID_ARGUMENT;
    if (!result)
        *out = (unsigned)degrees;
    return result;
}

DECLARE(nvmlDeviceGetTemperatureV, nvmlDevice_t handle, struct nvml_temperature *out)
{
    if (!out)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (out->version != ((uint32_t)sizeof *out | 1u << 24))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    return celsius(handle, out->sensor, &out->celsius);
}

/* Why clocks are not the highest: an idle device says that it is idle. */
DECLARE(nvmlDeviceGetCurrentClocksEventReasons, nvmlDevice_t handle, uint64_t *reasons)
{
    const struct sim_device_info *info;
    uint32_t gpu = 0, memory;
    int result = reasons ? load(handle, &info, &gpu, &memory) : NVML_ERROR_INVALID_ARGUMENT;
    if (!result)
        *reasons = gpu ? 0 : 1;
    return result;
}
ALSO(nvmlDeviceGetCurrentClocksThrottleReasons, nvmlDeviceGetCurrentClocksEventReasons, nvmlDevice_t handle, uint64_t *reasons);

/* None of the numbered values is known; each is asked for in vain. */
DECLARE(nvmlDeviceGetFieldValues, nvmlDevice_t handle, int count, struct nvml_field *values)
{
    QUESTION(count >= 1 && values);
    for (int i = 0; i < count; i++)
        values[i].result = NVML_ERROR_NOT_SUPPORTED;
    return NVML_SUCCESS;
}
