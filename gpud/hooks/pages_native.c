/* pages_native.c: see pages_native.h. Words the other side reads or writes at the same time are atomic accesses. */
#include "pages_native.h"

#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOAD(word) __atomic_load_n(&(word), __ATOMIC_RELAXED)
#define STORE(word, value) __atomic_store_n(&(word), (value), __ATOMIC_RELAXED)
#define STORE_RELEASE(word, value) __atomic_store_n(&(word), (value), __ATOMIC_RELEASE)

void *gpud_map(int fd, size_t bytes, int writable)
{
    void *address = mmap(NULL, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
    return address == MAP_FAILED ? NULL : address;
}

void gpud_unmap(void *address, size_t bytes)
{
    munmap(address, bytes);
}

/* Adds what one thread's slot says. */
static void add_slot(struct gpud_sum *sum, const struct gpud_slot *slot)
{
    sum->entered += LOAD(slot->entered);
    sum->left += LOAD(slot->left);
    sum->blocks += LOAD(slot->blocks);
    sum->held += LOAD(slot->held);
    sum->held_ns += LOAD(slot->held_ns);
    if (!__atomic_load_n(&slot->holding, __ATOMIC_ACQUIRE))
        return;
    uint64_t since = LOAD(slot->hold_since_ns);
    sum->holding++;
    if (sum->hold_since_ns == 0 || since < sum->hold_since_ns) {
        sum->hold_since_ns = since;
        sum->hold_reason = LOAD(slot->hold_reason);
        sum->hold_peer = LOAD(slot->hold_peer);
    }
}

/* Fills one client's sum on one device. */
static void sum_device(struct gpud_sum *sum, const struct gpud_presence_device *presence,
                       const struct gpud_activity_device *activity)
{
    sum->active = __atomic_load_n(&presence->active, __ATOMIC_ACQUIRE);
    sum->edges = LOAD(presence->edges);
    sum->idle_since_ns = LOAD(presence->idle_since_ns);
    sum->inflight = LOAD(presence->inflight);
    sum->spent_ns = LOAD(presence->spent_ns);
    sum->full_ns = LOAD(presence->full_ns);
    sum->waiting = LOAD(presence->waiting);
    sum->turn = LOAD(presence->turn);
    sum->used_bytes = LOAD(activity->used_bytes);
    sum->allocations = LOAD(activity->allocations);
    sum->launches_failed = LOAD(activity->launches_failed);
    sum->passed = LOAD(activity->passed);
    sum->last_finish_ns = LOAD(activity->last_finish_ns);
    sum->copy_bytes = LOAD(activity->copy_bytes);
    sum->samples = LOAD(activity->samples);
    sum->clean = LOAD(activity->clean);
    sum->calls = LOAD(activity->calls);
    sum->reserved_bytes = LOAD(presence->reserved_bytes);
    sum->resident_bytes = LOAD(activity->resident_bytes);
    sum->host_bytes = LOAD(activity->host_bytes);
    sum->lazy_bytes = LOAD(activity->lazy_bytes);
    sum->swap_done_bytes = LOAD(activity->swap_done_bytes);
    sum->swap_total_bytes = LOAD(activity->swap_total_bytes);
    sum->lost_bytes = LOAD(activity->lost_bytes);
    sum->slots_bytes = LOAD(activity->slots_bytes);
    sum->unpinned_bytes = LOAD(activity->unpinned_bytes);
    for (uint32_t why = 0; why < GPUD_PINS; why++) {
        uint64_t bytes = LOAD(activity->pins[why]);
        sum->pinned_bytes += bytes;
        sum->pins |= bytes != 0 ? 1u << why : 0;
    }
    sum->lock = LOAD(presence->lock);
    sum->holds = LOAD(presence->holds);
    sum->factor_ppm = LOAD(activity->factor_ppm);
    sum->estimated = LOAD(activity->estimated);
    for (uint32_t i = 0; i < GPUD_MAX_SLOTS; i++)
        add_slot(sum, &activity->slots[i]);
}

void gpud_pages_sum(const struct gpud_summed *clients, uint32_t count, struct gpud_sum *sums)
{
    memset(sums, 0, sizeof *sums * count * GPUD_MAX_DEVICES);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t device = 0; device < GPUD_MAX_DEVICES; device++)
            if (clients[i].devices & (1u << device))
                sum_device(&sums[i * GPUD_MAX_DEVICES + device],
                           &clients[i].presence->device[gpud_presence_index(&clients[i].presence->header, device)],
                           &clients[i].activity->device[device]);
}

void gpud_histogram(const struct gpud_activity_page *page, uint32_t device, uint64_t out[GPUD_HISTOGRAM_BUCKETS])
{
    for (uint32_t i = 0; i < GPUD_HISTOGRAM_BUCKETS; i++)
        out[i] = LOAD(page->device[device].held_histogram[i]);
}

void gpud_delays(const struct gpud_activity_page *page, uint32_t device, uint64_t out[GPUD_HISTOGRAM_BUCKETS])
{
    for (uint32_t i = 0; i < GPUD_HISTOGRAM_BUCKETS; i++)
        out[i] = LOAD(page->device[device].delay_histogram[i]);
}

static int same_peer(const struct gpud_peer *a, const struct gpud_peer *b)
{
    return a->rank == b->rank && a->unit == b->unit && a->generation == b->generation && a->present == b->present &&
           a->flags == b->flags && a->tenant == b->tenant;
}

/* A peer entry holds only while its generation is the mapped page's, so it is zero while the rest changes. Whoever is new there
 * takes no part in the turns before the next step of the levels says so. */
static void publish_peer(struct gpud_peer *to, const struct gpud_peer *from)
{
    if (same_peer(to, from))
        return;
    if (to->generation != from->generation || to->tenant != from->tenant)
        STORE(to->share_rate_ppm, 0);
    STORE(to->generation, 0);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    STORE(to->rank, from->rank);
    STORE(to->unit, from->unit);
    STORE(to->present, from->present);
    STORE(to->flags, from->flags);
    STORE(to->tenant, from->tenant);
    STORE_RELEASE(to->generation, from->generation);
}

/* Counts the device's futex word on and wakes all who sleep on it. */
static void wake(struct gpud_control_device *device)
{
    __atomic_add_fetch(&device->wake, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, &device->wake, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void gpud_publish_device(struct gpud_control_page *page, uint32_t device, const struct gpud_control_device *words)
{
    struct gpud_control_device *to = &page->device[device];
    for (uint32_t i = 0; i < GPUD_MAX_PEERS; i++)
        publish_peer(&to->peers[i], &words->peers[i]);
    STORE(to->rank, words->rank);
    STORE(to->unit, words->unit);
    STORE(to->tenant, words->tenant);
    STORE_RELEASE(to->peer_count, words->peer_count);
    STORE(to->max_inflight, words->max_inflight);
    STORE(to->pass_launches, words->pass_launches);
    STORE(to->resume_after_ns, words->resume_after_ns);
    STORE(to->max_pause_ns, words->max_pause_ns);
    STORE(to->max_inflight_ns, words->max_inflight_ns);
    STORE(to->others_reserved, words->others_reserved);
    STORE(to->overhead_bytes, words->overhead_bytes);
    STORE(to->memory_flags, words->memory_flags);
    STORE(to->memory_limit, words->memory_limit);
    STORE(to->pass_ns, words->pass_ns);
    STORE(to->burst_ns, words->burst_ns);
    STORE(to->grant_epoch, words->grant_epoch);
    STORE(to->grant_until_ns, words->grant_until_ns);
    STORE(to->lock_place, words->lock_place);
    STORE_RELEASE(to->lock_flags, words->lock_flags);
    STORE_RELEASE(to->generation, to->generation + 1);
    STORE_RELEASE(page->header.generation, page->header.generation + 1);
    STORE_RELEASE(to->gate, words->gate);
    wake(to);
}

void gpud_publish_watched(struct gpud_control_page *page, uint32_t device, uint32_t watched)
{
    if (LOAD(page->device[device].watched) != watched)
        __atomic_store_n(&page->device[device].watched, watched, __ATOMIC_SEQ_CST);
}

void gpud_publish_lease(struct gpud_control_page *page, uint64_t until_ns)
{
    STORE_RELEASE(page->lease_until_ns, until_ns);
}

/* A hook that reads in between never opens earlier than both the old words and the new ones say. */
void gpud_publish_failsafe(struct gpud_control_page *page, uint32_t failsafe, uint64_t after_ns)
{
    if (failsafe == GPUD_FAILSAFE_HOLD)
        STORE_RELEASE(page->failsafe, failsafe);
    STORE_RELEASE(page->failsafe_after_ns, after_ns);
    STORE_RELEASE(page->failsafe, failsafe);
}

void gpud_publish_detach(struct gpud_control_page *page)
{
    STORE_RELEASE(page->detach, 1);
    for (uint32_t i = 0; i < GPUD_MAX_DEVICES; i++) {
        STORE_RELEASE(page->device[i].gate, 0);
        wake(&page->device[i]);
    }
}
