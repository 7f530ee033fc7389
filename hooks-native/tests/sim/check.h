/* check.h: what the simulator's tests share: a failed check says where and ends the program. */
#ifndef GPUD_TESTS_SIM_CHECK_H
#define GPUD_TESTS_SIM_CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define CHECK(condition, ...) do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition); \
            fprintf(stderr, __VA_ARGS__); \
            fputc('\n', stderr); \
            exit(1); \
        } \
    } while (0)

static inline long check_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Waits until `condition` holds; fails after a minute. */
#define EVENTUALLY(condition, ...) do { \
        long eventually_end = check_ms() + 60000; \
        while (!(condition)) { \
            CHECK(check_ms() < eventually_end, __VA_ARGS__); \
            nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL); \
        } \
    } while (0)

#endif
