/* steps.c: to be preloaded: the wall clock jumps by an hour, to and fro, each time it is asked; the monotonic clocks are as they are. The file
 * $STEPS_SAYS.PID exists once process PID has asked. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include "wall_clock.h"

#define HOUR 3600

static time_t wall_clock_off(void)
{
    static unsigned asked;
    const char *says = getenv("STEPS_SAYS");
    char path[256];
    if (asked == 0 && says && snprintf(path, sizeof path, "%s.%d", says, (int)getpid()) < (int)sizeof path) {
        int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
        if (fd >= 0)
            close(fd);
    }
    return __atomic_fetch_add(&asked, 1, __ATOMIC_RELAXED) % 2 ? HOUR : -HOUR;
}
