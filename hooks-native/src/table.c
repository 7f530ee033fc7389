/* table.c: see table.h. */
#include "table.h"

#include <string.h>
#include <sys/mman.h>

#define FIRST_ROOM 1024

static uint64_t *key_at(const struct gpud_table *table, uint64_t i)
{
    return (uint64_t *)(void *)(table->at + i * table->size);
}

/* The entry of the key, or the first never used one. */
static uint64_t *search(const struct gpud_table *table, uint64_t key)
{
    uint64_t i = ((key * UINT64_C(0x9e3779b97f4a7c15)) >> 20) & (table->room - 1);
    while (*key_at(table, i) != 0 && *key_at(table, i) != key)
        i = (i + 1) & (table->room - 1);
    return key_at(table, i);
}

void *gpud_table_nth(const struct gpud_table *table, uint64_t i)
{
    uint64_t *key = key_at(table, i);
    return gpud_table_is_key(*key) ? key : NULL;
}

void *gpud_table_find(const struct gpud_table *table, uint64_t key)
{
    uint64_t *found = table->at != NULL && gpud_table_is_key(key) ? search(table, key) : NULL;
    return found != NULL && *found == key ? found : NULL;
}

static bool make_room(struct gpud_table *table)
{
    struct gpud_table fresh = { .size = table->size, .room = FIRST_ROOM };

    if (table->at != NULL && table->filled < table->room / 2)
        return true;
    for (uint64_t i = 0; i < table->room; i++)
        fresh.filled += gpud_table_nth(table, i) != NULL;
    while (fresh.room < fresh.filled * 4)
        fresh.room *= 2;
    fresh.at = mmap(NULL, fresh.room * fresh.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (fresh.at == MAP_FAILED)
        return false;
    for (uint64_t i = 0; i < table->room; i++) {
        const uint64_t *entry = gpud_table_nth(table, i);
        if (entry != NULL)
            memcpy(search(&fresh, *entry), entry, table->size);
    }
    if (table->at != NULL)
        munmap(table->at, table->room * table->size);
    *table = fresh;
    return true;
}

void *gpud_table_put(struct gpud_table *table, uint64_t key)
{
    if (!gpud_table_is_key(key) || !make_room(table))
        return NULL;
    uint64_t *entry = search(table, key);
    if (*entry == 0) {
        *entry = key;
        table->filled++;
    }
    return entry;
}

void gpud_table_drop(void *entry)
{
    *(uint64_t *)entry = GPUD_TABLE_GONE;
}

void gpud_table_forget(struct gpud_table *table)
{
    table->at = NULL;
    table->room = table->filled = 0;
}
