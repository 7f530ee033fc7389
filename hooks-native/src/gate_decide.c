/* gate_decide.c: the gate's decision. No clock, no state, no system call. */
#include "gate_decide.h"

#include "sys.h"

static const struct gpud_decision passes = { .why = GPUD_WHY_OPEN, .peer = UINT32_MAX };

static struct gpud_decision held_for(uint32_t why, uint32_t bit, uint64_t until_ns)
{
    return (struct gpud_decision){ .hold = true, .why = why, .bit = bit, .peer = UINT32_MAX, .until_ns = until_ns };
}

const struct gpud_presence_page *gpud_peer_above(const struct gpud_control_device *device, const struct gpud_peer *peer,
                                                 const struct gpud_presence_page *const *peers, uint32_t present_count)
{
    if (gpud_load(&peer->rank) >= gpud_load(&device->rank))
        return NULL;
    return gpud_peer_known(peer, peers, present_count);
}

struct gpud_allowance gpud_launch_allowance(const struct gpud_control_device *knobs)
{
    return (struct gpud_allowance){ .rate = gpud_load(&knobs->launch_rate), .burst_ns = gpud_load(&knobs->burst_ns) };
}

struct gpud_allowance gpud_block_allowance(const struct gpud_control_device *knobs)
{
    return (struct gpud_allowance){ .rate = gpud_load(&knobs->block_rate), .burst_ns = gpud_load(&knobs->burst_ns) };
}

struct gpud_allowance gpud_copy_allowance(const struct gpud_control_device *knobs)
{
    return (struct gpud_allowance){ .rate = gpud_load(&knobs->copy_rate), .per_second = true,
                                    .burst_ns = gpud_load(&knobs->burst_ns) };
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The peer that holds longest. */
static struct gpud_decision look_at_peers(const struct gpud_control_device *knobs, uint32_t device,
                                          const struct gpud_presence_page *const *peers, uint32_t present_count, uint64_t now)
{
    struct gpud_decision held = passes;
    uint64_t resume_after = gpud_load(&knobs->resume_after_ns);
    uint32_t count = gpud_peer_count(knobs);

    for (uint32_t i = 0; i < count; i++) {
        const struct gpud_presence_page *page = gpud_peer_above(knobs, &knobs->peers[i], peers, present_count);
        if (page == NULL)
            continue;
        const struct gpud_presence_device *peer = gpud_peer_at(page, device);
        uint64_t until = GPUD_NEVER;
        if (!gpud_load_acquire(&peer->active) && gpud_load_acquire(&peer->turn) != GPUD_TURN_ASKS) {
            uint64_t since = gpud_load(&peer->idle_since_ns);
            if (since == 0)             /* has never been active */
                continue;
            until = gpud_sum_to(since, resume_after);
            if (until <= now)
                continue;
        }
        if (!held.hold || until > held.until_ns) {
            held = held_for(GPUD_WHY_PEER, GPUD_GATE_PREEMPT, until);
            held.peer = gpud_load(&knobs->peers[i].present);
        }
    }
    if (!held.hold && gpud_load(&knobs->others_active))
        held = held_for(GPUD_WHY_OTHERS, GPUD_GATE_PREEMPT, GPUD_NEVER);
    return held;
}

/* Another tenant's process is active on the device, or waits at its gate. */
static bool somebody_wants(const struct gpud_control_device *knobs, uint32_t device,
                           const struct gpud_presence_page *const *peers, uint32_t present_count)
{
    uint32_t count = gpud_peer_count(knobs);

    for (uint32_t i = 0; i < count; i++) {
        const struct gpud_presence_page *page = gpud_peer_known(&knobs->peers[i], peers, present_count);
        if (page != NULL && !(gpud_load(&knobs->peers[i].flags) & GPUD_PEER_OWN) &&
            (gpud_load_acquire(&gpud_peer_at(page, device)->active) || gpud_load(&gpud_peer_at(page, device)->waiting)))
            return true;
    }
    return gpud_load(&knobs->others_active) || gpud_load(&knobs->others_lag_ns) != INT64_MIN;
}

/* Under turns, a tenant that its cap has stopped goes on with what comes in a turn, or half of what is kept: kernel by kernel, as its
 * level trickles in, it would pay for a switch with each, and never have the device to itself for a measurement. */
static gpud_wide enough_to_go_on(const struct gpud_control_device *knobs, const struct gpud_levels *levels, const struct gpud_own *own)
{
    if (!own->gathers || !(gpud_load(&knobs->gate) & GPUD_GATE_SHARE))
        return 0;
    gpud_wide comes = (gpud_wide)levels->share_turn_ns * levels->cap.rate_ppm / 1000000, half = levels->cap_burst_ns / 2;
    return comes < half ? comes : half;
}

static struct gpud_decision look_at_cap(const struct gpud_control_device *knobs, uint32_t device,
                                        const struct gpud_presence_page *const *peers, uint32_t present_count,
                                        const struct gpud_levels *levels, const struct gpud_own *own, uint64_t now)
{
    gpud_wide spent = gpud_own_spent(knobs, device, peers, present_count, own->spent_ns) + own->forfeit_ns;

    spent += enough_to_go_on(knobs, levels, own);
    if (gpud_level_at(&levels->cap, spent, now) > 0)
        return passes;
    if (levels->cap_flags & GPUD_CAP_SOFT && !somebody_wants(knobs, device, peers, present_count))
        return passes;
    return held_for(GPUD_WHY_BUDGET, GPUD_GATE_BUDGET, gpud_level_positive_at(&levels->cap, spent));
}

static struct gpud_decision look_at_rates(const struct gpud_control_device *knobs, const struct gpud_own *own, uint64_t now)
{
    struct gpud_allowance launches = gpud_launch_allowance(knobs), blocks = gpud_block_allowance(knobs);
    struct gpud_bucket left = own->launches_left, blocks_left = own->blocks_left;

    gpud_bucket_fill(&left, &launches, now);
    gpud_bucket_fill(&blocks_left, &blocks, now);
    uint64_t due = gpud_bucket_due(&left, &launches, 1, now), blocks_due = gpud_bucket_due(&blocks_left, &blocks, own->blocks, now);
    due = blocks_due > due ? blocks_due : due;
    return due <= now ? passes : held_for(GPUD_WHY_RATE, GPUD_GATE_RATE, due);
}

static struct gpud_decision look_at_copy(const struct gpud_control_device *knobs, const struct gpud_own *own, uint64_t now)
{
    struct gpud_allowance bytes = gpud_copy_allowance(knobs);
    struct gpud_bucket left = own->bytes_left;

    gpud_bucket_fill(&left, &bytes, now);
    uint64_t due = gpud_bucket_due(&left, &bytes, own->bytes, now);
    return due <= now ? passes : held_for(GPUD_WHY_RATE, GPUD_GATE_COPY, due);
}

static bool window_is_full(const struct gpud_control_device *knobs, const struct gpud_own *own)
{
    uint32_t launches = gpud_load(&knobs->max_inflight);
    uint64_t ns = gpud_load(&knobs->max_inflight_ns);

    if (own->full || (launches != 0 && own->inflight >= launches))
        return true;
    return ns != 0 && own->inflight > 0 && gpud_sum_to(own->inflight_ns, own->cost_ns) > ns;
}

/* What max_pause makes of a hold: it passes, or holds no longer than that. */
static struct gpud_decision until_max_pause(struct gpud_decision held, uint64_t max_pause, const struct gpud_own *own, uint64_t now)
{
    uint64_t end = gpud_sum_to(own->held_since_ns == 0 ? now : own->held_since_ns, max_pause);

    if (own->passes > 0 || own->pass_ns > 0 || (own->held_since_ns != 0 && max_pause != GPUD_NEVER && end <= now)) {
        held.hold = false;
        held.why = GPUD_WHY_MAX_PAUSE;
    } else if (max_pause != GPUD_NEVER) {
        held.until_ns = earlier(held.until_ns, end);
    }
    return held;
}

static bool is_granted(const struct gpud_control_device *knobs, uint32_t gate, const struct gpud_own *own)
{
    return !(gate & GPUD_GATE_GRANT) || (own->epoch != 0 && own->epoch == gpud_load_acquire(&knobs->grant_epoch));
}

/* What holds, in order. A peer above and the own window are overruled by max_pause, what limits the tenant is not: it costs others. */
static struct gpud_decision look(const struct gpud_control_device *knobs, uint32_t gate, uint32_t device,
                                 const struct gpud_presence_page *const *peers, uint32_t present_count,
                                 const struct gpud_own *own, uint64_t now)
{
    struct gpud_decision overruled = passes, held = passes;
    uint64_t max_pause = gpud_load(&knobs->max_pause_ns);
    uint32_t turn = GPUD_TURN_NONE;
    struct gpud_levels levels;

    if ((own->bytes != 0 || own->memory) && !is_granted(knobs, gate, own))
        return held_for(GPUD_WHY_LOCK, GPUD_GATE_GRANT, GPUD_NEVER);
    if (own->bytes != 0 || own->memory)
        return own->bytes != 0 && gate & GPUD_GATE_COPY ? look_at_copy(knobs, own, now) : passes;
    if (gate & GPUD_GATE_PAUSED)
        return held_for(GPUD_WHY_PAUSED, GPUD_GATE_PAUSED, GPUD_NEVER);
    if (gate & GPUD_GATE_PREEMPT)
        held = look_at_peers(knobs, device, peers, present_count, now);
    if (held.hold) {
        held = until_max_pause(held, max_pause, own, now);
        if (held.hold || own->elsewhere)
            return held;
        overruled = held;
    }
    if (own->elsewhere)
        return passes;
    if (!is_granted(knobs, gate, own))
        return held_for(GPUD_WHY_LOCK, GPUD_GATE_GRANT, GPUD_NEVER);
    if (gate & (GPUD_GATE_BUDGET | GPUD_GATE_SHARE))
        levels = gpud_levels_read(knobs);
    if (gate & GPUD_GATE_BUDGET) {
        held = look_at_cap(knobs, device, peers, present_count, &levels, own, now);
        if (held.hold)
            return held;
    }
    if (gate & GPUD_GATE_RATE) {
        held = look_at_rates(knobs, own, now);
        if (held.hold)
            return held;
    }
    if (gate & GPUD_GATE_SHARE) {
        held = gpud_decide_turn(knobs, device, peers, present_count, &levels, own, now);
        if (held.hold)
            return held;
        turn = held.turn;
    }
    if (gate & GPUD_GATE_WINDOW && overruled.why == GPUD_WHY_OPEN && window_is_full(knobs, own)) {
        held = held_for(GPUD_WHY_WINDOW, GPUD_GATE_WINDOW, GPUD_NEVER);
        overruled = until_max_pause(held, earlier(max_pause, GPUD_WINDOW_PATIENCE_NS), own, now);
    }
    overruled.turn = turn;
    return overruled;
}

struct gpud_decision gpud_decide(const struct gpud_control_page *control, uint32_t device,
                                 const struct gpud_presence_page *const *peers, uint32_t present_count,
                                 const struct gpud_own *own, uint64_t now)
{
    const struct gpud_control_device *knobs = &control->device[device];
    uint32_t gate = gpud_load(&knobs->gate);
    struct gpud_decision decision = passes;

    if (gate == 0)
        return decision;
    if (gpud_load(&control->detach)) {
        decision.why = GPUD_WHY_DETACHED;
        return decision;
    }
    decision = look(knobs, gate, device, peers, present_count, own, now);
    /* Without the lock nothing runs, whatever the page says of failsafes: memory may be out, or another tenant's be in. */
    if (!decision.hold || decision.why == GPUD_WHY_LOCK || gpud_load(&control->failsafe) != GPUD_FAILSAFE_OPEN)
        return decision;
    uint64_t end = gpud_sum_to(gpud_load(&control->lease_until_ns), gpud_load(&control->failsafe_after_ns));
    if (end <= now && !own->elsewhere && !is_granted(knobs, gate, own))     /* what it overrules was looked at first */
        return held_for(GPUD_WHY_LOCK, GPUD_GATE_GRANT, GPUD_NEVER);
    if (end <= now) {
        decision.hold = false;
        decision.why = GPUD_WHY_FAILSAFE;
        decision.turn = GPUD_TURN_NONE;
    }
    decision.until_ns = earlier(decision.until_ns, end);
    return decision;
}
