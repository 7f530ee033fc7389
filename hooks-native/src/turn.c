/* turn.c: see turn.h. Peers' pages are what their processes write: a peer that is stopped, dead, or lies keeps nobody out for longer than
 * patience lasts. Whoever uses the device pays for it, and is waited for. */
#include "turn.h"

#include "presence.h"

#define BEYOND GPUD_MAX_PEERS
#define PATIENCE_TURNS 4            /* who keeps us out for so long … */
#define USED_PART 16                /* … and has not used the device for this part of it, is ignored … */
#define IGNORED_TURNS 16            /* … for so long at least, and until it uses the device */
#define LONGEST_GRACE_NS (5 * GPUD_MILLISECOND)     /* the keeper looks at an idle device for longer than this */
#define ASK_EACH_NS (100 * GPUD_MICROSECOND)
#define SHORTEST_TURN_NS GPUD_MILLISECOND
#define LONGEST_TURN_NS (250 * GPUD_MILLISECOND)
#define GAP_NS (20 * GPUD_MILLISECOND)  /* a held thread looks more often than this, whatever the machine does */

/* What is known of a tenant that keeps this one out, by its first entry in the table. */
struct waited {
    uint32_t tenant;
    uint64_t spent_ns;
    uint64_t since_ns;      /* 0: it does not */
    uint64_t last_ns;
    uint64_t ignored_ns;
};

static struct patience {
    uint32_t busy;          /* 1: some thread is at it; others go by what there is */
    uint32_t ignored;
    uint32_t waiting;       /* 1: some tenant is being waited for */
    struct waited of[GPUD_MAX_PEERS + 1];
} patience[GPUD_MAX_DEVICES];

static uint32_t asking[GPUD_MAX_DEVICES];   /* threads held by a turn */
static uint64_t asked_ns[GPUD_MAX_DEVICES]; /* when the driver was asked last whether all is finished */

static uint32_t *turn_word(uint32_t device)
{
    return &gpud_presence_at(device)->turn;
}

static bool begin(struct patience *it)
{
    return __atomic_exchange_n(&it->busy, 1, __ATOMIC_ACQUIRE) == 0;
}

static void end(struct patience *it)
{
    gpud_store_release(&it->busy, 0);
}

/* It is this client's turn: whoever kept it out has let it in. */
static void stop_waiting(struct patience *it)
{
    if (!begin(it))
        return;
    for (uint32_t i = 0; i <= BEYOND; i++) {
        if (!(it->ignored & 1u << i))
            it->of[i].since_ns = 0;
    }
    gpud_store(&it->waiting, 0);
    end(it);
}

void gpud_turn_say(uint32_t device, uint32_t turn, bool *asks)
{
    if (turn == GPUD_TURN_HAS && gpud_load(&patience[device].waiting))
        stop_waiting(&patience[device]);
    if (turn == GPUD_TURN_ASKS && !*asks) {
        *asks = true;
        gpud_add_total(&asking[device], 1);
    } else if (turn != GPUD_TURN_ASKS && *asks) {
        *asks = false;
        gpud_sub_total(&asking[device], 1);
    }
    if (turn == GPUD_TURN_NONE && gpud_load(&asking[device]) != 0)
        turn = GPUD_TURN_ASKS;
    if (gpud_load(turn_word(device)) != turn)
        gpud_store_total(turn_word(device), turn);
}

void gpud_turn_leave(uint32_t device, bool *asks)
{
    uint32_t ask = GPUD_TURN_ASKS;

    if (!*asks)
        return;
    *asks = false;
    if (gpud_sub_total(&asking[device], 1) == 1)
        __atomic_compare_exchange_n(turn_word(device), &ask, GPUD_TURN_NONE, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

static uint64_t turn_ns(const struct gpud_control_device *knobs)
{
    uint64_t turn = gpud_load(&knobs->share_turn_ns);
    return turn < SHORTEST_TURN_NS ? SHORTEST_TURN_NS : turn > LONGEST_TURN_NS ? LONGEST_TURN_NS : turn;
}

uint64_t gpud_turn_idle(uint32_t device, uint64_t now)
{
    const struct gpud_presence_device *presence = gpud_presence_at(device);
    uint64_t grace = turn_ns(&gpud_control()->device[device]) / GPUD_FULL_PART;
    uint32_t has = GPUD_TURN_HAS, next = gpud_load(&asking[device]) != 0 ? GPUD_TURN_ASKS : GPUD_TURN_NONE;

    grace = grace < GPUD_FULL_LEAST_NS ? GPUD_FULL_LEAST_NS : grace > LONGEST_GRACE_NS ? LONGEST_GRACE_NS : grace;
    if (gpud_load(turn_word(device)) != GPUD_TURN_HAS || gpud_load(&presence->active))
        return GPUD_NEVER;
    uint64_t over = gpud_sum_to(gpud_load(&presence->idle_since_ns), grace);
    if (gpud_load(&presence->waiting) || now < over)
        return over > now ? over : gpud_sum_to(now, grace);
    __atomic_compare_exchange_n(turn_word(device), &has, next, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
    return GPUD_NEVER;
}

void gpud_turn_full(uint32_t device, uint64_t now, uint64_t submitted_ns, uint64_t window_ns)
{
    uint64_t *full = &gpud_presence_at(device)->full_ns;

    if (window_ns == 0 || submitted_ns <= window_ns / 2)
        return;
    uint64_t until = gpud_sum_to(now, submitted_ns - window_ns / 2);
    if (gpud_load(full) < until)
        gpud_store(full, until);
}

/* GPU time of the tenant whose entries begin here; of those beyond the table, how often one of them was active. */
static uint64_t used_by(const struct gpud_control_device *knobs, uint32_t device, uint32_t entry)
{
    uint32_t count = gpud_peer_count(knobs);
    uint64_t spent = 0;

    if (entry >= BEYOND)
        return gpud_load(&knobs->others_edges);
    uint32_t tenant = gpud_load(&knobs->peers[entry].tenant);
    for (uint32_t i = entry; i < count && gpud_load(&knobs->peers[i].tenant) == tenant; i++) {
        const struct gpud_presence_page *page = gpud_peer_known(&knobs->peers[i], gpud_present, GPUD_MAX_PRESENT);
        spent += page != NULL ? gpud_load(&gpud_peer_at(page, device)->spent_ns) : 0;
    }
    return spent;
}

static uint32_t tenant_at(const struct gpud_control_device *knobs, uint32_t entry)
{
    return entry < BEYOND ? gpud_load(&knobs->peers[entry].tenant) : UINT32_MAX;
}

void gpud_turn_wait(uint32_t device, const struct gpud_decision *decision, uint64_t now)
{
    const struct gpud_control_device *knobs = &gpud_control()->device[device];
    struct patience *it = &patience[device];
    uint32_t entry = decision->entry < BEYOND ? decision->entry : BEYOND, tenant = tenant_at(knobs, entry);
    uint64_t turn = turn_ns(knobs), used = used_by(knobs, device, entry);

    if (!begin(it))
        return;
    struct waited *peer = &it->of[entry];
    if (peer->since_ns == 0 || peer->tenant != tenant || now > peer->last_ns + 2 * turn + GAP_NS)
        *peer = (struct waited){ .tenant = tenant, .spent_ns = used, .since_ns = now };
    peer->last_ns = now;
    gpud_store(&it->waiting, 1);
    uint64_t waited = now - peer->since_ns;
    int64_t grown = (int64_t)(used - peer->spent_ns);       /* all the while: what it takes back it has not used */
    if (waited >= PATIENCE_TURNS * turn && (entry == BEYOND ? grown == 0 : grown < (int64_t)(waited / USED_PART))) {
        peer->ignored_ns = now;
        peer->spent_ns = used;
        gpud_store(&it->ignored, gpud_load(&it->ignored) | 1u << entry);
    } else if (entry == BEYOND && grown != 0) {
        peer->since_ns = now;
        peer->spent_ns = used;
    }
    end(it);
}

void gpud_turn_finish(uint32_t device, uint64_t now)
{
    const struct gpud_presence_device *presence = gpud_presence_at(device);

    if (!gpud_load(&presence->active))
        return;
    gpud_presence_own(device);
    if (now < gpud_load(&asked_ns[device]) + ASK_EACH_NS)
        return;
    gpud_store(&asked_ns[device], now);
    gpud_presence_ask(device);
}

uint32_t gpud_turn_ignored(uint32_t device, uint64_t now)
{
    const struct gpud_control_device *knobs = &gpud_control()->device[device];
    struct patience *it = &patience[device];
    uint32_t ignored = gpud_load(&it->ignored), kept = 0;

    if (ignored == 0 || !begin(it))
        return ignored;
    ignored = gpud_load(&it->ignored);
    for (uint32_t left = ignored; left != 0; left &= left - 1) {
        uint32_t entry = (uint32_t)__builtin_ctz(left);
        struct waited *peer = &it->of[entry];
        bool same = peer->tenant == tenant_at(knobs, entry);
        if (same && (now < gpud_sum_to(peer->ignored_ns, IGNORED_TURNS * turn_ns(knobs)) ||
                     used_by(knobs, device, entry) == peer->spent_ns))
            kept |= 1u << entry;
        else
            peer->since_ns = 0;
    }
    gpud_store(&it->ignored, kept);
    end(it);
    return kept;
}

void gpud_turn_fork(void)
{
    for (uint32_t device = 0; device < GPUD_MAX_DEVICES; device++) {
        patience[device] = (struct patience){ 0 };
        asking[device] = 0;
    }
}
