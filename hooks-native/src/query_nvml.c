/* query_nvml.c: NVML's answer to how much memory there is, for programs that look its entry up (ctypes and pynvml do, as do frameworks):
 * as the tenant's limit has it. Who links against NVML gets the device's own. */
#include <string.h>

#include "classify.h"
#include "entry.h"
#include "quota.h"
#include "real.h"
#include "state.h"

#define NVML_SUCCESS 0
#define UUID_TEXT 96

typedef struct nvmlDevice_st *nvmlDevice_t;
struct nvml_memory {
    unsigned long long total, left, used;
};
struct nvml_memory_v2 {
    unsigned int version;
    unsigned long long total, reserved, left, used;
};
typedef int nvml_memory_fn(nvmlDevice_t device, struct nvml_memory *memory);
typedef int nvml_memory_v2_fn(nvmlDevice_t device, struct nvml_memory_v2 *memory);
typedef int nvml_uuid_fn(nvmlDevice_t device, char *text, unsigned int bytes);

static nvml_memory_fn *next_memory;
static nvml_memory_v2_fn *next_memory_v2;
static nvml_uuid_fn *next_uuid;

static int nibble(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* GPU-… or MIG-…, hexadecimal digits with dashes. */
static bool uuid_of(const char *text, CUuuid *uuid)
{
    uint32_t digits = 0;

    memset(uuid, 0, sizeof *uuid);
    const char *dash = strchr(text, '-');
    for (const char *at = dash != NULL ? dash + 1 : ""; *at != 0 && digits < 32; at++) {
        int value = nibble(*at);
        if (value < 0)
            continue;
        uint32_t byte = digits / 2;
        uuid->bytes[byte] = (char)((unsigned char)uuid->bytes[byte] << 4 | value);
        digits++;
    }
    return digits == 32;
}

/* The ordinal that the program has the device by; UINT32_MAX: none. */
static uint32_t ordinal_of(nvmlDevice_t device)
{
    nvml_uuid_fn *ask = gpud_load_acquire(&next_uuid);
    char text[UUID_TEXT];
    CUuuid wanted, found;

    if (ask == NULL || !gpud_load_acquire(&gpud_managed) || ask(device, text, sizeof text) != NVML_SUCCESS || !uuid_of(text, &wanted))
        return UINT32_MAX;
    for (uint32_t ordinal = 0; ordinal < GPUD_MAX_DEVICES; ordinal++) {
        if (gpud_load(&gpud_slot_of[ordinal]) >= GPUD_MAX_DEVICES)
            continue;
        bool answered = (real.cuDeviceGetUuid_v2 != NULL && real.cuDeviceGetUuid_v2(&found, (CUdevice)ordinal) == CUDA_SUCCESS) ||
                        (real.cuDeviceGetUuid != NULL && real.cuDeviceGetUuid(&found, (CUdevice)ordinal) == CUDA_SUCCESS);
        if (answered && memcmp(&found, &wanted, sizeof found) == 0)
            return ordinal;
    }
    return UINT32_MAX;
}

/* What is left, in all, and in use, where the program's device has a limit. */
static void limit(nvmlDevice_t device, unsigned long long *total, unsigned long long *left, unsigned long long *used)
{
    size_t room = *left, all = *total;
    uint32_t ordinal = ordinal_of(device);

    if (ordinal == UINT32_MAX || !gpud_limit_of(ordinal, &room, &all))
        return;
    *total = all;
    *left = room;
    *used = all - room;
}

static int memory(nvmlDevice_t device, struct nvml_memory *answer)
{
    int result = gpud_load_acquire(&next_memory)(device, answer);
    if (result == NVML_SUCCESS && answer != NULL)
        limit(device, &answer->total, &answer->left, &answer->used);
    return result;
}

static int memory_v2(nvmlDevice_t device, struct nvml_memory_v2 *answer)
{
    int result = gpud_load_acquire(&next_memory_v2)(device, answer);
    if (result == NVML_SUCCESS && answer != NULL)
        limit(device, &answer->total, &answer->left, &answer->used);
    return result;
}

void *gpud_dlsym_nvml(void *handle, const char *name)
{
    void *pointer = gpud_next_dlsym(handle, name);
    bool second = strcmp(name, "nvmlDeviceGetMemoryInfo_v2") == 0;

    if (pointer == NULL || (!second && strcmp(name, "nvmlDeviceGetMemoryInfo") != 0))
        return pointer;
    nvml_uuid_fn *uuid = (nvml_uuid_fn *)gpud_next_dlsym(handle, "nvmlDeviceGetUUID");
    if (uuid == NULL)
        return pointer;
    gpud_store_release(&next_uuid, uuid);
    if (second)
        gpud_store_release(&next_memory_v2, (nvml_memory_v2_fn *)pointer);
    else
        gpud_store_release(&next_memory, (nvml_memory_fn *)pointer);
    return second ? (void *)memory_v2 : (void *)memory;
}
