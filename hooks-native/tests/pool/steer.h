/* steer.h: what steer.c exports. */
#ifndef GPUD_TEST_STEER_H
#define GPUD_TEST_STEER_H

#include <stdint.h>

struct steer_counts {
    uint64_t resident, idle, host, lazy, pinned, most[2], unpinned;
};
void steer_attach(void);            /* device 0 is managed, as slot 1, and this program may be swapped */
void steer_away(int away);          /* it has not the device; or has it */
int steer_host(int fd, uint64_t bytes);
int steer_out(uint64_t bytes, uint64_t *moved);
int steer_in(uint64_t *moved);
struct steer_counts steer_counts(void);

#endif
