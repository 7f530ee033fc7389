/* levels_look.c: what the presence pages say, as far as it can be. A client writes what it likes there; all that it gains or
 * loses by that is its own tenant's. */
#include "levels_native.h"

#include <stdbool.h>
#include <stddef.h>

#define LOAD(word) __atomic_load_n(&(word), __ATOMIC_RELAXED)
#define STRIKES 3                       /* impossible words within … */
#define STRIKES_WITHIN_NS 1000000000
#define BARRED_NS UINT64_C(10000000000) /* … for which a tenant is not believed that long */
#define LATEST_NS INT64_C(3600000000000)    /* no launch takes longer than this, and is charged afterwards */
#define MOST (UINT64_C(1) << 50)        /* no rate is higher than this */

/* Notes a word that cannot be. */
static void fault(struct gpud_level_tenant *tenant, uint64_t now)
{
    tenant->faults++;
    if (tenant->strikes == 0 || now - tenant->strike_ns > STRIKES_WITHIN_NS) {
        tenant->strikes = 0;
        tenant->strike_ns = now;
    }
    if (++tenant->strikes >= STRIKES) {
        tenant->barred_ns = now + BARRED_NS;
        tenant->barred = GPUD_BARRED_WORDS;
    }
}

/* What the client has charged since it was looked at last. Nobody charges faster than time goes by, but for launches that are
 * on their way, or whose cost was late; nobody gives back more than it has charged. What is given back of draws that nobody
 * saw was never charged to anybody: it counts for nothing, and is no fault. The hook goes by a sum of its own, which a
 * word that makes no sense at all says nothing of: what is published next must not follow it. */
static int64_t charged(struct gpud_level_client *client, struct gpud_level_tenant *tenant, uint64_t spent, uint64_t now)
{
    uint64_t elapsed = now > client->spent_at_ns ? now - client->spent_at_ns : 0;
    int64_t most = (int64_t)(elapsed / 2 * 3) + GPUD_DEBT_NS;
    int64_t least = -(int64_t)client->refundable_ns;
    int64_t delta = (int64_t)(spent - client->spent_ns);

    int64_t unseen = client->unseen_ns < GPUD_DEBT_NS ? (int64_t)client->unseen_ns : GPUD_DEBT_NS;
    if (delta < least && delta >= least - unseen) {
        client->unseen_ns -= (uint64_t)(least - delta);
        client->spent_ns -= (uint64_t)(least - delta);
        delta = least;
    }
    bool sense = delta >= least && delta <= LATEST_NS;

    if (delta > most || delta < least) {
        fault(tenant, now);
        delta = delta > most ? most : 0;
    }
    client->spent_at_ns = now;
    if (sense) {
        client->refundable_ns = (uint64_t)gpud_between(0, (int64_t)client->refundable_ns + delta, GPUD_DEBT_NS);
        client->spent_ns = spent;
    }
    return delta;
}

static void count(struct gpud_level_client *client, uint32_t device, uint64_t now[GPUD_TOTALS])
{
    const struct gpud_activity_device *activity = &client->activity->device[device];

    now[GPUD_TOTAL_LAUNCHES] = now[GPUD_TOTAL_BLOCKS] = 0;
    for (uint32_t i = 0; i < GPUD_MAX_SLOTS; i++) {
        now[GPUD_TOTAL_LAUNCHES] += LOAD(activity->slots[i].entered);
        now[GPUD_TOTAL_BLOCKS] += LOAD(activity->slots[i].blocks);
    }
    now[GPUD_TOTAL_COPIES] = LOAD(activity->copy_bytes);
}

/* Launches and blocks per 1000 s, copied bytes per second, of a client whose rates are limited. A count that goes back says
 * nothing. */
static void look_at_counts(struct gpud_level_client *client, uint32_t device, uint64_t elapsed)
{
    uint64_t now[GPUD_TOTALS] = { 0 };

    count(client, device, now);
    for (uint32_t kind = GPUD_TOTAL_LAUNCHES; kind < GPUD_TOTALS; kind++) {
        uint64_t since = client->seen && now[kind] > client->counts[kind] ? now[kind] - client->counts[kind] : 0;
        uint64_t scale = kind == GPUD_TOTAL_COPIES ? UINT64_C(1000000000) : UINT64_C(1000000000000);
        client->counts[kind] = now[kind];
        if (elapsed > 0) {
            unsigned __int128 rate = (unsigned __int128)since * scale / elapsed;
            uint64_t latest = rate > MOST ? MOST : (uint64_t)rate;
            client->used[kind] = gpud_smooth(client->used[kind], latest, elapsed, GPUD_SMOOTH_NS);
            client->latest[kind] = gpud_smooth(client->latest[kind], latest, elapsed, GPUD_LATEST_NS);
        }
    }
}

static void look_at(struct gpud_divided *levels, struct gpud_level_client *client, uint64_t elapsed, uint64_t now)
{
    struct gpud_level_tenant *tenant = &levels->tenants[client->tenant];
    uint32_t line = gpud_presence_index(&client->presence->header, levels->device);
    const struct gpud_presence_device *presence = &client->presence->device[line];
    uint32_t active = __atomic_load_n(&presence->active, __ATOMIC_ACQUIRE) != 0;
    uint32_t edges = LOAD(presence->edges), waiting = LOAD(presence->waiting) != 0, turn = LOAD(presence->turn);
    uint64_t spent = LOAD(presence->spent_ns), full = LOAD(presence->full_ns);
    bool moved = client->seen && edges != client->edges;

    client->idle_since_ns = LOAD(presence->idle_since_ns);
    if (client->flags & GPUD_CLIENT_COUNTED)
        look_at_counts(client, levels->device, elapsed);
    if (!client->seen) {                    /* what it did before anybody asked is not charged */
        client->spent_ns = spent;
        client->unseen_ns = spent;
        client->spent_at_ns = now;
        client->seen = 1;
    }
    int64_t delta = charged(client, tenant, spent, now);
    client->edges = edges;
    client->active = active;
    client->turns = turn == GPUD_TURN_HAS || turn == GPUD_TURN_ASKS;
    client->wants = active || waiting || client->turns || moved;
    if (client->wants)
        client->wanted_ns = now;
    tenant->charged_ns = gpud_between(-GPUD_DEBT_NS, tenant->charged_ns + delta, INT64_MAX / 4);
    tenant->active |= active;
    tenant->waiting |= waiting;
    tenant->turns |= client->turns;
    tenant->moved |= moved || delta > 0;
    /* It may lie ahead: what is submitted then still fills half of the window. */
    tenant->full |= full != 0 && (full > now ? full - now < GPUD_DEBT_NS : now - full <= elapsed);
}

void gpud_levels_look(struct gpud_divided *levels, uint64_t now)
{
    uint64_t elapsed = levels->at_ns != 0 && now > levels->at_ns ? now - levels->at_ns : 0;

    for (uint32_t i = 0; i < levels->tenant_count; i++) {
        struct gpud_level_tenant *tenant = &levels->tenants[i];
        tenant->active = tenant->waiting = tenant->turns = tenant->moved = tenant->full = 0;
    }
    for (uint32_t i = 0; i < levels->client_count; i++) {
        struct gpud_level_client *client = &levels->clients[i];
        client->active = client->wants = client->turns = 0;
        if (client->presence != NULL)
            look_at(levels, client, elapsed, now);
    }
}
