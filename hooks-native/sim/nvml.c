/* nvml.c: libnvidia-ml.so.1 of the simulated node: devices, memory, utilisation and processes, asked of the device process. */
#include "nvml.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "link.h"

#define PROCESSES 1024

struct nvml_device { uint32_t index; };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned initialised;
static struct sim_link *the_link;
static struct nvml_device handles[SIM_MAX_DEVICES] = { { 0 }, { 1 }, { 2 }, { 3 }, { 4 }, { 5 }, { 6 }, { 7 } };

/* Two names of one function. */
#define ALSO(other, name, ...) NVML_API int other(__VA_ARGS__) __attribute__((alias(#name)))

bool nvml_ready(void)
{
    return the_link != NULL;
}

static int result_of(int error)
{
    return !error ? NVML_SUCCESS : error == -EPIPE || error == -ENODEV ? NVML_ERROR_GPU_IS_LOST : NVML_ERROR_UNKNOWN;
}

/* The link, and the description of the device behind a handle. */
static int look_up(nvmlDevice_t handle, const struct sim_device_info **info)
{
    if (!the_link)
        return NVML_ERROR_UNINITIALIZED;
    if (handle < handles || handle >= handles + SIM_MAX_DEVICES)
        return NVML_ERROR_INVALID_ARGUMENT;
    *info = sim_device(the_link, handle->index);
    return *info ? NVML_SUCCESS : NVML_ERROR_GPU_IS_LOST;
}

/* Copies a text into the caller's buffer of `room` bytes. */
static int give(char *to, unsigned room, const char *text)
{
    size_t n = strlen(text) + 1;
    if (!to)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (n > room)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    memcpy(to, text, n);
    return NVML_SUCCESS;
}

DECLARE(nvmlInitWithFlags, unsigned flags)
{
    char error[512];
    struct sim_link *link;
    (void)flags;
    pthread_mutex_lock(&lock);
    int result = sim_link_open(&link, error, sizeof error);     /* also anew in a forked child */
    if (!result) {
        the_link = link;
        initialised++;
    } else
        fprintf(stderr, "gpud simulated GPU: %s\n", error);
    pthread_mutex_unlock(&lock);
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
    pthread_mutex_lock(&lock);
    if (!initialised)
        result = NVML_ERROR_UNINITIALIZED;
    else if (!--initialised) {
        sim_link_close(the_link);
        the_link = NULL;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

DECLARE(nvmlSystemGetDriverVersion, char *version, unsigned length)
{
    return the_link ? give(version, length, "580.00.gpud-simulated") : NVML_ERROR_UNINITIALIZED;
}

DECLARE(nvmlSystemGetNVMLVersion, char *version, unsigned length)
{
    return the_link ? give(version, length, "13.580.00.gpud-simulated") : NVML_ERROR_UNINITIALIZED;
}

DECLARE(nvmlSystemGetCudaDriverVersion_v2, int *version)
{
    const struct sim_device_info *info;
    int result = look_up(handles, &info);
    if (result || !version)
        return result ? result : NVML_ERROR_INVALID_ARGUMENT;
    *version = (int)info->driver_version;
    return NVML_SUCCESS;
}
ALSO(nvmlSystemGetCudaDriverVersion, nvmlSystemGetCudaDriverVersion_v2, int *version);

DECLARE(nvmlDeviceGetCount_v2, unsigned *count)
{
    if (!the_link || !count)
        return the_link ? NVML_ERROR_INVALID_ARGUMENT : NVML_ERROR_UNINITIALIZED;
    *count = sim_device_count(the_link);
    return NVML_SUCCESS;
}
ALSO(nvmlDeviceGetCount, nvmlDeviceGetCount_v2, unsigned *count);

DECLARE(nvmlDeviceGetHandleByIndex_v2, unsigned index, nvmlDevice_t *handle)
{
    if (!the_link)
        return NVML_ERROR_UNINITIALIZED;
    if (!handle || index >= sim_device_count(the_link))
        return NVML_ERROR_INVALID_ARGUMENT;
    *handle = &handles[index];
    return NVML_SUCCESS;
}
ALSO(nvmlDeviceGetHandleByIndex, nvmlDeviceGetHandleByIndex_v2, unsigned index, nvmlDevice_t *handle);

DECLARE(nvmlDeviceGetName, nvmlDevice_t handle, char *name, unsigned length)
{
    const struct sim_device_info *info;
    int result = look_up(handle, &info);
    return result ? result : give(name, length, info->name);
}

static void uuid_text(const struct sim_device_info *info, char text[48])
{
    int n = snprintf(text, 48, "GPU-");
    for (int i = 0; i < 16; i++)
        n += snprintf(text + n, 48 - (size_t)n, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", info->uuid[i]);
}

DECLARE(nvmlDeviceGetUUID, nvmlDevice_t handle, char *uuid, unsigned length)
{
    const struct sim_device_info *info;
    char text[48];
    int result = look_up(handle, &info);
    if (result)
        return result;
    uuid_text(info, text);
    return give(uuid, length, text);
}

DECLARE(nvmlDeviceGetHandleByUUID, const char *uuid, nvmlDevice_t *handle)
{
    char text[48];
    if (!the_link || !uuid || !handle)
        return the_link ? NVML_ERROR_INVALID_ARGUMENT : NVML_ERROR_UNINITIALIZED;
    for (uint32_t i = 0; i < sim_device_count(the_link); i++) {
        uuid_text(sim_device(the_link, i), text);
        if (!strcmp(uuid, text)) {
            *handle = &handles[i];
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

DECLARE(nvmlDeviceGetPciInfo_v3, nvmlDevice_t handle, struct nvml_pci *pci)
{
    const struct sim_device_info *info;
    int result = look_up(handle, &info);
    if (result || !pci)
        return result ? result : NVML_ERROR_INVALID_ARGUMENT;
    memset(pci, 0, sizeof *pci);
    pci->bus = info->pci_bus;
    snprintf(pci->bus_id_legacy, sizeof pci->bus_id_legacy, "0000:%02X:00.0", info->pci_bus & 0xff);
    snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", info->pci_bus & 0xff);
    return NVML_SUCCESS;
}
ALSO(nvmlDeviceGetPciInfo_v2, nvmlDeviceGetPciInfo_v3, nvmlDevice_t handle, struct nvml_pci *pci);

DECLARE(nvmlDeviceGetHandleByPciBusId_v2, const char *bus_id, nvmlDevice_t *handle)
{
    unsigned domain, bus, device;
    if (!the_link || !bus_id || !handle)
        return the_link ? NVML_ERROR_INVALID_ARGUMENT : NVML_ERROR_UNINITIALIZED;
    if (sscanf(bus_id, "%x:%x:%x", &domain, &bus, &device) != 3)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (uint32_t i = 0; i < sim_device_count(the_link); i++)
        if (!domain && !device && sim_device(the_link, i)->pci_bus == bus) {
            *handle = &handles[i];
            return NVML_SUCCESS;
        }
    return NVML_ERROR_NOT_FOUND;
}

DECLARE(nvmlDeviceGetIndex, nvmlDevice_t handle, unsigned *index)
{
    const struct sim_device_info *info;
    int result = look_up(handle, &info);
    if (result || !index)
        return result ? result : NVML_ERROR_INVALID_ARGUMENT;
    *index = handle->index;
    return NVML_SUCCESS;
}
ALSO(nvmlDeviceGetMinorNumber, nvmlDeviceGetIndex, nvmlDevice_t handle, unsigned *minor);

/* Total, free and used bytes; the driver's own are in `reserved`. */
static int memory_of(nvmlDevice_t handle, struct nvml_memory_v2 *m)
{
    const struct sim_device_info *info;
    int result = look_up(handle, &info);
    if (result)
        return result;
    result = result_of(sim_memory_info(the_link, handle->index, &m->free, &m->total));
    m->reserved = info->reserved_bytes;
    m->used = m->total - m->free - m->reserved;
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

DECLARE(nvmlDeviceGetUtilizationRates, nvmlDevice_t handle, struct nvml_utilization *utilization)
{
    const struct sim_device_info *info;
    int result = look_up(handle, &info);
    if (result || !utilization)
        return result ? result : NVML_ERROR_INVALID_ARGUMENT;
    return result_of(sim_utilisation(the_link, handle->index, &utilization->gpu, &utilization->memory));
}

/* Programs ask with too little room first, and again with what they were told. */
DECLARE(nvmlDeviceGetComputeRunningProcesses_v3, nvmlDevice_t handle, unsigned *count, struct nvml_process *list)
{
    static struct sim_process found[PROCESSES];
    const struct sim_device_info *info;
    uint32_t n = 0;
    int result = look_up(handle, &info);
    if (result || !count)
        return result ? result : NVML_ERROR_INVALID_ARGUMENT;
    pthread_mutex_lock(&lock);
    result = result_of(sim_processes(the_link, handle->index, found, PROCESSES, &n));
    if (!result && n > *count)
        result = NVML_ERROR_INSUFFICIENT_SIZE;
    else if (!result && n && !list)
        result = NVML_ERROR_INVALID_ARGUMENT;
    for (uint32_t i = 0; i < n && !result; i++)
        list[i] = (struct nvml_process){ .pid = found[i].pid, .used_bytes = found[i].used_bytes,
                                         .gpu_instance = UINT32_MAX, .compute_instance = UINT32_MAX };
    *count = n;
    pthread_mutex_unlock(&lock);
    return result;
}
ALSO(nvmlDeviceGetComputeRunningProcesses_v2, nvmlDeviceGetComputeRunningProcesses_v3, nvmlDevice_t handle, unsigned *count,
     struct nvml_process *list);

DECLARE(nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlDevice_t handle, unsigned *count, struct nvml_process *list)
{
    const struct sim_device_info *info;
    int result = look_up(handle, &info);
    (void)list;
    if (!result && count)
        *count = 0;                     /* nothing draws here */
    return result || count ? result : NVML_ERROR_INVALID_ARGUMENT;
}
ALSO(nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlDevice_t handle, unsigned *count,
     struct nvml_process *list);

DECLARE(nvmlDeviceGetCudaComputeCapability, nvmlDevice_t handle, int *major, int *minor)
{
    const struct sim_device_info *info;
    int result = look_up(handle, &info);
    if (result || !major || !minor)
        return result ? result : NVML_ERROR_INVALID_ARGUMENT;
    *major = (int)info->compute_major;
    *minor = (int)info->compute_minor;
    return NVML_SUCCESS;
}
