/* alloc_handle.c: memory by handles (cuMemCreate). The driver has it until the program has released the handle as often as it got it, and
 * nothing of it is mapped any more: so long it is counted. What other processes made is theirs; so is what is exported, to its maker. */
#include <string.h>

#include "alloc.h"
#include "pool.h"
#include "quota.h"
#include "state.h"
#include "table.h"
#include "vmm.h"

#define IN_LEDGER GPUD_HANDLE_KEYS
#define UNIT (UINT64_C(2) << 20)    /* mappings lie at multiples of it; so far on, where one is not known */

/* A handle may get the value of one that was released while its memory is still mapped: memory has a number of its own. */
struct physical {
    uint64_t number;
    uint32_t handles, mappings;
    bool moves;                 /* it can leave the device: a handle of ours (vmm.h) */
};
struct handle {
    uint64_t value;
    uint64_t number;
    uint32_t count;             /* how often the program got it */
    uint32_t reserved;
};
struct mapping {
    uint64_t start;
    uint64_t bytes;
    uint64_t number;            /* 0: not counted here */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct gpud_table physicals = { .size = sizeof(struct physical) };
static struct gpud_table handles = { .size = sizeof(struct handle) };
static struct gpud_table mappings = { .size = sizeof(struct mapping) };
static uint64_t last_number;

static uint64_t new_number(void)
{
    return gpud_add(&last_number, 1) + 1;
}

/* So many handles and mappings more. True: nothing holds the memory any more, and it is forgotten here. Lock held. */
static bool held_by(uint64_t number, int more_handles, int more_mappings)
{
    struct physical *it = gpud_table_find(&physicals, number);

    if (it == NULL)
        return false;
    it->handles += (uint32_t)more_handles;
    it->mappings += (uint32_t)more_mappings;
    if (it->handles != 0 || it->mappings != 0)
        return false;
    gpud_table_drop(it);
    return true;
}

/* The program has it once (more). Lock held. */
static bool hand_out(uint64_t value, uint64_t number)
{
    struct handle *handle = gpud_table_put(&handles, value);
    struct physical *it = handle != NULL ? gpud_table_put(&physicals, number) : NULL;

    if (it == NULL) {
        if (handle != NULL && handle->count == 0)
            gpud_table_drop(handle);
        gpud_add(&gpud_activity()->errors, 1);
        return false;
    }
    handle->number = number;
    handle->count++;
    it->handles++;
    it->moves = gpud_virtual(value);
    return true;
}

uint64_t gpud_handle_made(uint64_t value)
{
    uint64_t gone = 0;

    pthread_mutex_lock(&lock);
    struct handle *stale = gpud_table_find(&handles, value);
    if (stale != NULL) {        /* the driver took it back without a word */
        gone = held_by(stale->number, -(int)stale->count, 0) ? stale->number : 0;
        gpud_table_drop(stale);
    }
    uint64_t number = new_number();
    number = hand_out(value, number) ? number : 0;
    pthread_mutex_unlock(&lock);
    if (gone != 0)
        gpud_freed(gone | IN_LEDGER);
    return number == 0 ? 0 : number | IN_LEDGER;
}

bool gpud_handle_moves(uint64_t key)
{
    pthread_mutex_lock(&lock);
    const struct physical *it = gpud_table_find(&physicals, key & ~IN_LEDGER);
    bool moves = it != NULL && it->moves;
    pthread_mutex_unlock(&lock);
    return moves;
}

static uint64_t number_mapped_at(uint64_t address)
{
    for (uint64_t i = 0; i < mappings.room; i++) {
        const struct mapping *mapping = gpud_table_nth(&mappings, i);
        if (mapping != NULL && address - mapping->start < mapping->bytes)
            return mapping->number;
    }
    return 0;
}

void gpud_handle_retained(uint64_t value, uint64_t address)
{
    uint64_t pooled = gpud_pool_number(address, new_number);

    pthread_mutex_lock(&lock);
    const struct handle *handle = gpud_table_find(&handles, value);
    uint64_t number = pooled != 0 ? pooled : handle != NULL ? handle->number : number_mapped_at(address);
    if (number != 0)
        hand_out(value, number);
    pthread_mutex_unlock(&lock);
}

void gpud_handle_left(uint64_t number, uint64_t bytes, uint32_t ordinal)
{
    struct gpud_held held = { .bytes = bytes, .charged = bytes, .ordinal = ordinal, .pin = GPUD_PIN_HANDLE };

    pthread_mutex_lock(&lock);
    bool lasts = gpud_table_find(&physicals, number) != NULL;
    if (lasts && gpud_ledger_put(number | IN_LEDGER, &held))
        gpud_quota_add(ordinal, bytes);
    pthread_mutex_unlock(&lock);
}

void gpud_handle_mapped(uint64_t start, uint64_t bytes, uint64_t value)
{
    pthread_mutex_lock(&lock);
    const struct handle *handle = gpud_table_find(&handles, value);
    uint64_t number = handle != NULL ? handle->number : 0;
    struct mapping *mapping = gpud_table_put(&mappings, start);
    if (mapping != NULL) {
        mapping->bytes = bytes;
        mapping->number = number;
        held_by(number, 0, 1);
    } else {
        gpud_add(&gpud_activity()->errors, 1);
    }
    pthread_mutex_unlock(&lock);
}

void gpud_handle_unmapped(uint64_t start, uint64_t bytes)
{
    for (uint64_t at = start, end = start + bytes; at < end;) {
        uint64_t gone = 0;
        pthread_mutex_lock(&lock);
        struct mapping *mapping = gpud_table_find(&mappings, at);
        uint64_t here = mapping != NULL && mapping->bytes != 0 ? mapping->bytes : UNIT;
        if (mapping != NULL) {
            gone = held_by(mapping->number, 0, -1) ? mapping->number : 0;
            gpud_table_drop(mapping);
        }
        pthread_mutex_unlock(&lock);
        if (gone != 0)
            gpud_freed(gone | IN_LEDGER);
        at += here;
    }
}

struct gpud_freeing gpud_handle_frees(uint64_t value)
{
    struct gpud_freeing freeing = { .handle = value };
    bool last = false;

    pthread_mutex_lock(&lock);
    struct handle *handle = gpud_table_find(&handles, value);
    if (handle != NULL) {
        freeing.number = handle->number;
        if (--handle->count == 0)
            gpud_table_drop(handle);
        last = held_by(freeing.number, -1, 0);
    }
    pthread_mutex_unlock(&lock);
    if (last) {
        uint64_t number = freeing.number;
        freeing = gpud_frees(number | IN_LEDGER);
        freeing.handle = value;
        freeing.number = number;
    }
    return freeing;
}

void gpud_handle_is_freed(const struct gpud_freeing *freeing, CUresult result)
{
    if (freeing->number != 0 && result != CUDA_SUCCESS && result != CUDA_ERROR_DEINITIALIZED) {
        pthread_mutex_lock(&lock);
        hand_out(freeing->handle, freeing->number);
        pthread_mutex_unlock(&lock);
    }
    gpud_is_freed(freeing, result);
}

void gpud_handles_forget(void)
{
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    gpud_table_forget(&physicals);
    gpud_table_forget(&handles);
    gpud_table_forget(&mappings);
}
