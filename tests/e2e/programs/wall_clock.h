/* wall_clock.h: the entries by which a program asks for the wall clock, as a preloaded library gives them: off by what wall_clock_off() says
 * each time. The monotonic clocks are as they are. */
#ifndef WALL_CLOCK_H
#define WALL_CLOCK_H

#include <stddef.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static time_t wall_clock_off(void);     /* seconds; the includer's */

int clock_gettime(clockid_t clock, struct timespec *at)
{
    int answer = (int)syscall(SYS_clock_gettime, clock, at);
    if (answer == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI))
        at->tv_sec += wall_clock_off();
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

#endif
