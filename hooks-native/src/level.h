/* level.h: what a tenant may still use and how far it is behind its share, from the words of gpud_page.h. Pure: no clock, no state. No
 * word of a page can make any of this overflow, divide by zero or go on for ever. */
#ifndef GPUD_LEVEL_H
#define GPUD_LEVEL_H

#include "page.h"

__extension__ typedef __int128 gpud_wide;

/* What a level gains: base + rate × (now − t0). */
struct gpud_gain {
    int64_t base_ns;
    uint64_t t0_ns;
    uint32_t rate_ppm;
};

/* The words of a device that change together. */
struct gpud_levels {
    struct gpud_gain cap, share;
    uint64_t cap_burst_ns;
    uint32_t cap_flags;
    uint64_t share_turn_ns;
};

/* As they are between two writings. A writer that stopped in the middle is not waited for: then as they are. */
struct gpud_levels gpud_levels_read(const struct gpud_control_device *device);
struct gpud_gain gpud_peer_level_read(const struct gpud_peer *peer);

/* What the level is at `now` once `spent_ns` is taken off. Nothing is gained before t0. */
gpud_wide gpud_level_at(const struct gpud_gain *level, gpud_wide spent_ns, uint64_t now);
/* The first moment at which it is above zero; GPUD_NEVER: never. */
uint64_t gpud_level_positive_at(const struct gpud_gain *level, gpud_wide spent_ns);
/* Level ÷ rate, rounded down: the same as time. The rate is not 0. */
int64_t gpud_lag_at(const struct gpud_gain *level, gpud_wide spent_ns, uint64_t now);

/* spent_ns of the own tenant: `own_spent_ns` and that of its other processes in the table. */
gpud_wide gpud_own_spent(const struct gpud_control_device *knobs, uint32_t device, const struct gpud_presence_page *const *peers,
                         uint32_t present_count, uint64_t own_spent_ns);

/* The page a peer entry refers to, or NULL: unused, not mapped, or of another generation. */
const struct gpud_presence_page *gpud_peer_known(const struct gpud_peer *peer, const struct gpud_presence_page *const *peers,
                                                 uint32_t present_count);
/* How many entries of the table are in use. */
uint32_t gpud_peer_count(const struct gpud_control_device *knobs);

#endif
