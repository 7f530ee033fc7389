/* memory.h: capacity and addresses of one simulated device: who has which range of its memfd. */
#ifndef GPUD_SIM_MEMORY_H
#define GPUD_SIM_MEMORY_H

#include <stdint.h>

struct memory_range { uint64_t offset, bytes; const void *holder; };

struct memory {
    int fd;                             /* sparse memfd of total bytes; −1: none (tests) */
    uint64_t total, reserved;           /* reserved: taken by the driver, at the end */
    uint64_t used;                      /* ranges and contexts */
    struct memory_range *ranges;        /* in use, by offset */
    uint32_t count, room;
};

/* All return 0 or a negative errno. */
int memory_open(struct memory *m, uint64_t total, uint64_t reserved);
void memory_close(struct memory *m);
/* First fit. `align` is a power of two (0: 512). The range reads as zeroes. */
int memory_alloc(struct memory *m, const void *holder, uint64_t bytes, uint64_t align, uint64_t *offset);
int memory_free(struct memory *m, const void *holder, uint64_t offset);
/* Capacity without an address: contexts. */
int memory_charge(struct memory *m, uint64_t bytes);
void memory_uncharge(struct memory *m, uint64_t bytes);
/* Frees all ranges of the holder, and says how many bytes they were. */
uint64_t memory_free_all(struct memory *m, const void *holder);
uint64_t memory_held(const struct memory *m, const void *holder);
uint64_t memory_available(const struct memory *m);

/* An anonymous file of `bytes`, sealed against resizing; its descriptor or a negative errno. */
int memory_file(const char *name, uint64_t bytes);

#endif
