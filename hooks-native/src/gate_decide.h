/* gate_decide.h: may a launch (or a copy) pass? A pure function of the pages and the clock; the same table of cases
 * (tests/contract/gate_cases.toml) drives it and its Python model. */
#ifndef GPUD_GATE_DECIDE_H
#define GPUD_GATE_DECIDE_H

#include <stdbool.h>
#include "bucket.h"
#include "page.h"

enum gpud_why {
    GPUD_WHY_OPEN,          /* nothing holds */
    GPUD_WHY_DETACHED,      /* passes: the daemon has let this client go */
    GPUD_WHY_PAUSED,        /* holds: the gate says so */
    GPUD_WHY_PEER,          /* holds: a peer ranked above is active, or was within resume_after */
    GPUD_WHY_OTHERS,        /* holds: one of the peers beyond the table is active */
    GPUD_WHY_WINDOW,        /* holds: max_inflight launches, or max_inflight_ns, are submitted and unfinished */
    GPUD_WHY_MAX_PAUSE,     /* passes: held for max_pause */
    GPUD_WHY_FAILSAFE,      /* passes: the lease ran out and the failsafe is open */
    GPUD_WHY_BUDGET,        /* holds: the tenant's cap of GPU time is used up */
    GPUD_WHY_RATE,          /* holds: the launches, blocks or bytes that its rate allows are used up */
    GPUD_WHY_SHARE,         /* holds: it is another tenant's turn */
    GPUD_WHY_LOCK,          /* holds: the device lock is not the tenant's, or its memory is not in yet */
};

/* What asks. */
struct gpud_own {
    uint64_t held_since_ns;     /* 0: it is not held yet */
    uint32_t passes;            /* launches that an earlier max_pause still lets through */
    uint64_t pass_ns;           /* GPU time that it still lets through */
    bool elsewhere;             /* the launch is on another device, and held there as a whole: peers and pause only */
    uint32_t inflight;          /* launches of this client on the device, submitted and unfinished */
    uint64_t inflight_ns;       /* the same in GPU time */
    bool full;                  /* the window has no room, whatever the two say (it is being looked at) */
    uint64_t cost_ns;           /* what this launch is charged with */
    uint64_t blocks;
    uint64_t bytes;             /* not 0: a copy of so many, which only copy_rate and the device lock hold */
    bool memory;                /* a memset (or a copy): likewise */
    uint64_t epoch;             /* of the device lock, as the keeper has taken it in; 0: none */
    uint64_t spent_ns;          /* spent_ns and turn of the own presence page */
    uint32_t turn;
    int64_t forfeit_ns;         /* of the cap: what came while the level was full */
    bool gathers;               /* its cap held this client last, and has not let it go on since */
    uint32_t ignored;           /* bit per entry of the table, and GPUD_MAX_PEERS for those beyond: waited for long enough */
    struct gpud_bucket launches_left, blocks_left, bytes_left;
};

struct gpud_decision {
    bool hold;
    uint32_t why;               /* enum gpud_why */
    uint32_t bit;               /* the GPUD_GATE_* bit that holds or was overruled; 0: none */
    uint32_t peer;              /* present index of the peer waited for, UINT32_MAX: none */
    uint64_t until_ns;          /* hold: when time alone changes the answer; UINT64_MAX: it does not */
    uint32_t turn;              /* GPUD_TURN_*: what the own presence page should say */
    uint32_t entry;             /* SHARE: first entry of the tenant waited for, GPUD_MAX_PEERS: those beyond the table */
    uint64_t look_ns;           /* SHARE: nothing is to be seen before */
};

/* A window is waited for at most this long where max_pause is unlimited: the work waited for is the client's own, and may
 * need the thread that is held. */
#define GPUD_WINDOW_PATIENCE_NS UINT64_C(10000000000)
/* Who has the turn has more work than the device does if its window was full within the last ⅛ turn, or millisecond. */
#define GPUD_FULL_PART 8
#define GPUD_FULL_LEAST_NS UINT64_C(1000000)
/* What no client says that is well: that its window stays full for longer than this; and that it is behind by more than the daemon lets
 * anybody be (4 periods, of at most 2 turns each, or 250 ms, with room for what was drawn and is given back), and what came since. */
#define GPUD_FULL_MOST_NS UINT64_C(10000000000)
#define GPUD_LAG_TURNS 8
#define GPUD_LAG_MOST_NS INT64_C(500000000)

/* `peers[i]` is the presence page mapped as present index i, of `present_count`; one whose generation differs is unknown
 * and holds nobody. */
struct gpud_decision gpud_decide(const struct gpud_control_page *control, uint32_t device,
                                 const struct gpud_presence_page *const *peers, uint32_t present_count,
                                 const struct gpud_own *own, uint64_t now);

/* gate_share.c: whose turn is it? `turn` is set in any case; hold, peer, entry, until_ns and look_ns where it is another's. */
struct gpud_decision gpud_decide_turn(const struct gpud_control_device *knobs, uint32_t device,
                                      const struct gpud_presence_page *const *peers, uint32_t present_count,
                                      const struct gpud_levels *levels, const struct gpud_own *own, uint64_t now);

/* The page of a peer ranked above, or NULL. */
const struct gpud_presence_page *gpud_peer_above(const struct gpud_control_device *device, const struct gpud_peer *peer,
                                                 const struct gpud_presence_page *const *peers, uint32_t present_count);

/* What a control page allows. */
struct gpud_allowance gpud_launch_allowance(const struct gpud_control_device *knobs);
struct gpud_allowance gpud_block_allowance(const struct gpud_control_device *knobs);
struct gpud_allowance gpud_copy_allowance(const struct gpud_control_device *knobs);

#endif
