/* test_turn.c: turns under GPUD_GATE_SHARE, beside peers that the test plays: what this client says, when it goes on, and whom it stops
 * waiting for. */
#include "limits.h"
#include "turn.h"

#define COST (100 * GPUD_MICROSECOND)
#define KERNEL ((const void *)0x1000)
#define TURN (250 * GPUD_MILLISECOND)       /* patience lasts four of them: no test machine is away for so long */
#define PEER 5

static struct limits_thread worker;
static uint64_t turn_ns = TURN;
static struct gpud_presence_device *peer;

#define BUSY (gpud_now() + 9 * GPUD_SECOND)         /* full for as long as is believed, or nearly */
#define FAR ((int64_t)200 * (int64_t)GPUD_MILLISECOND)  /* at half the device more than a turn behind */
#define LAUNCHES (uint32_t)(TURN / 2 / COST)        /* of a turn, at half the device */

static uint32_t turn(void)
{
    return gpud_load_total(&gpud_presence()->device[0].turn);
}

/* So far is each tenant's level ahead of what it has spent, at one and the same time, at half the device. */
static void levels(int64_t own_ns, int64_t peer_ns)
{
    struct gpud_peer *entry = limits_entry(PEER);
    uint64_t now = gpud_now();

    limits_share(0, own_ns + (int64_t)limits_spent(0), 500000, now, turn_ns);
    gpud_store_total(&entry->share_seq, entry->share_seq + 1);
    gpud_store(&entry->share_base_ns, peer_ns + (int64_t)gpud_load(&peer->spent_ns));
    gpud_store(&entry->share_t0_ns, now);
    gpud_store(&entry->share_rate_ppm, 500000);
    gpud_store_total(&entry->share_seq, entry->share_seq + 1);
}

static void peer_says(uint32_t says, uint64_t full_ns)
{
    gpud_store(&peer->full_ns, full_ns);
    gpud_store_total(&peer->turn, says);
}

static void begin(void)
{
    worker = (struct limits_thread){ .function = KERNEL };
    gpud_turn_fork();           /* patience as at the beginning */
    limits_gate(0, GPUD_GATE_SHARE);
    limits_start(&worker);
}

/* So many launches after it had made `before`. */
static bool goes_on_from(uint32_t before, uint32_t launches)
{
    uint64_t until = gpud_now() + EVENTUALLY_NS;

    while (limits_launched(&worker) < before + launches && gpud_now() < until)
        limits_pause(100 * GPUD_MICROSECOND);
    return limits_launched(&worker) >= before + launches;
}

static bool goes_on(uint32_t launches)
{
    return goes_on_from(limits_launched(&worker), launches);
}

static bool stays_held(uint64_t ns)
{
    uint32_t before = limits_launched(&worker);
    limits_pause(ns);
    return limits_launched(&worker) == before && limits_held(1);
}

/* As the keeper does it, when the client has been idle for so long. */
static uint64_t idle_for(uint64_t ns)
{
    limits_idle(0);
    return gpud_turn_idle(0, gpud_load(&gpud_presence()->device[0].idle_since_ns) + ns);
}

static void leaves_off(void)
{
    CHECK(idle_for(10 * GPUD_MILLISECOND) == GPUD_NEVER && turn() == GPUD_TURN_NONE, "it leaves off");
}

static void alone(void)
{
    peer_says(GPUD_TURN_NONE, 0);
    levels(-1000 * (int64_t)GPUD_MILLISECOND, 0);
    begin();
    CHECK(goes_on_from(0, 1000), "nobody else wants the device");
    CHECK(turn() == GPUD_TURN_HAS, "it says that it has the turn");
    limits_stop(&worker);
    fake_launch_of(KERNEL, 1, worker.stream, 0, 0);
    CHECK(turn() == GPUD_TURN_NONE, "not under an open gate");
    limits_gate(0, GPUD_GATE_SHARE);
    fake_launch_of(KERNEL, 1, worker.stream, 0, 0);
    CHECK(turn() == GPUD_TURN_HAS, "again");
    CHECK(idle_for(0) != GPUD_NEVER && turn() == GPUD_TURN_HAS, "idle: it keeps it for a moment");
    leaves_off();
}

/* The peer has the turn and uses the device up; it gives it up, and is finished; then this one has had enough. */
static void taken_and_lost(void)
{
    levels(0, 0);
    gpud_store_total(&peer->active, 1);
    peer_says(GPUD_TURN_HAS, BUSY);
    begin();
    EVENTUALLY(limits_held(1), "held");
    CHECK(turn() == GPUD_TURN_ASKS && gpud_load(&gpud_presence()->device[0].waiting) == 1, "it asks");
    const struct gpud_slot *slot = limits_held_slot(0);
    CHECK(slot != NULL && gpud_load(&slot->hold_reason) == GPUD_GATE_SHARE && gpud_load(&slot->hold_peer) == PEER, "its slot says why");
    gpud_add(&peer->spent_ns, TURN / 2 * 3);               /* at half the device it is ahead by three turns, */
    CHECK(stays_held(5 * GPUD_MILLISECOND), "it is to give the turn up by itself");
    peer_says(GPUD_TURN_ASKS, BUSY);
    CHECK(stays_held(5 * GPUD_MILLISECOND), "what it had submitted is to be finished");
    gpud_store_total(&peer->active, 0);
    CHECK(goes_on_from(0, 1), "it is finished");
    EVENTUALLY(limits_held(1) && turn() == GPUD_TURN_ASKS, "what it spends brings it ahead of the peer by a turn");
    uint32_t launches = limits_launched(&worker);           /* … until this one has spent that and a turn more */
    CHECK(launches + 1 >= 4 * LAUNCHES && launches <= 4 * LAUNCHES + 3, "%u launches in its turn", launches);
    CHECK(stays_held(3 * GPUD_MILLISECOND), "the peer is to take the turn");
    gpud_add(&peer->spent_ns, 10 * GPUD_SECOND);
    CHECK(goes_on_from(launches, 10), "the peer took its turn, and spent");
    limits_stop(&worker);
    leaves_off();
    CHECK(limits_held(0), "nothing is left over");
}

/* Held by a turn it finds out by itself when it is finished: others wait for that. */
static void finishes(void)
{
    levels(0, 0);
    peer_says(GPUD_TURN_NONE, 0);
    worker = (struct limits_thread){ .function = KERNEL, .duration_ns = 20 * GPUD_MILLISECOND };
    gpud_turn_fork();
    gpud_store(&local_control()->device[0].max_inflight, 2);
    limits_gate(0, GPUD_GATE_SHARE | GPUD_GATE_WINDOW);
    limits_start(&worker);
    CHECK(goes_on_from(0, 1), "it has the turn");
    levels(0, FAR);
    peer_says(GPUD_TURN_ASKS, 0);
    EVENTUALLY(limits_held(1) && turn() == GPUD_TURN_ASKS, "it gives it up");
    CHECK(is_active(0) || fake_ready(worker.stream) <= gpud_now(), "it is at work");
    EVENTUALLY(!is_active(0), "it says when it is finished, though nobody synchronises");
    CHECK(limits_held(1) && fake_ready(worker.stream) <= gpud_now(), "not earlier");
    limits_stop(&worker);
    limits_idle(0);
}

/* A peer with the turn that leaves the device idle: this one fills in, and gives way when it comes back. */
static void fills_in(void)
{
    levels(-(int64_t)GPUD_SECOND, 0);
    peer_says(GPUD_TURN_HAS, gpud_now() - TURN);
    begin();
    CHECK(goes_on(1000), "fills in");
    peer_says(GPUD_TURN_HAS, BUSY);
    EVENTUALLY(limits_held(1), "gives way");
    uint64_t full = gpud_now();
    peer_says(GPUD_TURN_HAS, full);
    CHECK(goes_on(10) && gpud_now() - full >= TURN / GPUD_FULL_PART, "goes on an eighth of a turn after the peer's window was full last");
    limits_stop(&worker);
    limits_idle(0);
}

/* A peer that keeps this one out and does not use the device: dead, stopped, or a liar. */
static void patience(void)
{
    levels(0, FAR);
    peer_says(GPUD_TURN_HAS, BUSY);       /* killed with the turn; nothing of it changes any more */
    uint64_t at = gpud_now();
    begin();
    CHECK(goes_on_from(0, 1000), "it is ignored after a while");
    CHECK(gpud_now() - at >= 4 * turn_ns, "not at once");
    peer_says(GPUD_TURN_HAS, BUSY);
    gpud_add(&peer->spent_ns, GPUD_MILLISECOND);        /* it uses the device again: waited for, once it was ignored for long enough */
    EVENTUALLY(limits_held(1), "waited for again");
    limits_stop(&worker);
    limits_idle(0);
}

/* It writes whatever keeps this one out, and never pays: flips its words, takes back what it spent. Ignored 16 turns of 20. */
static void liar(void)
{
    turn_ns = 2 * GPUD_MILLISECOND;
    gpud_store(&peer->spent_ns, 0);
    levels(0, FAR);
    peer_says(GPUD_TURN_HAS, BUSY);
    begin();
    uint64_t began = gpud_now(), last = began, out = 0;
    for (uint64_t i = 0; last < began + 400 * GPUD_MILLISECOND; i++) {
        peer_says(i & 1 ? GPUD_TURN_HAS : GPUD_TURN_ASKS, BUSY);
        gpud_store(&peer->spent_ns, i & 2 ? 0 : GPUD_MILLISECOND);
        gpud_add(&peer->edges, 1);
        gpud_store(&peer->inflight, i);
        limits_pause(100 * GPUD_MICROSECOND);
        uint64_t now = gpud_now();
        out += limits_held(1) ? now - last : 0;
        last = now;
    }
    CHECK(out > 0, "never kept out: not believed at all");
    BOUND(out <= (last - began) * 2 / 3, "it is kept out for %llu us of %llu", (unsigned long long)out / 1000,
          (unsigned long long)(last - began) / 1000);
    printf("beside a liar: kept out for %llu us of %llu\n", (unsigned long long)out / 1000, (unsigned long long)(last - began) / 1000);
    peer_says(GPUD_TURN_NONE, 0);
    limits_stop(&worker);
    limits_idle(0);
    turn_ns = TURN;
}

/* Those beyond the table: the daemon says how far behind the furthest of them is. */
static void beyond_the_table(void)
{
    struct gpud_control_device *knobs = &local_control()->device[0];

    levels(0, 0);
    peer_says(GPUD_TURN_NONE, 0);
    gpud_store(&knobs->others_lag_ns, (int64_t)GPUD_SECOND);
    gpud_add(&knobs->others_edges, 1);
    begin();
    EVENTUALLY(limits_held(1), "held");
    CHECK(limits_held_slot(0) != NULL && gpud_load(&limits_held_slot(0)->hold_peer) == GPUD_NO_PEER, "by nobody that has a name");
    for (uint64_t until = gpud_now() + 5 * TURN; gpud_now() < until;) {     /* longer than patience lasts */
        gpud_add(&knobs->others_edges, 1);
        limits_pause(GPUD_MILLISECOND);
    }
    CHECK(stays_held(0), "as long as they are active");
    CHECK(goes_on(100), "not for ever");
    gpud_store(&knobs->others_lag_ns, INT64_MIN);
    CHECK(goes_on(1000), "none wants the device");
    limits_stop(&worker);
    limits_idle(0);
}

/* Another process of this tenant has the turn for it; what both spent is what the tenant spent. */
static void two_processes(void)
{
    struct gpud_presence_page *own = limits_peer(6, 7, GPUD_PEER_OWN);

    peer_says(GPUD_TURN_ASKS, 0);
    levels(-1, 0);
    gpud_store_total(&own->device[0].turn, GPUD_TURN_HAS);
    begin();
    CHECK(goes_on_from(0, LAUNCHES * 4 / 5), "it has the turn through the other process");
    EVENTUALLY(limits_held(1), "until the tenant has had a turn");
    uint32_t before = limits_launched(&worker);
    CHECK(before <= LAUNCHES + 3, "%u launches in its turn", before);
    levels(1, 0);
    CHECK(goes_on_from(before, LAUNCHES * 4 / 5), "a new level");
    EVENTUALLY(limits_held(1), "until the tenant has had a turn");
    levels((int64_t)GPUD_SECOND, 0);
    gpud_store(&own->device[0].spent_ns, GPUD_SECOND);
    EVENTUALLY(limits_held(1), "what the other process spent counts");
    limits_stop(&worker);
    gpud_store_total(&own->device[0].turn, GPUD_TURN_NONE);
    limits_idle(0);
}

/* Held by something else it does not ask, and whoever asks does not wait for it. */
static void held_otherwise(void)
{
    peer_says(GPUD_TURN_NONE, 0);
    levels(0, 0);
    limits_cap(0, 0, 0, gpud_now());
    worker = (struct limits_thread){ .function = KERNEL };
    gpud_turn_fork();
    limits_gate(0, GPUD_GATE_SHARE | GPUD_GATE_BUDGET);
    limits_start(&worker);
    EVENTUALLY(limits_held(1), "held by its cap");
    CHECK(turn() == GPUD_TURN_NONE && gpud_load(&gpud_presence()->device[0].waiting) == 1, "waits, and asks for no turn");
    limits_cap(0, LIMITS_FOREVER, 0, gpud_now());
    CHECK(goes_on(10) && turn() == GPUD_TURN_HAS, "then it has the turn");
    levels(0, FAR);
    peer_says(GPUD_TURN_HAS, BUSY);
    EVENTUALLY(limits_held(1) && turn() == GPUD_TURN_ASKS, "held by the turn it asks");
    limits_stop(&worker);       /* the gate opens: a thread that asks asks no more */
    CHECK(turn() != GPUD_TURN_ASKS, "no longer");
    limits_idle(0);
}

int main(void)
{
    limits_begin(1);
    limits_teach(KERNEL, 1, COST);
    gpud_store(&local_control()->device[0].draw_ns, COST);
    peer = &limits_peer(PEER, 8, GPUD_PEER_SHARE)->device[0];
    levels(0, 0);
    alone();
    taken_and_lost();
    finishes();
    fills_in();
    held_otherwise();
    patience();
    measured("liar", liar);
    two_processes();
    beyond_the_table();
    CHECK(fake_violations == 0, "the driver was used wrongly");
    return check_summary("turn");
}
