/* attributes.c: cuDeviceGetAttribute. What the profile says, what every device of that compute capability has, and 0 for what
 * is not simulated (surfaces, multicast, memory for RDMA), so that programs do not try it. */
#include "sim.h"

/* From compute capability: resident blocks and shared memory are in the profile, these are not. */
static int single_to_double(const struct sim_device_info *info) {
    bool datacentre = (info->compute_minor == 0 && info->compute_major >= 6);
    return datacentre ? 2 : 32;
}

/* The value of one attribute, or -1 when there is no such attribute. */
static long value_of(const struct sim_device_info *info, int attribute) {
    switch (attribute) {
    case 1: return 1024;                                /* MAX_THREADS_PER_BLOCK */
    case 2: case 3: return 1024;                        /* MAX_BLOCK_DIM_X, _Y */
    case 4: return 64;                                  /* MAX_BLOCK_DIM_Z */
    case 5: return 0x7fffffff;                          /* MAX_GRID_DIM_X */
    case 6: case 7: return 65535;                       /* MAX_GRID_DIM_Y, _Z */
    case 8: return info->shared_per_block;              /* MAX_SHARED_MEMORY_PER_BLOCK */
    case 9: return 65536;                               /* TOTAL_CONSTANT_MEMORY */
    case 10: return 32;                                 /* WARP_SIZE */
    case 11: return 0x7fffffff;                         /* MAX_PITCH */
    case 12: return 65536;                              /* MAX_REGISTERS_PER_BLOCK */
    case 13: return info->clock_khz;                    /* CLOCK_RATE */
    case 14: return 512;                                /* TEXTURE_ALIGNMENT */
    case 15: return 1;                                  /* GPU_OVERLAP */
    case 16: return info->sm_count;                     /* MULTIPROCESSOR_COUNT */
    case 19: return 1;                                  /* CAN_MAP_HOST_MEMORY */
    case 21: case 22: return 131072;                    /* MAXIMUM_TEXTURE1D_WIDTH, 2D_WIDTH: they are those of arrays (array.c) */
    case 23: return 65536;                              /* MAXIMUM_TEXTURE2D_HEIGHT */
    case 24: case 25: case 26: return 16384;            /* MAXIMUM_TEXTURE3D_WIDTH, _HEIGHT, _DEPTH */
    case 27: case 28: return 32768;                     /* MAXIMUM_TEXTURE2D_LAYERED_WIDTH, _HEIGHT */
    case 29: return 2048;                               /* MAXIMUM_TEXTURE2D_LAYERED_LAYERS */
    case 30: return 512;                                /* SURFACE_ALIGNMENT */
    case 31: return 1;                                  /* CONCURRENT_KERNELS */
    case 32: return 1;                                  /* ECC_ENABLED */
    case 33: return info->pci_bus;                      /* PCI_BUS_ID */
    case 36: return info->memory_clock_khz;             /* MEMORY_CLOCK_RATE */
    case 37: return info->bus_width_bits;               /* GLOBAL_MEMORY_BUS_WIDTH */
    case 38: return info->l2_bytes;                     /* L2_CACHE_SIZE */
    case 39: return info->threads_per_sm;               /* MAX_THREADS_PER_MULTIPROCESSOR */
    case 40: return 2;                                  /* ASYNC_ENGINE_COUNT: one each way */
    case 41: return 1;                                  /* UNIFIED_ADDRESSING */
    case 42: return 32768;                              /* MAXIMUM_TEXTURE1D_LAYERED_WIDTH */
    case 43: return 2048;                               /* MAXIMUM_TEXTURE1D_LAYERED_LAYERS */
    case 45: case 46: return 32768;                     /* MAXIMUM_TEXTURE2D_GATHER_WIDTH, _HEIGHT */
    case 51: return 32;                                 /* TEXTURE_PITCH_ALIGNMENT */
    case 52: case 53: return 32768;                     /* MAXIMUM_TEXTURECUBEMAP_WIDTH, _LAYERED_WIDTH */
    case 54: return 2046;                               /* MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS */
    case 73: case 74: return 32768;                     /* MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH, _HEIGHT */
    case 75: return info->compute_major;                /* COMPUTE_CAPABILITY_MAJOR */
    case 76: return info->compute_minor;                /* COMPUTE_CAPABILITY_MINOR */
    case 77: return 32768;                              /* MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH */
    case 78: return 1;                                  /* STREAM_PRIORITIES_SUPPORTED */
    case 79: case 80: return 1;                         /* GLOBAL_L1_CACHE_SUPPORTED, LOCAL_L1_CACHE_SUPPORTED */
    case 81: return info->shared_per_sm;                /* MAX_SHARED_MEMORY_PER_MULTIPROCESSOR */
    case 82: return 65536;                              /* MAX_REGISTERS_PER_MULTIPROCESSOR */
    case 83: return 1;                                  /* MANAGED_MEMORY */
    case 87: return single_to_double(info);             /* SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO */
    case 89: return 1;                                  /* CONCURRENT_MANAGED_ACCESS */
    case 90: return 1;                                  /* COMPUTE_PREEMPTION_SUPPORTED */
    case 91: return 1;                                  /* CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM */
    case 95: return 1;                                  /* COOPERATIVE_LAUNCH */
    case 97: return info->shared_per_block_optin;       /* MAX_SHARED_MEMORY_PER_BLOCK_OPTIN */
    case 99: return 1;                                  /* HOST_REGISTER_SUPPORTED */
    case 102: case 103: return 1;                       /* VIRTUAL_MEMORY_MANAGEMENT_, HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED */
    case 106: return info->blocks_per_sm;               /* MAX_BLOCKS_PER_MULTIPROCESSOR */
    case 111: return 1024;                              /* RESERVED_SHARED_MEMORY_PER_BLOCK */
    case 113: return 1;                                 /* READ_ONLY_HOST_REGISTER_SUPPORTED */
    case 115: return 1;                                 /* MEMORY_POOLS_SUPPORTED */
    case 119: return HANDLE_FD;                         /* MEMPOOL_SUPPORTED_HANDLE_TYPES */
    case 125: return 1;                                 /* IPC_EVENT_SUPPORTED */
    case 126: return 1;                                 /* MEM_SYNC_DOMAIN_COUNT */
    case 131: return -2;                                /* NUMA_ID: none, which is -1; HOST_NUMA_ID is 0 */
    case 141: case 145: return 1;                       /* HOST_NUMA_, HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED */
    case 139: return 0x20b010de;                        /* GPU_PCI_DEVICE_ID */
    default: return attribute >= 1 && attribute <= 147 ? 0 : -1;
    }
}

ENTRY(cuDeviceGetAttribute, int *out, int attribute, CUdevice ordinal) {
    struct device *device;
    CUresult result = sim_device_of(ordinal, &device);
    if (result)
        return result;
    long value = value_of(&device->info, attribute);
    if (!out || value == -1)
        return CUDA_ERROR_INVALID_VALUE;
    *out = value == -2 ? -1 : (int)value;
    return CUDA_SUCCESS;
}
