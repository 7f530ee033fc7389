/* nvml_processes.c: the processes of a device, as the device process knows them. Programs ask with too little room first, and again
 * with what they were told. */
#include "nvml.h"

#include <time.h>

#define PROCESSES 1024

struct found { uint32_t count; struct sim_process process[PROCESSES]; uint32_t instance[PROCESSES]; };
static struct found found;              /* nvml_lock */

/* All processes of a device, or of the instances that it is divided into. */
static int find(nvmlDevice_t handle)
{
    const struct sim_device_info *info;
    uint32_t first, units;
    int result = nvml_look_up(handle, &info, &first, &units);
    found.count = 0;
    for (uint32_t i = first; i < first + units && !result; i++) {
        const struct sim_device_info *unit = sim_device(nvml_link(), i);
        uint32_t count = 0;
        result = nvml_result(sim_processes(nvml_link(), i, found.process + found.count, PROCESSES - found.count, &count));
        for (uint32_t p = found.count; p < found.count + count; p++)
            found.instance[p] = unit->mig_slices ? unit->mig_index + 1 : UINT32_MAX;
        found.count += result ? 0 : count;
    }
    return result;
}

/* The handshake: how many there are, if the caller has too little room. */
static int room_for(uint32_t count, unsigned *room, const void *list)
{
    int result = count > *room ? NVML_ERROR_INSUFFICIENT_SIZE : count && !list ? NVML_ERROR_INVALID_ARGUMENT : NVML_SUCCESS;
    *room = count;
    return result;
}

/* NVML_SUCCESS: all that is found fits into the list. */
static int find_for(nvmlDevice_t handle, unsigned *count, const void *list)
{
    if (!count)
        return nvml_link() ? NVML_ERROR_INVALID_ARGUMENT : NVML_ERROR_UNINITIALIZED;
    int result = find(handle);
    return result ? result : room_for(found.count, count, list);
}

DECLARE(nvmlDeviceGetComputeRunningProcesses_v3, nvmlDevice_t handle, unsigned *count, struct nvml_process *list)
{
    pthread_mutex_lock(&nvml_lock);
    int result = find_for(handle, count, list);
    for (uint32_t i = 0; i < found.count && !result; i++)
        list[i] = (struct nvml_process){ .pid = found.process[i].pid, .used_bytes = found.process[i].used_bytes,
                                         .gpu_instance = found.instance[i],
                                         .compute_instance = found.instance[i] == UINT32_MAX ? UINT32_MAX : 0 };
    pthread_mutex_unlock(&nvml_lock);
    return result;
}
ALSO(nvmlDeviceGetComputeRunningProcesses_v2, nvmlDeviceGetComputeRunningProcesses_v3, nvmlDevice_t handle, unsigned *count,
     struct nvml_process *list);

/* The oldest form has no instances. */
DECLARE(nvmlDeviceGetComputeRunningProcesses, nvmlDevice_t handle, unsigned *count, struct nvml_process_v1 *list)
{
    pthread_mutex_lock(&nvml_lock);
    int result = find_for(handle, count, list);
    for (uint32_t i = 0; i < found.count && !result; i++)
        list[i] = (struct nvml_process_v1){ found.process[i].pid, found.process[i].used_bytes };
    pthread_mutex_unlock(&nvml_lock);
    return result;
}

/* Nothing draws here, and nobody is a client of a server that shares the device (with MPS all processes have it themselves). */
DECLARE(nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlDevice_t handle, unsigned *count, struct nvml_process *list)
{
    const struct sim_device_info *info;
    int result = nvml_look_up(handle, &info, NULL, NULL);
    (void)list;
    if (!result && count)
        *count = 0;
    return result || count ? result : NVML_ERROR_INVALID_ARGUMENT;
}
ALSO(nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlDevice_t handle, unsigned *count,
     struct nvml_process *list);
ALSO(nvmlDeviceGetMPSComputeRunningProcesses_v3, nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlDevice_t handle, unsigned *count,
     struct nvml_process *list);
ALSO(nvmlDeviceGetMPSComputeRunningProcesses_v2, nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlDevice_t handle, unsigned *count,
     struct nvml_process *list);

/* One sample a process: of the last model second, taken now. Those that had nothing have none. */
DECLARE(nvmlDeviceGetProcessUtilization, nvmlDevice_t handle, struct nvml_process_sample *list, unsigned *count, unsigned long long since_us)
{
    const struct sim_device_info *info;
    struct timespec now;
    uint32_t unit, busy = 0;
    int result = nvml_undivided(handle, &info, &unit);
    if (result || !count)
        return result ? result : NVML_ERROR_INVALID_ARGUMENT;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t now_us = (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
    pthread_mutex_lock(&nvml_lock);
    result = find(handle);
    for (uint32_t i = 0; i < found.count; i++)
        busy += found.process[i].gpu_percent || found.process[i].memory_percent;
    if (!result && (!busy || now_us <= since_us))
        result = NVML_ERROR_NOT_FOUND;
    else if (!result && !list) {
        *count = busy;
        result = NVML_ERROR_INSUFFICIENT_SIZE;
    } else if (!result)
        result = room_for(busy, count, list);
    for (uint32_t i = 0, n = 0; i < found.count && !result; i++) {
        const struct sim_process *p = &found.process[i];
        if (p->gpu_percent || p->memory_percent)
            list[n++] = (struct nvml_process_sample){ p->pid, now_us, p->gpu_percent, p->memory_percent, 0, 0 };
    }
    pthread_mutex_unlock(&nvml_lock);
    return result;
}
