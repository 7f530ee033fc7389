/* hookless.c: see hookless.h. */
#define _GNU_SOURCE
#include "hookless.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include "entry.h"
#include "gpud.h"
#include "state.h"

#define CAPTURE_MODE_RELAXED 2
#define EXPORT __attribute__((visibility("default")))

typedef CUresult primary_retain(CUcontext *context, CUdevice device);

static uint32_t told;           /* 1 + how many devices the daemon was told of and has answered; 0: none yet */
static uint32_t by_number;      /* they were named by number: one without slot does not exist */

EXPORT int gpud_hook_hookless(void);

/* Says that the library is here for turns alone. Before anything else of it is called; no effect in a program that it is preloaded in. */
int gpud_hook_hookless(void)
{
    if (!gpud_load_acquire(&gpud_live))
        gpud_hookless = 1;
    return gpud_hookless ? GPUD_OK : GPUD_ERROR_SYSTEM;
}

/* The program's driver, if it has loaded one: to be closed again. */
static void *opened(void)
{
    void *handle = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);

    dlerror();          /* what the program finds there is its own */
    return handle;
}

void gpud_hookless_driver(struct gpud_real *driver)
{
    void *handle = opened();

    memset(driver, 0, sizeof *driver);
    if (handle == NULL)
        return;
#define FIND(name) *(void **)&driver->name = gpud_libc_dlsym(handle, #name)
    FIND(cuDeviceGetCount);
    FIND(cuDeviceGet);
    FIND(cuDeviceGetUuid);
    FIND(cuDeviceGetUuid_v2);
    FIND(cuDeviceTotalMem_v2);
    FIND(cuDevicePrimaryCtxGetState);
    FIND(cuDevicePrimaryCtxRelease_v2);
    FIND(cuCtxGetDevice);
    FIND(cuCtxGetCurrent);
    FIND(cuCtxPushCurrent_v2);
    FIND(cuCtxPopCurrent_v2);
    FIND(cuCtxSynchronize);
    FIND(cuThreadExchangeStreamCaptureMode);
#undef FIND
    dlerror();
    dlclose(handle);    /* the program keeps it */
}

/* 32 hexadecimal digits, dashes aside. */
static bool read_uuid(const char *text, size_t length, uint8_t *uuid)
{
    size_t digits = 0;

    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        int value = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
        if (c == '-')
            continue;
        if (value < 0 || digits == 32)
            return false;
        uuid[digits / 2] = (uint8_t)(uuid[digits / 2] << 4 | value);
        digits++;
    }
    return digits == 32;
}

/* One entry of CUDA_VISIBLE_DEVICES; false: it names no device, and the list ends before it. */
static bool read_device(const char *text, size_t length, struct gpud_device_id *device)
{
    while (length > 0 && *text == ' ')
        text++, length--;
    while (length > 0 && text[length - 1] == ' ')
        length--;
    if (length > 4 && (strncmp(text, "GPU-", 4) == 0 || strncmp(text, "MIG-", 4) == 0))
        return read_uuid(text + 4, length - 4, device->uuid);
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9' || length > 3)
            return false;
        device->total_bytes = device->total_bytes * 10 + (uint64_t)(text[i] - '0');
    }
    return length > 0;
}

bool gpud_hookless_named(struct gpud_msg_devices *message, bool answered)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");

    gpud_store(&by_number, !answered);
    if (answered)
        return true;
    message->count = 0;
    memset(message->device, 0, sizeof message->device);
    for (uint32_t i = 0; i < GPUD_MAX_DEVICES; i++) {
        if (visible == NULL) {
            message->device[i].total_bytes = i;
        } else {
            size_t length = strcspn(visible, ",");
            if (!read_device(visible, length, &message->device[i])) {
                memset(&message->device[i], 0, sizeof message->device[i]);
                break;
            }
            visible += length + (visible[length] == ',');
        }
        message->count = i + 1;
    }
    return true;
}

int gpud_hookless_current(void)
{
    struct gpud_real driver;
    CUdevice device = 0;

    gpud_hookless_driver(&driver);
    return driver.cuCtxGetDevice != NULL && driver.cuCtxGetDevice(&device) == CUDA_SUCCESS ? device : 0;
}

bool gpud_hookless_knows(void)
{
    return gpud_load_acquire(&told) != 0;
}

void gpud_hookless_told(uint32_t count)
{
    gpud_store_release(&told, count + 1);
}

bool gpud_hookless_has(int ordinal)
{
    if (ordinal < 0 || (uint32_t)ordinal + 1 >= gpud_load_acquire(&told))
        return false;
    return !gpud_load(&by_number) || gpud_load(&gpud_slot_of[ordinal]) != UINT32_MAX;
}

/* The primary context of a device, if the program has one: some of its owners work in it without ever making it a thread's current one here. */
static void synchronise_primary(const struct gpud_real *driver, primary_retain *retain, int ordinal, CUcontext current)
{
    CUcontext context, popped;
    CUdevice device;
    unsigned int flags;
    int alive = 0;

    if (driver->cuDeviceGet == NULL || driver->cuDeviceGet(&device, ordinal) != CUDA_SUCCESS)
        return;
    if (driver->cuDevicePrimaryCtxGetState == NULL || driver->cuDevicePrimaryCtxGetState(device, &flags, &alive) != CUDA_SUCCESS || !alive)
        return;
    if (retain == NULL || driver->cuDevicePrimaryCtxRelease_v2 == NULL || retain(&context, device) != CUDA_SUCCESS)
        return;
    if (context != current && driver->cuCtxPushCurrent_v2(context) == CUDA_SUCCESS) {
        driver->cuCtxSynchronize();
        driver->cuCtxPopCurrent_v2(&popped);
    }
    driver->cuDevicePrimaryCtxRelease_v2(device);
}

void gpud_hookless_synchronise(const int *devices, unsigned count)
{
    CUstreamCaptureMode mode = CAPTURE_MODE_RELAXED;    /* a capture that is open is the program's: it goes on */
    CUcontext current = NULL;
    primary_retain *retain = NULL;
    struct gpud_real driver;
    void *handle;

    gpud_hookless_driver(&driver);
    if (driver.cuCtxGetCurrent == NULL || driver.cuCtxSynchronize == NULL || (handle = opened()) == NULL)
        return;
    *(void **)&retain = gpud_libc_dlsym(handle, "cuDevicePrimaryCtxRetain");
    dlclose(handle);
    if (driver.cuThreadExchangeStreamCaptureMode != NULL)
        driver.cuThreadExchangeStreamCaptureMode(&mode);
    if (driver.cuCtxGetCurrent(&current) == CUDA_SUCCESS && current != NULL)
        driver.cuCtxSynchronize();
    for (unsigned i = 0; i < count; i++) {
        if (devices[i] != GPUD_CURRENT)
            synchronise_primary(&driver, retain, devices[i], current);
    }
    if (driver.cuThreadExchangeStreamCaptureMode != NULL)
        driver.cuThreadExchangeStreamCaptureMode(&mode);
}
