/* levels_publish.c: what a step has found, into the control pages. */
#include "levels_native.h"

#include <stdbool.h>
#include <stddef.h>

#define STORE(word, value) __atomic_store_n(&(word), (value), __ATOMIC_RELAXED)
#define STORE_RELEASE(word, value) __atomic_store_n(&(word), (value), __ATOMIC_RELEASE)

/* The reader sees the words between these two as a whole, or that they change. */
static void begin(uint32_t *seq)
{
    STORE(*seq, *seq + 1);
    __atomic_thread_fence(__ATOMIC_RELEASE);
}

static void end(uint32_t *seq)
{
    STORE_RELEASE(*seq, *seq + 1);
}

/* What the own tenant has charged so far, in the pages that this client reads: its own, and those in its table. What others of
 * its processes have charged is in the level. */
static uint64_t own_spent(const struct gpud_divided *levels, const struct gpud_level_client *reader)
{
    uint64_t spent = reader->spent_ns;

    for (uint32_t i = 0; i < reader->peer_count; i++) {
        const struct gpud_level_client *peer = &levels->clients[reader->peers[i]];
        spent += peer->tenant == reader->tenant ? peer->spent_ns : 0;
    }
    return spent;
}

static int64_t share_base(const struct gpud_level_tenant *tenant, uint64_t spent)
{
    return (int64_t)((uint64_t)(tenant->share_ns - tenant->charged_ns) + spent);
}

/* As much as may be taken from the levels at once. */
static uint64_t draw(const struct gpud_divided *levels, const struct gpud_level_tenant *tenant)
{
    int64_t most = INT64_MAX;

    if (tenant->cap_ppm != GPUD_NONE)
        most = (int64_t)(tenant->burst_ns / 16);
    if (tenant->unit != GPUD_NONE) {
        uint64_t period = levels->pools[levels->units[tenant->unit].pool].period_ns;
        int64_t part = gpud_part((int64_t)period, tenant->share_ppm) / 16;
        most = part < most ? part : most;
    }
    return most == INT64_MAX ? GPUD_DRAW_FREE_NS : (uint64_t)gpud_between(GPUD_DRAW_LEAST_NS, most, GPUD_DRAW_MOST_NS);
}

static void publish_own(struct gpud_divided *levels, const struct gpud_level_client *client, struct gpud_control_device *to)
{
    const struct gpud_level_tenant *tenant = &levels->tenants[client->tenant];
    uint64_t spent = own_spent(levels, client);
    bool capped = tenant->cap_ppm != GPUD_NONE, turns = tenant->unit != GPUD_NONE;
    int64_t cap = capped ? tenant->cap_ns - tenant->charged_ns : GPUD_UNCAPPED_NS;

    begin(&to->level_seq);
    STORE(to->cap_rate_ppm, capped ? tenant->cap_ppm : 1000000);
    STORE(to->cap_base_ns, (int64_t)((uint64_t)cap + spent));
    STORE(to->cap_t0_ns, tenant->at_ns);
    STORE(to->cap_burst_ns, capped ? tenant->burst_ns : (uint64_t)GPUD_UNCAPPED_NS);
    STORE(to->cap_flags, tenant->cap_flags);
    STORE(to->share_rate_ppm, turns ? tenant->share_ppm : 0);
    STORE(to->share_base_ns, turns ? share_base(tenant, spent) : 0);
    STORE(to->share_t0_ns, tenant->at_ns);
    STORE(to->share_turn_ns, turns ? levels->pools[levels->units[tenant->unit].pool].turn_ns : 0);
    STORE(to->draw_ns, draw(levels, tenant));
    end(&to->level_seq);
}

static bool take_turns(const struct gpud_divided *levels, const struct gpud_level_tenant *a, const struct gpud_level_tenant *b)
{
    return a != b && a->unit != GPUD_NONE && b->unit != GPUD_NONE && b->trusted &&
           levels->units[a->unit].pool == levels->units[b->unit].pool;
}

static void publish_peer(struct gpud_peer *peer, const struct gpud_level_tenant *tenant, bool turns, int64_t base)
{
    if (!turns && peer->share_rate_ppm == 0)
        return;
    begin(&peer->share_seq);
    STORE(peer->share_base_ns, turns ? base : 0);
    STORE(peer->share_t0_ns, tenant->at_ns);
    STORE(peer->share_rate_ppm, turns ? tenant->share_ppm : 0);
    end(&peer->share_seq);
}

/* Processes of one tenant are next to each other in the table; its level there counts what these have charged. */
static void publish_peers(const struct gpud_divided *levels, const struct gpud_level_client *client, struct gpud_control_device *to)
{
    const struct gpud_level_tenant *own = &levels->tenants[client->tenant];

    for (uint32_t i = 0, next; i < client->peer_count; i = next) {
        uint32_t row = levels->clients[client->peers[i]].tenant;
        const struct gpud_level_tenant *tenant = &levels->tenants[row];
        uint64_t spent = 0;
        for (next = i; next < client->peer_count && levels->clients[client->peers[next]].tenant == row; next++)
            spent += levels->clients[client->peers[next]].spent_ns;
        for (uint32_t k = i; k < next; k++)
            publish_peer(&to->peers[k], tenant, take_turns(levels, own, tenant), share_base(tenant, spent));
    }
}

/* Its parts of what is limited by count. They count as a change of the page: hooks may keep what they have read of them. */
static void publish_rates(const struct gpud_level_client *client, struct gpud_control_device *to)
{
    struct gpud_control_page *page = client->control;

    if (to->launch_rate == client->part[GPUD_TOTAL_LAUNCHES] && to->block_rate == client->part[GPUD_TOTAL_BLOCKS] &&
        to->copy_rate == client->part[GPUD_TOTAL_COPIES])
        return;
    STORE(to->launch_rate, client->part[GPUD_TOTAL_LAUNCHES]);
    STORE(to->block_rate, client->part[GPUD_TOTAL_BLOCKS]);
    STORE(to->copy_rate, client->part[GPUD_TOTAL_COPIES]);
    STORE_RELEASE(to->generation, to->generation + 1);
    STORE_RELEASE(page->header.generation, page->header.generation + 1);
}

static bool may_hold(const struct gpud_level_client *client, const struct gpud_level_client *other, uint64_t now)
{
    if (!(client->flags & GPUD_CLIENT_LOOKS) || other->presence == NULL || other->rank >= client->rank)
        return false;
    return other->active || gpud_within(now, other->idle_since_ns, client->resume_after_ns);
}

/* Whoever is not in the client's table, in three words. Of tenants that take no turns with it, `lag` says only that they are
 * there: a soft cap holds while somebody else wants the device. */
static void publish_beyond(struct gpud_divided *levels, struct gpud_level_client *client, uint32_t mark,
                           struct gpud_control_device *to, uint64_t now)
{
    const struct gpud_level_tenant *own = &levels->tenants[client->tenant];
    int64_t lag = INT64_MIN;
    uint32_t active = 0, wants = 0;

    for (uint32_t i = 0; i < client->peer_count; i++)
        levels->clients[client->peers[i]].mark = mark;
    client->mark = mark;
    for (uint32_t i = 0; i < levels->client_count; i++) {
        const struct gpud_level_client *other = &levels->clients[i];
        const struct gpud_level_tenant *tenant = &levels->tenants[other->tenant];
        if (other->mark == mark)
            continue;
        wants |= other->wants;
        active |= may_hold(client, other, now);
        if (other->turns && take_turns(levels, own, tenant))
            lag = tenant->lag_ns > lag ? tenant->lag_ns : lag;
        else if (other->wants && own->unit == GPUD_NONE && own != tenant)
            lag = 0;
    }
    if (wants)
        STORE(to->others_edges, to->others_edges + 1);
    if (to->others_lag_ns != lag)
        STORE(to->others_lag_ns, lag);
    if (to->others_active != active)
        STORE_RELEASE(to->others_active, active);
}

void gpud_levels_publish(struct gpud_divided *levels, uint64_t now)
{
    for (uint32_t i = 0; i < levels->client_count; i++)
        levels->clients[i].mark = GPUD_NONE;
    for (uint32_t i = 0; i < levels->tenant_count; i++)
        levels->tenants[i].share_ns = gpud_part(levels->tenants[i].lag_ns, levels->tenants[i].share_ppm);
    for (uint32_t i = 0; i < levels->client_count; i++) {
        struct gpud_level_client *client = &levels->clients[i];
        if (client->control == NULL)
            continue;
        struct gpud_control_device *to = &client->control->device[levels->device];
        publish_own(levels, client, to);
        publish_peers(levels, client, to);
        publish_rates(client, to);
        publish_beyond(levels, client, i, to, now);
    }
}
