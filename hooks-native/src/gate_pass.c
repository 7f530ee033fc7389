/* gate_pass.c: a launch on the slow path asks, waits until it may pass, and takes what it may. */
#include "budget.h"
#include "gate_memory.h"
#include "lock.h"
#include "spent.h"
#include "turn.h"
#include "wait.h"
#include "watch.h"

/* Passes that max_pause lets through, by launches or by GPU time, which all held threads share; a launch that passes by itself
 * ends them. */
static void count_passes(struct gpud_thread *thread, const struct gpud_decision *decision, const struct gpud_ask *ask)
{
    const struct gpud_control_device *knobs = &gpud_control()->device[thread->device];

    if (decision->why != GPUD_WHY_MAX_PAUSE) {
        thread->passes = 0;
        thread->pass_ns = 0;
        return;
    }
    if (thread->passes == 0 && thread->pass_ns == 0) {
        uint32_t launches = gpud_load(&knobs->pass_launches), held = gpud_load(&gpud_holding);
        thread->pass_ns = ask->charged ? gpud_load(&knobs->pass_ns) / (held > 0 ? held : 1) : 0;
        thread->passes = thread->pass_ns != 0 ? 0 : launches > 0 ? launches : 1;
    }
    if (thread->passes > 0)
        thread->passes--;
    thread->pass_ns -= ask->cost_ns < thread->pass_ns ? ask->cost_ns : thread->pass_ns;
    gpud_add(&gpud_activity()->device[thread->device].passed, 1);
}

/* A client is held as a whole: on all devices it uses while one of them is claimed, else a rank that waits for its peer spins
 * on one device while the peer is held on another. What limits it is each device's own. */
static struct gpud_decision decide(const struct gpud_thread *thread, const struct gpud_own *own, uint64_t now)
{
    struct gpud_decision first = gpud_decide(gpud_control(), thread->device, gpud_present, GPUD_MAX_PRESENT, own, now);
    uint32_t others = gpud_load(&gpud_devices_used) & ~(1u << thread->device);
    struct gpud_own away = { .elsewhere = true, .held_since_ns = own->held_since_ns, .passes = own->passes, .pass_ns = own->pass_ns };

    while (!first.hold && others != 0) {
        uint32_t device = (uint32_t)__builtin_ctz(others);
        struct gpud_decision other = gpud_decide(gpud_control(), device, gpud_present, GPUD_MAX_PRESENT, &away, now);
        if (other.hold || (first.why == GPUD_WHY_OPEN && other.why != GPUD_WHY_OPEN)) {
            other.turn = first.turn;
            first = other;
        }
        others &= others - 1;
    }
    return first;
}

/* What the thread brings to the decision. */
static struct gpud_own bring(struct gpud_thread *thread, const struct gpud_ask *ask, const struct gpud_hold *hold, uint64_t now)
{
    uint32_t device = thread->device;
    struct gpud_own own = { .epoch = gpud_load_acquire(&gpud_taken[thread->device]), .held_since_ns = hold->since_ns, .passes = thread->passes, .pass_ns = thread->pass_ns,
                            .cost_ns = ask->cost_ns, .blocks = ask->blocks, .full = hold->full,
                            .spent_ns = gpud_spent(device),
                            .turn = gpud_load(&gpud_presence_at(device)->turn) };

    if (ask->gate & GPUD_GATE_BUDGET) {
        own.forfeit_ns = gpud_forfeit(device, now);
        own.gathers = gpud_gathers(device);
    }
    if (ask->gate & GPUD_GATE_RATE)
        gpud_rate_read(device, &own);
    if (ask->gate & GPUD_GATE_SHARE)
        own.ignored = gpud_turn_ignored(device, now);
    if (gpud_ask_windowed(ask) && !gpud_grant_fits(thread, ask)) {
        struct gpud_inflight inflight = gpud_window_look(device, &ask->window, ask->cost_ns, hold->since_ns == 0 || hold->lead);
        own.inflight = inflight.launches;
        own.inflight_ns = inflight.ns;
        own.full |= inflight.full;
    } else if (!gpud_ask_windowed(ask) && thread->credit != NULL) {
        gpud_grant_end(thread, device, thread->credit);
    }
    return own;
}

/* The launch passes: everything that follows from it but the launch. False: the window had no room after all. */
static bool let_through(struct gpud_thread *thread, struct gpud_ask *ask, const struct gpud_decision *decision, uint64_t now)
{
    uint32_t device = thread->device;
    bool open = decision->why == GPUD_WHY_OPEN, watched = true;

    if (gpud_ask_windowed(ask) && !gpud_grant_fits(thread, ask) && !gpud_grant_take(thread, ask, !open))
        return false;
    count_passes(thread, decision, ask);
    if (ask->gate & GPUD_GATE_PREEMPT)
        watched = open && gpud_load(&gpud_devices_used) == 1u << device && gpud_watch_anew(thread, now);
    if (ask->gate & GPUD_GATE_GRANT && open && watched)     /* the daemon takes the epoch out of the page: shut, at once */
        gpud_watch_also(thread, &gpud_control()->device[device].grant_epoch, gpud_load_acquire(&gpud_taken[device]));
    if (ask->charged || gpud_ask_windowed(ask) || ask->gate & GPUD_GATE_RATE)
        gpud_charge(thread, ask, open && watched, now);
    else if (open && watched)
        thread->gate_seen = ask->gate;
    return true;
}

void gpud_pass_gate(struct gpud_thread *thread, struct gpud_ask *ask, struct gpud_hold *hold, bool *again)
{
    uint32_t device = thread->device;
    const struct gpud_control_device *knobs = &gpud_control()->device[device];

    gpud_credit_settle(thread);
    for (;;) {
        uint32_t seen = gpud_load_acquire(&knobs->wake);
        if ((gpud_load_acquire(&gpud_word) & ~(uint64_t)GPUD_WORD_REASONS) != thread->bound) {
            *again = true;
            return;
        }
        uint64_t now = gpud_now();
        gpud_ask_under(ask, thread, gpud_load(&knobs->gate), now);
        struct gpud_own own = bring(thread, ask, hold, now);
        struct gpud_decision decision = decide(thread, &own, now);
        gpud_closed_holds(device, &decision);
        if (ask->gate & GPUD_GATE_BUDGET)
            gpud_gather(device, &decision);
        gpud_turn_say(device, decision.turn, &hold->asks);
        if (decision.turn == GPUD_TURN_HAS)
            gpud_turn_full(device, now, own.inflight_ns + ask->cost_ns, ask->window.ns);
        if (!decision.hold && let_through(thread, ask, &decision, now))
            return;
        hold->full = !decision.hold;    /* another thread took the last place in the window */
        if (!decision.hold)
            continue;
        if (thread->credit != NULL)
            gpud_grant_end(thread, device, thread->credit);
        gpud_hold_step(thread, hold, &decision, seen, now);
    }
}
