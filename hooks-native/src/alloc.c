/* alloc.c: how much device memory this process has, by the entries that passed through the hook. Addresses are remembered
 * with their sizes, in a table that grows; never touched by launches. */
#include "alloc.h"

#include <string.h>

#include "quota.h"
#include "quota_wait.h"
#include "state.h"
#include "table.h"

struct entry {
    uint64_t address;
    uint64_t bytes;
    uint64_t charged;           /* of the tenant's limit; less than the bytes where a pool is charged */
    CUcontext context;          /* goes with it; NULL: survives all contexts */
    uint32_t ordinal;
    uint32_t pin;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct gpud_table table = { .size = sizeof(struct entry) };
static uint64_t bytes_of[GPUD_MAX_DEVICES], live_of[GPUD_MAX_DEVICES];  /* by client ordinal */
static uint64_t pins_of[GPUD_MAX_DEVICES][GPUD_PINS + 1];

/* Pools and graphs are quota_pool.c's, what the pool has pinned is its own. */
static void publish_pins(uint32_t ordinal, struct gpud_activity_device *device)
{
    for (uint32_t pin = GPUD_PIN_EARLY; pin <= GPUD_PIN_HANDLE; pin++)
        gpud_store(&device->pins[pin], gpud_load(&pins_of[ordinal][pin]));
}

static void publish(uint32_t ordinal)
{
    uint32_t device = gpud_load_acquire(&gpud_managed) ? gpud_load(&gpud_slot_of[ordinal]) : UINT32_MAX;
    if (device >= GPUD_MAX_DEVICES)
        return;
    gpud_store(&gpud_activity()->device[device].used_bytes, bytes_of[ordinal]);
    gpud_store(&gpud_activity()->device[device].allocations, live_of[ordinal]);
    publish_pins(ordinal, &gpud_activity()->device[device]);
}

static void count(const struct entry *entry, bool in)
{
    gpud_add(&bytes_of[entry->ordinal], in ? entry->bytes : -entry->bytes);
    gpud_add(&pins_of[entry->ordinal][entry->pin], in ? entry->bytes : -entry->bytes);
    gpud_add(&live_of[entry->ordinal], in ? 1 : -1);
    publish(entry->ordinal);
}

bool gpud_ledger_put(uint64_t address, const struct gpud_held *held)
{
    uint64_t replaced = 0, was = 0;

    if (!gpud_table_is_key(address) || held->ordinal >= GPUD_MAX_DEVICES)
        return false;
    pthread_mutex_lock(&lock);
    struct entry *entry = gpud_table_find(&table, address);
    if (entry != NULL) {        /* an address that the driver freed without a word (its context went) */
        count(entry, false);
        replaced = entry->charged;
        was = entry->ordinal;
    } else {
        entry = gpud_table_put(&table, address);
    }
    if (entry != NULL) {
        *entry = (struct entry){ .address = address, .bytes = held->bytes, .charged = held->charged, .ordinal = held->ordinal,
                                 .context = held->context, .pin = held->pin };
        count(entry, true);
    } else {
        gpud_add(&gpud_activity()->errors, 1);
    }
    pthread_mutex_unlock(&lock);
    gpud_quota_give((uint32_t)was, replaced);
    return entry != NULL;
}

bool gpud_ledger_take(uint64_t address, struct gpud_held *held)
{
    bool known = false;

    pthread_mutex_lock(&lock);
    struct entry *entry = gpud_table_find(&table, address);
    if (entry != NULL) {
        known = true;
        *held = (struct gpud_held){ .bytes = entry->bytes, .charged = entry->charged, .context = entry->context,
                                    .ordinal = entry->ordinal, .pin = entry->pin };
        count(entry, false);
        gpud_table_drop(entry);
    }
    pthread_mutex_unlock(&lock);
    return known;
}

void gpud_ledger_context_gone(uint32_t ordinal, CUcontext context)
{
    uint64_t back[GPUD_MAX_DEVICES] = { 0 };

    pthread_mutex_lock(&lock);
    for (uint64_t i = 0; i < table.room; i++) {
        struct entry *entry = gpud_table_nth(&table, i);
        if (entry == NULL || entry->context == NULL ||
            (context != NULL ? entry->context != context : entry->ordinal != ordinal))
            continue;
        count(entry, false);
        back[entry->ordinal] += entry->charged;
        gpud_table_drop(entry);
    }
    pthread_mutex_unlock(&lock);
    for (uint32_t i = 0; i < GPUD_MAX_DEVICES; i++)
        gpud_quota_give(i, back[i]);
    gpud_pools_stale();
}

void gpud_allocated(uint64_t address, uint64_t bytes)
{
    struct gpud_thread *thread = &gpud_thread;

    gpud_bind(thread);
    struct gpud_held held = { .bytes = bytes, .charged = bytes, .context = thread->context, .ordinal = thread->ordinal };
    if (gpud_ledger_put(address, &held))
        gpud_quota_add(held.ordinal, held.charged);
}

void gpud_freed(uint64_t address)
{
    struct gpud_held held;

    if (gpud_ledger_take(address, &held))
        gpud_quota_give(held.ordinal, held.charged);
}

/* After an attach: the keeper publishes what was counted before. It takes no lock of application threads; a count that changes
 * at this moment is published by who changes it. */
void gpud_alloc_publish(void)
{
    for (uint32_t ordinal = 0; ordinal < GPUD_MAX_DEVICES; ordinal++) {
        if (gpud_load(&gpud_slot_of[ordinal]) < GPUD_MAX_DEVICES) {
            struct gpud_activity_device *device = &gpud_activity()->device[gpud_load(&gpud_slot_of[ordinal])];
            gpud_store(&device->used_bytes, gpud_load(&bytes_of[ordinal]));
            gpud_store(&device->allocations, gpud_load(&live_of[ordinal]));
            publish_pins(ordinal, device);
        }
    }
    gpud_quota_publish();
    gpud_pools_stale();
}

/* A child has the parent's table, but none of its memory. */
void gpud_alloc_forget(void)
{
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    gpud_table_forget(&table);
    for (uint32_t ordinal = 0; ordinal < GPUD_MAX_DEVICES; ordinal++)
        bytes_of[ordinal] = live_of[ordinal] = 0;
    memset(pins_of, 0, sizeof pins_of);
    gpud_handles_forget();
    gpud_quota_forget();
    gpud_quota_wait_forget();
}
