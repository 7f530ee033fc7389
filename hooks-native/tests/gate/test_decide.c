/* test_decide.c: the gate's decision, by the table of cases that its Python model shares; and what no word of a page can do. */
#include <string.h>
#include "../check.h"
#include "gate_decide.h"
#include "sys.h"

struct peer_case {
    uint32_t rank, active;
    uint64_t idle_since_ns;
    uint32_t stale, mapped, tenant, flags, writing;
    struct gpud_gain share;
    uint64_t spent_ns;
    uint32_t waiting, turn;
    uint64_t full_ns;
};

struct gate_case {
    const char *name;
    uint32_t gate, rank, tenant;
    uint64_t resume_after_ns, max_pause_ns;
    uint32_t max_inflight, others_active, detach;
    uint64_t max_inflight_ns;
    int64_t others_lag_ns;
    uint64_t lease_until_ns;
    uint32_t failsafe;
    uint64_t failsafe_after_ns;
    uint32_t writing, soft;
    struct gpud_gain cap, share;
    uint64_t cap_burst_ns, share_turn_ns;
    uint64_t launch_rate, block_rate, copy_rate, grant_epoch, burst_ns;
    uint32_t peer_count;
    struct peer_case peers[GPUD_MAX_PEERS];
    struct gpud_own own;
    uint64_t now_ns;
    uint32_t hold, why, peer;
    uint64_t until_ns;
    uint32_t turn;
};

static const struct gate_case cases[] = {
#include "gate_cases.h"
};

static struct gpud_control_page control;
static struct gpud_presence_page pages[GPUD_MAX_PEERS];
static const struct gpud_presence_page *peers[GPUD_MAX_PEERS];

static void put_peer(const struct gate_case *it, uint32_t i, uint32_t device)
{
    const struct peer_case *peer = &it->peers[i];
    struct gpud_presence_device *presence = &pages[i].device[device];

    control.device[device].peers[i] = (struct gpud_peer){
        .rank = peer->rank, .generation = 100 + i, .present = i, .flags = peer->flags, .tenant = peer->tenant,
        .share_seq = peer->writing, .share_base_ns = peer->share.base_ns, .share_t0_ns = peer->share.t0_ns,
        .share_rate_ppm = peer->share.rate_ppm };
    pages[i].header.generation = 100 + i + (peer->stale ? 1000 : 0);
    for (uint32_t other = 0; other < GPUD_MAX_DEVICES; other++)
        pages[i].device[other] = (struct gpud_presence_device){ .active = !it->hold, .turn = it->hold ? GPUD_TURN_NONE : GPUD_TURN_ASKS,
                                                                .waiting = !it->hold };
    *presence = (struct gpud_presence_device){ .active = peer->active, .idle_since_ns = peer->idle_since_ns, .turn = peer->turn,
                                               .spent_ns = peer->spent_ns, .waiting = peer->waiting, .full_ns = peer->full_ns };
    peers[i] = peer->mapped ? &pages[i] : NULL;
}

/* All devices but the one that is asked about say the opposite, so that a look at the wrong one shows. */
static void put(const struct gate_case *it, uint32_t device)
{
    memset(&control, 0, sizeof control);
    memset(pages, 0, sizeof pages);
    memset(peers, 0, sizeof peers);
    for (uint32_t i = 0; i < GPUD_MAX_DEVICES; i++)
        control.device[i] = (struct gpud_control_device){ .gate = it->hold ? 0 : GPUD_GATE_PAUSED };
    control.device[device] = (struct gpud_control_device){
        .gate = it->gate, .rank = it->rank, .tenant = it->tenant, .peer_count = it->peer_count,
        .others_active = it->others_active, .others_lag_ns = it->others_lag_ns, .max_inflight = it->max_inflight,
        .max_inflight_ns = it->max_inflight_ns, .resume_after_ns = it->resume_after_ns, .max_pause_ns = it->max_pause_ns,
        .level_seq = it->writing, .cap_base_ns = it->cap.base_ns, .cap_t0_ns = it->cap.t0_ns, .cap_rate_ppm = it->cap.rate_ppm,
        .cap_burst_ns = it->cap_burst_ns, .cap_flags = it->soft ? GPUD_CAP_SOFT : 0, .share_base_ns = it->share.base_ns,
        .share_t0_ns = it->share.t0_ns, .share_rate_ppm = it->share.rate_ppm, .share_turn_ns = it->share_turn_ns,
        .launch_rate = it->launch_rate, .block_rate = it->block_rate, .copy_rate = it->copy_rate, .grant_epoch = it->grant_epoch, .burst_ns = it->burst_ns };
    control.lease_until_ns = it->lease_until_ns;
    control.failsafe = it->failsafe;
    control.failsafe_after_ns = it->failsafe_after_ns;
    control.detach = it->detach;
    for (uint32_t i = 0; i < it->peer_count; i++)
        put_peer(it, i, device);
}

/* Buckets of the table hold what they hold at `now`. */
static struct gpud_own own_of(const struct gate_case *it)
{
    struct gpud_own own = it->own;
    struct gpud_bucket *buckets[] = { &own.launches_left, &own.blocks_left, &own.bytes_left };

    for (uint32_t i = 0; i < 3; i++) {
        if (buckets[i]->at_ns != 0)
            buckets[i]->at_ns = it->now_ns;
    }
    return own;
}

static void try_on(const struct gate_case *it, uint32_t device)
{
    struct gpud_own own = own_of(it);

    put(it, device);
    struct gpud_decision decision = gpud_decide(&control, device, peers, GPUD_MAX_PEERS, &own, it->now_ns);
    CHECK(decision.hold == it->hold, "%s: holds %d", it->name, decision.hold);
    CHECK(decision.why == it->why, "%s: why %u, expected %u", it->name, decision.why, it->why);
    CHECK(decision.turn == it->turn, "%s: turn %u, expected %u", it->name, decision.turn, it->turn);
    if (it->hold) {
        CHECK(decision.until_ns == it->until_ns, "%s: until %llu, expected %llu", it->name, (unsigned long long)decision.until_ns,
              (unsigned long long)it->until_ns);
        CHECK(decision.peer == it->peer, "%s: peer %u, expected %u", it->name, decision.peer, it->peer);
        CHECK((decision.bit & it->gate) != 0, "%s: bit %u is not in the gate word", it->name, decision.bit);
    }
    if (it->why == GPUD_WHY_SHARE)
        CHECK(decision.look_ns > it->now_ns && decision.look_ns <= it->now_ns + GPUD_MILLISECOND, "%s: looks again in %lld ns", it->name,
              (long long)(decision.look_ns - it->now_ns));
}

/* A hold that ends by time alone ends at that very moment, and not before. */
static void ends_when_it_says(const struct gate_case *it)
{
    struct gpud_own own = own_of(it);

    if (!it->hold || it->until_ns == GPUD_NEVER || it->until_ns <= it->now_ns)
        return;
    put(it, 0);
    own.held_since_ns = own.held_since_ns != 0 ? own.held_since_ns : it->now_ns;
    struct gpud_decision before = gpud_decide(&control, 0, peers, GPUD_MAX_PEERS, &own, it->until_ns - 1);
    struct gpud_decision at = gpud_decide(&control, 0, peers, GPUD_MAX_PEERS, &own, it->until_ns);
    CHECK(before.hold && before.why == it->why, "%s: it ends before the moment that it names", it->name);
    CHECK(!at.hold || at.why != it->why || at.peer != it->peer, "%s: it still holds at the moment that it names", it->name);
}

static uint64_t random_word(uint64_t *state)
{
    static const uint64_t edges[] = { 0, 1, UINT64_MAX, INT64_MAX, (uint64_t)INT64_MAX + 1, UINT32_MAX, INT32_MAX, 1000000 };

    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state & 3 ? edges[*state >> 61] : *state;
}

/* Whatever daemon and peers write: an answer comes, at once, and it is one. */
static void nonsense(void)
{
    uint64_t state = 88172645463325252;
    struct gpud_own own;

    for (uint32_t round = 0; round < 200000; round++) {
        uint64_t *words = (uint64_t *)(void *)&control.device[0], *page = (uint64_t *)(void *)pages, *asks = (uint64_t *)(void *)&own;
        for (uint32_t i = 0; i < sizeof control.device[0] / 8; i++)
            words[i] = random_word(&state);
        for (uint32_t i = 0; i < sizeof pages / 8 && round % 16 == 0; i++)
            page[i] = random_word(&state);
        for (uint32_t i = 0; i < sizeof own / 8; i++)
            asks[i] = random_word(&state);
        own.elsewhere = asks[0] & 1, own.full = asks[1] & 1, own.gathers = asks[2] & 1, own.memory = asks[3] & 1;
        own.launches_left.level >>= 8, own.blocks_left.level >>= 8, own.bytes_left.level >>= 8;    /* ours: within bounds */
        control.device[0].peer_count = round % 20 == 0 ? UINT32_MAX : round % 18;
        for (uint32_t i = 0; i < GPUD_MAX_PEERS; i++) {
            struct gpud_peer *peer = &control.device[0].peers[i];
            peer->present = i % 5 == 0 ? (uint32_t)state : i;
            pages[i].header.generation = peer->generation;
            peer->tenant &= 3;
            if (round & 1)
                pages[i].device[0].turn &= 3;
            peers[i] = &pages[i];
        }
        control.lease_until_ns = random_word(&state);
        control.failsafe = round & 1;
        control.detach = 0;
        struct gpud_decision decision = gpud_decide(&control, 0, peers, GPUD_MAX_PEERS, &own, random_word(&state));
        if (decision.why > GPUD_WHY_LOCK || decision.turn > GPUD_TURN_ASKS || decision.entry > GPUD_MAX_PEERS ||
            (decision.hold && (decision.bit & control.device[0].gate) == 0))
            CHECK(false, "round %u: no answer: %u %u %u %u", round, decision.why, decision.turn, decision.entry, decision.bit);
    }
    check_count++;
}

enum { TENANTS = 5 };
static struct gpud_peer tenants[TENANTS];
static struct gpud_presence_page shown[TENANTS];

/* Tenant `asks` decides by what all show, and shows what it decided. */
static void decide_as(uint32_t asks)
{
    struct gpud_control_device *knobs = &control.device[0];
    struct gpud_own own = { .turn = shown[asks].device[0].turn };

    *knobs = (struct gpud_control_device){ .gate = GPUD_GATE_SHARE, .tenant = asks + 1, .others_lag_ns = INT64_MIN, .share_t0_ns = 900,
                                           .share_base_ns = tenants[asks].share_base_ns, .share_rate_ppm = 200000,
                                           .share_turn_ns = 15000000 };
    for (uint32_t i = 0; i < TENANTS; i++) {
        if (i != asks)
            knobs->peers[knobs->peer_count++] = tenants[i];
        peers[i] = &shown[i];
    }
    shown[asks].device[0].turn = gpud_decide(&control, 0, peers, TENANTS, &own, 1000000000).turn;
}

/* Of several tenants that want the device and would use it up, one gets it, whatever their lags, and whoever had it before: each decides
 * by itself from the same words. */
static void exactly_one(void)
{
    uint64_t state = 4101842887655102017;
    uint32_t none = 0, several = 0, wrong = 0;

    for (uint32_t round = 0; round < 20000; round++) {
        uint32_t holders = round % 8, passes = 0, which = 0, most = 0;
        memset(shown, 0, sizeof shown);
        for (uint32_t i = 0; i < TENANTS; i++) {
            tenants[i] = (struct gpud_peer){ .generation = 1, .present = i, .flags = GPUD_PEER_SHARE, .tenant = i + 1,
                                             .share_base_ns = (int64_t)(random_word(&state) % 40) * 1000000 - 20000000,
                                             .share_t0_ns = 900, .share_rate_ppm = 200000 };
            shown[i].header.generation = 1;
            shown[i].device[0].turn = holders & 1u << i ? GPUD_TURN_HAS : GPUD_TURN_ASKS;
            shown[i].device[0].full_ns = 999999999;     /* at 1 s: uses the device up */
            most = tenants[i].share_base_ns > tenants[most].share_base_ns ? i : most;
        }
        for (uint32_t step = 0; step < 3 * TENANTS; step++)
            decide_as((step * 3 + round) % TENANTS);
        for (uint32_t i = 0; i < TENANTS; i++) {
            bool has = shown[i].device[0].turn == GPUD_TURN_HAS;
            passes += has;
            which = has ? i : which;
        }
        none += passes == 0;
        several += passes > 1;
        /* Furthest behind, or it had the turn and is not behind it by more than a turn. */
        wrong += passes == 1 && tenants[which].share_base_ns < tenants[most].share_base_ns &&
                 (!(holders & 1u << which) || tenants[most].share_base_ns - tenants[which].share_base_ns > 3000000);
    }
    CHECK(none == 0 && several == 0 && wrong == 0, "of 20000 rounds nobody has the turn in %u, several in %u, the wrong one in %u", none,
          several, wrong);
}

int main(void)
{
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        try_on(&cases[i], 0);
        try_on(&cases[i], GPUD_MAX_DEVICES - 1);
        ends_when_it_says(&cases[i]);
    }
    memset(&control, 0, sizeof control);
    memset(pages, 0, sizeof pages);
    control.lease_until_ns = UINT64_MAX;
    exactly_one();
    nonsense();
    return check_summary("decide");
}
