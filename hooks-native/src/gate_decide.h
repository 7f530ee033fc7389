/* gate_decide.h: may a launch pass? A pure function of the pages and the clock; the same table of cases
 * (tests/contract/gate_cases.toml) drives it and its Python model. */
#ifndef GPUD_GATE_DECIDE_H
#define GPUD_GATE_DECIDE_H

#include <stdbool.h>
#include "page.h"

enum gpud_why {
    GPUD_WHY_OPEN,          /* nothing holds */
    GPUD_WHY_DETACHED,      /* passes: the daemon has let this client go */
    GPUD_WHY_PAUSED,        /* holds: the gate says so */
    GPUD_WHY_PEER,          /* holds: a peer ranked above is active, or was within resume_after */
    GPUD_WHY_OTHERS,        /* holds: one of the peers beyond the table is active */
    GPUD_WHY_WINDOW,        /* holds: max_inflight launches are submitted and unfinished */
    GPUD_WHY_MAX_PAUSE,     /* passes: held for max_pause */
    GPUD_WHY_FAILSAFE,      /* passes: the lease ran out and the failsafe is open */
};

/* What the asking thread brings. */
struct gpud_own {
    uint64_t held_since_ns;     /* 0: it is not held yet */
    uint32_t passes;            /* launches that an earlier max_pause still lets through */
    uint32_t inflight;          /* launches of this client on the device, submitted and unfinished */
};

struct gpud_decision {
    bool hold;
    uint32_t why;               /* enum gpud_why */
    uint32_t bit;               /* the GPUD_GATE_* bit that holds or was overruled; 0: none */
    uint32_t peer;              /* present index of the peer waited for, UINT32_MAX: none */
    uint64_t until_ns;          /* hold: when time alone changes the answer; UINT64_MAX: it does not */
};

/* A window is waited for at most this long where max_pause is unlimited: the work waited for is the client's own, and may
 * need the thread that is held. */
#define GPUD_WINDOW_PATIENCE_NS UINT64_C(10000000000)

/* `peers[i]` is the presence page mapped as present index i, of `present_count`; one whose generation differs is unknown
 * and holds nobody. */
struct gpud_decision gpud_decide(const struct gpud_control_page *control, uint32_t device,
                                 const struct gpud_presence_page *const *peers, uint32_t present_count,
                                 const struct gpud_own *own, uint64_t now);

/* The page a peer entry refers to, or NULL: unused, ranked no higher, not mapped, or of another generation. */
const struct gpud_presence_page *gpud_peer_above(const struct gpud_control_device *device, const struct gpud_peer *peer,
                                                 const struct gpud_presence_page *const *peers, uint32_t present_count);

#endif
