/* gate_share.c: GPUD_GATE_SHARE's turns. One tenant at a time uses the device; who is next follows from the lags, so that every
 * hook comes to the same answer by itself. No clock, no state, no system call. */
#include "gate_decide.h"

#include "sys.h"

#define SOON_NS (50 * GPUD_MICROSECOND)     /* an answer may come any moment: how often to look */
#define AT_MOST_NS GPUD_MILLISECOND         /* … and how often at least */

/* One tenant of the table that wants the device, or those beyond it. */
struct wanting {
    uint32_t entry;         /* its first entry; GPUD_MAX_PEERS: beyond the table */
    uint32_t present;       /* of the process that has the turn, or else asks */
    uint32_t tenant;
    uint32_t turn;
    uint32_t rate_ppm;
    int64_t lag;
    uint64_t full_ns;       /* latest of its processes */
    bool active;            /* one of its processes is */
};

struct all {
    struct wanting of[GPUD_MAX_PEERS + 1];
    uint32_t count;
};

/* Takes one process of the tenant in. */
static void add_process(struct wanting *tenant, const struct gpud_presence_device *presence, uint32_t present)
{
    uint32_t turn = gpud_load_acquire(&presence->turn);
    uint64_t full = gpud_load(&presence->full_ns);

    tenant->active |= gpud_load_acquire(&presence->active) != 0;
    if (full > tenant->full_ns)
        tenant->full_ns = full;
    if (turn != GPUD_TURN_HAS && turn != GPUD_TURN_ASKS)
        return;
    if (tenant->turn != GPUD_TURN_HAS) {
        tenant->turn = turn;
        tenant->present = present;
    }
}

/* No tenant is that far behind: its pages hold anything, and nobody waits for it. */
static bool is_nonsense(const struct gpud_control_device *knobs, const struct gpud_gain *level, int64_t lag, uint64_t now)
{
    gpud_wide most = (gpud_wide)gpud_load(&knobs->share_turn_ns) * GPUD_LAG_TURNS;

    most = most > (gpud_wide)GPUD_LAG_MOST_NS ? most : (gpud_wide)GPUD_LAG_MOST_NS;
    return lag > most + (now > level->t0_ns ? now - level->t0_ns : 0);
}

/* The tenant whose entries begin at `*at`, which is moved behind them. False if it takes no part, wants nothing, or lies. */
static bool read_tenant(const struct gpud_control_device *knobs, uint32_t device, const struct gpud_presence_page *const *peers,
                        uint32_t present_count, uint32_t *at, uint64_t now, struct wanting *tenant)
{
    uint32_t first = *at, count = gpud_peer_count(knobs);
    gpud_wide spent = 0;

    *tenant = (struct wanting){ .entry = first, .present = UINT32_MAX, .tenant = gpud_load(&knobs->peers[first].tenant) };
    for (; *at < count && gpud_load(&knobs->peers[*at].tenant) == tenant->tenant; ++*at) {
        const struct gpud_peer *peer = &knobs->peers[*at];
        uint32_t flags = gpud_load(&peer->flags);
        const struct gpud_presence_page *page = gpud_peer_known(peer, peers, present_count);
        if (page == NULL || !(flags & GPUD_PEER_SHARE) || flags & GPUD_PEER_OWN)
            continue;
        spent += gpud_load(&gpud_peer_at(page, device)->spent_ns);
        add_process(tenant, gpud_peer_at(page, device), gpud_load(&peer->present));
    }
    if (*at == first)       /* the entry has changed in between */
        ++*at;
    struct gpud_gain level = gpud_peer_level_read(&knobs->peers[first]);
    if (tenant->turn == GPUD_TURN_NONE || level.rate_ppm == 0)
        return false;
    tenant->rate_ppm = level.rate_ppm;
    tenant->lag = gpud_lag_at(&level, spent, now);
    return !is_nonsense(knobs, &level, tenant->lag, now);
}

static void read_all(const struct gpud_control_device *knobs, uint32_t device, const struct gpud_presence_page *const *peers,
                     uint32_t present_count, uint32_t ignored, uint64_t now, struct all *all)
{
    uint32_t count = gpud_peer_count(knobs);
    int64_t beyond = gpud_load(&knobs->others_lag_ns);

    all->count = 0;
    for (uint32_t at = 0; at < count;) {
        uint32_t first = at;
        if (read_tenant(knobs, device, peers, present_count, &at, now, &all->of[all->count]) && !(ignored & 1u << first))
            all->count++;
    }
    if (beyond != INT64_MIN && !(ignored & 1u << GPUD_MAX_PEERS))
        all->of[all->count++] = (struct wanting){ .entry = GPUD_MAX_PEERS, .present = UINT32_MAX, .tenant = UINT32_MAX,
                                                  .turn = GPUD_TURN_ASKS, .rate_ppm = 1000000, .lag = beyond };
}

static bool own_has_turn(const struct gpud_control_device *knobs, uint32_t device, const struct gpud_presence_page *const *peers,
                         uint32_t present_count, uint32_t own_turn)
{
    uint32_t count = gpud_peer_count(knobs);
    bool has = own_turn == GPUD_TURN_HAS;

    for (uint32_t i = 0; i < count && !has; i++) {
        const struct gpud_presence_page *page = gpud_load(&knobs->peers[i].flags) & GPUD_PEER_OWN
                                                    ? gpud_peer_known(&knobs->peers[i], peers, present_count) : NULL;
        has = page != NULL && gpud_load_acquire(&gpud_peer_at(page, device)->turn) == GPUD_TURN_HAS;
    }
    return has;
}

/* a − b > by, whatever they are. */
static bool ahead(int64_t a, int64_t b, uint64_t by)
{
    return (gpud_wide)a - b > (gpud_wide)by;
}

/* Held by `who`; looked at again when the own lag may be ahead of `behind`'s by `by`, at the earliest: the other's falls no faster,
 * relative to this one, than if it has the whole device. */
static void held_by(struct gpud_decision *decision, const struct wanting *who, const struct wanting *behind, int64_t lag, uint64_t by,
                    uint64_t now)
{
    gpud_wide missing = (gpud_wide)behind->lag - lag + (gpud_wide)by, wait = missing * behind->rate_ppm / 1000000;

    wait = wait < (gpud_wide)SOON_NS ? SOON_NS : wait > (gpud_wide)AT_MOST_NS ? AT_MOST_NS : wait;
    decision->hold = true;
    decision->peer = who->present;
    decision->entry = who->entry;
    decision->look_ns = gpud_sum_to(now, (uint64_t)wait);
}

/* Until when the tenant keeps the device busy: whoever has the turn, as far as it says; whoever has lost it, until what it had
 * submitted is proven finished. 0: it does not. */
static uint64_t busy_until(const struct wanting *it, uint64_t turn_ns, uint64_t now)
{
    if (it->turn == GPUD_TURN_ASKS)
        return it->active ? GPUD_NEVER : 0;
    uint64_t grace = turn_ns / GPUD_FULL_PART;
    uint64_t until = gpud_sum_to(it->full_ns, grace > GPUD_FULL_LEAST_NS ? grace : GPUD_FULL_LEAST_NS);
    return it->full_ns == 0 || until <= now || it->full_ns > gpud_sum_to(now, GPUD_FULL_MOST_NS) ? 0 : until;
}

static bool is_before(const struct wanting *it, uint32_t tenant, int64_t lag)
{
    return it->lag > lag || (it->lag == lag && it->tenant < tenant);
}

/* Does the tenant keep the turn that it has? It is lost to whoever is further behind by more than a turn. Where two took it at once, it is
 * that one's who is further behind. */
static bool keeps(const struct all *all, uint32_t tenant, int64_t lag, uint64_t turn_ns, uint64_t now)
{
    for (uint32_t i = 0; i < all->count; i++) {
        const struct wanting *it = &all->of[i];
        if (ahead(it->lag, lag, turn_ns) ||
            (it->turn == GPUD_TURN_HAS && busy_until(it, turn_ns, now) != 0 && is_before(it, tenant, lag)))
            return false;
    }
    return true;
}

/* The turn is another's, or nobody's. First the one that is furthest behind among those who ask; of equals, the lower tenant. It
 * takes the turn as soon as nobody keeps the device busy: it fills in where whoever has the turn does not, and whoever loses it to this
 * one gives it up by itself, with its next launch. */
static void take(const struct all *all, uint32_t tenant, int64_t lag, uint64_t turn_ns, uint64_t now, struct gpud_decision *decision)
{
    const struct wanting *first = NULL, *busy = NULL;

    for (uint32_t i = 0; i < all->count; i++) {
        const struct wanting *it = &all->of[i];
        if (it->turn == GPUD_TURN_ASKS && is_before(it, tenant, lag) && (first == NULL || is_before(it, first->tenant, first->lag)))
            first = it;
    }
    for (uint32_t i = 0; i < all->count && busy == NULL; i++) {
        if (&all->of[i] != first && busy_until(&all->of[i], turn_ns, now) != 0)
            busy = &all->of[i];
    }
    if (first != NULL) {        /* it waits itself, or is about to go on */
        held_by(decision, busy != NULL ? busy : first, first, lag, 0, now);
    } else if (busy != NULL) {
        held_by(decision, busy, busy, lag, busy->turn == GPUD_TURN_HAS ? turn_ns : 0, now);
        decision->until_ns = busy_until(busy, turn_ns, now);
        if (busy->turn == GPUD_TURN_ASKS)       /* it is finished any moment */
            decision->look_ns = gpud_sum_to(now, SOON_NS);
        if (decision->until_ns < decision->look_ns)
            decision->look_ns = decision->until_ns;
    }
}

struct gpud_decision gpud_decide_turn(const struct gpud_control_device *knobs, uint32_t device,
                                      const struct gpud_presence_page *const *peers, uint32_t present_count,
                                      const struct gpud_levels *levels, const struct gpud_own *own, uint64_t now)
{
    struct gpud_decision decision = { .why = GPUD_WHY_SHARE, .bit = GPUD_GATE_SHARE, .peer = UINT32_MAX, .until_ns = GPUD_NEVER,
                                      .turn = GPUD_TURN_HAS };
    struct all all;

    if (levels->share.rate_ppm == 0) {          /* takes no part */
        decision.turn = GPUD_TURN_NONE;
        return decision;
    }
    gpud_wide spent = gpud_own_spent(knobs, device, peers, present_count, own->spent_ns);
    int64_t lag = gpud_lag_at(&levels->share, spent, now);
    uint32_t tenant = gpud_load(&knobs->tenant);
    read_all(knobs, device, peers, present_count, own->ignored, now, &all);
    if (!own_has_turn(knobs, device, peers, present_count, own->turn) || !keeps(&all, tenant, lag, levels->share_turn_ns, now))
        take(&all, tenant, lag, levels->share_turn_ns, now, &decision);
    if (decision.hold)
        decision.turn = GPUD_TURN_ASKS;
    return decision;
}
