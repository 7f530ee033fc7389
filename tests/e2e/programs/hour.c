/* hour.c: to be preloaded: the wall clock is as many seconds off as the file $HOUR_FILE says when it is asked; the monotonic clocks are as
 * they are. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include "wall_clock.h"

static time_t wall_clock_off(void)
{
    const char *path = getenv("HOUR_FILE");
    char text[32] = {0};
    int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return 0;
    if (read(fd, text, sizeof text - 1) < 0)
        text[0] = 0;
    close(fd);
    return (time_t)atoll(text);
}
