/* config.h: what the hook takes from the environment, read once at the first CUDA call. */
#ifndef GPUD_CONFIG_H
#define GPUD_CONFIG_H

#include <stdbool.h>
#include <sys/un.h>

#pragma GCC visibility push(hidden)

struct gpud_config {
    struct sockaddr_un socket;  /* of the daemon */
    bool usable;                /* false: there is no path that could be tried; a line has been written */
    bool own_daemon_only;       /* anybody could listen there: only a daemon of this user, or of root, is believed */
};

/* Reads GPUD_RUNTIME_DIR, XDG_RUNTIME_DIR and GPUD_LOG. Garbage: a line on stderr and the default. */
void gpud_config_read(struct gpud_config *config);

#pragma GCC visibility pop
#endif
