/* host_slots.c: see host_slots.h. */
#include "host_slots.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "log.h"
#include "page.h"
#include "real.h"
#include "sys.h"

#define FREE (UINT32_MAX - 1)   /* in next[]: nobody's */
#define END UINT32_MAX          /* the last of its slot */
#define PORTABLE 1              /* CU_MEMHOSTREGISTER_PORTABLE: for every context */

struct region {
    unsigned char *at;
    uint32_t first, units;      /* of all */
    CUcontext asked_in;         /* the driver was asked to page-lock it in this context, and forgets it with that; NULL: not yet */
    uint32_t asked;             /* … so many units from its begin on */
    uint64_t unpinned;          /* … and refused so much of it */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct region *regions;  /* by their first unit; grows */
static uint32_t region_count, region_room, units, rover;
static uint32_t *next;          /* by unit */
uint64_t gpud_host_bytes, gpud_host_used, gpud_host_unpinned;

/* The daemon has sealed its size; a file that is too small would kill this program by SIGBUS. */
static int check(int fd, uint64_t bytes)
{
    struct stat is;
    if (bytes == 0 || bytes % GPUD_HOST_UNIT != 0 || bytes / GPUD_HOST_UNIT > UINT32_MAX / 2)
        return -EINVAL;
    if (fstat(fd, &is) != 0)
        return -errno;
    return is.st_size >= 0 && (uint64_t)is.st_size >= bytes ? 0 : -EINVAL;
}

static bool make_room(void)
{
    if (region_count < region_room)
        return true;
    uint32_t room = region_room == 0 ? 16 : region_room * 2;
    struct region *grown = realloc(regions, room * sizeof *grown);
    if (grown == NULL)
        return false;
    regions = grown;
    region_room = room;
    return true;
}

static int add(unsigned char *at, uint64_t bytes)
{
    uint32_t more = (uint32_t)(bytes / GPUD_HOST_UNIT);
    if (more > FREE - 1 - units)
        return -ENOSPC;
    uint32_t *grown = realloc(next, (units + more) * sizeof *grown);
    if (grown == NULL || (next = grown, !make_room()))
        return -ENOMEM;
    for (uint32_t unit = units; unit < units + more; unit++)
        next[unit] = FREE;
    regions[region_count++] = (struct region){ .at = at, .first = units, .units = more };
    units += more;
    gpud_store(&gpud_host_bytes, gpud_host_bytes + bytes);
    return 0;
}

int gpud_host_add(int fd, uint64_t bytes)
{
    int failure = check(fd, bytes);
    void *at = failure == 0 ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;

    if (failure == 0 && at == MAP_FAILED)
        failure = -errno;
    close(fd);
    if (failure != 0)
        return failure;
    madvise(at, bytes, MADV_DONTFORK);      /* a child has no use for it, and may not write to it */
    pthread_mutex_lock(&lock);
    failure = add(at, bytes);
    pthread_mutex_unlock(&lock);
    if (failure != 0)
        munmap(at, bytes);
    return failure;
}

static bool lock_pages(unsigned char *at, uint64_t bytes)
{
    CUresult result = real.cuMemHostRegister_v2 != NULL ? real.cuMemHostRegister_v2(at, bytes, PORTABLE) : CUDA_ERROR_NOT_FOUND;

    /* In a context that is broken the answer says nothing of the memory. */
    return result == CUDA_SUCCESS || result == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED || CUDA_ERROR_BREAKS(result);
}

/* The next piece of the region, which takes long: the lock is not held meanwhile, nobody but the mover is here. */
static void ask(uint32_t index, CUcontext context)
{
    struct region region = regions[index];
    uint64_t left = (uint64_t)(region.units - region.asked) * GPUD_HOST_UNIT, piece = left < GPUD_HOST_PIECE ? left : GPUD_HOST_PIECE;

    pthread_mutex_unlock(&lock);
    bool locked = lock_pages(region.at + region.asked * GPUD_HOST_UNIT, piece);
    if (!locked)
        gpud_log(GPUD_LOG_WARNING, GPUD_ONCE_UNPINNED, "the driver page-locks no memory for what leaves the device: that is copied at a lower "
                 "speed; is the limit of locked memory (ulimit -l) too low?");
    pthread_mutex_lock(&lock);
    regions[index].asked_in = context;
    regions[index].asked += (uint32_t)(piece / GPUD_HOST_UNIT);
    regions[index].unpinned += locked ? 0 : piece;
    gpud_store(&gpud_host_unpinned, gpud_host_unpinned + (locked ? 0 : piece));
}

bool gpud_host_register(CUcontext context, uint64_t until_ns)
{
    bool late = false;

    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < region_count && !late; i++) {
        while (regions[i].asked < regions[i].units && !late) {
            ask(i, context);
            late = until_ns != 0 && gpud_now() >= until_ns;
        }
    }
    pthread_mutex_unlock(&lock);
    return !late;
}

void gpud_host_context_gone(CUcontext context)
{
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < region_count; i++) {
        if (regions[i].asked_in != context)
            continue;
        gpud_store(&gpud_host_unpinned, gpud_host_unpinned - regions[i].unpinned);
        regions[i].asked_in = NULL;
        regions[i].asked = 0;
        regions[i].unpinned = 0;
    }
    pthread_mutex_unlock(&lock);
}

uint64_t gpud_host_lack(uint64_t bytes)
{
    uint64_t room = gpud_load(&gpud_host_bytes) - gpud_load(&gpud_host_used);
    return bytes <= room ? 0 : (bytes - room + GPUD_HOST_UNIT - 1) / GPUD_HOST_UNIT * GPUD_HOST_UNIT;
}

bool gpud_host_take(uint64_t bytes, uint32_t *first)
{
    uint32_t need = (uint32_t)(bytes / GPUD_HOST_UNIT), last = END;
    bool taken = false;

    pthread_mutex_lock(&lock);
    if (bytes <= gpud_host_bytes - gpud_host_used && need > 0) {
        while (need > 0) {
            uint32_t unit = rover;
            rover = rover + 1 < units ? rover + 1 : 0;
            if (next[unit] != FREE)
                continue;
            if (last == END)
                *first = unit;
            else
                next[last] = unit;
            next[unit] = END;
            last = unit;
            need--;
        }
        gpud_store(&gpud_host_used, gpud_host_used + bytes);
        taken = true;
    }
    pthread_mutex_unlock(&lock);
    return taken;
}

void gpud_host_give(uint32_t first)
{
    pthread_mutex_lock(&lock);
    for (uint32_t unit = first; unit != END;) {
        uint32_t after = next[unit];
        next[unit] = FREE;
        gpud_store(&gpud_host_used, gpud_host_used - GPUD_HOST_UNIT);
        unit = after;
    }
    pthread_mutex_unlock(&lock);
}

/* Around the unit. */
static const struct region *region_of(uint32_t unit)
{
    uint32_t low = 0, high = region_count;

    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (regions[middle].first <= unit)
            low = middle;
        else
            high = middle;
    }
    return &regions[low];
}

struct gpud_stretch gpud_host_stretch(uint32_t *unit, uint64_t most)
{
    struct gpud_stretch stretch = { NULL, 0 };

    pthread_mutex_lock(&lock);
    const struct region *region = region_of(*unit);
    uint32_t begin = *unit - region->first, piece = (uint32_t)(GPUD_HOST_PIECE / GPUD_HOST_UNIT);
    stretch.at = region->at + begin * GPUD_HOST_UNIT;
    for (uint32_t at = begin;; at++) {
        uint32_t after = next[region->first + at];
        stretch.bytes += GPUD_HOST_UNIT;
        *unit = after;
        if (after != region->first + at + 1 || at + 1 == region->units || (at + 1) % piece == 0 || stretch.bytes + GPUD_HOST_UNIT > most)
            break;
    }
    pthread_mutex_unlock(&lock);
    return stretch;
}

/* Four lanes, so that memory and not the multiplication is what it waits for. Multiplying by an odd number and turning keep every
 * difference of one word. */
static void sum_into(uint64_t lane[4], const unsigned char *at, uint64_t bytes)
{
    const uint64_t *word = (const uint64_t *)(const void *)at;
    uint64_t a = lane[0], b = lane[1], c = lane[2], d = lane[3];

    for (uint64_t i = 0; i < bytes / 8; i += 4) {
        a = (a ^ word[i]) * UINT64_C(0x9e3779b97f4a7c15);
        b = (b ^ word[i + 1]) * UINT64_C(0xc2b2ae3d27d4eb4f);
        c = (c ^ word[i + 2]) * UINT64_C(0xff51afd7ed558ccd);
        d = (d ^ word[i + 3]) * UINT64_C(0xd6e8feb86659fd93);
        a = a << 29 | a >> 35;
        b = b << 31 | b >> 33;
        c = c << 27 | c >> 37;
        d = d << 33 | d >> 31;
    }
    lane[0] = a;
    lane[1] = b;
    lane[2] = c;
    lane[3] = d;
}

uint64_t gpud_host_sum(uint32_t first)
{
    uint64_t lane[4] = { 1, 2, 3, 4 };

    for (uint32_t unit = first; unit != END;) {
        struct gpud_stretch stretch = gpud_host_stretch(&unit, UINT64_MAX / 2);
        sum_into(lane, stretch.at, stretch.bytes);
    }
    uint64_t sum = lane[0];
    for (int i = 1; i < 4; i++)
        sum = (sum ^ lane[i] ^ lane[i] >> 31) * UINT64_C(0x9fb21c651e98df25);
    return sum ^ sum >> 32;
}

void gpud_host_forget(void)
{
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    region_count = region_room = units = rover = 0;
    regions = NULL;
    next = NULL;
    gpud_host_bytes = gpud_host_used = gpud_host_unpinned = 0;
}
