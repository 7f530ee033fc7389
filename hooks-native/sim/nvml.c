/* nvml.c: libnvidia-ml.so.1 of the simulated node: its life, its handles, and what devices are called. */
#include "nvml.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

pthread_mutex_t nvml_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned initialised;
/* A flag that NVML does not have, for gpud's daemon: it asks nvmlErrorString why, and says so itself. */
#define SILENT 0x80000000u
#define NOT_LOADED "Driver Not Loaded"
static char why[600] = NOT_LOADED;
static struct sim_link *the_link;
static struct nvml_device wholes[SIM_MAX_DEVICES], instances[SIM_MAX_DEVICES];

struct sim_link *nvml_link(void)
{
    return the_link;
}

int nvml_result(int error)
{
    return !error ? NVML_SUCCESS : error == -EPIPE || error == -ENODEV ? NVML_ERROR_GPU_IS_LOST : NVML_ERROR_UNKNOWN;
}

bool nvml_divided(uint32_t whole)
{
    for (uint32_t i = 0; i < sim_device_count(the_link); i++)
        if (sim_device(the_link, i)->parent == whole && sim_device(the_link, i)->mig_slices)
            return true;
    return false;
}

int nvml_look_up(nvmlDevice_t handle, const struct sim_device_info **info, uint32_t *first, uint32_t *units)
{
    bool mig = handle >= instances && handle < instances + SIM_MAX_DEVICES;
    uint32_t at, count = 1;
    if (!the_link)
        return NVML_ERROR_UNINITIALIZED;
    if (!mig && (handle < wholes || handle >= wholes + SIM_MAX_DEVICES))
        return NVML_ERROR_INVALID_ARGUMENT;
    *info = mig ? sim_device(the_link, handle->index) : sim_whole(the_link, handle->index);
    at = handle->index;
    if (!*info)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!mig)
        for (uint32_t i = sim_device_count(the_link), found = 0; i-- > 0;)
            if (sim_device(the_link, i)->parent == handle->index) {
                at = i;
                count = ++found;
            }
    if (first)
        *first = at;
    if (units)
        *units = count;
    return sim_lost(the_link, at) ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
}

int nvml_undivided(nvmlDevice_t handle, const struct sim_device_info **info, uint32_t *unit)
{
    uint32_t units;
    int result = nvml_look_up(handle, info, unit, &units);
    return result ? result : handle->mig || nvml_divided(handle->index) ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
}

int nvml_give(char *to, unsigned room, const char *text)
{
    size_t n = strlen(text) + 1;
    if (!to)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (n > room)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    memcpy(to, text, n);
    return NVML_SUCCESS;
}

const char *nvml_why(void)
{
    return why;
}

DECLARE(nvmlInitWithFlags, unsigned flags)
{
    char error[sizeof why - sizeof NOT_LOADED - 2];
    struct sim_link *link;
    pthread_mutex_lock(&nvml_lock);
    int result = sim_link_open(&link, error, sizeof error);     /* also anew in a forked child */
    snprintf(why, sizeof why, "%s%s%s", NOT_LOADED, result ? ": " : "", result ? error : "");
    if (!result) {
        for (uint32_t i = 0; i < SIM_MAX_DEVICES; i++) {
            wholes[i] = (struct nvml_device){ false, i };
            instances[i] = (struct nvml_device){ true, i };
        }
        the_link = link;
        initialised++;
    } else if (!(flags & SILENT))
        fprintf(stderr, "gpud simulated GPU: %s\n", error);
    pthread_mutex_unlock(&nvml_lock);
    return result ? NVML_ERROR_DRIVER_NOT_LOADED : NVML_SUCCESS;
}

DECLARE(nvmlInit_v2, void)
{
    return nvmlInitWithFlags(0);
}
ALSO(nvmlInit, nvmlInit_v2, void);

DECLARE(nvmlShutdown, void)
{
    int result = NVML_SUCCESS;
    pthread_mutex_lock(&nvml_lock);
    if (!initialised)
        result = NVML_ERROR_UNINITIALIZED;
    else if (!--initialised) {
        sim_link_close(the_link);
        the_link = NULL;
    }
    pthread_mutex_unlock(&nvml_lock);
    return result;
}

DECLARE(nvmlDeviceGetCount_v2, unsigned *count)
{
    if (!the_link || !count)
        return the_link ? NVML_ERROR_INVALID_ARGUMENT : NVML_ERROR_UNINITIALIZED;
    *count = sim_whole_count(the_link);
    return NVML_SUCCESS;
}
ALSO(nvmlDeviceGetCount, nvmlDeviceGetCount_v2, unsigned *count);

/* Hands a handle out, unless its device is lost. */
static int hand_out(nvmlDevice_t found, nvmlDevice_t *handle)
{
    const struct sim_device_info *info;
    uint32_t first, units;
    int result = found ? nvml_look_up(found, &info, &first, &units) : NVML_ERROR_NOT_FOUND;
    if (!result)
        *handle = found;
    return result;
}

DECLARE(nvmlDeviceGetHandleByIndex_v2, unsigned index, nvmlDevice_t *handle)
{
    if (!the_link)
        return NVML_ERROR_UNINITIALIZED;
    if (!handle || index >= sim_whole_count(the_link))
        return NVML_ERROR_INVALID_ARGUMENT;
    return hand_out(&wholes[index], handle);
}
ALSO(nvmlDeviceGetHandleByIndex, nvmlDeviceGetHandleByIndex_v2, unsigned index, nvmlDevice_t *handle);

void nvml_uuid(const struct sim_device_info *info, char text[48])
{
    int n = snprintf(text, 48, info->mig_slices ? "MIG-" : "GPU-");
    for (int i = 0; i < 16; i++)
        n += snprintf(text + n, 48 - (size_t)n, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", info->uuid[i]);
}

DECLARE(nvmlDeviceGetHandleByUUID, const char *uuid, nvmlDevice_t *handle)
{
    char text[48];
    nvmlDevice_t found = NULL;
    if (!the_link || !uuid || !handle)
        return the_link ? NVML_ERROR_INVALID_ARGUMENT : NVML_ERROR_UNINITIALIZED;
    for (uint32_t i = 0; i < sim_whole_count(the_link) && !found; i++) {
        nvml_uuid(sim_whole(the_link, i), text);
        found = strcmp(uuid, text) ? NULL : &wholes[i];
    }
    for (uint32_t i = 0; i < sim_device_count(the_link) && !found; i++) {
        nvml_uuid(sim_device(the_link, i), text);
        found = strcmp(uuid, text) || !sim_device(the_link, i)->mig_slices ? NULL : &instances[i];
    }
    return hand_out(found, handle);
}

DECLARE(nvmlDeviceGetHandleByPciBusId_v2, const char *bus_id, nvmlDevice_t *handle)
{
    unsigned domain, bus, device;
    nvmlDevice_t found = NULL;
    if (!the_link || !bus_id || !handle)
        return the_link ? NVML_ERROR_INVALID_ARGUMENT : NVML_ERROR_UNINITIALIZED;
    if (sscanf(bus_id, "%x:%x:%x", &domain, &bus, &device) != 3)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (uint32_t i = 0; i < sim_whole_count(the_link) && !found; i++)
        found = !domain && !device && sim_whole(the_link, i)->pci_bus == bus ? &wholes[i] : NULL;
    return hand_out(found, handle);
}
ALSO(nvmlDeviceGetHandleByPciBusId, nvmlDeviceGetHandleByPciBusId_v2, const char *bus_id, nvmlDevice_t *handle);

/* MIG instances. */

DECLARE(nvmlDeviceIsMigDeviceHandle, nvmlDevice_t handle, unsigned *is)
{
    QUESTION(is);
    *is = handle->mig;
    return NVML_SUCCESS;
}

/* The mode is that of the node: it does not change, so the pending one is the current one. */
DECLARE(nvmlDeviceGetMigMode, nvmlDevice_t handle, unsigned *current, unsigned *pending)
{
    QUESTION(current && pending);
    if (handle->mig)
        return NVML_ERROR_NOT_SUPPORTED;
    *current = *pending = nvml_divided(handle->index);
    return NVML_SUCCESS;
}

DECLARE(nvmlDeviceGetMaxMigDeviceCount, nvmlDevice_t handle, unsigned *count)
{
    QUESTION(count);
    *count = !handle->mig && nvml_divided(handle->index) ? 7 : 0;
    return NVML_SUCCESS;
}

DECLARE(nvmlDeviceGetMigDeviceHandleByIndex, nvmlDevice_t handle, unsigned index, nvmlDevice_t *out)
{
    const struct sim_device_info *info;
    uint32_t first, units;
    int result = nvml_look_up(handle, &info, &first, &units);
    if (result || !out || handle->mig)
        return result ? result : NVML_ERROR_INVALID_ARGUMENT;
    if (!nvml_divided(handle->index) || index >= units)
        return NVML_ERROR_NOT_FOUND;
    return hand_out(&instances[first + index], out);
}

DECLARE(nvmlDeviceGetDeviceHandleFromMigDeviceHandle, nvmlDevice_t handle, nvmlDevice_t *out)
{
    QUESTION(out && handle->mig);
    return hand_out(&wholes[info->parent], out);
}

/* One compute instance fills each GPU instance. */
DECLARE(nvmlDeviceGetGpuInstanceId, nvmlDevice_t handle, unsigned *id)
{
    QUESTION(id);
    *id = info->mig_index + 1;
    return handle->mig ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

DECLARE(nvmlDeviceGetComputeInstanceId, nvmlDevice_t handle, unsigned *id)
{
    QUESTION(id);
    *id = 0;
    return handle->mig ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}
