/* mailbox.h: what the processes of a crowd tell each other: all of them write to one box and read from it. */
#ifndef SIM_TEST_MAILBOX_H
#define SIM_TEST_MAILBOX_H

#include "two.h"

/* A descriptor may come along. */
struct message { enum { A_HANDLE, A_RANGE, AN_EVENT } word; char data[64]; };

static int mail[2];

static inline void post(const struct message *m, int fd)
{
    union { struct cmsghdr header; char room[CMSG_SPACE(sizeof(int))]; } control = {{0}};
    struct iovec part = {(void *)(uintptr_t)m, sizeof *m};
    struct msghdr packet = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd >= 0) {
        packet.msg_control = &control;
        packet.msg_controllen = sizeof control;
        control.header = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
    }
    ssize_t n = sendmsg(mail[0], &packet, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)n;                            /* the mailbox is full */
    if (fd >= 0)
        close(fd);
}

/* The next message, and its descriptor or -1. False: there is none. */
static inline bool collect(struct message *m, int *fd)
{
    union { struct cmsghdr header; char room[CMSG_SPACE(sizeof(int))]; } control;
    struct iovec part = {m, sizeof *m};
    struct msghdr packet = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    *fd = -1;
    if (recvmsg(mail[1], &packet, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) != sizeof *m)
        return false;
    struct cmsghdr *c = CMSG_FIRSTHDR(&packet);
    if (c && c->cmsg_type == SCM_RIGHTS)
        memcpy(fd, CMSG_DATA(c), sizeof *fd);
    return true;
}

#endif
