/* query.c: how much memory there is, as the tenant's limit has it: frameworks size themselves by this. */
#include "quota.h"
#include "state.h"

static void lower(size_t *bytes, uint64_t most)
{
    if (bytes != NULL && *bytes > most)
        *bytes = most;
}

bool gpud_limit_of(uint32_t ordinal, size_t *left, size_t *total)
{
    uint64_t used;

    if (gpud_quota_limit(ordinal, &used) == UINT64_MAX)
        return false;
    gpud_pools_look(ordinal, 0, true);
    uint64_t limit = gpud_quota_limit(ordinal, &used);
    lower(left, limit > used ? limit - used : 0);
    lower(total, limit);
    return true;
}

void gpud_limit_info(size_t *left, size_t *total)
{
    struct gpud_thread *thread = &gpud_thread;

    gpud_bind(thread);
    gpud_limit_of(thread->ordinal, left, total);
}

void gpud_limit_total(size_t *total, int ordinal)
{
    uint64_t used, limit = gpud_quota_limit((uint32_t)ordinal, &used);

    lower(total, limit);
}

void gpud_limit_info_old(unsigned int *left, unsigned int *total)
{
    size_t a = left != NULL ? *left : 0, b = total != NULL ? *total : 0;

    gpud_limit_info(&a, &b);
    if (left != NULL)
        *left = (unsigned int)a;
    if (total != NULL)
        *total = (unsigned int)b;
}

void gpud_limit_total_old(unsigned int *total, int ordinal)
{
    size_t bytes = total != NULL ? *total : 0;

    gpud_limit_total(&bytes, ordinal);
    if (total != NULL)
        *total = (unsigned int)bytes;
}
