/* checks.c: see checks.h. */
#include "checks.h"

#include <unistd.h>

unsigned int check_count, check_failures, check_missed;

int check_summary(const char *what)
{
    printf("%s: %u checks, %u failed\n", what, check_count, check_failures);
    return check_failures != 0 || check_count == 0;
}

void check_rest(int tries)
{
    sleep((unsigned int)tries);
}

void measured(const char *what, void (*attempt)(void))
{
    for (int tries = 1; tries <= CHECK_TRIES; tries++) {
        check_missed = 0;
        attempt();
        if (check_missed == 0)
            return;
        if (tries < CHECK_TRIES)
            check_rest(tries);
    }
    check_missed = 0;
    CHECK(false, "%s: missed each time", what);
}
