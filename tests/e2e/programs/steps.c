/* steps.c: to be preloaded: the wall clock jumps by an hour, to and fro, each time it is asked; the monotonic clocks are as they are. The file
 * $STEPS_SAYS.PID exists once process PID has asked. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define HOUR 3600

static time_t step(void)
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

int clock_gettime(clockid_t clock, struct timespec *at)
{
    int answer = (int)syscall(SYS_clock_gettime, clock, at);
    if (answer == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI))
        at->tv_sec += step();
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
