/* level.c: see level.h. Sums are made in 128 bits: whatever the words are, they fit. */
#include "level.h"

#include "sys.h"

#define TRIES 64            /* a writer takes nanoseconds, unless it was stopped in between */
#define PPM 1000000

/* Copies `read` until the counter did not move; at last it takes what there is. */
#define READ_STEADY(counter, read)                                                      \
    do {                                                                                \
        for (uint32_t tries_ = 0; tries_ < TRIES; tries_++) {                           \
            uint32_t before_ = gpud_load_acquire(counter);                              \
            read;                                                                       \
            __atomic_thread_fence(__ATOMIC_ACQUIRE);                                    \
            if (!(before_ & 1) && gpud_load(counter) == before_)                        \
                break;                                                                  \
            gpud_relax();                                                               \
        }                                                                               \
    } while (0)

#if defined(__SANITIZE_THREAD__)
/* The sanitizer knows no fences; every word is read atomically all the same. */
#undef __atomic_thread_fence
#define __atomic_thread_fence(order) __atomic_signal_fence(order)
#endif

struct gpud_levels gpud_levels_read(const struct gpud_control_device *device)
{
    struct gpud_levels levels = { { 0 }, { 0 }, 0, 0, 0 };

    READ_STEADY(&device->level_seq, {
        levels.cap.base_ns = gpud_load(&device->cap_base_ns);
        levels.cap.t0_ns = gpud_load(&device->cap_t0_ns);
        levels.cap.rate_ppm = gpud_load(&device->cap_rate_ppm);
        levels.cap_burst_ns = gpud_load(&device->cap_burst_ns);
        levels.cap_flags = gpud_load(&device->cap_flags);
        levels.share.base_ns = gpud_load(&device->share_base_ns);
        levels.share.t0_ns = gpud_load(&device->share_t0_ns);
        levels.share.rate_ppm = gpud_load(&device->share_rate_ppm);
        levels.share_turn_ns = gpud_load(&device->share_turn_ns);
    });
    return levels;
}

struct gpud_gain gpud_peer_level_read(const struct gpud_peer *peer)
{
    struct gpud_gain level = { 0, 0, 0 };

    READ_STEADY(&peer->share_seq, {
        level.base_ns = gpud_load(&peer->share_base_ns);
        level.t0_ns = gpud_load(&peer->share_t0_ns);
        level.rate_ppm = gpud_load(&peer->share_rate_ppm);
    });
    return level;
}

gpud_wide gpud_level_at(const struct gpud_gain *level, gpud_wide spent_ns, uint64_t now)
{
    uint64_t passed = now > level->t0_ns ? now - level->t0_ns : 0;
    return level->base_ns + (gpud_wide)passed * level->rate_ppm / PPM - spent_ns;
}

uint64_t gpud_level_positive_at(const struct gpud_gain *level, gpud_wide spent_ns)
{
    gpud_wide missing = spent_ns - level->base_ns + 1;      /* to be gained since t0 */

    if (missing <= 0)
        return 0;
    if (level->rate_ppm == 0)
        return GPUD_NEVER;
    gpud_wide at = level->t0_ns + (missing * PPM + level->rate_ppm - 1) / level->rate_ppm;
    return at < (gpud_wide)GPUD_NEVER ? (uint64_t)at : GPUD_NEVER;
}

int64_t gpud_lag_at(const struct gpud_gain *level, gpud_wide spent_ns, uint64_t now)
{
    gpud_wide scaled = gpud_level_at(level, spent_ns, now) * PPM;
    gpud_wide lag = scaled / level->rate_ppm;

    if (scaled % level->rate_ppm < 0)
        lag--;
    return lag > INT64_MAX ? INT64_MAX : lag < INT64_MIN ? INT64_MIN : (int64_t)lag;
}

const struct gpud_presence_page *gpud_peer_known(const struct gpud_peer *peer, const struct gpud_presence_page *const *peers,
                                                 uint32_t present_count)
{
    uint64_t generation = gpud_load(&peer->generation);
    uint32_t present = gpud_load(&peer->present);

    if (generation == 0 || present >= present_count || peers[present] == NULL ||
        gpud_load(&peers[present]->header.generation) != generation)
        return NULL;
    return peers[present];
}

uint32_t gpud_peer_count(const struct gpud_control_device *knobs)
{
    uint32_t count = gpud_load(&knobs->peer_count);
    return count < GPUD_MAX_PEERS ? count : GPUD_MAX_PEERS;
}

gpud_wide gpud_own_spent(const struct gpud_control_device *knobs, uint32_t device, const struct gpud_presence_page *const *peers,
                         uint32_t present_count, uint64_t own_spent_ns)
{
    gpud_wide spent = own_spent_ns;
    uint32_t count = gpud_peer_count(knobs);

    for (uint32_t i = 0; i < count; i++) {
        if (!(gpud_load(&knobs->peers[i].flags) & GPUD_PEER_OWN))
            continue;
        const struct gpud_presence_page *page = gpud_peer_known(&knobs->peers[i], peers, present_count);
        if (page != NULL)
            spent += gpud_load(&gpud_peer_at(page, device)->spent_ns);
    }
    return spent;
}
