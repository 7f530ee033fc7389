/* checks.h: as ../check.h, with one count for all files of a program. */
#ifndef GPUD_TEST_CHECKS_H
#define GPUD_TEST_CHECKS_H

#include <stdbool.h>
#include <stdio.h>

extern unsigned int check_count, check_failures, check_missed;     /* checks.c */

/* Counts; prints place, condition and the message if it does not hold. Of the main thread only. */
#define CHECK(condition, ...)                                                           \
    do {                                                                                \
        check_count++;                                                                  \
        if (!(condition)) {                                                             \
            check_failures++;                                                           \
            fprintf(stderr, "%s:%d: failed: %s: ", __FILE__, __LINE__, #condition);     \
            fprintf(stderr, __VA_ARGS__);                                               \
            fputc('\n', stderr);                                                        \
        }                                                                               \
    } while (0)

/* A bound on a time, between what is right and what the fault that it is there for would show, near to neither: a late processor may break
 * it, so it is measured again; a fault breaks it each time. In measured(), or in a case of run_cases(). */
#define BOUND(condition, ...)                                                           \
    do {                                                                                \
        check_count++;                                                                  \
        if (!(condition)) {                                                             \
            check_missed++;                                                             \
            fprintf(stderr, "%s:%d: missed: %s: ", __FILE__, __LINE__, #condition);     \
            fprintf(stderr, __VA_ARGS__);                                               \
            fputc('\n', stderr);                                                        \
        }                                                                               \
    } while (0)

#define CHECK_TRIES 5
/* Makes the attempt until it misses no bound, CHECK_TRIES times at most; what it CHECKs holds each time. */
void measured(const char *what, void (*attempt)(void));
void check_rest(int tries);     /* after so many: longer and longer, since what disturbs often passes */

/* The exit status of main(). A test that checked nothing has failed. */
int check_summary(const char *what);

#endif
