/* alloc.c: how much device memory this process has, by the entries that passed through the hook. Addresses are remembered
 * with their sizes, in a table that grows; never touched by launches. */
#include <sys/mman.h>

#include "state.h"

#define FIRST_ROOM 1024
#define GONE UINT64_MAX         /* an address that was freed: searches go on past it */

struct entry {
    uint64_t address;           /* 0: never used */
    uint64_t bytes;
    uint32_t ordinal;
    uint32_t reserved;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct entry *table;
static uint64_t room, filled;   /* filled: in use or gone */
static uint64_t bytes_of[GPUD_MAX_DEVICES], live_of[GPUD_MAX_DEVICES];  /* by client ordinal */

static uint64_t home_of(uint64_t address, uint64_t size)
{
    return ((address * UINT64_C(0x9e3779b97f4a7c15)) >> 20) & (size - 1);
}

/* The entry of the address, or the first never used one. */
static struct entry *find(struct entry *in, uint64_t size, uint64_t address)
{
    uint64_t at = home_of(address, size);
    while (in[at].address != 0 && in[at].address != address)
        at = (at + 1) & (size - 1);
    return &in[at];
}

/* Room for one more; false if there is no memory: then the allocation is not counted. */
static bool make_room(void)
{
    if (table != NULL && filled < room / 2)
        return true;
    uint64_t live = 0, size = FIRST_ROOM;
    for (uint64_t i = 0; i < room; i++)
        live += table[i].address != 0 && table[i].address != GONE;
    while (size < live * 4)
        size *= 2;
    struct entry *fresh = mmap(NULL, size * sizeof *fresh, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (fresh == MAP_FAILED)
        return false;
    for (uint64_t i = 0; i < room; i++) {
        if (table[i].address != 0 && table[i].address != GONE)
            *find(fresh, size, table[i].address) = table[i];
    }
    if (table != NULL)
        munmap(table, room * sizeof *table);
    table = fresh;
    room = size;
    filled = live;
    return true;
}

static void publish(uint32_t ordinal)
{
    uint32_t device = gpud_load_acquire(&gpud_managed) ? gpud_load(&gpud_slot_of[ordinal]) : UINT32_MAX;
    if (device >= GPUD_MAX_DEVICES)
        return;
    gpud_store(&gpud_activity()->device[device].used_bytes, bytes_of[ordinal]);
    gpud_store(&gpud_activity()->device[device].allocations, live_of[ordinal]);
}

void gpud_allocated(uint64_t address, uint64_t bytes)
{
    struct gpud_thread *thread = &gpud_thread;

    gpud_bind(thread);
    if (address == 0 || address == GONE || thread->ordinal >= GPUD_MAX_DEVICES)
        return;
    pthread_mutex_lock(&lock);
    if (make_room()) {
        struct entry *entry = find(table, room, address);
        if (entry->address == 0) {
            filled++;
        } else {        /* an address that the driver freed without a word (its context went) */
            gpud_add(&bytes_of[entry->ordinal], -entry->bytes);
            gpud_add(&live_of[entry->ordinal], -1);
        }
        *entry = (struct entry){ .address = address, .bytes = bytes, .ordinal = thread->ordinal };
        gpud_add(&bytes_of[thread->ordinal], bytes);
        gpud_add(&live_of[thread->ordinal], 1);
        publish(thread->ordinal);
    } else {
        gpud_add(&gpud_activity()->errors, 1);
    }
    pthread_mutex_unlock(&lock);
}

void gpud_freed(uint64_t address)
{
    if (address == 0 || address == GONE)
        return;
    pthread_mutex_lock(&lock);
    struct entry *entry = table != NULL ? find(table, room, address) : NULL;
    if (entry != NULL && entry->address == address) {
        uint32_t ordinal = entry->ordinal;
        gpud_add(&bytes_of[ordinal], -entry->bytes);
        gpud_add(&live_of[ordinal], -1);
        entry->address = GONE;
        publish(ordinal);
    }
    pthread_mutex_unlock(&lock);
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
        }
    }
}

/* A child has the parent's table, but none of its memory. */
void gpud_alloc_forget(void)
{
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    table = NULL;
    room = filled = 0;
    for (uint32_t ordinal = 0; ordinal < GPUD_MAX_DEVICES; ordinal++)
        bytes_of[ordinal] = live_of[ordinal] = 0;
}
