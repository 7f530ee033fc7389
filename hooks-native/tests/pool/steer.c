/* steer.c: a hook that a test steers in the place of the daemon and the keeper: exported beside the entries, in a library of its own. */
#include "host_slots.h"
#include "state.h"
#include "steer.h"
#include "swap.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT void steer_attach(void)
{
    struct gpud_control_device *knobs = &((struct gpud_control_page *)(void *)gpud_region.control)->device[1];
    gpud_store(&gpud_slot_of[0], 1);
    knobs->memory_flags = GPUD_MEMORY_SWAP;
    knobs->pass_launches = 1;
    knobs->memory_limit = UINT64_MAX;
    gpud_store_release(&gpud_managed, 1);
    gpud_word_raise(0, 0);
}

EXPORT void steer_away(int away)
{
    struct gpud_control_device *knobs = &((struct gpud_control_page *)(void *)gpud_region.control)->device[1];
    gpud_store(&gpud_presence_at(1)->lock, away ? GPUD_LOCK_NONE : GPUD_LOCK_HAS);
    gpud_store(&knobs->gate, away ? GPUD_GATE_GRANT : 0);
    gpud_word_raise(0, 0);
}

EXPORT int steer_host(int fd, uint64_t bytes)
{
    return gpud_host_add(fd, bytes);
}

EXPORT int steer_out(uint64_t bytes, uint64_t *moved)
{
    return (int)gpud_swap_out(1, bytes, 0, moved);
}

EXPORT int steer_in(uint64_t *moved)
{
    return (int)gpud_swap_in(1, UINT64_MAX, 0, moved);
}

EXPORT struct steer_counts steer_counts(void)
{
    struct gpud_pool_counts counts = gpud_pool_counts(1);
    return (struct steer_counts){ counts.resident, counts.idle, counts.host, counts.lazy, counts.pinned, { gpud_swap_stats.most[0], gpud_swap_stats.most[1] },
                                  gpud_load(&gpud_host_unpinned) };
}
