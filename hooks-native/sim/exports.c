/* exports.c: descriptors that stand for memory. A program exports a range (or a pool, whose ranges are named later) and gets the
 * writing end of a pipe; the reading end stays here. So a descriptor can go to any process by any way, names its export by its inode
 * number, and the last copy's closing, wherever it was, is an end of file here. While it is under way it holds the range. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device.h"

struct export {
    struct export *next;
    struct node *node;
    int fd;                             /* the reading end */
    uint64_t inode;
    uint32_t device;
    uint64_t offset, bytes;             /* of the range; a pool has none */
    uint64_t pool;                      /* its number; 0: a range */
};

static void drop(struct export *export)
{
    struct node *node = export->node;
    struct export **at = &node->exports;
    while (*at != export)
        at = &(*at)->next;
    *at = export->next;
    if (!export->pool)
        memory_free(&node->memory[export->device], export, export->offset);
    close(export->fd);
    free(export);
    if (!node->exports && !node->attached)
        node->alone_since_ns = device_clock();
}

/* A pipe whose reading end is watched; its writing end, or a negative errno. */
static int open_pipe(struct export *export)
{
    int fds[2];
    struct stat info;
    if (pipe2(fds, O_CLOEXEC | O_NONBLOCK))
        return -errno;
    struct epoll_event event = { .events = 0, .data.u64 = (uint64_t)(uintptr_t)export | DEVICE_TAG_EXPORT };
    if (fstat(fds[0], &info) || epoll_ctl(export->node->epoll, EPOLL_CTL_ADD, fds[0], &event)) {
        int error = errno;
        close(fds[0]);
        close(fds[1]);
        return -error;
    }
    export->fd = fds[0];
    export->inode = info.st_ino;
    return fds[1];
}

int32_t export_new(struct client *client, const struct sim_request *request, struct sim_reply *reply)
{
    struct node *node = client->node;
    struct export *export = calloc(1, sizeof *export);
    if (!export)
        return -ENOMEM;
    *export = (struct export){ .node = node, .device = request->device, .offset = (uint64_t)request->a };
    int error = 0;
    if (request->id) {
        export->pool = request->b ? (uint64_t)request->b : ++node->pool_numbers;
        error = export->pool > node->pool_numbers ? -EINVAL : 0;
    } else {
        const struct memory_range *range = memory_range_at(&node->memory[request->device], export->offset);
        error = range ? memory_hold(&node->memory[request->device], export, range->offset, range->id) : -EINVAL;
        export->bytes = range ? range->bytes : 0;
    }
    if (error) {
        free(export);
        return error;
    }
    export->next = node->exports;
    node->exports = export;
    export->fd = -1;
    int fd = open_pipe(export);
    if (fd < 0) {
        drop(export);
        return fd;
    }
    client->reply_fd = fd;
    reply->a = (int64_t)export->pool;
    return 0;
}

int32_t export_open(struct client *client, const struct sim_request *request, struct sim_reply *reply)
{
    struct export *export = client->node->exports;
    while (export && export->inode != (uint64_t)request->a)
        export = export->next;
    if (!export || (export->pool != 0) != (request->id != 0))
        return -ENOENT;
    struct memory *memory = &client->node->memory[export->device];
    const struct memory_range *range = export->pool ? NULL : memory_range_at(memory, export->offset);
    int error = range ? memory_hold(memory, client, range->offset, range->id) : 0;
    reply->id = export->device;
    reply->a = (int64_t)(export->pool ? export->pool : export->offset);
    reply->b = (int64_t)export->bytes;
    return error;
}

void export_closed(struct export *export)
{
    drop(export);
}

void exports_close(struct node *node)
{
    while (node->exports)
        drop(node->exports);
}
