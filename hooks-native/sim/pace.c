/* pace.c: how far the model clock may go.
 *
 * It goes as the machine's clock does, and what is due by it happens. While only one program has contexts on the node, it also
 * waits for that program: it does not pass the time at which the program may submit something yet, nor the modelled end of a
 * kernel that is not computed. So the model's times of a program that only enqueues and synchronises are its own, whatever else
 * the machine does. When the program sleeps meanwhile, does neither for a while, or asks again and again, the machine's clock counts. */
#include "device.h"
#include "log.h"

#define STAND_NS 100000000ull           /* wall: how long a program is waited for that may submit something */
#define LOOK_NS 1000000ull              /* wall: how often it is looked at meanwhile */
#define ASLEEP_LOOKS 3                  /* so many times in a row it slept: it waits for something else than the device */
#define PATIENCE_NS 10000000000ull      /* wall: how long a computation is waited for */
#define LAG_NS 250000000ull             /* wall: a clock that is further behind than this is set back for good */

void pace_count(struct node *node)
{
    node->sole = NULL;
    for (struct client *client = node->clients; client; client = client->next) {
        if (!client->context_count)
            continue;
        if (node->sole) {
            node->sole = NULL;
            return;
        }
        node->sole = client;
    }
}

static bool reached(const struct client *client, const struct sim_wait_record *wait, uint32_t slot)
{
    uint64_t ticket = atomic_load_explicit(&wait->ticket, memory_order_relaxed);
    if (slot <= SIM_MAX_QUEUES)
        return atomic_load_explicit(&client->done->queues[slot - 1].ticket, memory_order_relaxed) >= ticket;
    if (slot <= SIM_MAX_QUEUES + SIM_MAX_EVENTS)
        return atomic_load_explicit(&client->done->events[slot - 1 - SIM_MAX_QUEUES].ticket, memory_order_relaxed) >= ticket;
    return false;
}

/* Does the program wait for the device, so that it submits nothing before something happens? Or does it ask for that? */
static bool blocked(const struct client *client)
{
    const struct sim_client_page *page = client->page;
    if (atomic_load_explicit(&page->room_waiters, memory_order_relaxed) || atomic_load_explicit(&page->more_waiters, memory_order_relaxed)
        || (client->tail && atomic_load_explicit(&page->asked, memory_order_relaxed) == client->tail))
        return true;
    for (uint32_t i = 0; i < SIM_WAITS; i++) {
        uint32_t slot = atomic_load_explicit(&page->waits[i].slot, memory_order_acquire);
        if (slot && !reached(client, &page->waits[i], slot))
            return true;
    }
    return false;
}

/* Nothing later than this may happen yet. */
static uint64_t limit(struct node *node)
{
    struct client *sole = node->sole;
    /* What it submitted before it waited is seen by whoever has seen that it waits: that comes first. */
    if (!sole || sole->doomed || (blocked(sole) && !ring_untaken(sole)))
        return SCHED_NEVER;
    uint64_t now = sched_now(node->schedule);
    return sole->model_ns > now ? sole->model_ns : now;
}

/* It has done something, or may. */
static void stirs(struct client *client, uint64_t clock_ns)
{
    client->active_ns = clock_ns;
    client->looked_ns = clock_ns;
    client->slept = 0;
}

/* Need the program not be waited for any longer? */
static bool is_away(struct client *client, uint64_t clock_ns)
{
    if (client->slept < ASLEEP_LOOKS && clock_ns >= client->looked_ns + LOOK_NS) {
        client->looked_ns = clock_ns;
        client->slept = client_asleep(client) ? client->slept + 1 : 0;
    }
    return client->slept >= ASLEEP_LOOKS || clock_ns >= client->active_ns + STAND_NS;
}

static uint64_t limit_now(struct node *node, uint64_t clock_ns)
{
    struct client *sole = node->sole;
    uint64_t most = limit(node);
    bool waits = most == SCHED_NEVER;
    if (sole && sole->blocked && !waits)
        stirs(sole, clock_ns);          /* it has just been told what it waited for */
    if (sole)
        sole->blocked = waits;
    return sole && !waits && !is_away(sole, clock_ns) ? most : SCHED_NEVER;
}

static void set_patience(struct node *node, uint64_t clock_ns)
{
    const struct client *sole = node->sole;
    sched_patient(node->schedule, sole && !sole->doomed);
    if (!sched_standing(node->schedule))
        node->held_ns = 0;
    else if (!node->held_ns)
        node->held_ns = clock_ns;
    else if (clock_ns >= node->held_ns + PATIENCE_NS)
        sched_patient(node->schedule, false);
}

uint64_t pace_now(struct node *node, uint64_t clock_ns)
{
    uint64_t now = device_model(node, clock_ns), most = limit_now(node, clock_ns);
    if (sched_standing(node->schedule))
        most = sched_now(node->schedule);
    return now < most ? now : most;
}

void pace_advance(struct node *node, uint64_t clock_ns)
{
    uint64_t until = device_model(node, clock_ns);
    if (sched_holding(node->schedule))
        sched_recheck(node->schedule, until);   /* what has been computed ends as was promised till now */
    set_patience(node, clock_ns);
    if (sched_holding(node->schedule))
        sched_recheck(node->schedule, until);
    for (uint64_t next = sched_next(node->schedule); next <= until && next != SCHED_NEVER; next = sched_next(node->schedule)) {
        if (next > limit_now(node, clock_ns))
            break;
        sched_once(node->schedule);
    }
}

uint64_t pace_catch_up(struct node *node)
{
    uint64_t clock_ns = device_clock();
    pace_advance(node, clock_ns);
    return pace_now(node, clock_ns);
}

uint64_t pace_next(struct node *node, uint64_t clock_ns)
{
    uint64_t due = sched_next(node->schedule), most = limit_now(node, clock_ns);
    set_patience(node, clock_ns);       /* it may just have begun to stand */
    node->stands = sched_standing(node->schedule);
    if (node->stands)
        return node->held_ns + PATIENCE_NS;
    if (due == SCHED_NEVER)
        return UINT64_MAX;
    node->stands = due > most;
    uint64_t wall = device_wall(node, due);
    if (!node->stands)
        return wall;
    uint64_t look = node->sole->looked_ns + LOOK_NS, end = node->sole->active_ns + STAND_NS;
    uint64_t next = look < end ? look : end;
    return wall < next ? next : wall;
}

bool pace_changed(struct node *node)
{
    return node->stands && !sched_standing(node->schedule) && limit(node) == SCHED_NEVER;
}

uint64_t pace_stamp(struct client *client, uint64_t model_ns, uint64_t clock_ns)
{
    struct node *node = client->node;
    uint64_t now = device_model(node, clock_ns), at = model_ns < now ? model_ns : now;
    stirs(client, clock_ns);
    if (client != node->sole)
        return at;
    uint64_t newest = sched_now(node->schedule) > at ? sched_now(node->schedule) : at;
    newest = client->model_ns > newest ? client->model_ns : newest;
    client->model_ns = newest < now ? newest : now;
    uint64_t lag_ns = device_wall(node, now) - device_wall(node, client->model_ns);
    if (lag_ns > LAG_NS) {              /* but for a microsecond, so that no rounding puts the clock before what has been said */
        atomic_fetch_add_explicit(&node->page->epoch_ns, (int64_t)lag_ns - 1000, memory_order_relaxed);
        log_clock(node, client->model_ns);
    }
    return at;
}
