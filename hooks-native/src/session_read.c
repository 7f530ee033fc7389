/* session_read.c: packets as they come, with their descriptors. What they say is handled in session_message.c. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include "log.h"
#include "session.h"
#include "state.h"

#define FEW_FDS 64

/* The descriptors of a packet into `fds`; how many. */
static uint32_t take_descriptors(struct msghdr *packet, int *fds)
{
    uint32_t count = 0;

    for (struct cmsghdr *head = CMSG_FIRSTHDR(packet); head != NULL; head = CMSG_NXTHDR(packet, head)) {
        if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
            continue;
        size_t here = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < here; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(head) + i * sizeof fd, sizeof fd);
            if (count < GPUD_WIRE_MAX_FDS)
                fds[count++] = fd;
            else
                close(fd);
        }
    }
    return count;
}

/* Where there are few numbers at all, the program needs them itself. */
static bool has_few(void)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < FEW_FDS;
}

void gpud_session_take_spare(struct gpud_session *session)
{
    if (has_few())
        return;
    for (uint32_t i = 0; i < GPUD_SPARE_FDS; i++) {
        if (!gpud_descriptor_is_ours(&session->spare[i]))
            gpud_descriptor_keep(&session->spare[i], fcntl(session->socket.fd, F_DUPFD_CLOEXEC, 3));
    }
}

void gpud_session_drop_spare(struct gpud_session *session)
{
    for (uint32_t i = 0; i < GPUD_SPARE_FDS; i++)
        gpud_descriptor_drop(&session->spare[i]);
}

static bool may_bring(uint16_t type)
{
    return type == GPUD_MSG_WELCOME || type == GPUD_MSG_PEERS || type == GPUD_MSG_SLOTS;
}

/* The kernel drops what finds no number in the program's table: for a packet that may bring descriptors, the spare ones are given up. */
static void make_room(struct gpud_session *session)
{
    struct gpud_msg head = { 0 };

    if (recv(session->socket.fd, &head, sizeof head, MSG_PEEK | MSG_DONTWAIT) == (ssize_t)sizeof head && may_bring(head.type))
        gpud_session_drop_spare(session);
}

/* Some of its descriptors are lost. True: what it says without them is said, and the session goes on. */
static bool without(unsigned char *packet, size_t bytes, uint32_t count)
{
    const struct gpud_msg *head = (const struct gpud_msg *)(const void *)packet;

    if (bytes == sizeof(struct gpud_msg_peers) && head->type == GPUD_MSG_PEERS) {
        gpud_log(GPUD_LOG_WARNING, GPUD_ONCE_NO_FILES, "the limit of open files is reached: this program does not see all that use its "
                 "devices, and does not wait for those; raise `ulimit -n`");
        ((struct gpud_msg_peers *)(void *)packet)->descriptors = (uint16_t)count;
        return true;
    }
    if (bytes == sizeof(struct gpud_msg_memory) && head->type == GPUD_MSG_SLOTS && count == 0) {
        gpud_log(GPUD_LOG_WARNING, GPUD_ONCE_NO_FILES, "the limit of open files is reached: the host memory that the daemon gives cannot be "
                 "taken, and what this program has on the device stays there; raise `ulimit -n`");
        ((struct gpud_msg_memory *)(void *)packet)->code = GPUD_MEMORY_NO_HOST;
        return true;
    }
    return false;
}

void gpud_session_read(struct gpud_session *session)
{
    static _Alignas(16) unsigned char packet[GPUD_WIRE_MAX_BYTES + 1];
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int) * GPUD_WIRE_MAX_FDS)];
    } control;

    bool reset = false;

    while (session->state >= GPUD_SESSION_HELLO && session->state <= GPUD_SESSION_READY) {
        struct iovec part = { .iov_base = packet, .iov_len = sizeof packet };
        struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.room,
                                  .msg_controllen = sizeof control.room };
        int fds[GPUD_WIRE_MAX_FDS];
        if (!gpud_descriptor_is_ours(&session->socket)) {
            gpud_session_close(session, 0);
            return;
        }
        make_room(session);
        ssize_t bytes = recvmsg(session->socket.fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (bytes < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (bytes < 0 && errno == ECONNRESET && !reset) {
            reset = true;       /* told once, before what the daemon said last: it hung up with something of ours unread */
            continue;
        }
        if (bytes <= 0) {
            if (session->state != GPUD_SESSION_READY)
                gpud_log(GPUD_LOG_WARNING, GPUD_ONCE_LOST, "the daemon at %s closed the connection before this program was "
                         "attached: it is tried again", session->config->socket.sun_path);
            gpud_session_close(session, 0);
            return;
        }
        uint32_t count = take_descriptors(&message, fds);
        if (message.msg_flags & MSG_CTRUNC && !without(packet, (size_t)bytes, count)) {
            gpud_session_close_all(fds, count);
            gpud_log(GPUD_LOG_WARNING, GPUD_ONCE_NO_FILES, "the descriptors of the daemon's pages do not fit into the limit of "
                     "open files: this program runs without gpud until they do; raise `ulimit -n`");
            gpud_session_close(session, GPUD_SECOND);
            return;
        }
        if (message.msg_flags & MSG_TRUNC) {
            gpud_session_close_all(fds, count);
            gpud_session_nonsense(session, "a packet that is too long");
            return;
        }
        gpud_session_message(session, packet, (size_t)bytes, fds, count);
        if (gpud_descriptor_is_ours(&session->socket))
            gpud_session_take_spare(session);
    }
}
