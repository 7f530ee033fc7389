/* check.h: assertions that say what failed and go on, and a last line that sums up. */
#ifndef GPUD_TEST_CHECK_H
#define GPUD_TEST_CHECK_H

#include <stdarg.h>
#include <stdio.h>

static unsigned int check_count, check_failures;

/* Counts; prints place, condition and the message if it does not hold. */
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
static inline int check_summary(const char *what)
{
    printf("%s: %u checks, %u failed\n", what, check_count, check_failures);
    return check_failures || !check_count;
}

#endif
