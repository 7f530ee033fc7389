/* wait.c: how a held thread waits: it spins a moment, then sleeps on the wake word of its own control page for a bounded
 * time. One thread of the client, the lead, wakes short of the expected moment and spins the rest; as it passes it wakes
 * the others. Nobody of another client is needed to wake anybody. */
#define _GNU_SOURCE
#include "wait.h"

#include <sys/prctl.h>
#include "captures.h"
#include "lock.h"
#include "turn.h"
#include "window.h"

#define SPIN_FIRST_NS (20 * GPUD_MICROSECOND)
#define SPIN_WINDOW_NS (4 * GPUD_MICROSECOND)   /* beside a thread that asks: about what going to sleep and being woken costs */
#define SPIN_STEPS 16                           /* … with so few looks that they do not keep that thread from its answer */
#define SPIN_LAST_NS (60 * GPUD_MICROSECOND)    /* a sleep ends up to this late */
#define LONGEST_SLEEP_NS (100 * GPUD_MILLISECOND)
#define SHORTEST_SLEEP_NS (50 * GPUD_MICROSECOND)
#define LIMITED_SLEEP_NS (5 * GPUD_MILLISECOND)  /* held by a limit: the daemon changes levels without waking anybody */
#define LOCKED_SLEEP_NS (20 * GPUD_MILLISECOND)  /* the keeper wakes it when the device is its own; one just about to sleep is missed */
#define WINDOW_SLEEP_NS (2 * GPUD_MILLISECOND)
#define FOLLOW_NS GPUD_MILLISECOND  /* behind the lead: it wakes the others, unless one was just about to sleep */

uint32_t gpud_holding;
static uint32_t led[GPUD_MAX_DEVICES];      /* 1: some thread leads */
static uint32_t asleep[GPUD_MAX_DEVICES];   /* threads that sleep on the wake word, or are just about to */

static void begin(struct gpud_thread *thread, struct gpud_hold *hold, uint64_t now)
{
    hold->since_ns = now;
    hold->device = thread->device;
    hold->slot = thread->slots[thread->device];
    hold->attachment = thread->attachment;
    gpud_add(&hold->slot->held, 1);
    gpud_store(&hold->slot->hold_since_ns, now);
}

/* Others see that it wants the device, or no more: who is paused keeps nobody waiting. The presence page is the one that counts it. */
static void want(struct gpud_hold *hold, bool waits)
{
    if (waits == hold->waits)
        return;
    hold->waits = waits;
    if (waits)
        gpud_add_total(&gpud_presence_at(hold->device)->waiting, 1);
    else if (hold->attachment == gpud_load_acquire(&gpud_attachment))
        gpud_sub_total(&gpud_presence_at(hold->device)->waiting, 1);
}

/* The thread is held for want of the device lock, or no longer: the keeper asks for it as long as one is. */
static void ask_for_lock(struct gpud_hold *hold, bool asks)
{
    if (asks && !hold->locked) {
        hold->captures = gpud_capture_is_own();
        gpud_lock_wait(hold->device, hold->captures);
    } else if (!asks && hold->locked) {
        gpud_lock_wait_end(hold->device, hold->captures);
    }
    hold->locked = asks;
}

/* New pages, or the thread is on another device: what was noted before is out of date. The pause goes on. */
static void move(struct gpud_thread *thread, struct gpud_hold *hold)
{
    if (hold->lead)
        gpud_store_release(&led[hold->device], 0);
    if (hold->attachment == thread->attachment)
        gpud_store(&hold->slot->holding, 0);
    want(hold, false);
    gpud_turn_leave(hold->device, &hold->asks);
    ask_for_lock(hold, false);
    hold->lead = false;
    begin(thread, hold, hold->since_ns);
}

static void note(struct gpud_hold *hold, const struct gpud_decision *decision)
{
    gpud_store(&hold->slot->hold_reason, decision->bit);
    gpud_store(&hold->slot->hold_peer, decision->peer);
    gpud_store_release(&hold->slot->holding, 1);
}

static void try_to_lead(struct gpud_hold *hold)
{
    if (!hold->lead && !gpud_load(&led[hold->device]))
        hold->lead = __atomic_exchange_n(&led[hold->device], 1, __ATOMIC_ACQUIRE) == 0;
}

/* The thread's timer slack is 1 ns while it leads: with the usual 50 µs each wake-up would be late by as much. */
static void sharpen(struct gpud_hold *hold)
{
    if (hold->slack_ns == 0) {
        int slack = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
        hold->slack_ns = slack > 0 ? slack : -1;
        if (slack > 1)
            prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
    }
}

static void sleep_on(uint32_t device, uint32_t seen, uint64_t until)
{
    gpud_add_total(&asleep[device], 1);
    int failure = gpud_futex_wait(&gpud_control()->device[device].wake, seen, until, true);
    gpud_sub_total(&asleep[device], 1);

    /* A dummy page cannot be waited on; then the plain clock does. */
    if (failure != 0 && failure != EAGAIN && failure != EINTR && failure != ETIMEDOUT) {
        struct timespec at = gpud_timespec(until);
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
    }
}

static bool is_limit(const struct gpud_decision *decision)
{
    return decision->why == GPUD_WHY_BUDGET || decision->why == GPUD_WHY_RATE;
}

/* How long it may sleep without a look: half of resume_after, so that a peer that went idle is seen in time. */
static uint64_t patience(const struct gpud_decision *decision, uint32_t device)
{
    uint64_t half = gpud_load(&gpud_control()->device[device].resume_after_ns) / 2;

    if (is_limit(decision))
        return LIMITED_SLEEP_NS;
    if (decision->why == GPUD_WHY_LOCK)
        return LOCKED_SLEEP_NS;
    if (decision->why == GPUD_WHY_PAUSED || half > LONGEST_SLEEP_NS)
        return LONGEST_SLEEP_NS;
    return half < SHORTEST_SLEEP_NS ? SHORTEST_SLEEP_NS : half;
}

void gpud_hold_step(struct gpud_thread *thread, struct gpud_hold *hold, const struct gpud_decision *decision, uint32_t seen,
                    uint64_t now)
{
    bool fresh = hold->since_ns == 0;
    if (fresh)
        begin(thread, hold, now);
    else if (hold->slot != thread->slots[thread->device] || hold->attachment != thread->attachment)
        move(thread, hold);
    note(hold, decision);
    if (fresh)
        gpud_add_total(&gpud_holding, 1);
    try_to_lead(hold);
    want(hold, decision->why != GPUD_WHY_PAUSED);
    ask_for_lock(hold, decision->why == GPUD_WHY_LOCK);
    if (decision->why == GPUD_WHY_SHARE && hold->lead) {
        gpud_turn_wait(hold->device, decision, now);
        gpud_turn_finish(hold->device, now);
    }
    if (decision->why == GPUD_WHY_LOCK)     /* its per-thread default stream only it can ask: the device drains */
        gpud_turn_finish(hold->device, now);
    if (now < hold->since_ns + SPIN_FIRST_NS && decision->why != GPUD_WHY_WINDOW && !is_limit(decision)) {
        gpud_relax();
        return;
    }
    if (decision->why == GPUD_WHY_WINDOW && !hold->lead && now < hold->since_ns + SPIN_WINDOW_NS) {
        for (uint32_t i = 0; i < SPIN_STEPS; i++)
            gpud_relax();
        return;
    }

    /* `at`: when there will be something new to see. Only a moment that is known is worth spinning for. */
    uint64_t at, margin = 0;
    if (decision->why == GPUD_WHY_WINDOW) {
        at = gpud_sum_to(gpud_window_aim(hold->device, now), hold->lead ? 0 : FOLLOW_NS);
        if (at > now + WINDOW_SLEEP_NS)         /* the keeper may find everything finished, and be missed */
            at = now + WINDOW_SLEEP_NS;
    } else if (decision->why == GPUD_WHY_SHARE) {
        at = gpud_sum_to(decision->look_ns, hold->lead ? 0 : FOLLOW_NS);
    } else if (decision->until_ns <= gpud_sum_to(now, patience(decision, hold->device))) {
        at = decision->until_ns;
        margin = hold->lead && !is_limit(decision) ? SPIN_LAST_NS : 0;     /* a limit loses nothing by lateness */
    } else {
        at = gpud_sum_to(now, patience(decision, hold->device));
    }
    if (decision->until_ns < at)
        at = decision->until_ns;
    if (gpud_sum_to(now, LONGEST_SLEEP_NS) < at)
        at = gpud_sum_to(now, LONGEST_SLEEP_NS);
    if (at <= gpud_sum_to(now, margin)) {
        gpud_relax();
        return;
    }
    if (hold->lead)
        sharpen(hold);
    sleep_on(hold->device, seen, at - margin);
}

static uint32_t bucket_of(uint64_t held_ns)
{
    uint64_t us = held_ns / GPUD_MICROSECOND;
    uint32_t bucket = us < 2 ? 0 : 63 - (uint32_t)__builtin_clzll(us);
    return bucket < GPUD_HISTOGRAM_BUCKETS ? bucket : GPUD_HISTOGRAM_BUCKETS - 1;
}

void gpud_hold_end(struct gpud_thread *thread, struct gpud_hold *hold)
{
    if (hold->since_ns == 0)
        return;
    gpud_turn_leave(hold->device, &hold->asks);
    ask_for_lock(hold, false);
    if (hold->slack_ns > 1)
        prctl(PR_SET_TIMERSLACK, hold->slack_ns, 0, 0, 0);
    /* Its slot may be someone else's where new pages came meanwhile. */
    if (hold->attachment == gpud_load_acquire(&gpud_attachment) && hold->attachment == thread->attachment) {
        uint64_t held_ns = gpud_now() - hold->since_ns;
        gpud_store(&hold->slot->holding, 0);
        gpud_add(&hold->slot->held_ns, held_ns);
        gpud_add(&gpud_activity()->device[hold->device].held_histogram[bucket_of(held_ns)], 1);
    }
    want(hold, false);
    if (hold->lead)
        gpud_store_release(&led[hold->device], 0);
    gpud_sub_total(&gpud_holding, 1);
    if (hold->lead && gpud_load_total(&asleep[hold->device]) != 0)
        gpud_futex_wake(&gpud_control()->device[hold->device].wake, true);
    hold->since_ns = 0;
    hold->lead = false;
}

void gpud_hold_forget(void)
{
    gpud_holding = 0;
    for (uint32_t device = 0; device < GPUD_MAX_DEVICES; device++)
        led[device] = asleep[device] = 0;
}
