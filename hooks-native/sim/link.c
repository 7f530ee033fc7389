/* link.c: a client's link to the device process: opening, requests, and what becomes of it at fork(). */
#define _GNU_SOURCE
#include "link_state.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "start.h"

#define FDS (4 + SIM_MAX_DEVICES)

static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint64_t serials;
static struct sim_link *the_link;
static struct sim_link *inherited;      /* dead links of the parents of this process */

bool link_alive(struct sim_link *link)
{
    struct pollfd socket = { .fd = link->socket, .events = 0 };
    if (atomic_load(&link->dead))
        return false;
    if (poll(&socket, 1, 0) == 1 && (socket.revents & (POLLHUP | POLLERR | POLLNVAL)))
        atomic_store(&link->dead, true);
    return !atomic_load(&link->dead);
}

/* Out of the way of programs that close or count low descriptors. */
static int move_up(int fd)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur < 256)
        return fd;
    int base = (int)(limit.rlim_cur > 4096 ? 4096 : limit.rlim_cur) - 64;
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, base);
    if (moved < 0)
        return fd;
    close(fd);
    return moved;
}

static void release(struct sim_link *link)
{
    if (link->socket >= 0)
        close(link->socket);
    if (link->doorbell >= 0)
        close(link->doorbell);
    for (int i = 0; i < SIM_MAX_DEVICES; i++)
        if (link->memory_fd[i] >= 0)
            close(link->memory_fd[i]);
    if (link->node)
        munmap((void *)(uintptr_t)link->node, sizeof *link->node);
    if (link->done)
        munmap((void *)(uintptr_t)link->done, sizeof *link->done);
    if (link->page)
        munmap(link->page, sizeof *link->page);
    link->socket = link->doorbell = -1;
    link->node = NULL;
    link->done = NULL;
    link->page = NULL;
    for (int i = 0; i < SIM_MAX_DEVICES; i++)
        link->memory_fd[i] = -1;
}

/* The child has no part in its parent's link: it would keep it open after the parent's death, and write into its ring. The
 * struct stays, dead, for whoever still points to it. */
static void forked_child(void)
{
    pthread_mutex_init(&open_lock, NULL);
    if (!the_link)
        return;
    atomic_store(&the_link->dead, true);
    pthread_mutex_init(&the_link->ask_lock, NULL);      /* another thread of the parent may have held them */
    pthread_mutex_init(&the_link->ring_lock, NULL);
    release(the_link);
    the_link->older = inherited;
    inherited = the_link;
    the_link = NULL;
}

/* The hello and its answer: descriptors into `fds`. How many, or a negative errno and a sentence. */
static int greet(int socket, const struct sim_hello *hello, int fds[FDS], char *error, size_t error_size)
{
    struct sim_request_head request = { .magic = SIM_PROTO_MAGIC, .type = SIM_HELLO, .text_bytes = sizeof *hello };
    struct sim_reply_head reply;
    char text[1024];
    union { struct cmsghdr header; char room[CMSG_SPACE(sizeof(int) * FDS)]; } control;
    struct iovec out[2] = { { &request, sizeof request }, { (void *)(uintptr_t)hello, sizeof *hello } };
    struct iovec in[2] = { { &reply, sizeof reply }, { text, sizeof text } };
    struct msghdr sent = { .msg_iov = out, .msg_iovlen = 2 };
    struct msghdr message = { .msg_iov = in, .msg_iovlen = 2, .msg_control = &control, .msg_controllen = sizeof control };
    struct timeval patience = { .tv_sec = 10 }, none = { .tv_sec = 0 };
    setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    ssize_t n = sendmsg(socket, &sent, MSG_NOSIGNAL);
    do
        n = n < 0 ? n : recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN) {
        snprintf(error, error_size, "the device process does not answer for 10 s");
        return -ETIMEDOUT;
    }
    if (n < (ssize_t)SIM_REPLY_HEAD)
        return -ECONNRESET;             /* it was just ending: try again */
    setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof none);
    int count = 0;
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
        count = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        memcpy(fds, CMSG_DATA(c), sizeof(int) * (size_t)count);
    }
    if (reply.result || (message.msg_flags & MSG_CTRUNC) || count < 5) {
        for (int i = 0; i < count; i++)
            close(fds[i]);
        if (reply.result)
            snprintf(error, error_size, "%.*s", (int)(n - (ssize_t)SIM_REPLY_HEAD), text);
        else
            snprintf(error, error_size, "this process has no file descriptors left for the simulated device (ulimit -n)");
        return reply.result ? reply.result : -EMFILE;
    }
    return count;
}

/* A page of the device process: NULL when it cannot be mapped or is not of the size we know. Closes the descriptor. */
static void *map_page(int fd, size_t bytes, int protection)
{
    off_t size = lseek(fd, 0, SEEK_END);
    void *at = size == (off_t)bytes ? mmap(NULL, bytes, protection, MAP_SHARED, fd, 0) : MAP_FAILED;
    close(fd);
    if (at == MAP_FAILED)
        return NULL;
    madvise(at, bytes, MADV_DONTDUMP);
    return at;
}

static int build(struct sim_link *link, int socket, const int fds[FDS], int count, char *error, size_t error_size)
{
    link->socket = move_up(socket);
    link->doorbell = move_up(fds[3]);
    for (int i = 4; i < count; i++)
        link->memory_fd[i - 4] = move_up(fds[i]);
    link->page = map_page(fds[0], sizeof *link->page, PROT_READ | PROT_WRITE);
    link->done = map_page(fds[1], sizeof *link->done, PROT_READ);
    link->node = map_page(fds[2], sizeof *link->node, PROT_READ);
    pthread_mutex_init(&link->ask_lock, NULL);
    pthread_mutex_init(&link->ring_lock, NULL);
    link->serial = atomic_fetch_add(&serials, 1) + 1;
    if (link->page && link->done && link->node && link->node->magic == SIM_PAGE_MAGIC && link->node->version == SIM_PAGE_VERSION
        && link->node->device_count == (uint32_t)count - 4)
        return 0;
    snprintf(error, error_size, "cannot map the pages of the device process (no address space left, or another version of gpud)");
    return -ENOMEM;
}

static int open_link(char *error, size_t error_size)
{
    struct sim_hello hello;
    int fds[FDS], socket, count = -ECONNRESET;
    for (int tries = 0; tries < 200 && count == -ECONNRESET; tries++) {
        socket = link_connect(&hello, error, error_size);
        if (socket < 0)
            return socket;
        count = greet(socket, &hello, fds, error, error_size);
        if (count < 0)
            close(socket);
        if (count == -ECONNRESET)
            poll(NULL, 0, 5);
    }
    if (count == -ECONNRESET)
        snprintf(error, error_size, "the device process closes every connection");
    if (count < 0)
        return count;
    struct sim_link *link = calloc(1, sizeof *link);
    if (!link) {
        for (int i = 0; i < count; i++)
            close(fds[i]);
        close(socket);
        snprintf(error, error_size, "no memory");
        return -ENOMEM;
    }
    for (int i = 0; i < SIM_MAX_DEVICES; i++)
        link->memory_fd[i] = -1;
    int result = build(link, socket, fds, count, error, error_size);
    if (result) {
        release(link);
        free(link);
        return result;
    }
    the_link = link;
    return 0;
}

int sim_link_open(struct sim_link **link, char *error, size_t error_size)
{
    static _Atomic bool watching;
    int result = 0;
    if (error_size)
        error[0] = 0;
    if (!atomic_exchange(&watching, true))
        pthread_atfork(NULL, NULL, forked_child);
    pthread_mutex_lock(&open_lock);
    if (!the_link)
        result = open_link(error, error_size);
    else if (!link_alive(the_link)) {
        snprintf(error, error_size, "the device process is gone; what this process had on its devices is lost");
        result = -EPIPE;
    }
    *link = result ? NULL : the_link;
    pthread_mutex_unlock(&open_lock);
    return result;
}

void sim_link_close(struct sim_link *link)
{
    if (!link)
        return;
    pthread_mutex_lock(&open_lock);
    if (the_link == link)
        the_link = NULL;
    pthread_mutex_unlock(&open_lock);
    release(link);
    for (int i = 0; i < LINK_NAMES; i++)
        while (link->names[i]) {
            struct link_name *name = link->names[i];
            link->names[i] = name->next;
            free(name);
        }
    free(link);
}
