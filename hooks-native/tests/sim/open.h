/* open.h: a test program's link to its node. */
#ifndef GPUD_TESTS_SIM_OPEN_H
#define GPUD_TESTS_SIM_OPEN_H

#include <stdio.h>
#include <stdlib.h>

#include "link.h"

/* Where there is no node, it says why and ends with 3. */
static inline struct sim_link *open_or_die(void)
{
    struct sim_link *link;
    char error[1024];
    if (sim_link_open(&link, error, sizeof error)) {
        printf("error %s\n", error);
        exit(3);
    }
    return link;
}

#endif
