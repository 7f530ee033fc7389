/* pages_native.h: what the daemon does to pages in C, for the extension module gpud.hooks._pages. Built with the same
 * gpud_page.h as the hook. Runs in the daemon only. */
#ifndef GPUD_PAGES_NATIVE_H
#define GPUD_PAGES_NATIVE_H

#include <stddef.h>
#include <stdint.h>

#include "gpud_page.h"

/* cffi: begin */
/* One client's two pages, and which devices of them are in use. */
struct gpud_summed {
    const struct gpud_presence_page *presence;
    const struct gpud_activity_page *activity;
    uint32_t devices;           /* bit i: device slot i */
    uint32_t pad;
};

/* One client on one device: all its threads together. */
struct gpud_sum {
    uint64_t entered;
    uint64_t left;
    uint64_t held;
    uint64_t held_ns;
    uint64_t launches_failed;
    uint64_t passed;
    uint64_t used_bytes;
    uint64_t allocations;
    uint64_t last_finish_ns;
    uint64_t idle_since_ns;
    uint64_t inflight;
    uint64_t hold_since_ns;     /* of the thread that is held longest; 0: none is */
    uint64_t spent_ns;
    uint64_t full_ns;
    uint64_t blocks;
    uint64_t copy_bytes;
    uint64_t samples;
    uint64_t clean;
    uint64_t calls;
    uint64_t reserved_bytes;
    uint64_t resident_bytes;
    uint64_t host_bytes;
    uint64_t lazy_bytes;
    uint64_t pinned_bytes;
    uint64_t swap_done_bytes;
    uint64_t swap_total_bytes;
    uint64_t lost_bytes;
    uint64_t slots_bytes;
    uint64_t unpinned_bytes;
    uint32_t active;
    uint32_t edges;
    uint32_t holding;           /* threads held now */
    uint32_t hold_reason;       /* of the thread that is held longest */
    uint32_t hold_peer;
    uint32_t waiting;           /* threads held, by the presence page */
    uint32_t turn;
    uint32_t factor_ppm;
    uint32_t estimated;
    uint32_t lock;
    uint32_t holds;
    uint32_t pins;              /* bit per GPUD_PIN_*: pinned_bytes has some for that reason */
};
/* cffi: end */

/* Maps `bytes` of a memfd, all of it present at once. NULL and errno when that fails. */
void *gpud_map(int fd, size_t bytes, int writable);
/* Ends such a mapping. */
void gpud_unmap(void *address, size_t bytes);
/* Fills sums[count * GPUD_MAX_DEVICES]; devices that are not in use stay zero. */
void gpud_pages_sum(const struct gpud_summed *clients, uint32_t count, struct gpud_sum *sums);
/* Copies one device's histogram of holds. */
void gpud_histogram(const struct gpud_activity_page *page, uint32_t device, uint64_t out[GPUD_HISTOGRAM_BUCKETS]);
/* Likewise of delays from launch to start. */
void gpud_delays(const struct gpud_activity_page *page, uint32_t device, uint64_t out[GPUD_HISTOGRAM_BUCKETS]);
/* Writes one device of a control page so that a hook that reads meanwhile sees the old words or the new ones, the gate
 * last; then wakes whoever is held on it. `wake` and `generation` of `words` are ignored: they only count on. So is all that
 * the steps of the levels write (levels_publish.c). */
void gpud_publish_device(struct gpud_control_page *page, uint32_t device, const struct gpud_control_device *words);
/* Whether edges on that device need not be told. A hook that has not seen it yet has gone active before it. */
void gpud_publish_watched(struct gpud_control_page *page, uint32_t device, uint32_t watched);
/* Moves the end of the lease. */
void gpud_publish_lease(struct gpud_control_page *page, uint64_t until_ns);
/* What happens once the lease has run out: a GPUD_FAILSAFE_*, and the time after which it opens. */
void gpud_publish_failsafe(struct gpud_control_page *page, uint32_t failsafe, uint64_t after_ns);
/* Says that the daemon has let this client go, and wakes all its threads. */
void gpud_publish_detach(struct gpud_control_page *page);

#endif
