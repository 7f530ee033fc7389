/* clock.c: see clock.h. The linker puts these in the place of libc's (--wrap). */
#define _GNU_SOURCE
#include "clock.h"

#include <stdarg.h>
#include <stdlib.h>
#include "sys.h"

#define LOOK_NS 100
#define LATE_NS 20000           /* the end of a sleep, at most */

int __real_clock_gettime(clockid_t clock, struct timespec *t);
int __real_nanosleep(const struct timespec *time, struct timespec *left);
int __real_clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *left);
long __real_syscall(long number, ...);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_nanosleep(const struct timespec *time, struct timespec *left);
int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *left);
long __wrap_syscall(long number, ...);

static bool own;
static uint64_t own_ns;
static uint32_t seed = 11;
static uint64_t ahead_ns;       /* of the machine's */

static uint64_t ns_of(const struct timespec *t)
{
    return (uint64_t)t->tv_sec * GPUD_SECOND + (uint64_t)t->tv_nsec;
}

static uint64_t machines(void)
{
    struct timespec t;
    __real_clock_gettime(CLOCK_MONOTONIC, &t);
    return ns_of(&t);
}

void clock_own(void)
{
    own_ns = machines() + ahead_ns;
    own = true;
}

void clock_machines(void)
{
    uint64_t now = machines();
    if (!own)
        return;
    if (own_ns < now + ahead_ns)        /* it has not passed as fast: nothing is launched in the past */
        own_ns = now + ahead_ns;
    ahead_ns = own_ns - now;
    own = false;
}

void clock_pass(uint64_t ns)
{
    own_ns += own ? ns : 0;
}

static void sleep_until(uint64_t ns)
{
    if (ns == GPUD_NEVER)
        abort();                        /* nobody else is there who could wake it */
    seed = seed * 1664525 + 1013904223;
    own_ns = (ns > own_ns ? ns : own_ns) + (seed >> 8) % LATE_NS;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
    if (clock != CLOCK_MONOTONIC)
        return __real_clock_gettime(clock, t);
    clock_pass(LOOK_NS);
    *t = gpud_timespec(own ? own_ns : machines() + ahead_ns);
    return 0;
}

int __wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
    if (!own)
        return __real_nanosleep(time, left);
    sleep_until(own_ns + ns_of(time));
    return 0;
}

/* Of the hook only: until a time of CLOCK_MONOTONIC. */
int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *left)
{
    struct timespec until = gpud_timespec(ns_of(time) - ahead_ns);
    if (!own)
        return __real_clock_nanosleep(clock, flags, &until, left);
    sleep_until(ns_of(time));
    return 0;
}

long __wrap_syscall(long number, ...)
{
    long argument[6];
    va_list list;

    va_start(list, number);
    for (int i = 0; i < 6; i++)
        argument[i] = va_arg(list, long);       /* as the kernel's: what is not there is not looked at */
    va_end(list);
    struct timespec *time = (struct timespec *)argument[3];
    struct timespec until;
    if (number == SYS_futex && (argument[1] & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET && time != NULL) {
        if (own && __atomic_load_n((const uint32_t *)argument[0], __ATOMIC_ACQUIRE) != (uint32_t)argument[2]) {
            errno = EAGAIN;
            return -1;
        }
        if (own) {
            sleep_until(ns_of(time));
            errno = ETIMEDOUT;
            return -1;
        }
        until = gpud_timespec(ns_of(time) - ahead_ns);
        argument[3] = (long)&until;
    }
    return __real_syscall(number, argument[0], argument[1], argument[2], argument[3], argument[4], argument[5]);
}
