/* memory.h: capacity and addresses of one simulated device: who has which range of its memfd. A range may have several holders (a
 * client that made it, clients that opened it, descriptors under way); it is free when the last of them has let go. */
#ifndef GPUD_SIM_MEMORY_H
#define GPUD_SIM_MEMORY_H

#include <stdint.h>

struct memory_hold { const void *holder; uint32_t count; struct memory_hold *next; };

struct memory_range {
    uint64_t offset, bytes;
    uint64_t id;                        /* never used again, so that a stale name of a range is recognised */
    const void *holder;                 /* the first, whom the bytes are counted for */
    uint32_t count;                     /* how often it holds it */
    struct memory_hold *more;           /* the others, oldest first */
};

struct memory {
    int fd;                             /* sparse memfd of total bytes; −1: none (tests) */
    uint64_t total, reserved;           /* reserved: taken by the driver, at the end */
    uint64_t used;                      /* ranges and contexts */
    uint64_t peak;                      /* the most that was in use at once, so far */
    uint64_t ids;
    struct memory_range *ranges;        /* in use, by offset */
    uint32_t count, room;
};

/* All return 0 or a negative errno. */
int memory_open(struct memory *m, uint64_t total, uint64_t reserved);
void memory_close(struct memory *m);
/* First fit. `align` is a power of two (0: 512). The range reads as zeroes. */
int memory_alloc(struct memory *m, const void *holder, uint64_t bytes, uint64_t align, uint64_t *offset);
/* Takes one hold of the holder off the range that starts there; the last one frees it. */
int memory_free(struct memory *m, const void *holder, uint64_t offset);
/* The range that starts there, or NULL. Valid until the next call. */
const struct memory_range *memory_range_at(const struct memory *m, uint64_t offset);
/* One more hold of the range with this offset and id, if it is still there (else −ENOENT). */
int memory_hold(struct memory *m, const void *holder, uint64_t offset, uint64_t id);
/* Capacity without an address: contexts. */
int memory_charge(struct memory *m, uint64_t bytes);
void memory_uncharge(struct memory *m, uint64_t bytes);
/* Takes all holds of the holder off, and says how many bytes became free. */
uint64_t memory_free_all(struct memory *m, const void *holder);
uint64_t memory_held(const struct memory *m, const void *holder);       /* bytes that are counted for it */
uint64_t memory_available(const struct memory *m);

/* An anonymous file of `bytes`, sealed against resizing; its descriptor or a negative errno. */
int memory_file(const char *name, uint64_t bytes);

#endif
