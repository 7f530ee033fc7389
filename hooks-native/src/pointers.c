/* pointers.c: a hash table, filled once when the driver is found, then only read. */
#include "pointers.h"

#include <stdint.h>

#include "classify.h"
#include "real.h"

#define BUCKETS 1024        /* ≥ 4 × what is put in: two pointers per row at most */

static struct {
    const void *pointer;
    int row;
} buckets[BUCKETS];

static unsigned int first_bucket(const void *pointer)
{
    return (unsigned int)((uintptr_t)pointer * UINT64_C(0x9e3779b97f4a7c15) >> 54);
}

void gpud_pointer_add(void *pointer, int row)
{
    unsigned int i = first_bucket(pointer);

    while (buckets[i].pointer)
        i = (i + 1) % BUCKETS;
    buckets[i].pointer = pointer;
    buckets[i].row = row;
}

int gpud_pointer_row(const void *pointer, const char *name)
{
    int first = -1;
    int named = name ? gpud_row_of(name) : -1;

    for (unsigned int i = first_bucket(pointer); buckets[i].pointer; i = (i + 1) % BUCKETS) {
        if (buckets[i].pointer != pointer)
            continue;
        if (buckets[i].row == named)
            return named;
        if (first < 0)
            first = buckets[i].row;
    }
    return first;
}

void *gpud_pointer_mapped(void *pointer, const char *name)
{
    int row = gpud_pointer_row(pointer, name);

    if (row < 0)
        return pointer;
    /* Where nobody is between us and the driver the two are as good, and the exported one is the pointer that the program also
     * gets by its plain symbol. */
    return gpud_next_is_driver(row) ? gpud_entries[row].exported : gpud_entries[row].handed;
}
