/* accept.c: who comes: a connection of the same user becomes a client. When this process has no descriptors left, it says so to whoever
 * comes, with the help of one that it keeps for that: who is neither served nor refused would wait, and this process never rest. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "device.h"

#define NAP_MS 10

int device_watch(const struct node *node, int fd, uint32_t events, uint64_t tag)
{
    struct epoll_event event = { .events = events, .data.u64 = tag };
    return epoll_ctl(node->epoll, EPOLL_CTL_ADD, fd, &event);
}

void client_no_room(struct sim_reply *reply, int error)
{
    reply->result = -error;
    snprintf(reply->text, SIM_TEXT, "the device process cannot make shared memory for one more program: %s%s", strerror(error),
             error == EMFILE ? "; raise the limit (ulimit -n) of the node's first program" : "");
    reply->text_bytes = (uint32_t)strnlen(reply->text, SIM_TEXT - 1);
}

void accept_spare(struct node *node)
{
    if (node->spare < 0)
        node->spare = eventfd(0, EFD_CLOEXEC);
}

static void turn_away(int fd, int error)
{
    static struct sim_request request;
    static struct sim_reply reply;
    client_no_room(&reply, error);
    ssize_t n = recv(fd, &request, sizeof request, MSG_DONTWAIT);       /* its hello, if it is there; else it tries again */
    n = send(fd, &reply, SIM_REPLY_HEAD + reply.text_bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
    (void)n;
    close(fd);
}

/* Answers one who waits, for whom there is no descriptor. False: not even that is possible. */
static bool refuse(struct node *node, int error)
{
    if (node->spare >= 0)
        close(node->spare);
    node->spare = -1;
    int fd = accept4(node->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0)
        turn_away(fd, error);
    accept_spare(node);
    return fd >= 0;
}

static void take(struct node *node, int fd)
{
    struct ucred peer = { .pid = 0 };
    socklen_t size = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) || peer.uid != geteuid()) {
        close(fd);
        return;
    }
    /* A forked child may keep the socket of a dead client open: its process is watched too. */
    int pidfd = peer.pid ? (int)syscall(SYS_pidfd_open, peer.pid, 0) : -1;
    bool full = peer.pid && pidfd < 0 && (errno == EMFILE || errno == ENFILE);
    struct client *client = full ? NULL : calloc(1, sizeof *client);
    if (!client || device_watch(node, fd, EPOLLIN, (uint64_t)(uintptr_t)client)
        || (pidfd >= 0 && device_watch(node, pidfd, EPOLLIN, (uint64_t)(uintptr_t)client | 1))) {
        turn_away(fd, errno);
        if (pidfd >= 0)
            close(pidfd);
        free(client);
        return;
    }
    client->node = node;
    client->socket = fd;
    client->doorbell = -1;
    client->reply_fd = -1;
    client->pid = peer.pid;
    client->pidfd = pidfd;
    client->next = node->clients;
    node->clients = client;
}

void clients_accept(struct node *node)
{
    int fd;
    while ((fd = accept4(node->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0 || errno == ECONNABORTED)
        if (fd >= 0)
            take(node, fd);
    if (errno != EAGAIN && errno != EINTR && !refuse(node, errno))
        poll(NULL, 0, NAP_MS);          /* the machine has no descriptors left: nothing else would wait for that */
}
