/* lock_api.c: what gpud.h calls: turns that the program takes and releases itself. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "captures.h"
#include "entry.h"
#include "gpud.h"
#include "hookless.h"
#include "lock.h"
#include "real.h"
#include "state.h"

#define EXPORT __attribute__((visibility("default")))
#define ANSWER_WITHIN_NS (100 * GPUD_MILLISECOND)   /* timeout 0: so long the daemon may take to say whether the device is free */
#define BACK_WITHIN_NS (30 * GPUD_SECOND)           /* after the end of its lease: a daemon that has been restarted is back by then */

EXPORT int gpud_hook_acquire(const int *devices, unsigned count, uint64_t timeout_ns);
EXPORT int gpud_hook_acquire_for(const int *devices, unsigned count, uint64_t timeout_ns, const char *reason);
EXPORT int gpud_hook_release(const int *devices, unsigned count, uint64_t timeout_ns);
EXPORT int gpud_hook_current(void);

/* The hook is at work in this process: started by the first CUDA call, which this may be. */
static bool at_work(void)
{
    return gpud_load_acquire(&gpud_live) || gpud_first_call();
}

int gpud_hook_current(void)
{
    CUdevice device = 0;

    if (gpud_hookless)
        return gpud_hookless_current();
    if (!at_work() || real.cuCtxGetDevice == NULL || real.cuCtxGetDevice(&device) != CUDA_SUCCESS)
        return 0;
    return device;
}

/* How many devices the program has; below zero: an error. */
static int devices_there(void)
{
    int there = 0;

    if (gpud_hookless)
        return gpud_hookless_knows() ? GPUD_MAX_DEVICES : GPUD_ERROR_NO_DAEMON;
    return real.cuDeviceGetCount != NULL && real.cuDeviceGetCount(&there) == CUDA_SUCCESS ? there : GPUD_ERROR_SYSTEM;
}

/* Device slots of the ordinals, as bits; or an error. GPUD_ERROR_NO_DAEMON: `slots` says what they were when there was one. */
static int slots_of(const int *devices, unsigned count, uint32_t *slots)
{
    *slots = 0;
    if (!at_work())
        return GPUD_ERROR_NO_DAEMON;
    if (!gpud_load_acquire(&gpud_managed)) {
        if (!gpud_hookless && (real.cuInit == NULL || real.cuInit(0) != CUDA_SUCCESS))
            return GPUD_ERROR_SYSTEM;   /* no device, or a child of a process that had begun to use them */
        gpud_initialised();
    }
    int there = devices_there();
    if (there < 0)
        return there;
    if (count == 0 || devices == NULL)
        return GPUD_ERROR_DEVICE;
    for (unsigned i = 0; i < count; i++) {
        int ordinal = devices[i] == GPUD_CURRENT ? gpud_hook_current() : devices[i];
        if (ordinal < 0 || ordinal >= there || (gpud_hookless && !gpud_hookless_has(ordinal)))
            return GPUD_ERROR_DEVICE;
        uint32_t slot = ordinal < GPUD_MAX_DEVICES ? gpud_load(&gpud_slot_of[ordinal]) : GPUD_UNMANAGED;
        if (slot < GPUD_MAX_DEVICES)
            *slots |= 1u << slot;
    }
    if (!gpud_load_acquire(&gpud_managed) || gpud_load(&gpud_control()->detach))
        return GPUD_ERROR_NO_DAEMON;
    return GPUD_OK;
}

static uint32_t with_turns(uint32_t slots)
{
    for (uint32_t device = 0; device < GPUD_MAX_DEVICES; device++) {
        if (slots & 1u << device && !(gpud_load(&gpud_control()->device[device].gate) & GPUD_GATE_GRANT))
            slots &= ~(1u << device);
    }
    return slots;
}

/* Counts the turn on all of them if the process has all of them. */
static bool take(uint32_t slots)
{
    uint32_t taken = 0;

    for (uint32_t device = 0; device < GPUD_MAX_DEVICES; device++) {
        if (slots & 1u << device && gpud_lock_begin(device))
            taken |= 1u << device;
        else if (slots & 1u << device)
            break;
    }
    for (uint32_t device = 0; device < GPUD_MAX_DEVICES && taken != slots; device++) {
        if (taken & 1u << device)
            gpud_lock_end(device, false);
    }
    return taken == slots;
}

/* Joins the request for these slots, or makes it; NULL: too many at once. Mutex held. */
static struct gpud_lock_request *join(uint32_t slots, uint64_t until_ns)
{
    struct gpud_lock_request *unused = NULL;

    for (uint32_t i = 0; i < GPUD_LOCK_REQUESTS; i++) {
        struct gpud_lock_request *it = &gpud_lock_requests[i];
        if (it->waiters != 0 && it->slots == slots && !it->refused) {
            it->waiters++;
            it->longer |= until_ns > it->until_ns;
            it->until_ns = until_ns > it->until_ns ? until_ns : it->until_ns;
            return it;
        }
        if (it->waiters == 0 && !it->sent)
            unused = it;
    }
    if (unused != NULL)
        *unused = (struct gpud_lock_request){ .slots = slots, .waiters = 1, .id = gpud_lock_number(), .until_ns = until_ns };
    return unused;
}

/* Who waits has a stream capture of its own open: that does not end before it has what it waits for. */
static void count_capture(uint32_t slots, bool begins)
{
    for (uint32_t device = 0; device < GPUD_MAX_DEVICES; device++) {
        if (slots & 1u << device)
            gpud_lock_captures_wait(device, begins);
    }
}

static int wait_for(struct gpud_lock_request *request, uint32_t slots, uint64_t until_ns)
{
    for (;;) {
        uint32_t seen = gpud_load_total(&gpud_lock_news);
        if (take(slots))
            return GPUD_OK;
        if (gpud_load_total(&request->refused))
            return GPUD_ERROR_REFUSED;
        uint64_t now = gpud_now();
        if (!gpud_load_acquire(&gpud_managed) || now > gpud_sum_to(gpud_load(&gpud_control()->lease_until_ns), BACK_WITHIN_NS))
            return GPUD_ERROR_NO_DAEMON;
        if (with_turns(slots) != slots)
            return GPUD_UNLOCKED;
        if (now >= until_ns)
            return GPUD_ERROR_TIMEOUT;
        /* Once a second it looks whether there still are turns: nobody wakes it for that. */
        gpud_futex_wait(&gpud_lock_news, seen, until_ns - now > GPUD_SECOND ? now + GPUD_SECOND : until_ns, false);
    }
}

/* Without a daemon, a program that says so runs as if it were alone. */
static int or_alone(int answer)
{
    const char *optional = getenv("GPUD_OPTIONAL");
    return answer == GPUD_ERROR_NO_DAEMON && optional != NULL && strcmp(optional, "1") == 0 ? GPUD_UNLOCKED : answer;
}

int gpud_hook_acquire(const int *devices, unsigned count, uint64_t timeout_ns)
{
    return gpud_hook_acquire_for(devices, count, timeout_ns, NULL);
}

int gpud_hook_acquire_for(const int *devices, unsigned count, uint64_t timeout_ns, const char *reason)
{
    uint64_t now = gpud_now(), until = gpud_sum_to(now, timeout_ns == 0 ? ANSWER_WITHIN_NS : timeout_ns);
    uint32_t slots;
    int answer = slots_of(devices, count, &slots);

    if (answer != GPUD_OK)
        return or_alone(answer);
    slots = with_turns(slots);
    if (slots == 0)
        return GPUD_UNLOCKED;
    bool taken = take(slots);
    gpud_lock_reason(slots, reason);
    if (taken)
        return GPUD_OK;
    pthread_mutex_lock(&gpud_lock_mutex);
    struct gpud_lock_request *request = join(slots, until);
    pthread_mutex_unlock(&gpud_lock_mutex);
    if (request == NULL) {
        gpud_lock_reason_ends(slots);
        return GPUD_ERROR_SYSTEM;
    }
    gpud_keeper_call();
    bool captures = gpud_capture_is_own();
    if (captures)
        count_capture(slots, true);
    answer = wait_for(request, slots, until);
    if (captures)
        count_capture(slots, false);
    pthread_mutex_lock(&gpud_lock_mutex);
    bool last = --request->waiters == 0;
    pthread_mutex_unlock(&gpud_lock_mutex);
    if (last && answer != GPUD_OK)
        gpud_lock_reason_ends(slots);
    gpud_keeper_call();
    return or_alone(answer);
}

int gpud_hook_release(const int *devices, unsigned count, uint64_t timeout_ns)
{
    uint32_t slots;
    int answer = slots_of(devices, count, &slots);

    (void)timeout_ns;
    if (answer != GPUD_OK && (answer != GPUD_ERROR_NO_DAEMON || slots == 0))
        return or_alone(answer);
    if (gpud_hookless)
        gpud_hookless_synchronise(devices, count);      /* nobody here knows what else was submitted, and the next one may be let in at once */
    uint32_t counted = with_turns(slots);
    pthread_mutex_lock(&gpud_lock_mutex);       /* two that release the last turn: only one has it */
    for (uint32_t device = 0; device < GPUD_MAX_DEVICES; device++) {    /* nobody takes turns there: gpud_hook_acquire counted none */
        if (!(counted & 1u << device) && gpud_lock_turns(device) == 0)
            slots &= ~(1u << device);
    }
    bool held = slots != 0;
    for (uint32_t device = 0; device < GPUD_MAX_DEVICES; device++)
        held &= !(slots & 1u << device) || gpud_lock_turns(device) != 0;
    for (uint32_t device = 0; device < GPUD_MAX_DEVICES && held; device++) {
        if (slots & 1u << device)
            gpud_lock_end(device, true);
    }
    pthread_mutex_unlock(&gpud_lock_mutex);
    gpud_lock_reason_ends(slots);
    /* A turn that was had is over, whether or not there still is a daemon to be told. */
    return held ? GPUD_OK : answer == GPUD_OK ? GPUD_ERROR_NOT_HELD : or_alone(answer);
}
