/* credit.c: what becomes of a thread's credit: it is used up, given back, taken at idle, or gone with its pages. */
#include "budget.h"

#include "sample.h"
#include "spent.h"

static struct gpud_credit lines[GPUD_MAX_DEVICES][GPUD_MAX_SLOTS];

struct gpud_credit *gpud_credit_of(uint32_t device, const struct gpud_slot *slot)
{
    size_t index = (size_t)(slot - gpud_activity()->device[device].slots);
    return index < GPUD_MAX_SLOTS - 1 ? &lines[device][index] : NULL;
}

void gpud_time_back(uint32_t device, uint64_t ns)
{
    if (ns != 0)
        gpud_spend(device, -ns);
}

/* Ends what is armed. Returns GPU time that nobody has given back yet. */
static uint32_t end_credit(struct gpud_credit *credit)
{
    uint64_t word = __atomic_exchange_n(&credit->word, 0, __ATOMIC_ACQ_REL);
    uint32_t rest = GPUD_CREDIT_NS(word), used = credit->armed_launches - GPUD_CREDIT_LAUNCHES(word);
    uint32_t used_ns = credit->armed_ns - rest;

    credit->charged_ns += used_ns;
    credit->launches_since += used;
    credit->rate_launches -= used < credit->rate_launches ? used : credit->rate_launches;
    credit->rate_blocks -= credit->armed_blocks - credit->blocks;
    if (credit->grant.launches != 0) {
        credit->grant.used += used;
        credit->grant.used_ns += used_ns;
        credit->grant.launches -= used;
        credit->grant.ns -= used_ns < credit->grant.ns ? used_ns : credit->grant.ns;
    }
    credit->armed_launches = credit->armed_ns = 0;
    credit->armed_blocks = credit->blocks = 0;
    gpud_store(&credit->edges, 0);
    credit->bound = 0;
    return word & GPUD_CREDIT_TAKEN ? 0 : rest;
}

static void give_rates_back(uint32_t device, struct gpud_credit *credit)
{
    if (credit->rate_launches != 0 || credit->rate_blocks != 0)
        gpud_rate_give(device, credit->rate_launches, credit->rate_blocks);
    credit->rate_launches = 0;
    credit->rate_blocks = 0;
}

void gpud_credit_settle(struct gpud_thread *thread)
{
    struct gpud_credit *credit = thread->credit;

    if (thread->attachment != gpud_load_acquire(&gpud_attachment))
        thread->credit = credit = NULL;     /* it was drawn from pages that are gone, and the line may be another's by now */
    if (credit == NULL || credit->bound == 0)
        return;
    gpud_time_back(thread->device, end_credit(credit));
    give_rates_back(thread->device, credit);
}

void gpud_credit_end(struct gpud_thread *thread, uint32_t device, struct gpud_credit *credit)
{
    if (credit->bound != 0) {
        gpud_time_back(device, end_credit(credit));
        give_rates_back(device, credit);
    }
    gpud_grant_end(thread, device, credit);
}

bool gpud_credit_again(struct gpud_thread *thread, const struct gpud_ask *ask)
{
    struct gpud_credit *credit = thread->credit;
    uint32_t gate = gpud_load(thread->gate);

    if (credit == NULL || credit->bound != thread->bound || credit->gate != gate || gate & GPUD_GATE_PREEMPT)
        return false;
    uint64_t edge = gpud_load(thread->edge);
    if (!GPUD_EDGE_ACTIVE(edge) || credit->edges != GPUD_EDGE_COUNT(edge))
        return false;
    if (credit->grant.launches != 0 && credit->grant.stream != ask->stream)
        return false;
    if (!gpud_credit_spend(credit, credit->more, thread->slot, ask->function, ask->blocks))
        return false;
    thread->gate_seen = gate;
    thread->more = credit->more;
    return true;
}

void gpud_credit_arm(struct gpud_thread *thread, bool charged)
{
    struct gpud_credit *credit = thread->credit;

    if (credit == NULL)
        return;
    uint32_t left = charged ? gpud_sample_countdown(thread->device, 1) : UINT32_MAX;    /* this one is counted; was it sampled? */
    if (credit->bound == 0 || credit->bound != thread->bound)
        return;
    if (left < credit->armed_launches)
        credit->armed_launches = left;
    gpud_store(&credit->word, credit->armed_launches * GPUD_CREDIT_LAUNCH | credit->armed_ns);
    gpud_store_release(&credit->edges, GPUD_EDGE_COUNT(thread->edge_seen));
    thread->more |= credit->more;
    thread->gate_seen = credit->gate;
}

void gpud_credit_idle(uint32_t device, uint32_t edges)
{
    uint64_t rest = 0;

    for (uint32_t i = 0; i < GPUD_MAX_SLOTS; i++) {
        uint64_t *word = &lines[device][i].word;
        if (gpud_load_acquire(&lines[device][i].edges) != edges)
            continue;
        uint64_t seen = gpud_load_acquire(word);
        if (GPUD_CREDIT_NS(seen) != 0 && !(seen & GPUD_CREDIT_TAKEN) &&
            __atomic_compare_exchange_n(word, &seen, seen | GPUD_CREDIT_TAKEN, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
            rest += GPUD_CREDIT_NS(seen);
    }
    gpud_time_back(device, rest);
    if (gpud_load(&gpud_presence_at(device)->waiting) != 0)    /* maybe for that */
        gpud_futex_wake(&gpud_control()->device[device].wake, true);
}

void gpud_credit_release(uint32_t device, const struct gpud_slot *slot)
{
    struct gpud_credit *credit = gpud_credit_of(device, slot);

    if (credit == NULL)
        return;
    if (credit->bound != 0) {
        gpud_time_back(device, end_credit(credit));
        give_rates_back(device, credit);
    }
    *credit = (struct gpud_credit){ 0 };
}

void gpud_credit_renew(void)
{
    for (uint32_t device = 0; device < GPUD_MAX_DEVICES; device++) {
        for (uint32_t i = 0; i < GPUD_MAX_SLOTS; i++)
            __atomic_exchange_n(&lines[device][i].word, 0, __ATOMIC_ACQ_REL);
    }
}

void gpud_credit_fork(void)
{
    for (uint32_t device = 0; device < GPUD_MAX_DEVICES; device++) {
        for (uint32_t i = 0; i < GPUD_MAX_SLOTS; i++)
            lines[device][i] = (struct gpud_credit){ 0 };
    }
}
