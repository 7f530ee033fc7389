/* nvml.h: the few types of NVML that the simulated libnvidia-ml.so.1 answers with, as nvidia-ml-py lays them out; and what its files
 * share. */
#ifndef GPUD_SIM_NVML_H
#define GPUD_SIM_NVML_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "link.h"

#define NVML_SUCCESS 0
#define NVML_ERROR_UNINITIALIZED 1
#define NVML_ERROR_INVALID_ARGUMENT 2
#define NVML_ERROR_NOT_SUPPORTED 3
#define NVML_ERROR_NOT_FOUND 6
#define NVML_ERROR_INSUFFICIENT_SIZE 7
#define NVML_ERROR_DRIVER_NOT_LOADED 9
#define NVML_ERROR_GPU_IS_LOST 15
#define NVML_ERROR_ARGUMENT_VERSION_MISMATCH 25
#define NVML_ERROR_UNKNOWN 999

typedef struct nvml_device *nvmlDevice_t;
struct nvml_memory { uint64_t total, free, used; };
struct nvml_memory_v2 { uint32_t version; uint64_t total, reserved, free, used; };
struct nvml_bar1 { uint64_t total, free, used; };
struct nvml_utilization { uint32_t gpu, memory; };
struct nvml_process_v1 { uint32_t pid; uint64_t used_bytes; };
struct nvml_process { uint32_t pid; uint64_t used_bytes; uint32_t gpu_instance, compute_instance; };
struct nvml_process_sample { uint32_t pid; uint64_t time_us; uint32_t sm, memory, encoder, decoder; };
struct nvml_pci {
    char bus_id_legacy[16];
    uint32_t domain, bus, device, pci_device_id, pci_subsystem_id;
    char bus_id[32];
};
struct nvml_attributes {
    uint32_t sms, copy_engines, decoders, encoders, jpeg, ofa, gpu_slices, compute_slices;
    uint64_t memory_mib;
};
struct nvml_temperature { uint32_t version, sensor; int32_t celsius; };
struct nvml_field { uint32_t id, scope; int64_t time_us, latency_us; uint32_t type; int32_t result; uint64_t value; };

#define NVML_API __attribute__((visibility("default")))
/* Begins the definition of a function of the API. */
#define DECLARE(name, ...) NVML_API int name(__VA_ARGS__); \
    NVML_API int name(__VA_ARGS__)
/* Two names of one function. */
#define ALSO(other, name, ...) NVML_API int other(__VA_ARGS__) __attribute__((alias(#name)))

/* A whole device, or a MIG instance of one. The link's devices are what programs run on: `first` … `first + units` of them are this. */
struct nvml_device { bool mig; uint32_t index; };

/* nvml.c */
extern pthread_mutex_t nvml_lock;
struct sim_link *nvml_link(void);       /* between nvmlInit and nvmlShutdown; else NULL */
const char *nvml_why(void);             /* in words: DRIVER_NOT_LOADED, and why the last nvmlInit said so */
int nvml_result(int negative_errno);
/* The description of what is behind a handle, and which of the link's devices it is (NULL: not asked). UNINITIALIZED,
 * INVALID_ARGUMENT, GPU_IS_LOST. */
int nvml_look_up(nvmlDevice_t handle, const struct sim_device_info **info, uint32_t *first, uint32_t *units);
/* The same for questions that a MIG instance, or a device that is divided into some, does not answer: NOT_SUPPORTED. */
int nvml_undivided(nvmlDevice_t handle, const struct sim_device_info **info, uint32_t *unit);
bool nvml_divided(uint32_t whole);      /* MIG mode is on */

/* Begins a question about any device: `info`, or the error. */
#define QUESTION(...) \
    const struct sim_device_info *info; \
    int result = nvml_look_up(handle, &info, NULL, NULL); \
    if (result || !(__VA_ARGS__)) \
        return result ? result : NVML_ERROR_INVALID_ARGUMENT
int nvml_give(char *to, unsigned room, const char *text);       /* copies into the caller's buffer */
void nvml_uuid(const struct sim_device_info *info, char text[48]);

#endif
