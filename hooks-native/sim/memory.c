/* memory.c: the allocator of one simulated device. A range that is freed is punched out of the memfd: its pages go back
 * to the machine and it reads as zeroes for whoever gets it next. */
#define _GNU_SOURCE
#include "memory.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U
#endif
#define GRAIN 512ull
#define MOST_RANGES 262144u             /* of a device; programs that allocate more take their pieces from larger ranges */

int memory_file(const char *name, uint64_t bytes)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
    if (fd < 0 && errno == EINVAL)      /* a kernel before 6.3 */
        fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -errno;
    if (ftruncate(fd, (off_t)bytes) || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW)) {
        int error = errno;
        close(fd);
        return -error;
    }
    return fd;
}

int memory_open(struct memory *m, uint64_t total, uint64_t reserved)
{
    *m = (struct memory){ .total = total, .reserved = reserved };
    m->fd = memory_file("gpud-sim-memory", total);
    if (m->fd < 0)
        return m->fd;
    return fcntl(m->fd, F_ADD_SEALS, F_SEAL_SEAL) ? -errno : 0;     /* no client can seal it for the others */
}

void memory_close(struct memory *m)
{
    if (m->fd >= 0)
        close(m->fd);
    for (uint32_t i = 0; i < m->count; i++)
        for (struct memory_hold *hold = m->ranges[i].more, *next; hold; hold = next) {
            next = hold->next;
            free(hold);
        }
    free(m->ranges);
    *m = (struct memory){ .fd = -1 };
}

uint64_t memory_available(const struct memory *m)
{
    uint64_t taken = m->used + m->reserved;
    return taken < m->total ? m->total - taken : 0;
}

static void use(struct memory *m, uint64_t bytes)
{
    m->used += bytes;
    if (m->used > m->peak)
        m->peak = m->used;
}

int memory_charge(struct memory *m, uint64_t bytes)
{
    if (bytes > memory_available(m))
        return -ENOMEM;
    use(m, bytes);
    return 0;
}

void memory_uncharge(struct memory *m, uint64_t bytes)
{
    m->used -= bytes < m->used ? bytes : m->used;
}

/* The first gap that fits: its index in `ranges`, its offset. False: none. */
static int find_gap(const struct memory *m, uint64_t bytes, uint64_t align, uint32_t *index, uint64_t *offset)
{
    uint64_t end = m->total - m->reserved, at = 0;
    for (uint32_t i = 0; i <= m->count; i++) {
        uint64_t limit = i < m->count ? m->ranges[i].offset : end;
        uint64_t start = (at + align - 1) & ~(align - 1);
        if (start <= limit && limit - start >= bytes) {
            *index = i;
            *offset = start;
            return 1;
        }
        if (i < m->count)
            at = m->ranges[i].offset + m->ranges[i].bytes;
    }
    return 0;
}

int memory_alloc(struct memory *m, const void *holder, uint64_t bytes, uint64_t align, uint64_t *offset)
{
    if (!bytes || bytes > m->total || align > m->total || (align & (align - 1)))
        return bytes > m->total ? -ENOMEM : -EINVAL;
    align = align < GRAIN ? GRAIN : align;
    bytes = (bytes + GRAIN - 1) / GRAIN * GRAIN;
    uint32_t index;
    if (m->count == MOST_RANGES || bytes > memory_available(m) || !find_gap(m, bytes, align, &index, offset))
        return -ENOMEM;
    if (m->count == m->room) {
        uint32_t room = m->room ? m->room * 2 : 64;
        struct memory_range *ranges = realloc(m->ranges, room * sizeof *ranges);
        if (!ranges)
            return -ENOMEM;
        m->ranges = ranges;
        m->room = room;
    }
    memmove(&m->ranges[index + 1], &m->ranges[index], (m->count - index) * sizeof *m->ranges);
    m->ranges[index] = (struct memory_range){ .offset = *offset, .bytes = bytes, .id = ++m->ids, .holder = holder, .count = 1 };
    m->count++;
    use(m, bytes);
    return 0;
}

static void scrub(const struct memory *m, const struct memory_range *range)
{
    if (m->fd >= 0)
        fallocate(m->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)range->offset, (off_t)range->bytes);
}

/* The index of the range that starts at `offset`, or m->count. */
static uint32_t find(const struct memory *m, uint64_t offset)
{
    uint32_t low = 0, high = m->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (m->ranges[middle].offset < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low < m->count && m->ranges[low].offset == offset ? low : m->count;
}

const struct memory_range *memory_range_at(const struct memory *m, uint64_t offset)
{
    uint32_t index = find(m, offset);
    return index < m->count ? &m->ranges[index] : NULL;
}

int memory_hold(struct memory *m, const void *holder, uint64_t offset, uint64_t id)
{
    uint32_t index = find(m, offset);
    if (index == m->count || m->ranges[index].id != id)
        return -ENOENT;
    struct memory_range *range = &m->ranges[index];
    if (range->holder == holder) {
        range->count++;
        return 0;
    }
    struct memory_hold **at = &range->more;
    while (*at && (*at)->holder != holder)
        at = &(*at)->next;
    if (!*at && !(*at = calloc(1, sizeof **at)))
        return -ENOMEM;
    (*at)->holder = holder;
    (*at)->count++;
    return 0;
}

/* Takes `count` holds (0: all) of the holder off. 1: nobody holds the range any more; 0; −EINVAL: it held none. */
static int let_go(struct memory_range *range, const void *holder, uint32_t count)
{
    if (range->holder == holder) {
        range->count -= count ? count : range->count;
        if (range->count)
            return 0;
        struct memory_hold *next = range->more;
        if (!next)
            return 1;
        range->holder = next->holder;
        range->count = next->count;
        range->more = next->next;
        free(next);
        return 0;
    }
    for (struct memory_hold **at = &range->more; *at; at = &(*at)->next) {
        struct memory_hold *hold = *at;
        if (hold->holder != holder)
            continue;
        hold->count -= count ? count : hold->count;
        if (!hold->count) {
            *at = hold->next;
            free(hold);
        }
        return 0;
    }
    return -EINVAL;
}

int memory_free(struct memory *m, const void *holder, uint64_t offset)
{
    uint32_t index = find(m, offset);
    int left = index < m->count ? let_go(&m->ranges[index], holder, 1) : -EINVAL;
    if (left != 1)
        return left;
    scrub(m, &m->ranges[index]);
    m->used -= m->ranges[index].bytes;
    memmove(&m->ranges[index], &m->ranges[index + 1], (m->count - index - 1) * sizeof *m->ranges);
    m->count--;
    return 0;
}

uint64_t memory_free_all(struct memory *m, const void *holder)
{
    uint64_t freed = 0;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < m->count; i++) {
        if (let_go(&m->ranges[i], holder, 0) != 1) {
            m->ranges[kept++] = m->ranges[i];
            continue;
        }
        scrub(m, &m->ranges[i]);
        freed += m->ranges[i].bytes;
    }
    m->count = kept;
    m->used -= freed;
    return freed;
}

uint64_t memory_held(const struct memory *m, const void *holder)
{
    uint64_t held = 0;
    for (uint32_t i = 0; i < m->count; i++)
        if (m->ranges[i].holder == holder)
            held += m->ranges[i].bytes;
    return held;
}
