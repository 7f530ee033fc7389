/* sample_others.c: is anybody else at work on a device? All peers of the table, whatever their role, and those beyond it, of whom the
 * daemon says each tick whether there were any. */
#include "sample_state.h"

#define BEYOND_NS (15 * GPUD_MILLISECOND)   /* three ticks: so long a change of others_edges speaks for somebody at work */

/* Of the others beyond the table: when their word changed last. */
static struct {
    uint32_t edges;
    uint64_t changed_ns;
} beyond[GPUD_MAX_DEVICES];

static uint64_t mix(uint64_t value)
{
    value *= UINT64_C(0x9e3779b97f4a7c15);
    return value ^ value >> 29;
}

static bool anybody_beyond(uint32_t device, uint32_t edges, uint64_t now)
{
    if (gpud_load(&beyond[device].edges) != edges) {
        gpud_store(&beyond[device].edges, edges);
        gpud_store(&beyond[device].changed_ns, now);
    }
    uint64_t changed = gpud_load(&beyond[device].changed_ns);
    return changed != 0 && now < changed + BEYOND_NS;
}

struct gpud_others gpud_others_look(uint32_t device, uint64_t now)
{
    const struct gpud_control_device *knobs = &gpud_control()->device[device];
    uint32_t count = gpud_load_acquire(&knobs->peer_count), edges = gpud_load(&knobs->others_edges);
    struct gpud_others others = { .trace = edges };

    for (uint32_t i = 0; i < count && i < GPUD_MAX_PEERS; i++) {
        uint64_t generation = gpud_load(&knobs->peers[i].generation);
        uint32_t present = gpud_load(&knobs->peers[i].present);
        uint64_t word = 0;
        if (generation == 0)
            continue;
        if (present < GPUD_MAX_PRESENT && gpud_load(&gpud_present[present]->header.generation) == generation)
            word = gpud_load_acquire(gpud_peer_edge_word(gpud_peer_at(gpud_present[present], device)));
        others.active += GPUD_EDGE_ACTIVE(word) != 0;
        others.trace += mix(generation ^ mix(word + 1));    /* in whichever order the table has them */
    }
    if (gpud_load(&knobs->others_active) || anybody_beyond(device, edges, now))
        others.active++;
    return others;
}
