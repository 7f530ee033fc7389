/* levels_totals.c: what holds for several tenants together (max_compute, rates, a share that is not exceeded) is divided among
 * those that want it. Arithmetic only. */
#include "levels_native.h"

#include <stdbool.h>

/* All its members together; before they are moved. What was charged while a level stood still is between that tenant and its own
 * level. */
static void move_total(const struct gpud_divided *levels, struct gpud_level_total *total, uint64_t elapsed)
{
    int64_t charged = 0;

    if (total->kind != GPUD_TOTAL_COMPUTE)
        return;
    for (uint32_t i = 0; i < total->count; i++) {
        const struct gpud_level_tenant *tenant = &levels->tenants[levels->members[total->first + i]];
        charged += tenant->awaited || tenant->at_ns < levels->at_ns ? 0 : tenant->charged_ns;
    }
    int64_t level = total->level_ns + gpud_part((int64_t)elapsed, total->amount) - charged;
    total->level_ns = gpud_between(-GPUD_DEBT_NS, level, gpud_part((int64_t)total->window_ns, total->amount));
}

/* Of a total of GPU time that has been overdrawn by more than its members owe themselves (two that were idle both had most of
 * it), less is given out until that is paid back. */
static uint64_t amount_now(const struct gpud_divided *levels, const struct gpud_level_total *total)
{
    int64_t window = gpud_part((int64_t)total->window_ns, total->amount), owed = total->level_ns;

    if (total->kind != GPUD_TOTAL_COMPUTE)
        return total->amount;
    for (uint32_t i = 0; i < total->count; i++) {
        int64_t level = levels->tenants[levels->members[total->first + i]].cap_ns;
        owed -= level < 0 ? level : 0;
    }
    if (owed >= 0 || window <= 0)
        return total->amount;
    return owed <= -window ? 0 : total->amount - (uint64_t)gpud_scale((int64_t)total->amount, -owed, window);
}

/* Whoever has used nearly all of a rate just now, would use more. */
static bool is_short(uint64_t latest, uint64_t part)
{
    return part != UINT64_MAX && latest >= part / 10 * 9;
}

static struct gpud_ask ask_of(const struct gpud_divided *levels, const struct gpud_level_tenant *tenant, uint32_t kind,
                              uint64_t amount, uint64_t now)
{
    uint64_t used = tenant->used_ppm, latest = 0;
    bool hungry = tenant->cap_ppm != GPUD_NONE && tenant->cap_ns < (int64_t)(tenant->burst_ns / 4);

    if (kind != GPUD_TOTAL_COMPUTE) {
        used = 0;
        for (uint32_t i = 0; i < tenant->count; i++) {
            used += levels->clients[tenant->first + i].used[kind];
            latest += levels->clients[tenant->first + i].latest[kind];
        }
        hungry = is_short(latest, tenant->part[kind]);
    }
    return gpud_ask(gpud_within(now, tenant->wanted_ns, GPUD_LINGER_NS), hungry, used, used / 4, amount);
}

static void divide_total(struct gpud_divided *levels, const struct gpud_level_total *total, uint64_t now)
{
    uint64_t amount = amount_now(levels, total);

    for (uint32_t i = 0; i < total->count; i++) {
        const struct gpud_level_tenant *tenant = &levels->tenants[levels->members[total->first + i]];
        levels->asks[i] = ask_of(levels, tenant, total->kind, amount, now);
    }
    gpud_divide(amount, levels->asks, total->count);
}

/* A tenant's rates, among its processes. */
static void divide_clients(struct gpud_divided *levels, const struct gpud_level_tenant *tenant, uint64_t now)
{
    for (uint32_t kind = GPUD_TOTAL_LAUNCHES; kind < GPUD_TOTALS; kind++) {
        struct gpud_level_client *clients = &levels->clients[tenant->first];
        uint64_t amount = tenant->part[kind];
        for (uint32_t i = 0; i < tenant->count && amount != UINT64_MAX; i++) {
            uint64_t used = clients[i].used[kind];
            bool hungry = is_short(clients[i].latest[kind], clients[i].part[kind]);
            levels->asks[i] = gpud_ask(gpud_within(now, clients[i].wanted_ns, GPUD_LINGER_NS), hungry, used, used / 4, amount);
        }
        if (amount != UINT64_MAX)
            gpud_divide(amount, levels->asks, tenant->count);
        for (uint32_t i = 0; i < tenant->count; i++)
            clients[i].part[kind] = amount == UINT64_MAX ? UINT64_MAX : levels->asks[i].part;
    }
}

/* Not with nothing: its members would use what they have kept, and the total seem overdrawn by that. What a member has that is
 * not back yet is not known: it may be all that can be kept. */
void gpud_totals_begin(struct gpud_divided *levels)
{
    for (uint32_t i = 0; i < levels->total_count; i++) {
        struct gpud_level_total *total = &levels->totals[i];
        int64_t level = 0, most = gpud_part((int64_t)total->window_ns, total->amount);
        if (total->kind != GPUD_TOTAL_COMPUTE || total->begun)
            continue;
        for (uint32_t k = 0; k < total->count; k++) {
            const struct gpud_level_tenant *tenant = &levels->tenants[levels->members[total->first + k]];
            level += tenant->awaited ? most : tenant->cap_ppm == GPUD_NONE ? 0 : tenant->cap_ns;
        }
        total->level_ns = gpud_between(-GPUD_DEBT_NS, level, most);
        total->begun = 1;
    }
}

void gpud_totals_move(struct gpud_divided *levels, uint64_t elapsed)
{
    for (uint32_t i = 0; i < levels->total_count; i++)
        if (levels->at_ns != 0)
            move_total(levels, &levels->totals[i], elapsed);
}

void gpud_totals_divide(struct gpud_divided *levels, uint64_t now)
{
    for (uint32_t i = 0; i < levels->tenant_count; i++)
        for (uint32_t kind = 0; kind < GPUD_TOTALS; kind++)
            levels->tenants[i].next[kind] = UINT64_MAX;
    for (uint32_t i = 0; i < levels->total_count; i++) {
        const struct gpud_level_total *total = &levels->totals[i];
        divide_total(levels, total, now);
        for (uint32_t k = 0; k < total->count; k++) {
            struct gpud_level_tenant *tenant = &levels->tenants[levels->members[total->first + k]];
            if (levels->asks[k].part >= tenant->next[total->kind])
                continue;
            tenant->next[total->kind] = levels->asks[k].part;
            if (total->kind == GPUD_TOTAL_COMPUTE)
                tenant->window_ns = total->window_ns;
        }
    }
    for (uint32_t i = 0; i < levels->tenant_count; i++) {
        struct gpud_level_tenant *tenant = &levels->tenants[i];
        for (uint32_t kind = 0; kind < GPUD_TOTALS; kind++)
            tenant->part[kind] = tenant->next[kind];
        divide_clients(levels, tenant, now);
    }
}
