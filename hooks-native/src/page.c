/* page.c: mapping, checking and replacing the shared pages. Called by the keeper only, and by the fork handler. */
#include "page.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include "sys.h"

#ifndef F_GET_SEALS
#define F_GET_SEALS 1034
#define F_SEAL_SHRINK 2
#endif

struct gpud_region gpud_region;

#define PLACE(i) (const struct gpud_presence_page *)(const void *)gpud_region.peer[i]
#define PLACES4(i) PLACE(i), PLACE((i) + 1), PLACE((i) + 2), PLACE((i) + 3)
#define PLACES16(i) PLACES4(i), PLACES4((i) + 4), PLACES4((i) + 8), PLACES4((i) + 12)
const struct gpud_presence_page *const gpud_present[GPUD_MAX_PRESENT] = {
    PLACES16(0), PLACES16(16), PLACES16(32), PLACES16(48),
};

/* A second view of the control page, so that sleepers on a replaced page can still be woken. */
static unsigned char *control_twin;

/* Zeroed private memory over a place. It replaces a mapping by one of the same size, which needs no more address space. */
static void map_dummy(void *place, size_t bytes)
{
    mmap(place, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
}

static int map_over(void *place, size_t bytes, int protection, int fd)
{
    void *at = mmap(place, bytes, protection, MAP_SHARED | MAP_FIXED, fd, 0);
    if (at == MAP_FAILED) {
        int failure = errno;
        if (msync(place, bytes, MS_ASYNC) != 0)
            map_dummy(place, bytes);    /* what lay there is gone already, and launches look there */
        return -failure;
    }
    madvise(place, bytes, MADV_DONTFORK);
    return 0;
}

const char *gpud_page_check(int fd, uint32_t kind, size_t bytes, uint64_t generation)
{
    struct stat info;
    struct gpud_page_header header;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0)
        return "not a memfd";
    if (!(seals & F_SEAL_SHRINK))
        return "not sealed against shrinking";
    if (fstat(fd, &info) != 0 || info.st_size < 0 || (uint64_t)info.st_size < bytes)
        return "too short";
    if (pread(fd, &header, sizeof header, 0) != (ssize_t)sizeof header)
        return "unreadable";
    if (header.magic != GPUD_PAGE_MAGIC)
        return "without the page mark";
    if (header.version != GPUD_PAGE_VERSION)
        return "of another page version";
    if (header.kind != kind)
        return "of another kind";
    if (header.size < bytes)
        return "too short by its own head";
    if (kind != GPUD_PAGE_CONTROL && header.generation != generation)
        return "of another generation";
    return NULL;
}

int gpud_map_own(int presence_fd, int activity_fd)
{
    int failure = map_over(gpud_region.presence, sizeof gpud_region.presence, PROT_READ | PROT_WRITE, presence_fd);
    if (failure == 0)
        failure = map_over(gpud_region.activity, sizeof gpud_region.activity, PROT_READ | PROT_WRITE, activity_fd);
    return failure;
}

static void wake_all(const struct gpud_control_page *page)
{
    for (uint32_t device = 0; device < GPUD_MAX_DEVICES; device++)
        gpud_futex_wake(&page->device[device].wake, true);
}

int gpud_map_control(int fd)
{
    size_t bytes = sizeof gpud_region.control;
    void *twin = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (twin == MAP_FAILED)
        return -errno;
    madvise(twin, bytes, MADV_DONTFORK);
    int failure = map_over(gpud_region.control, bytes, PROT_READ, fd);
    if (failure != 0) {
        munmap(twin, bytes);
        return failure;
    }
    if (control_twin != NULL) {
        wake_all((const struct gpud_control_page *)(const void *)control_twin);
        munmap(control_twin, bytes);
    }
    control_twin = twin;
    return 0;
}

int gpud_map_peer(uint32_t present, int fd)
{
    return map_over(gpud_region.peer[present], sizeof gpud_region.peer[present], PROT_READ, fd);
}

void gpud_unmap_peer(uint32_t present)
{
    map_dummy(gpud_region.peer[present], sizeof gpud_region.peer[present]);
}

void gpud_map_dummies(void)
{
    control_twin = NULL;        /* not inherited either */
    map_dummy(&gpud_region, sizeof gpud_region);
}

void gpud_wake_held(void)
{
    wake_all(gpud_control());
}
