/* checks.h: as ../check.h, with one count for all files of a program. */
#ifndef GPUD_TEST_CHECKS_H
#define GPUD_TEST_CHECKS_H

#include <stdio.h>

extern unsigned int check_count, check_failures;    /* fake.c */

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

/* The exit status of main(). A test that checked nothing has failed. */
int check_summary(const char *what);

#endif
