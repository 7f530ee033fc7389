/* hour.c: to be preloaded: the wall clock is as many seconds off as the file $HOUR_FILE says when it is asked; the monotonic clocks are as
 * they are. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static time_t off(void)
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

int clock_gettime(clockid_t clock, struct timespec *at)
{
    int answer = (int)syscall(SYS_clock_gettime, clock, at);
    if (answer == 0 && clock == CLOCK_REALTIME)
        at->tv_sec += off();
    return answer;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at != NULL)
        *at = now.tv_sec;
    return now.tv_sec;
}
