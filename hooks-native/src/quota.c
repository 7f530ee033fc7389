/* quota.c: the reservation. Never on the way of launches. */
#include "quota.h"

#include "level.h"
#include "state.h"

#define TRIES 12                /* while others' reservations change */
#define NAP_NS 3000             /* times the try, and a little that differs between processes */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t held[GPUD_MAX_DEVICES];     /* by client ordinal */

static uint32_t slot_of(uint32_t ordinal)
{
    if (ordinal >= GPUD_MAX_DEVICES || !gpud_load_acquire(&gpud_managed))
        return GPUD_UNMANAGED;
    uint32_t device = gpud_load(&gpud_slot_of[ordinal]);
    return device < GPUD_MAX_DEVICES ? device : GPUD_UNMANAGED;
}

/* Lock held. */
static void change(uint32_t ordinal, uint64_t by)
{
    uint32_t device = slot_of(ordinal);

    if (ordinal >= GPUD_MAX_DEVICES)
        return;
    gpud_store_total(&held[ordinal], held[ordinal] + by);
    if (device != GPUD_UNMANAGED)
        gpud_store_total(&gpud_presence_at(device)->reserved_bytes, held[ordinal]);
}

/* What the tenant's other processes hold or are about to ask for, and what the driver holds beside. */
static uint64_t of_others(uint32_t device)
{
    const struct gpud_control_device *knobs = &gpud_control()->device[device];
    uint64_t sum = gpud_sum_to(gpud_load(&knobs->others_reserved), gpud_load(&knobs->overhead_bytes));
    uint32_t count = gpud_peer_count(knobs);

    for (uint32_t i = 0; i < count; i++) {
        if (!(gpud_load(&knobs->peers[i].flags) & GPUD_PEER_OWN))
            continue;
        const struct gpud_presence_page *page = gpud_peer_known(&knobs->peers[i], gpud_present, GPUD_MAX_PRESENT);
        if (page != NULL)
            sum = gpud_sum_to(sum, gpud_load_total(&gpud_peer_at(page, device)->reserved_bytes));
    }
    return sum;
}

static uint64_t limit_of(uint32_t device)
{
    if (device == GPUD_UNMANAGED || gpud_load(&gpud_control()->detach))
        return UINT64_MAX;
    return gpud_load(&gpud_control()->device[device].memory_limit);
}

/* Stored first, looked at then. Lock held; false: taken back, and `*seen` is what the others had. */
static bool try_once(uint32_t ordinal, uint32_t device, uint64_t limit, uint64_t bytes, uint64_t *seen)
{
    if (held[ordinal] <= limit && bytes <= limit - held[ordinal]) {
        change(ordinal, bytes);
        *seen = of_others(device);
        if (gpud_sum_to(held[ordinal], *seen) <= limit)
            return true;
        change(ordinal, -bytes);
    } else {
        *seen = UINT64_MAX;
    }
    return false;
}

static bool within_limit(uint32_t ordinal, uint32_t device, uint64_t limit, uint64_t bytes)
{
    uint64_t seen;

    for (uint32_t i = 0; i < TRIES; i++) {
        if (try_once(ordinal, device, limit, bytes, &seen))
            return true;
        if (seen == UINT64_MAX || of_others(device) == seen)
            return false;
        struct timespec nap = { .tv_nsec = NAP_NS * (i + 1) + gpud_control()->header.client % 7 * 1000 };
        nanosleep(&nap, NULL);
    }
    return false;
}

bool gpud_quota_take(uint32_t ordinal, uint64_t bytes)
{
    uint32_t device = slot_of(ordinal);
    uint64_t limit = limit_of(device);
    bool taken = true;

    if (ordinal >= GPUD_MAX_DEVICES || bytes == 0)
        return true;
    pthread_mutex_lock(&lock);
    if (limit == UINT64_MAX)
        change(ordinal, bytes);
    else
        taken = within_limit(ordinal, device, limit, bytes);
    pthread_mutex_unlock(&lock);
    if (taken)
        return true;
    gpud_pools_look(ordinal, 0, true);      /* what they have given to the driver by now is not held any more */
    pthread_mutex_lock(&lock);
    taken = within_limit(ordinal, device, limit, bytes);
    pthread_mutex_unlock(&lock);
    return taken;
}

void gpud_quota_add(uint32_t ordinal, uint64_t bytes)
{
    if (ordinal >= GPUD_MAX_DEVICES || bytes == 0)
        return;
    pthread_mutex_lock(&lock);
    change(ordinal, bytes);
    pthread_mutex_unlock(&lock);
}

void gpud_quota_give(uint32_t ordinal, uint64_t bytes)
{
    gpud_quota_add(ordinal, -bytes);
}

uint64_t gpud_quota_limit(uint32_t ordinal, uint64_t *used)
{
    uint32_t device = slot_of(ordinal);
    uint64_t limit = limit_of(device);

    *used = limit == UINT64_MAX ? 0 : gpud_sum_to(gpud_load_total(&held[ordinal]), of_others(device));
    return limit;
}

/* In a new page the word is 0; whoever changes what is held meanwhile writes it himself, and later. */
void gpud_quota_publish(void)
{
    for (uint32_t ordinal = 0; ordinal < GPUD_MAX_DEVICES; ordinal++) {
        uint32_t device = gpud_load(&gpud_slot_of[ordinal]);
        uint64_t none = 0;
        if (device < GPUD_MAX_DEVICES)
            __atomic_compare_exchange_n(&gpud_presence_at(device)->reserved_bytes, &none, gpud_load_total(&held[ordinal]), false,
                                        __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    }
}

void gpud_quota_forget(void)
{
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    for (uint32_t ordinal = 0; ordinal < GPUD_MAX_DEVICES; ordinal++)
        held[ordinal] = 0;
    gpud_pools_forget();
}
