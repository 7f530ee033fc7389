/* test_decide.c: the gate's decision, by the table of cases that its Python model shares. */
#include <string.h>
#include "../check.h"
#include "gate_decide.h"

struct peer_case {
    uint32_t rank, active;
    uint64_t idle_since_ns;
    uint32_t stale, mapped;
};

struct gate_case {
    const char *name;
    uint32_t gate, rank;
    uint64_t resume_after_ns, max_pause_ns;
    uint32_t max_inflight, others_active, detach;
    uint64_t lease_until_ns;
    uint32_t failsafe;
    uint64_t failsafe_after_ns;
    uint32_t peer_count;
    struct peer_case peers[GPUD_MAX_PEERS];
    uint64_t held_since_ns;
    uint32_t passes, inflight;
    uint64_t now_ns;
    uint32_t hold, why, peer;
    uint64_t until_ns;
};

static const struct gate_case cases[] = {
#include "gate_cases.h"
};

/* All devices but the one that is asked about say the opposite, so that a look at the wrong one shows. */
static void try_on(const struct gate_case *it, uint32_t device)
{
    static struct gpud_control_page control;
    static struct gpud_presence_page pages[GPUD_MAX_PEERS];
    const struct gpud_presence_page *peers[GPUD_MAX_PEERS] = { NULL };
    struct gpud_own own = { .held_since_ns = it->held_since_ns, .passes = it->passes, .inflight = it->inflight };

    memset(&control, 0, sizeof control);
    memset(pages, 0, sizeof pages);
    for (uint32_t i = 0; i < GPUD_MAX_DEVICES; i++)
        control.device[i] = (struct gpud_control_device){ .gate = it->hold ? 0 : GPUD_GATE_PAUSED };
    struct gpud_control_device *knobs = &control.device[device];
    *knobs = (struct gpud_control_device){ .gate = it->gate, .rank = it->rank, .peer_count = it->peer_count,
                                           .others_active = it->others_active, .max_inflight = it->max_inflight,
                                           .resume_after_ns = it->resume_after_ns, .max_pause_ns = it->max_pause_ns };
    control.lease_until_ns = it->lease_until_ns;
    control.failsafe = it->failsafe;
    control.failsafe_after_ns = it->failsafe_after_ns;
    control.detach = it->detach;
    for (uint32_t i = 0; i < it->peer_count; i++) {
        const struct peer_case *peer = &it->peers[i];
        knobs->peers[i] = (struct gpud_peer){ .rank = peer->rank, .generation = 100 + i, .present = i };
        pages[i].header.generation = 100 + i + (peer->stale ? 1000 : 0);
        for (uint32_t other = 0; other < GPUD_MAX_DEVICES; other++)
            pages[i].device[other].active = !it->hold;
        pages[i].device[device].active = peer->active;
        pages[i].device[device].idle_since_ns = peer->idle_since_ns;
        peers[i] = peer->mapped ? &pages[i] : NULL;
    }
    struct gpud_decision decision = gpud_decide(&control, device, peers, GPUD_MAX_PEERS, &own, it->now_ns);
    CHECK(decision.hold == it->hold, "%s: holds %d", it->name, decision.hold);
    CHECK(decision.why == it->why, "%s: why %u, expected %u", it->name, decision.why, it->why);
    if (it->hold) {
        CHECK(decision.until_ns == it->until_ns, "%s: until %llu, expected %llu", it->name, (unsigned long long)decision.until_ns,
              (unsigned long long)it->until_ns);
        CHECK(decision.peer == it->peer, "%s: peer %u, expected %u", it->name, decision.peer, it->peer);
        CHECK((decision.bit & it->gate) != 0, "%s: bit %u is not in the gate word", it->name, decision.bit);
    }
}

int main(void)
{
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        try_on(&cases[i], 0);
        try_on(&cases[i], GPUD_MAX_DEVICES - 1);
    }
    return check_summary("decide");
}
