/* descriptor.h: descriptors of our own in a program that may close all of them and give their numbers to others. */
#ifndef GPUD_DESCRIPTOR_H
#define GPUD_DESCRIPTOR_H

#include <stdbool.h>
#include <sys/types.h>

#pragma GCC visibility push(hidden)

struct gpud_descriptor {
    int fd;                 /* -1: none */
    dev_t device;
    ino_t inode;
};
#define GPUD_NO_DESCRIPTOR { .fd = -1 }

/* Takes `fd` over: moves it to a high number, close-on-exec, and notes what it is. Closes it and answers false if it is nothing. */
bool gpud_descriptor_keep(struct gpud_descriptor *descriptor, int fd);
/* It still is what it was. */
bool gpud_descriptor_is_ours(const struct gpud_descriptor *descriptor);
/* Closes it if it still is ours. Async-signal-safe. */
void gpud_descriptor_drop(struct gpud_descriptor *descriptor);

#pragma GCC visibility pop
#endif
