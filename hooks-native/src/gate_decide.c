/* gate_decide.c: the gate's decision. No clock, no state, no system call. */
#include "gate_decide.h"

#include "sys.h"

const struct gpud_presence_page *gpud_peer_above(const struct gpud_control_device *device, const struct gpud_peer *peer,
                                                 const struct gpud_presence_page *const *peers, uint32_t present_count)
{
    uint64_t generation = gpud_load(&peer->generation);
    uint32_t present = gpud_load(&peer->present);

    if (generation == 0 || present >= present_count || gpud_load(&peer->rank) >= gpud_load(&device->rank))
        return NULL;
    if (peers[present] == NULL || gpud_load(&peers[present]->header.generation) != generation)
        return NULL;
    return peers[present];
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The peer that holds longest; hold = false if none does. */
static struct gpud_decision look_at_peers(const struct gpud_control_device *device, uint32_t slot,
                                          const struct gpud_presence_page *const *peers, uint32_t present_count, uint64_t now)
{
    struct gpud_decision held = { .why = GPUD_WHY_PEER, .bit = GPUD_GATE_PREEMPT, .peer = UINT32_MAX };
    uint64_t resume_after = gpud_load(&device->resume_after_ns);
    uint32_t count = gpud_load(&device->peer_count);

    for (uint32_t i = 0; i < count && i < GPUD_MAX_PEERS; i++) {
        const struct gpud_presence_page *page = gpud_peer_above(device, &device->peers[i], peers, present_count);
        if (page == NULL)
            continue;
        uint64_t until = GPUD_NEVER;
        if (!gpud_load_acquire(&page->device[slot].active)) {
            uint64_t since = gpud_load(&page->device[slot].idle_since_ns);
            if (since == 0)             /* has never been active */
                continue;
            until = gpud_sum_to(since, resume_after);
            if (until <= now)
                continue;
        }
        if (!held.hold || until > held.until_ns) {
            held.hold = true;
            held.peer = gpud_load(&device->peers[i].present);
            held.until_ns = until;
        }
    }
    if (!held.hold && gpud_load(&device->others_active)) {
        held.hold = true;
        held.why = GPUD_WHY_OTHERS;
        held.until_ns = GPUD_NEVER;
    }
    return held;
}

struct gpud_decision gpud_decide(const struct gpud_control_page *control, uint32_t device,
                                 const struct gpud_presence_page *const *peers, uint32_t present_count,
                                 const struct gpud_own *own, uint64_t now)
{
    const struct gpud_control_device *knobs = &control->device[device];
    struct gpud_decision decision = { .why = GPUD_WHY_OPEN, .peer = UINT32_MAX };
    uint32_t gate = gpud_load(&knobs->gate);
    uint32_t limit = gpud_load(&knobs->max_inflight);
    uint64_t max_pause = gpud_load(&knobs->max_pause_ns);

    if (gate != 0 && gpud_load(&control->detach)) {
        decision.why = GPUD_WHY_DETACHED;
        return decision;
    }
    if (gate & GPUD_GATE_PAUSED)
        decision = (struct gpud_decision){ true, GPUD_WHY_PAUSED, GPUD_GATE_PAUSED, UINT32_MAX, GPUD_NEVER };
    if (!decision.hold && (gate & GPUD_GATE_PREEMPT))
        decision = look_at_peers(knobs, device, peers, present_count, now);
    if (!decision.hold && (gate & GPUD_GATE_WINDOW) && limit != 0 && own->inflight >= limit) {
        decision = (struct gpud_decision){ true, GPUD_WHY_WINDOW, GPUD_GATE_WINDOW, UINT32_MAX, GPUD_NEVER };
        max_pause = earlier(max_pause, GPUD_WINDOW_PATIENCE_NS);
    }
    if (!decision.hold)
        return (struct gpud_decision){ .why = GPUD_WHY_OPEN, .peer = UINT32_MAX };

    if (decision.bit != GPUD_GATE_PAUSED) {
        uint64_t end = own->held_since_ns == 0 ? gpud_sum_to(now, max_pause) : gpud_sum_to(own->held_since_ns, max_pause);
        if (own->passes > 0 || (own->held_since_ns != 0 && max_pause != GPUD_NEVER && end <= now)) {
            decision.hold = false;
            decision.why = GPUD_WHY_MAX_PAUSE;
            decision.until_ns = 0;
            return decision;
        }
        if (max_pause != GPUD_NEVER)
            decision.until_ns = earlier(decision.until_ns, end);
    }
    if (gpud_load(&control->failsafe) == GPUD_FAILSAFE_OPEN) {
        uint64_t end = gpud_sum_to(gpud_load(&control->lease_until_ns), gpud_load(&control->failsafe_after_ns));
        if (end <= now) {
            decision.hold = false;
            decision.why = GPUD_WHY_FAILSAFE;
            decision.until_ns = 0;
            return decision;
        }
        decision.until_ns = earlier(decision.until_ns, end);
    }
    return decision;
}
