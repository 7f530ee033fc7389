/* nvml.h: the few types of NVML that the simulated libnvidia-ml.so.1 answers with, as nvidia-ml-py lays them out. */
#ifndef GPUD_SIM_NVML_H
#define GPUD_SIM_NVML_H

#include <stdbool.h>
#include <stdint.h>

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
struct nvml_utilization { uint32_t gpu, memory; };
struct nvml_process { uint32_t pid; uint64_t used_bytes; uint32_t gpu_instance, compute_instance; };
struct nvml_pci {
    char bus_id_legacy[16];
    uint32_t domain, bus, device, pci_device_id, pci_subsystem_id;
    char bus_id[32];
};

#define NVML_API __attribute__((visibility("default")))
/* Begins the definition of a function of the API. */
#define DECLARE(name, ...) NVML_API int name(__VA_ARGS__); \
    NVML_API int name(__VA_ARGS__)

bool nvml_ready(void);                  /* between nvmlInit and nvmlShutdown */

#endif
