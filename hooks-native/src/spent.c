/* spent.c: see spent.h. */
#include "spent.h"

#include "page.h"

static uint64_t sums[GPUD_MAX_DEVICES];

uint64_t gpud_spent(uint32_t device)
{
    return gpud_load(&sums[device]);
}

/* Of several threads that show it at once, the last one shows the last sum. */
void gpud_spend(uint32_t device, uint64_t ns)
{
    uint64_t *shown = &gpud_presence_at(device)->spent_ns;
    uint64_t sum = gpud_add_total(&sums[device], ns) + ns, latest;

    while (gpud_store_total(shown, sum), (latest = gpud_load_total(&sums[device])) != sum)
        sum = latest;
}

void gpud_spent_renew(void)
{
    for (uint32_t device = 0; device < GPUD_MAX_DEVICES; device++)
        gpud_store_total(&sums[device], gpud_load(&gpud_presence_at(device)->spent_ns));
}

void gpud_spent_fork(void)
{
    for (uint32_t device = 0; device < GPUD_MAX_DEVICES; device++)
        gpud_store(&sums[device], 0);
}
