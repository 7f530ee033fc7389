/* watch.c: as long as the edge words of the peers ranked above stay what they are, no clock needs to be read for the next launch. Where one
 * of them is not quiet long enough, nothing is watched. */
#include "watch.h"

#include "gate_decide.h"

void gpud_unwatch(struct gpud_thread *thread)
{
    thread->gate_seen = 0;
    thread->more = 0;
}

static void watch_word(struct gpud_thread *thread, const uint64_t *word, uint64_t quiet)
{
    thread->watch[thread->more++] = (struct gpud_watch){ word, quiet };
}

void gpud_watch_also(struct gpud_thread *thread, const uint64_t *word, uint64_t quiet)
{
    watch_word(thread, word, quiet);
}

bool gpud_watch_anew(struct gpud_thread *thread, uint64_t now)
{
    const struct gpud_control_device *knobs = &gpud_control()->device[thread->device];
    const uint64_t *peer_words = (const uint64_t *)(const void *)&knobs->peer_count;    /* and others_active */

    gpud_unwatch(thread);
    watch_word(thread, &knobs->generation, gpud_load_acquire(&knobs->generation));
    watch_word(thread, peer_words, gpud_load_acquire(peer_words));
    uint32_t count = (uint32_t)thread->watch[1].quiet, others = (uint32_t)(thread->watch[1].quiet >> 32);
    uint64_t resume_after = gpud_load(&knobs->resume_after_ns);
    bool all_quiet = others == 0;
    for (uint32_t i = 0; i < count && i < GPUD_MAX_PEERS; i++) {
        const struct gpud_presence_page *page = gpud_peer_above(knobs, &knobs->peers[i], gpud_present, GPUD_MAX_PRESENT);
        if (page == NULL)
            continue;
        const struct gpud_presence_device *device = gpud_peer_at(page, thread->device);
        uint64_t word = gpud_load_acquire(gpud_peer_edge_word(device));
        uint64_t since = gpud_load(&device->idle_since_ns);
        all_quiet &= !GPUD_EDGE_ACTIVE(word) && gpud_load_acquire(&device->turn) != GPUD_TURN_ASKS &&
                     (since == 0 || gpud_sum_to(since, resume_after) <= now);
        watch_word(thread, gpud_peer_edge_word(device), word);
    }
    if (!all_quiet)
        gpud_unwatch(thread);
    return all_quiet;
}
_Static_assert(offsetof(struct gpud_control_device, peer_count) % 8 == 0 &&
               offsetof(struct gpud_control_device, others_active) == offsetof(struct gpud_control_device, peer_count) + 4,
               "read as one word");
_Static_assert(GPUD_MAX_WATCH <= GPUD_MORE_WATCHED, "counted in `more`");
