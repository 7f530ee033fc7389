/* budget.c: charging, and draws of credit. GPU time that a thread draws is spent at once, for everybody to see; what it does not use
 * is taken off again when its credit ends. So a level never shows more than there is, and at most a draw too little. */
#include "budget.h"

#include "sample.h"
#include "spent.h"

/* The cap's level is cut to its burst by whoever looks: this much has been cut off since the words of `t0_ns`. */
static struct forfeit {
    uint64_t t0_ns;
    int64_t ns;
} forfeits[GPUD_MAX_DEVICES];
static uint32_t gathering[GPUD_MAX_DEVICES];    /* 1: the cap held some launch, and none has passed since */

static bool is_charged(const struct gpud_control_device *knobs, uint32_t gate)
{
    if (gate & (GPUD_GATE_CHARGE | GPUD_GATE_BUDGET | GPUD_GATE_SHARE))
        return true;
    return (gate & GPUD_GATE_WINDOW && gpud_load(&knobs->max_inflight_ns) != 0) ||
           (gate & GPUD_GATE_RATE && gpud_load(&knobs->block_rate) != GPUD_UNLIMITED) ||
           (gate & GPUD_GATE_PREEMPT && gpud_load(&knobs->pass_ns) != 0);
}

void gpud_ask_under(struct gpud_ask *ask, struct gpud_thread *thread, uint32_t gate, uint64_t now)
{
    const struct gpud_control_device *knobs = &gpud_control()->device[thread->device];
    bool charged = is_charged(knobs, gate), known = ask->charged;

    ask->gate = gate;
    ask->charged = charged;
    ask->window = (struct gpud_window_limit){ 0, 0 };
    if (gate & GPUD_GATE_WINDOW)
        ask->window = (struct gpud_window_limit){ gpud_load(&knobs->max_inflight), gpud_load(&knobs->max_inflight_ns) };
    if (charged && known)       /* asked before, and held since */
        return;
    ask->young = false;
    ask->cost_ns = 0;
    ask->left = UINT32_MAX;
    if (!charged)
        return;
    gpud_sample_read(thread->device, now);
    ask->cost_ns = gpud_cost_now(thread->device, ask->function, ask->blocks, &ask->young);
    if (thread->credit != NULL) {
        ask->left = gpud_sample_countdown(thread->device, thread->credit->launches_since);
        thread->credit->launches_since = 0;
    }
}

/* The cap's level, cut to its burst. */
static int64_t cap_level(uint32_t device, uint64_t now)
{
    const struct gpud_control_device *knobs = &gpud_control()->device[device];
    struct gpud_levels levels = gpud_levels_read(knobs);
    uint64_t burst = levels.cap_burst_ns == 0 ? 1 : levels.cap_burst_ns;
    gpud_wide spent = gpud_own_spent(knobs, device, gpud_present, GPUD_MAX_PRESENT,
                                     gpud_spent(device));
    gpud_wide level = gpud_level_at(&levels.cap, spent, now) - gpud_forfeit(device, now);

    level = level > (gpud_wide)burst ? (gpud_wide)burst : level;
    return level > INT64_MAX ? INT64_MAX : level < INT64_MIN ? INT64_MIN : (int64_t)level;
}

int64_t gpud_forfeit(uint32_t device, uint64_t now)
{
    const struct gpud_control_device *knobs = &gpud_control()->device[device];
    struct forfeit *forfeit = &forfeits[device];
    struct gpud_levels levels = gpud_levels_read(knobs);
    uint64_t burst = levels.cap_burst_ns == 0 ? 1 : levels.cap_burst_ns;

    if (gpud_load(&forfeit->t0_ns) != levels.cap.t0_ns) {
        gpud_store(&forfeit->ns, 0);
        gpud_store(&forfeit->t0_ns, levels.cap.t0_ns);
    }
    int64_t before = gpud_load(&forfeit->ns);
    gpud_wide spent = gpud_own_spent(knobs, device, gpud_present, GPUD_MAX_PRESENT,
                                     gpud_spent(device));
    gpud_wide above = gpud_level_at(&levels.cap, spent, now) - before - (gpud_wide)burst;
    if (above <= 0)
        return before;
    gpud_wide after = before + above;
    int64_t cut = after > INT64_MAX ? INT64_MAX : (int64_t)after;
    __atomic_compare_exchange_n(&forfeit->ns, &before, cut, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return cut;
}

bool gpud_gathers(uint32_t device)
{
    return gpud_load(&gathering[device]) != 0;
}

void gpud_gather(uint32_t device, const struct gpud_decision *decision)
{
    uint32_t gathers = decision->hold && decision->why == GPUD_WHY_BUDGET;

    if ((gathers || !decision->hold) && gpud_load(&gathering[device]) != gathers)
        gpud_store(&gathering[device], gathers);
}

/* GPU time to be drawn for this launch and those that come: at least its cost. */
static uint64_t time_to_draw(struct gpud_thread *thread, const struct gpud_ask *ask, uint64_t now)
{
    uint32_t device = thread->device, threads = gpud_slot_users(device);
    const struct gpud_control_device *knobs = &gpud_control()->device[device];
    uint64_t draw = gpud_load(&knobs->draw_ns) / (threads > 0 ? threads : 1);

    if (draw > ask->cost_ns && ask->gate & GPUD_GATE_BUDGET) {
        int64_t level = cap_level(device, now);
        if (level > 0 && (uint64_t)level < draw)
            draw = (uint64_t)level;
    }
    if (draw > GPUD_CREDIT_MOST)
        draw = GPUD_CREDIT_MOST;
    return draw > ask->cost_ns ? draw : ask->cost_ns;
}

/* How many launches may follow this one without a look. */
static uint32_t launches_to_draw(const struct gpud_credit *credit, const struct gpud_ask *ask)
{
    uint32_t launches = ask->left == 0 || ask->left == UINT32_MAX ? INT32_MAX : ask->left - 1;

    if (gpud_ask_windowed(ask)) {       /* the last one of a grant takes a look, to close it */
        uint32_t granted = credit->grant.launches > 0 ? credit->grant.launches - 1 : 0;
        launches = granted < launches ? granted : launches;
    }
    return launches;
}

/* One launch of the grant is made. */
static void use_grant(struct gpud_grant *grant, uint64_t cost_ns)
{
    grant->launches--;
    grant->used++;
    grant->used_ns += cost_ns;
    grant->ns -= cost_ns < grant->ns ? cost_ns : grant->ns;
}

void gpud_charge(struct gpud_thread *thread, struct gpud_ask *ask, bool more, uint64_t now)
{
    struct gpud_credit *credit = thread->credit;
    uint32_t device = thread->device, launches = 0;
    uint64_t ns = ask->cost_ns, blocks = 0;
    bool limited = false;

    ask->drawn = true;
    if (credit != NULL && gpud_ask_windowed(ask) && credit->grant.launches > 0)
        use_grant(&credit->grant, ask->cost_ns);
    if (credit != NULL && more)
        launches = launches_to_draw(credit, ask);
    if (ask->gate & GPUD_GATE_RATE)
        launches = gpud_rate_draw(device, ask->blocks, launches, gpud_slot_users(device), &blocks, &limited, now);
    if (launches > 0 && ask->charged)
        ns = time_to_draw(thread, ask, now);
    if (launches > 0 && gpud_ask_windowed(ask) && ns > gpud_sum_to(ask->cost_ns, credit->grant.ns))
        ns = gpud_sum_to(ask->cost_ns, credit->grant.ns);
    if (ns != 0)
        gpud_spend(device, ns);
    if (credit == NULL)
        return;
    credit->charged_ns += ask->cost_ns;
    if (launches == 0)
        return;
    credit->rate_launches = ask->gate & GPUD_GATE_RATE ? launches : 0;
    credit->rate_blocks = blocks;
    credit->gate = ask->gate;
    credit->bound = thread->bound;
    credit->more = GPUD_MORE_CREDIT | (ask->charged ? GPUD_MORE_CHARGED : 0) | (limited ? GPUD_MORE_BLOCKS : 0);
    credit->armed_launches = launches;
    credit->armed_blocks = credit->blocks = blocks;
    credit->armed_ns = (uint32_t)(ns - ask->cost_ns);
    gpud_store(&credit->word, launches * GPUD_CREDIT_LAUNCH | credit->armed_ns);
}

void gpud_charge_undo(struct gpud_thread *thread, struct gpud_ask *ask)
{
    struct gpud_credit *credit = thread->credit;

    ask->drawn = false;
    gpud_credit_settle(thread);
    gpud_time_back(thread->device, ask->cost_ns);
    if (ask->gate & GPUD_GATE_RATE)
        gpud_rate_give(thread->device, 1, ask->blocks);
    if (credit == NULL) {
        gpud_window_close(thread, thread->device, ask->stream, 0, 0);
        return;
    }
    credit->charged_ns -= ask->cost_ns;
    if (credit->grant.used > 0) {
        credit->grant.used--;
        credit->grant.used_ns -= ask->cost_ns;
        credit->grant.launches++;
    }
    gpud_grant_end(thread, thread->device, credit);
}

bool gpud_grant_fits(struct gpud_thread *thread, const struct gpud_ask *ask)
{
    struct gpud_credit *credit = thread->credit;

    if (credit == NULL)
        return false;
    const struct gpud_grant *grant = &credit->grant;
    if (gpud_ask_windowed(ask) && grant->launches > 0 && grant->bound == thread->bound && grant->stream == ask->stream &&
        grant->ns >= ask->cost_ns)
        return true;
    gpud_grant_end(thread, thread->device, credit);
    return false;
}

bool gpud_grant_take(struct gpud_thread *thread, const struct gpud_ask *ask, bool force)
{
    uint64_t ns = 0;
    uint32_t launches = gpud_window_grant(thread, ask->stream, &ask->window, ask->cost_ns, force, &ns);

    if (launches != 0 && thread->credit != NULL)
        thread->credit->grant = (struct gpud_grant){ .stream = ask->stream, .bound = thread->bound, .ns = ns, .launches = launches };
    return launches != 0;
}

void gpud_grant_end(struct gpud_thread *thread, uint32_t device, struct gpud_credit *credit)
{
    struct gpud_grant grant = credit->grant;

    if (grant.launches == 0 && grant.used == 0)
        return;
    credit->grant = (struct gpud_grant){ 0 };
    gpud_window_close(thread, device, grant.stream, grant.used, grant.used_ns);
}

void gpud_budget_fork(void)
{
    for (uint32_t device = 0; device < GPUD_MAX_DEVICES; device++) {
        forfeits[device] = (struct forfeit){ 0, 0 };
        gathering[device] = 0;
    }
    gpud_spent_fork();
    gpud_credit_fork();
    gpud_rate_fork();
}
