/* clients.c: who is connected: hello, packets in and out, the end of a client. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "device.h"
#include "log.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#define REQUESTS_A_ROUND 64

void client_doom(struct client *client, const char *format, ...)
{
    if (client->doomed)
        return;
    client->doomed = true;
    va_list args;
    va_start(args, format);
    vsnprintf(client->reason, sizeof client->reason, format, args);
    va_end(args);
}

/* One page of a client: a sealed file, mapped here. Its descriptor, or a negative errno. */
static int make_page(const char *name, uint64_t bytes, int seals, void **at)
{
    int fd = memory_file(name, bytes);
    if (fd < 0)
        return fd;
    *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (*at == MAP_FAILED || fcntl(fd, F_ADD_SEALS, seals)) {
        int error = errno;
        if (*at != MAP_FAILED)
            munmap(*at, bytes);
        *at = NULL;
        close(fd);
        return -error;
    }
    return fd;
}

/* Whoever writes 3g.20gb means 3g. */
static bool same_mode(const struct node *node, const char *text)
{
    static struct profile other;
    char why[256];
    other = *node->profile;
    return profile_mode(&other, text, why, sizeof why) && !strcmp(other.mode, node->profile->mode);
}

/* Does the node have what the client's environment asks for? Else a sentence in the reply. */
static bool agreed(const struct node *node, const struct sim_hello *hello, struct sim_reply *reply)
{
    const char *slash = strrchr(hello->profile, '/'), *asked = slash ? slash + 1 : hello->profile;
    size_t n = strlen(asked);
    if (n > 5 && !strcmp(asked + n - 5, ".toml"))
        n -= 5;
    char *text = reply->text;
    if (hello->version != SIM_PROTO_VERSION)
        snprintf(text, SIM_TEXT, "node %s is run by another version of gpud (protocol %u, this program has %u); end its programs first",
                 node->name, SIM_PROTO_VERSION, hello->version);
    else if (asked[0] && (strncmp(asked, node->profile->name, n) || node->profile->name[n]))
        snprintf(text, SIM_TEXT, "GPUD_SIM_PROFILE=%s: node %s already runs with profile %s; use another GPUD_SIM_NODE", hello->profile,
                 node->name, node->profile->name);
    else if (hello->devices && hello->devices != node->whole_count)
        snprintf(text, SIM_TEXT, "GPUD_SIM_DEVICES=%u: node %s already runs with %u; use another GPUD_SIM_NODE", hello->devices,
                 node->name, node->whole_count);
    else if (hello->mode[0] && !same_mode(node, hello->mode))
        snprintf(text, SIM_TEXT, "GPUD_SIM_MODE=%s: node %s already runs with %s; use another GPUD_SIM_NODE", hello->mode, node->name,
                 node->profile->mode);
    else if (hello->time_scale > 0 && fabs(hello->time_scale - node->page->time_scale) > 1e-5 * node->page->time_scale)
        snprintf(text, SIM_TEXT, "GPUD_SIM_TIME_SCALE=%g: node %s already runs with %g; use another GPUD_SIM_NODE", hello->time_scale,
                 node->name, node->page->time_scale);
    else if (hello->log[0] && strcmp(hello->log, node->log_path ? node->log_path : ""))
        snprintf(text, SIM_TEXT, "GPUD_SIM_LOG=%s: node %s already runs and logs to %s; set it for the first program of the node",
                 hello->log, node->name, node->log_path ? node->log_path : "nowhere");
    else if (hello->faults[0] && strcmp(hello->faults, node->faults))
        snprintf(text, SIM_TEXT, "GPUD_SIM_FAULTS=\"%s\": node %s already runs with %s%s%s for all; set it for the first program of the node",
                 hello->faults, node->name, node->faults[0] ? "\"" : "no faults", node->faults, node->faults[0] ? "\"" : "");
    else
        return true;
    reply->result = -EINVAL;
    return false;
}

/* Makes the pages of the client; fds to send. How many, or a negative errno. */
static int admit(struct client *client, int fds[4 + SIM_MAX_DEVICES])
{
    struct node *node = client->node;
    void *page = NULL, *done = NULL;
    fds[0] = make_page("gpud-sim-client", sizeof *client->page, F_SEAL_SEAL, &page);
    if (fds[0] < 0)
        return fds[0];
    client->page = page;
    fds[1] = make_page("gpud-sim-done", sizeof *client->done, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL, &done);
    if (fds[1] < 0) {
        close(fds[0]);
        return fds[1];
    }
    client->done = done;
    fds[2] = node->page_fd;
    client->doorbell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (client->doorbell < 0) {
        int error = errno;
        close(fds[0]);
        close(fds[1]);
        return -error;
    }
    fds[3] = client->doorbell;
    for (uint32_t i = 0; i < node->device_count; i++)
        fds[4 + i] = node->memory[i].fd;
    /* Edge-triggered and never read: reading could block when the client has changed the descriptor's flags. */
    if (device_watch(node, client->doorbell, EPOLLIN | EPOLLET, (uint64_t)(uintptr_t)client | 2)) {
        int error = errno;
        close(fds[0]);
        close(fds[1]);
        return -error;
    }
    client->attached = true;
    node->attached++;
    node->served = true;
    log_client(node, client, "attached", "");
    return 4 + (int)node->device_count;
}

static void send_reply(struct client *client, const struct sim_reply *reply, const int *fds, int count)
{
    union { struct cmsghdr header; char room[CMSG_SPACE(sizeof(int) * (4 + SIM_MAX_DEVICES))]; } control = { .header = { 0 } };
    struct iovec part = { .iov_base = (void *)reply, .iov_len = SIM_REPLY_HEAD + reply->text_bytes };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
    if (count > 0) {
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)count);
        struct cmsghdr *c = CMSG_FIRSTHDR(&message);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)count);
        memcpy(CMSG_DATA(c), fds, sizeof(int) * (size_t)count);
    }
    if (sendmsg(client->socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        client_doom(client, "does not take its replies: %s", strerror(errno));
}

static void hello(struct client *client, const struct sim_request *request, struct sim_reply *reply)
{
    struct sim_hello asked;
    int fds[4 + SIM_MAX_DEVICES], count = 0;
    if (request->type != SIM_HELLO || request->text_bytes != sizeof asked) {
        client_doom(client, "its first packet is no hello");
        return;
    }
    memcpy(&asked, request->text, sizeof asked);
    asked.mode[sizeof asked.mode - 1] = asked.profile[sizeof asked.profile - 1] = asked.log[sizeof asked.log - 1] = asked.faults[sizeof asked.faults - 1] = 0;
    if (!client->pid)
        client->pid = (pid_t)asked.pid;
    if (agreed(client->node, &asked, reply)) {
        count = admit(client, fds);
        reply->result = count < 0 ? count : 0;
        if (count < 0)
            client_no_room(reply, -count);
    }
    reply->text_bytes = (uint32_t)strnlen(reply->text, SIM_TEXT - 1);
    send_reply(client, reply, fds, count);
    if (count > 0) {
        close(fds[0]);
        close(fds[1]);
    } else
        client_doom(client, "refused");
}

void client_readable(struct client *client)
{
    static struct sim_request request;
    static struct sim_reply reply;
    for (int i = 0; i < REQUESTS_A_ROUND && !client->doomed; i++) {
        ssize_t n = recv(client->socket, &request, sizeof request, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0) {
            client_doom(client, "left");
            return;
        }
        if ((size_t)n < SIM_REQUEST_HEAD || request.magic != SIM_PROTO_MAGIC || request.text_bytes != (size_t)n - SIM_REQUEST_HEAD) {
            client_doom(client, "malformed packet of %zd bytes", n);
            return;
        }
        memset(&reply, 0, SIM_REPLY_HEAD);
        reply.text[0] = 0;
        if (!client->attached) {
            hello(client, &request, &reply);
            continue;
        }
        rings_take(client->node);       /* what was submitted before comes before */
        if (!client->doomed)
            request_handle(client, &request, &reply);
        if (!client->doomed)
            send_reply(client, &reply, &client->reply_fd, client->reply_fd >= 0);
        if (client->reply_fd >= 0)
            close(client->reply_fd);
        client->reply_fd = -1;
    }
}

static void bury(struct client *client)
{
    struct node *node = client->node;
    if (client->attached) {
        requests_release(client);
        log_client(node, client, "detached", client->reason);
        if (!--node->attached)
            node->alone_since_ns = device_clock();
    }
    if (client->page)
        munmap(client->page, sizeof *client->page);
    if (client->done)
        munmap(client->done, sizeof *client->done);
    close(client->socket);
    if (client->doorbell >= 0) {        /* somebody may have a copy: it would still be watched */
        epoll_ctl(node->epoll, EPOLL_CTL_DEL, client->doorbell, NULL);
        close(client->doorbell);
    }
    if (client->pidfd >= 0)
        close(client->pidfd);
    for (uint32_t i = 0; i < client->name_count; i++)
        node_name_drop(node, client->names[i]);
    free(client->names);
    free(client);
}

void clients_bury(struct node *node)
{
    for (struct client **at = &node->clients; *at;) {
        struct client *client = *at;
        if (!client->doomed) {
            at = &client->next;
            continue;
        }
        *at = client->next;
        bury(client);
    }
}

void clients_close(struct node *node)
{
    for (struct client *client = node->clients; client; client = client->next)
        client_doom(client, "the device process ends");
    clients_bury(node);
}
