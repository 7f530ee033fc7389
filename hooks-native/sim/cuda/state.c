/* state.c: the process as a whole: initialisation, and what is left of it after fork(): nothing, as with the real driver. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "heap.h"
#include "inject.h"
#include "pool.h"
#include "visible.h"

struct sim sim = {.submit = PTHREAD_MUTEX_INITIALIZER};

static _Atomic(_Atomic int *) alive;    /* on a page that is wiped in a child */
static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool initialising;

void sim_say(const char *format, ...) {
    char line[1024];
    int head = snprintf(line, sizeof line, "gpud sim: ");
    va_list list;
    va_start(list, format);
    int body = vsnprintf(line + head, sizeof line - (size_t)head - 1, format, list);
    va_end(list);
    size_t length = body < 0 ? (size_t)head : strnlen(line, sizeof line - 2);
    line[length++] = '\n';
    if (write(STDERR_FILENO, line, length) < 0)
        return;                         /* nobody to tell */
}

CUresult sim_ready(void) {
    _Atomic int *word = alive;
    if (!word || !*word)
        return CUDA_ERROR_NOT_INITIALIZED;
    return sim_calling ? CUDA_ERROR_NOT_PERMITTED : CUDA_SUCCESS;
}

CUresult sim_current(struct ctx **ctx) {
    CUresult result = sim_ready();
    if (result)
        return result;
    *ctx = ctx_top();
    return *ctx ? ctx_check(*ctx) : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult sim_device_of(CUdevice ordinal, struct device **out) {
    CUresult result = sim_ready();
    if (result)
        return result;
    if (ordinal < 0 || ordinal >= sim.device_count)
        return CUDA_ERROR_INVALID_DEVICE;
    *out = &sim.device[ordinal];
    return CUDA_SUCCESS;
}

struct device *device_of_node(uint32_t node_index) {
    for (int i = 0; i < sim.device_count; i++)
        if (sim.device[i].node_index == node_index)
            return &sim.device[i];
    return NULL;
}

CUresult sim_result(int error) {
    switch (-error) {
    case 0: return CUDA_SUCCESS;
    case ENOMEM: return CUDA_ERROR_OUT_OF_MEMORY;
    case ENODEV: return CUDA_ERROR_NO_DEVICE;
    case EINVAL: return CUDA_ERROR_INVALID_VALUE;
    case EPIPE: {
        static _Atomic bool said;
        if (!atomic_exchange(&said, true))
            sim_say("the device process is gone; its devices have fallen off the bus");
        return CUDA_ERROR_UNKNOWN;
    }
    default: return CUDA_ERROR_OPERATING_SYSTEM;
    }
}

/* Opens the link and the devices. init_lock held. */
static CUresult open_node(void) {
    char error[512] = "";
    int result = sim_link_open(&sim.link, error, sizeof error);
    if (result) {
        sim_say("%s", error[0] ? error : strerror(-result));
        return result == -ENODEV ? CUDA_ERROR_NO_DEVICE : CUDA_ERROR_OPERATING_SYSTEM;
    }
    if (inject_open())
        return CUDA_ERROR_INVALID_VALUE;
    uint32_t visible[SIM_MAX_DEVICES];
    int seen = visible_devices(getenv("CUDA_VISIBLE_DEVICES"), visible), count = 0;
    for (int i = 0; i < seen; i++) {
        if (sim_lost(sim.link, visible[i]))
            continue;
        struct device *device = &sim.device[count];
        device->ordinal = count++;
        device->node_index = visible[i];
        device->info = *sim_device(sim.link, visible[i]);
        pthread_mutex_init(&device->primary_lock, NULL);
        CUresult opened = heap_device_open(device);
        if (!opened)
            opened = pools_open(device);
        if (opened) {
            sim_say("cannot reserve %llu bytes of addresses for device %d: is there a limit on address space (ulimit -v)?",
                    (unsigned long long)device->info.total_bytes, i);
            return opened;
        }
    }
    sim.device_count = count;
    return count ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

ENTRY(cuInit, unsigned flags) {
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (alive)
        return sim_ready();             /* in the child of a process that has used the driver: not initialised, for ever */
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&init_lock);
    initialising = true;
    if (!alive) {
        void *page = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        result = page == MAP_FAILED || madvise(page, (size_t)sysconf(_SC_PAGESIZE), MADV_WIPEONFORK) ? CUDA_ERROR_OPERATING_SYSTEM : open_node();
        if (!result) {
            _Atomic int *word = page;
            *word = 1;
            alive = word;
        } else if (page != MAP_FAILED) {
            munmap(page, (size_t)sysconf(_SC_PAGESIZE));
        }
    }
    initialising = false;
    pthread_mutex_unlock(&init_lock);
    return result;
}

/* A child of a moment in which another thread initialised has half of everything, and a lock that nobody opens. */
static void forked(void) {
    static _Atomic int never;
    pthread_mutex_init(&init_lock, NULL);
    if (initialising && !alive)
        alive = &never;
    inject_forked();
}

__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(NULL, NULL, forked); }

ENTRY(cuDriverGetVersion, int *version) {
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    *version = SIM_DRIVER_VERSION;
    return CUDA_SUCCESS;
}
