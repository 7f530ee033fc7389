/* levels_shares.c: what share of the device is whose, and how far each is behind it. Arithmetic only. */
#include "levels_native.h"

#include <stdbool.h>
#include <stddef.h>

/* A unit is active while a member has wanted the device within a period. */
static uint32_t is_active(const struct gpud_divided *levels, const struct gpud_level_unit *unit, uint64_t now)
{
    for (uint32_t i = 0; i < unit->count; i++) {
        const struct gpud_level_tenant *tenant = &levels->tenants[levels->members[unit->first + i]];
        if (tenant->trusted && gpud_within(now, tenant->wanted_ns, levels->pools[unit->pool].period_ns))
            return 1;
    }
    return 0;
}

/* Equally by GPU time among the tenants that want it; who is never held and never full needs no more than it uses. */
static void divide_unit(struct gpud_divided *levels, const struct gpud_level_unit *unit, uint64_t now)
{
    uint64_t period = levels->pools[unit->pool].period_ns;

    for (uint32_t i = 0; i < unit->count; i++) {
        const struct gpud_level_tenant *tenant = &levels->tenants[levels->members[unit->first + i]];
        bool wants = tenant->trusted && gpud_within(now, tenant->wanted_ns, period);
        bool hungry = tenant->asks_ppm > GPUD_HUNGRY_PPM;
        levels->asks[i] = gpud_ask(wants, hungry, tenant->used_ppm, tenant->used_ppm / 8, unit->rate_ppm);
    }
    gpud_divide(unit->rate_ppm, levels->asks, unit->count);
    for (uint32_t i = 0; i < unit->count; i++) {
        struct gpud_level_tenant *tenant = &levels->tenants[levels->members[unit->first + i]];
        tenant->share_ppm = (uint32_t)gpud_between(GPUD_LEAST_PPM, (int64_t)levels->asks[i].part, 1000000);
    }
}

/* Fixed parts stand; the rest is divided by weight among active units. One that is not is told what it would have. */
void gpud_shares_divide(struct gpud_divided *levels, uint64_t now)
{
    for (uint32_t i = 0; i < levels->pool_count; i++)
        levels->pools[i].weights = 0;
    for (uint32_t i = 0; i < levels->unit_count; i++) {
        struct gpud_level_unit *unit = &levels->units[i];
        unit->active = is_active(levels, unit, now);
        if (unit->active && unit->fixed_ppm == GPUD_NONE)
            levels->pools[unit->pool].weights += unit->weight;
    }
    for (uint32_t i = 0; i < levels->unit_count; i++) {
        struct gpud_level_unit *unit = &levels->units[i];
        const struct gpud_level_pool *pool = &levels->pools[unit->pool];
        uint64_t weights = pool->weights + (unit->active ? 0 : unit->weight);
        unit->rate_ppm = unit->fixed_ppm;
        if (unit->fixed_ppm == GPUD_NONE)
            unit->rate_ppm = weights > 0 ? (uint32_t)((uint64_t)pool->open_ppm * unit->weight / weights) : 0;
        divide_unit(levels, unit, now);
    }
}

static struct gpud_level_pool *pool_of(const struct gpud_divided *levels, const struct gpud_level_tenant *tenant)
{
    return tenant->unit == GPUD_NONE ? NULL : &levels->pools[levels->units[tenant->unit].pool];
}

/* Time that nobody could use is nobody's loss: all lags of a pool move together, so that the mean of those who want the device,
 * weighted by their shares, is 0. Who does not ask for the device saves up no more than a period; who asks, but must wait for a
 * long kernel, keeps its claim. Nobody owes more than the debt. */
static void shift_pool(struct gpud_divided *levels, struct gpud_level_pool *pool)
{
    __int128 lags = 0;
    int64_t shares = 0;

    pool->wanting = 0;
    for (uint32_t i = 0; i < levels->tenant_count; i++) {
        const struct gpud_level_tenant *tenant = &levels->tenants[i];
        if (pool_of(levels, tenant) != pool || !tenant->turns || !tenant->trusted || tenant->awaited)
            continue;
        lags += (__int128)tenant->lag_ns * tenant->share_ppm;
        shares += tenant->share_ppm;
        pool->wanting++;
    }
    int64_t mean = shares > 0 ? (int64_t)(lags / shares) : 0;
    for (uint32_t i = 0; i < levels->tenant_count; i++) {
        struct gpud_level_tenant *tenant = &levels->tenants[i];
        if (pool_of(levels, tenant) != pool || tenant->awaited)
            continue;
        int64_t least = -gpud_scale(GPUD_DEBT_NS, 1000000, tenant->share_ppm);
        int64_t claim = 4 * (int64_t)pool->period_ns > GPUD_CLAIM_NS ? 4 * (int64_t)pool->period_ns : GPUD_CLAIM_NS;
        int64_t most = tenant->turns && tenant->trusted ? claim : (int64_t)pool->period_ns;
        tenant->lag_ns = gpud_between(least, tenant->lag_ns - mean, most);
    }
    uint64_t part = pool->wanting > 2 ? pool->period_ns / pool->wanting : pool->period_ns / 2;
    pool->turn_ns = pool->period_ns - part;
}

void gpud_lags_shift(struct gpud_divided *levels)
{
    for (uint32_t i = 0; i < levels->pool_count; i++)
        shift_pool(levels, &levels->pools[i]);
}
