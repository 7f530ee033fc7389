/* levels_step.c: levels move on, totals and shares are divided anew. Arithmetic only: no page, no clock. */
#include "levels_native.h"

#include <stdbool.h>
#include <stddef.h>

#define CLAIMS_NS UINT64_C(10000000000) /* who keeps others waiting that long and charges next to nothing … */
#define CLAIMS_PART 100                 /* … less than a hundredth of it … */
#define CLAIMS_BARRED_NS UINT64_C(10000000000)  /* … is passed over this long */

/* Whoever keeps others waiting and charges nothing is stuck, or does not charge what it uses. */
static void judge_claim(struct gpud_level_tenant *tenant, bool others_wait, uint64_t elapsed, uint64_t now)
{
    if (!(tenant->active || tenant->turns) || !others_wait) {
        tenant->claims_ns = tenant->claims_spent_ns = 0;
        return;
    }
    tenant->claims_ns += elapsed;
    tenant->claims_spent_ns += tenant->charged_ns > 0 ? (uint64_t)tenant->charged_ns : 0;
    if (tenant->claims_spent_ns >= tenant->claims_ns / CLAIMS_PART && tenant->claims_spent_ns > 0)
        tenant->claims_ns = tenant->claims_spent_ns = 0;
    if (tenant->claims_ns > CLAIMS_NS) {
        tenant->barred_ns = now + CLAIMS_BARRED_NS;
        tenant->barred = GPUD_BARRED_CLAIMS;
    }
}

/* By what was in force since the last step. */
static void move_tenant(struct gpud_level_tenant *tenant, bool others_wanted, bool others_wait, uint64_t now)
{
    if (tenant->awaited)
        return;
    if (tenant->at_ns == 0)
        tenant->at_ns = now;
    uint64_t elapsed = gpud_since(now, tenant->at_ns);
    int64_t charged = tenant->charged_ns;

    if (tenant->cap_ppm != GPUD_NONE) {
        /* What nobody else wanted is not owed. */
        bool lent = (tenant->cap_flags & GPUD_CAP_SOFT) && !others_wanted;
        int64_t least = lent ? gpud_between(-GPUD_DEBT_NS, tenant->cap_ns, 0) : -GPUD_DEBT_NS;
        int64_t level = tenant->cap_ns + gpud_part((int64_t)elapsed, tenant->cap_ppm) - charged;
        tenant->cap_ns = gpud_between(least, level, (int64_t)tenant->burst_ns);
    }
    if (tenant->share_ppm != 0)
        tenant->lag_ns += (int64_t)elapsed - gpud_scale(charged, 1000000, tenant->share_ppm);
    if (elapsed > 0) {
        uint64_t used = charged > 0 ? (uint64_t)gpud_scale(charged, 1000000, (int64_t)elapsed) : 0;
        tenant->used_ppm = gpud_smooth(tenant->used_ppm, used, elapsed, GPUD_SMOOTH_NS);
        /* Who waits for something else than its turn (a rank above, a pause, its own cap) could not use more of a share. */
        bool asks = (tenant->waiting && tenant->turns) || tenant->full;
        tenant->asks_ppm = gpud_smooth(tenant->asks_ppm, asks ? 1000000 : 0, elapsed, GPUD_SMOOTH_NS);
        judge_claim(tenant, others_wait, elapsed, now);
    }
    tenant->charged_ns = 0;
    tenant->at_ns = now;
    tenant->trusted = tenant->barred_ns <= now;
    if (tenant->trusted)
        tenant->barred = GPUD_BARRED_NOT;
    tenant->wants = tenant->active || tenant->waiting || tenant->turns || tenant->moved;
    if (tenant->wants)
        tenant->wanted_ns = now;
}

/* The tightest of its limits. `others`: somebody else wants the device. */
static void set_cap(struct gpud_level_tenant *tenant, bool others)
{
    uint64_t hard = tenant->part[GPUD_TOTAL_COMPUTE], cap;

    if (tenant->hard_ppm != GPUD_NONE && tenant->hard_ppm < hard) {
        hard = tenant->hard_ppm;
        tenant->window_ns = GPUD_LIMIT_WINDOW_NS;
    }
    cap = hard;
    tenant->cap_flags = 0;
    if (tenant->soft_ppm != GPUD_NONE && tenant->soft_ppm < hard && (hard == UINT64_MAX || others)) {
        cap = tenant->soft_ppm;
        tenant->window_ns = GPUD_LIMIT_WINDOW_NS;
        tenant->cap_flags = hard == UINT64_MAX ? GPUD_CAP_SOFT : 0;
    }
    if (cap == UINT64_MAX) {
        tenant->cap_ppm = GPUD_NONE;
        return;
    }
    if (tenant->cap_ppm == GPUD_NONE)       /* new: nothing is saved up, nothing is owed */
        tenant->cap_ns = 0;
    tenant->cap_ppm = (uint32_t)gpud_between(GPUD_LEAST_PPM, (int64_t)cap, 1000000);
    tenant->burst_ns = (uint64_t)gpud_part((int64_t)tenant->window_ns, tenant->cap_ppm);
    tenant->cap_ns = gpud_between(-GPUD_DEBT_NS, tenant->cap_ns, (int64_t)tenant->burst_ns);
}

void gpud_levels_advance(struct gpud_divided *levels, uint64_t now)
{
    uint32_t wanted = levels->wanting, wanting = 0, waiting = 0, barred = 0;

    for (uint32_t i = 0; i < levels->tenant_count; i++)
        waiting += levels->tenants[i].waiting;
    gpud_totals_move(levels, gpud_since(now, levels->at_ns));
    for (uint32_t i = 0; i < levels->tenant_count; i++) {
        struct gpud_level_tenant *tenant = &levels->tenants[i];
        move_tenant(tenant, wanted > tenant->wants, waiting > tenant->waiting, now);
        wanting += tenant->wants;
        barred += tenant->barred != GPUD_BARRED_NOT;
    }
    gpud_totals_begin(levels);
    levels->barred = barred;
    levels->wanting = wanting;
    levels->waiting = waiting;
    levels->at_ns = now;
    gpud_totals_divide(levels, now);
    for (uint32_t i = 0; i < levels->tenant_count; i++)
        set_cap(&levels->tenants[i], wanting > levels->tenants[i].wants);
    gpud_shares_divide(levels, now);
    gpud_lags_shift(levels);
}

/* Its levels, or its part of something, will be others without anything happening. */
static bool is_moving(const struct gpud_divided *levels, const struct gpud_level_tenant *tenant, uint64_t now)
{
    if (gpud_within(now, tenant->wanted_ns, GPUD_LINGER_NS))
        return true;
    if (tenant->cap_ppm != GPUD_NONE && tenant->cap_ns < (int64_t)tenant->burst_ns)
        return true;
    return tenant->unit != GPUD_NONE && tenant->lag_ns < (int64_t)levels->pools[levels->units[tenant->unit].pool].period_ns;
}

uint32_t gpud_levels_state(const struct gpud_divided *levels, uint64_t now)
{
    uint32_t found = GPUD_LEVELS_SETTLED;

    for (uint32_t i = 0; i < levels->client_count; i++) {
        const struct gpud_level_client *client = &levels->clients[i];
        if (client->wants || (client->control != NULL && client->control->device[levels->device].others_active))
            return GPUD_LEVELS_BUSY;
    }
    for (uint32_t i = 0; i < levels->tenant_count; i++)
        if (!levels->tenants[i].awaited && is_moving(levels, &levels->tenants[i], now))
            found = GPUD_LEVELS_MOVING;
    for (uint32_t i = 0; i < levels->total_count; i++) {
        const struct gpud_level_total *total = &levels->totals[i];
        if (total->kind == GPUD_TOTAL_COMPUTE && total->level_ns < gpud_part((int64_t)total->window_ns, total->amount))
            found = GPUD_LEVELS_MOVING;
    }
    return found;
}

uint32_t gpud_levels_step(struct gpud_divided *levels, uint64_t now)
{
    gpud_levels_look(levels, now);
    gpud_levels_advance(levels, now);
    gpud_levels_publish(levels, now);
    return gpud_levels_state(levels, now);
}
