/* levels_native.h: how the time of one device is divided: the levels, shares and rates of its tenants, from step to step, for
 * the extension module gpud.hooks._pages. Runs in the daemon only; what pages say of it is in gpud_page.h.
 *
 * A step is: look at the presence pages (levels_look.c), move the levels on and divide anew (levels_step.c, levels_divide.c:
 * arithmetic only), write the control pages (levels_publish.c). Nothing here allocates, asks for the time or trusts a client. */
#ifndef GPUD_LEVELS_NATIVE_H
#define GPUD_LEVELS_NATIVE_H

#include <stdint.h>

#include "gpud_page.h"

/* cffi: begin */
#define GPUD_NONE 0xffffffff        /* no row; no limit */

#define GPUD_UNCAPPED_NS 0x2000000000000000     /* a level that nobody uses up */
#define GPUD_DRAW_FREE_NS 1000000   /* where nothing is limited, only charged */

/* What a total is of. */
#define GPUD_TOTAL_COMPUTE 0        /* ppm of the device */
#define GPUD_TOTAL_LAUNCHES 1       /* per 1000 s */
#define GPUD_TOTAL_BLOCKS 2         /* per 1000 s */
#define GPUD_TOTAL_COPIES 3         /* bytes per second */
#define GPUD_TOTALS 4

/* How a tenant or a client asks for its part of a total. */
#define GPUD_ASK_IDLE 0             /* does not want anything now */
#define GPUD_ASK_CONTENT 1          /* uses what it uses */
#define GPUD_ASK_HUNGRY 2           /* takes all it can get */

/* Why a tenant is not believed. */
#define GPUD_BARRED_NOT 0
#define GPUD_BARRED_WORDS 1         /* its pages say what cannot be */
#define GPUD_BARRED_CLAIMS 2        /* it keeps others waiting and charges next to nothing */

/* gpud_level_client.flags */
#define GPUD_CLIENT_LOOKS 1         /* higher ranks hold it: others_active */
#define GPUD_CLIENT_COUNTED 2       /* some rate of its tenant is limited: its launches, blocks and copies are summed */

/* What a step found: when the next one is of use. */
#define GPUD_LEVELS_SETTLED 0       /* nothing will change until somebody is active */
#define GPUD_LEVELS_MOVING 1        /* nobody is active; levels are on their way */
#define GPUD_LEVELS_BUSY 2

struct gpud_ask {
    uint32_t state;                 /* GPUD_ASK_* */
    uint32_t settled;
    uint64_t demand;                /* of one who is content */
    uint64_t part;                  /* out */
};

/* One process on the device. */
struct gpud_level_client {
    struct gpud_control_page *control;          /* NULL: none yet */
    const struct gpud_presence_page *presence;  /* NULL: not to be seen yet */
    const struct gpud_activity_page *activity;
    uint32_t client;
    uint32_t tenant;                /* row */
    uint32_t rank;
    uint32_t flags;
    uint64_t resume_after_ns;
    uint32_t peer_count;
    uint32_t peers[GPUD_MAX_PEERS]; /* rows of the clients in its peer table, in its order */
    /* as looked at last */
    uint32_t seen;                  /* it has been looked at before: what follows counts */
    uint32_t active;
    uint32_t wants;                 /* active, waiting, or either since the last step */
    uint32_t turns;                 /* has the turn, or asks for it */
    uint32_t edges;
    uint32_t mark;
    uint64_t wanted_ns;             /* when it wanted the device last */
    uint64_t idle_since_ns;
    uint64_t spent_ns;
    uint64_t spent_at_ns;
    uint64_t refundable_ns;         /* of what it has charged, this much may be an unused draw that it gives back */
    uint64_t unseen_ns;             /* so much of what it may give back was charged before it was looked at */
    uint64_t counts[GPUD_TOTALS];
    uint64_t used[GPUD_TOTALS];     /* in the unit of the total, smoothed */
    uint64_t latest[GPUD_TOTALS];   /* the same over a few milliseconds */
    uint64_t part[GPUD_TOTALS];     /* of its tenant's; UINT64_MAX: unlimited */
};

struct gpud_level_tenant {
    uint32_t tenant;                /* job */
    uint32_t unit;                  /* row of its share unit; GPUD_NONE: takes no turns */
    uint32_t hard_ppm;              /* its own limit; GPUD_NONE: none */
    uint32_t soft_ppm;              /* may be exceeded while nobody else wants the device */
    uint32_t awaited;               /* clients that have yet to come back after a restart: its levels stand still */
    uint32_t first;                 /* row of its first client; they are next to each other */
    uint32_t count;
    uint32_t trusted;               /* out: 0: what it claims cannot be; it takes no part in the turns of others */
    uint32_t turns;
    /* seen since the last step */
    uint32_t active;
    uint32_t waiting;
    uint32_t moved;
    uint32_t full;
    int64_t charged_ns;             /* and not taken from its levels yet */
    /* what goes on from step to step, and over a restart */
    int64_t cap_ns;
    int64_t lag_ns;
    uint64_t at_ns;                 /* when these two were so; 0: not yet */
    uint32_t cap_ppm;               /* in force since; GPUD_NONE: no cap */
    uint32_t share_ppm;             /* 0: none */
    uint64_t wanted_ns;             /* when it wanted the device last */
    uint64_t asks_ppm;              /* of the time it was held, or full; smoothed */
    uint64_t used_ppm;              /* of the device, smoothed */
    /* in force from this step on */
    int64_t share_ns;               /* what its lag is in GPU time */
    uint32_t cap_flags;
    uint32_t wants;
    uint64_t burst_ns;
    uint64_t window_ns;
    uint64_t part[GPUD_TOTALS];     /* UINT64_MAX: unlimited */
    uint64_t next[GPUD_TOTALS];     /* while they are divided anew */
    /* how far it is believed */
    uint64_t faults;                /* words that could not be, so far */
    uint64_t strikes;               /* of the last second */
    uint64_t strike_ns;
    uint64_t barred_ns;             /* not trusted until then … */
    uint32_t barred;                /* … GPUD_BARRED_* */
    uint32_t pad;
    uint64_t claims_ns;             /* for so long it has kept others waiting … */
    uint64_t claims_spent_ns;       /* … and charged this much */
};

/* A total that holds for several tenants together. */
struct gpud_level_total {
    uint32_t kind;                  /* GPUD_TOTAL_* */
    uint32_t first;                 /* its members: rows of tenants, in gpud_levels.members */
    uint32_t count;
    uint32_t begun;                 /* 0: level_ns is still to follow from its members' */
    uint64_t amount;
    uint64_t window_ns;             /* what is not used is kept this long */
    int64_t level_ns;               /* of GPU time, all together */
};

/* Tenants that hold one share together. */
struct gpud_level_unit {
    uint32_t pool;
    uint32_t fixed_ppm;             /* whoever is active; GPUD_NONE: by weight among the active ones */
    uint32_t weight;
    uint32_t first;
    uint32_t count;
    uint32_t active;                /* out: a member has wanted the device within a period */
    uint32_t rate_ppm;              /* out */
};

/* Units that take turns with each other. */
struct gpud_level_pool {
    uint64_t period_ns;
    uint32_t open_ppm;              /* what is divided by weight */
    uint32_t wanting;               /* out: tenants that have the turn, or ask for it */
    uint64_t turn_ns;               /* out */
    uint64_t weights;               /* out: of its active units */
};

struct gpud_divided {
    uint32_t device;
    uint32_t client_count;
    uint32_t tenant_count;
    uint32_t total_count;
    uint32_t unit_count;
    uint32_t pool_count;
    struct gpud_level_client *clients;
    struct gpud_level_tenant *tenants;
    struct gpud_level_total *totals;
    struct gpud_level_unit *units;
    struct gpud_level_pool *pools;
    uint32_t *members;
    struct gpud_ask *asks;          /* room for as many as there are clients or tenants */
    uint64_t at_ns;                 /* of the last step */
    uint32_t wanting;               /* tenants that want the device */
    uint32_t waiting;               /* of these, held */
    uint32_t barred;                /* tenants that are not believed */
};
/* cffi: end */

#define GPUD_DEBT_NS INT64_C(1000000000)        /* no level is ever lower: GPU time */
#define GPUD_CLAIM_NS INT64_C(250000000)        /* who asks for the device has at least this much of a claim kept: time */
#define GPUD_LEAST_PPM 1000                     /* of a cap or a share: 0.1 % */
#define GPUD_LIMIT_WINDOW_NS 100000000          /* a tenant's own limit: what is not used is kept this long */
#define GPUD_LINGER_NS 100000000                /* who wanted something this long ago still has a part of a total */
#define GPUD_SMOOTH_NS 50000000
#define GPUD_LATEST_NS 10000000
#define GPUD_HUNGRY_PPM 700000                  /* who asks for this part of the time takes all it can get */
#define GPUD_DRAW_LEAST_NS 100000
#define GPUD_DRAW_MOST_NS 2000000

/* One step: looks, moves on, divides, publishes. Returns GPUD_LEVELS_*. */
uint32_t gpud_levels_step(struct gpud_divided *levels, uint64_t now);
/* Fills what is seen of clients and tenants since the last step, as far as it can be. */
void gpud_levels_look(struct gpud_divided *levels, uint64_t now);
/* Moves levels on by what was seen, and divides anew. No page is touched. */
void gpud_levels_advance(struct gpud_divided *levels, uint64_t now);
/* Of these: the totals' own levels, before tenants are moved; tenants' parts of all totals, in part[]; shares, and the lags of
 * those who take turns. */
/* Those that are new begin with what their members have; after these were moved. */
void gpud_totals_begin(struct gpud_divided *levels);
void gpud_totals_move(struct gpud_divided *levels, uint64_t elapsed);
void gpud_totals_divide(struct gpud_divided *levels, uint64_t now);
void gpud_shares_divide(struct gpud_divided *levels, uint64_t now);
void gpud_lags_shift(struct gpud_divided *levels);
/* Writes the levels, shares and rates in force, and what is beyond each table, to all control pages. Wakes nobody. */
void gpud_levels_publish(struct gpud_divided *levels, uint64_t now);
/* GPUD_LEVELS_*, after an advance. */
uint32_t gpud_levels_state(const struct gpud_divided *levels, uint64_t now);
/* Gives each its part of `amount`: equal parts; what one does not ask for goes to those who do. One that is idle is told
 * what it would have if it asked. */
void gpud_divide(uint64_t amount, struct gpud_ask *asks, uint32_t count);

/* a × b ÷ c, towards zero. In 64 bits where that fits: a division of 128 costs more than all the rest of a step. */
static inline int64_t gpud_scale(int64_t a, int64_t b, int64_t c)
{
    int64_t product;
    return !__builtin_mul_overflow(a, b, &product) ? product / c : (int64_t)((__int128)a * b / c);
}

/* A rate that follows `now` over about `span`. */
static inline uint64_t gpud_smooth(uint64_t used, uint64_t now, uint64_t elapsed, uint64_t span)
{
    int64_t change = gpud_scale((int64_t)now - (int64_t)used, (int64_t)elapsed, (int64_t)(elapsed + span));
    return (uint64_t)((int64_t)used + change);
}

/* `ns` × `ppm` ÷ 1e6, towards zero. */
static inline int64_t gpud_part(int64_t ns, uint64_t ppm)
{
    return gpud_scale(ns, (int64_t)ppm, 1000000);
}

static inline uint64_t gpud_since(uint64_t now, uint64_t then)
{
    return now > then ? now - then : 0;
}

/* Did somebody who wanted something then (0: never) want it within `span`? */
static inline int gpud_within(uint64_t now, uint64_t then, uint64_t span)
{
    return then != 0 && gpud_since(now, then) <= span;
}

/* How a member asks for its part of `amount`; one that is content, for a little more than it uses. */
static inline struct gpud_ask gpud_ask(int wants, int hungry, uint64_t used, uint64_t spare, uint64_t amount)
{
    uint32_t state = !wants ? GPUD_ASK_IDLE : hungry ? GPUD_ASK_HUNGRY : GPUD_ASK_CONTENT;
    return (struct gpud_ask){ .state = state, .demand = used + spare + amount / 64 };
}

static inline int64_t gpud_between(int64_t low, int64_t value, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

#endif
