/* page.h: where the shared pages lie in this process, and how their words are read and written.
 *
 * All pages have fixed addresses in one static region, so no pointer can dangle: before the attach, and in a forked child,
 * plain zeroed memory lies there (a zero gate word is open); an attach maps the daemon's memfds over it. */
#ifndef GPUD_PAGE_LOCAL_H
#define GPUD_PAGE_LOCAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "gpud_page.h"

#define gpud_load(p) __atomic_load_n((p), __ATOMIC_RELAXED)
#define gpud_load_acquire(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define gpud_load_total(p) __atomic_load_n((p), __ATOMIC_SEQ_CST)
#define gpud_store(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)
#define gpud_store_release(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)
#define gpud_store_total(p, v) __atomic_store_n((p), (v), __ATOMIC_SEQ_CST)
#define gpud_add(p, v) __atomic_fetch_add((p), (v), __ATOMIC_RELAXED)
#define gpud_add_total(p, v) __atomic_fetch_add((p), (v), __ATOMIC_SEQ_CST)
#define gpud_sub_total(p, v) __atomic_fetch_sub((p), (v), __ATOMIC_SEQ_CST)

/* A counter that only the calling thread writes, and others read. */
#define gpud_bump(p) gpud_store((p), gpud_load(p) + 1)

#define GPUD_MAX_PRESENT 64     /* peers' presence pages that can be mapped at once */

struct gpud_region {
    _Alignas(4096) unsigned char control[GPUD_CONTROL_BYTES];
    _Alignas(4096) unsigned char presence[GPUD_PRESENCE_BYTES];
    _Alignas(4096) unsigned char activity[GPUD_ACTIVITY_BYTES];
    _Alignas(4096) unsigned char peer[GPUD_MAX_PRESENT][GPUD_PRESENCE_BYTES];
};
extern struct gpud_region gpud_region;

/* Accessors; valid at any time. */
static inline const struct gpud_control_page *gpud_control(void)
{
    return (const struct gpud_control_page *)(const void *)gpud_region.control;
}
static inline struct gpud_presence_page *gpud_presence(void)
{
    return (struct gpud_presence_page *)(void *)gpud_region.presence;
}
static inline struct gpud_activity_page *gpud_activity(void)
{
    return (struct gpud_activity_page *)(void *)gpud_region.activity;
}
static inline const struct gpud_presence_page *gpud_peer_page(uint32_t present)
{
    return (const struct gpud_presence_page *)(const void *)gpud_region.peer[present];
}

/* Their lines for one device. */
static inline struct gpud_presence_device *gpud_presence_at(uint32_t device)
{
    return &gpud_presence()->device[gpud_presence_index(&gpud_presence()->header, device)];
}
static inline const struct gpud_presence_device *gpud_peer_at(const struct gpud_presence_page *page, uint32_t device)
{
    return &page->device[gpud_presence_index(&page->header, device)];
}

/* All places of peers' pages, by present index. */
extern const struct gpud_presence_page *const gpud_present[GPUD_MAX_PRESENT];

/* `active` and `edges` of a presence device are read and changed as one word, so that an edge is one compare-and-swap. */
static inline uint64_t *gpud_edge_word(struct gpud_presence_device *device)
{
    return (uint64_t *)(void *)device;
}
static inline const uint64_t *gpud_peer_edge_word(const struct gpud_presence_device *device)
{
    return (const uint64_t *)(const void *)device;
}
#define GPUD_EDGE_ACTIVE(word) ((uint32_t)(word))
#define GPUD_EDGE_COUNT(word) ((uint32_t)((word) >> 32))
#define GPUD_EDGE_WORD(active, edges) ((uint64_t)(uint32_t)(edges) << 32 | (active))
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the edge word is little endian");
_Static_assert(offsetof(struct gpud_presence_device, active) == 0 && offsetof(struct gpud_presence_device, edges) == 4,
               "edge word");

/* Checks a page's descriptor and head: size, seal against shrinking, magic, version, kind. NULL if right, else what is wrong. */
const char *gpud_page_check(int fd, uint32_t kind, size_t bytes, uint64_t generation);

/* Map a checked page over its place. 0 or a negative errno; the old content of the place is lost, the address stays valid. */
int gpud_map_own(int presence_fd, int activity_fd);
int gpud_map_control(int fd);   /* wakes whoever sleeps on the page that lay there before */
int gpud_map_peer(uint32_t present, int fd);
void gpud_unmap_peer(uint32_t present);
/* Puts zeroed private memory everywhere (forked child: own pages are not inherited). Async-signal-safe. */
void gpud_map_dummies(void);
/* Wakes all threads that are held on any device of the control page. */
void gpud_wake_held(void);

#endif
