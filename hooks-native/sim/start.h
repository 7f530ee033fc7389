/* start.h: what clients and the device process agree on before they are connected: the address, the clock. */
#ifndef GPUD_SIM_START_H
#define GPUD_SIM_START_H

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto.h"
#include "ring.h"

/* 1 to 64 letters, digits, dots, dashes, underscores. */
static inline bool sim_node_name_ok(const char *name)
{
    size_t n = 0;
    for (; name[n]; n++)
        if (!isalnum((unsigned char)name[n]) && !strchr(".-_", name[n]))
            return false;
    return n > 0 && n < SIM_NODE_NAME;
}

/* The abstract address of a node of this user; its length. */
static inline socklen_t sim_address(struct sockaddr_un *address, const char *name)
{
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    int n = snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "gpud-sim-%u-%s", (unsigned)geteuid(), name);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static inline uint64_t sim_model_of(const struct sim_node_page *page, uint64_t clock_ns)
{
    int64_t passed = (int64_t)clock_ns - atomic_load_explicit(&page->epoch_ns, memory_order_relaxed);
    return passed > 0 ? (uint64_t)((double)passed / page->time_scale) : 0;
}

#endif
