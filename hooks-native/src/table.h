/* table.h: entries by a 64-bit key, in a table that grows: open addressing, never on the way of launches. Its user locks. */
#ifndef GPUD_TABLE_H
#define GPUD_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

#define GPUD_TABLE_GONE UINT64_MAX  /* key of an entry that was dropped: searches go on past it */

/* Entries are structs whose first member is the key, a uint64_t; 0 and GPUD_TABLE_GONE are none. */
struct gpud_table {
    size_t size;                /* of an entry, set once by the user */
    unsigned char *at;
    uint64_t room, filled;      /* filled: in use or gone */
};

static inline bool gpud_table_is_key(uint64_t key)
{
    return key != 0 && key != GPUD_TABLE_GONE;
}

/* The entry of the key, or NULL. Good until the next put. */
void *gpud_table_find(const struct gpud_table *table, uint64_t key);
/* The entry of the key, or a zeroed one that has it now; NULL: no memory. */
void *gpud_table_put(struct gpud_table *table, uint64_t key);
void gpud_table_drop(void *entry);
/* The i-th place of `room`; NULL: nothing is there. */
void *gpud_table_nth(const struct gpud_table *table, uint64_t i);
void gpud_table_forget(struct gpud_table *table);       /* forked child: the memory is the parent's */

#pragma GCC visibility pop
#endif
