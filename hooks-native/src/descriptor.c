/* descriptor.c: descriptors of our own in a program that may close all of them. */
#define _GNU_SOURCE
#include "descriptor.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include "page.h"

#define WANTED 1000     /* out of the way of programs that count from below, within what most limits allow */

static int high_number(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > WANTED + 24)
        return WANTED;
    return limit.rlim_cur > 64 ? (int)limit.rlim_cur - 24 : 3;
}

bool gpud_descriptor_keep(struct gpud_descriptor *descriptor, int fd)
{
    struct stat info;

    gpud_store(&descriptor->fd, -1);
    if (fd < 0)
        return false;
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, high_number());
    if (moved >= 0) {
        close(fd);
        fd = moved;
    } else {
        fcntl(fd, F_SETFD, FD_CLOEXEC);     /* no free number up there: it stays where it is */
    }
    if (fstat(fd, &info) != 0) {
        close(fd);
        return false;
    }
    /* Application threads may be looking: they see the new number with the new identity, or nothing of ours. */
    gpud_store(&descriptor->device, info.st_dev);
    gpud_store(&descriptor->inode, info.st_ino);
    gpud_store_release(&descriptor->fd, fd);
    return true;
}

bool gpud_descriptor_is_ours(const struct gpud_descriptor *descriptor)
{
    struct stat info;
    int fd = gpud_load_acquire(&descriptor->fd);
    return fd >= 0 && fstat(fd, &info) == 0 && info.st_dev == gpud_load(&descriptor->device) &&
           info.st_ino == gpud_load(&descriptor->inode);
}

void gpud_descriptor_drop(struct gpud_descriptor *descriptor)
{
    if (gpud_descriptor_is_ours(descriptor))
        close(descriptor->fd);
    gpud_store(&descriptor->fd, -1);
}
