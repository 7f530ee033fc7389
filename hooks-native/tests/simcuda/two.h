/* two.h: two processes of one test on one simulated node, with a socket between them for bytes and descriptors. */
#ifndef SIM_TEST_TWO_H
#define SIM_TEST_TWO_H

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "driver_memory.h"

/* One packet with a descriptor (-1: none). True: it went. */
static inline bool put(int socket, const void *data, size_t bytes, int fd, int flags)
{
    union { struct cmsghdr header; char room[CMSG_SPACE(sizeof(int))]; } control = {{0}};
    struct iovec part = {(void *)(uintptr_t)data, bytes};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd >= 0) {
        message.msg_control = &control;
        message.msg_controllen = sizeof control;
        control.header = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
    }
    return sendmsg(socket, &message, MSG_NOSIGNAL | flags) == (ssize_t)bytes;
}

/* The next packet, of at most `bytes`, and the descriptor that came along, or -1. What recvmsg says. */
static inline ssize_t take(int socket, void *data, size_t bytes, int *fd, int flags)
{
    union { struct cmsghdr header; char room[CMSG_SPACE(sizeof(int))]; } control;
    struct iovec part = {data, bytes};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | flags);
    struct cmsghdr *c = n < 0 ? NULL : CMSG_FIRSTHDR(&message);
    *fd = -1;
    if (c && c->cmsg_type == SCM_RIGHTS)
        memcpy(fd, CMSG_DATA(c), sizeof *fd);
    return n;
}

/* As put, but does not wait for room, and what does not go is lost: the other one is slow, or dead. The descriptor is closed. */
static inline void let_go(int socket, const void *data, size_t bytes, int fd)
{
    (void)put(socket, data, bytes, fd, MSG_DONTWAIT);
    if (fd >= 0)
        close(fd);
}

/* Sends `bytes` and a descriptor (-1: none). */
static inline void tell(int socket, const void *data, size_t bytes, int fd)
{
    if (!put(socket, data, bytes, fd, 0))
        CHECK(0, "sendmsg: %s", strerror(errno));
}

/* Waits for exactly `bytes`; the descriptor that came along, or -1. Ends the process when the other one is gone. */
static inline int hear(int socket, void *data, size_t bytes)
{
    int fd;
    ssize_t n = take(socket, data, bytes, &fd, 0);
    if (n != (ssize_t)bytes) {
        CHECK(0, "the other process ended, or said something else: %zd of %zu bytes", n, bytes);
        exit(1);
    }
    return fd;
}

static inline void nudge(int socket) { tell(socket, "", 1, -1); }
static inline void await(int socket) { char c; hear(socket, &c, 1); }

static inline pid_t begin(void (*part)(int), int socket, int other)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid)
        return pid;
    close(other);
    alarm(300);                         /* a test that hangs says so */
    check_count = check_failures = 0;
    part(socket);
    fflush(stdout);
    exit(check_failures || !check_count);
}

/* Runs both parts in processes of their own; neither this process nor they before have a link to the node. `killed`: the first one
 * is meant to end by SIGKILL. */
static inline void both(const char *name, void (*first)(int), void (*second)(int), bool killed)
{
    int sockets[2], status[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets)) {
        CHECK(0, "socketpair: %s", strerror(errno));
        return;
    }
    pid_t a = begin(first, sockets[0], sockets[1]), b = begin(second, sockets[1], sockets[0]);
    close(sockets[0]);
    close(sockets[1]);
    waitpid(a, &status[0], 0);
    waitpid(b, &status[1], 0);
    bool good = killed ? WIFSIGNALED(status[0]) && WTERMSIG(status[0]) == SIGKILL : !status[0];
    CHECK(good && !status[1], "%s: status %x and %x", name, (unsigned)status[0], (unsigned)status[1]);
}

/* Until the device's free memory is `bytes` again: the device process hears of ends and closings by itself. */
static inline void all_back(size_t bytes)
{
    for (int i = 0; i < 60000 && left() != bytes; i++)
        usleep(1000);
    CHECK(left() == bytes, "%zd bytes are lost", (ssize_t)(bytes - left()));
}

#endif
