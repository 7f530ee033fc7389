/* mailbox.h: what the processes of a crowd tell each other: all of them write to one box and read from it. */
#ifndef SIM_TEST_MAILBOX_H
#define SIM_TEST_MAILBOX_H

#include "two.h"

/* A descriptor may come along. */
struct message { enum { A_HANDLE, A_RANGE, AN_EVENT } word; char data[64]; };

static int mail[2];

/* When the mailbox is full it is lost. */
static inline void post(const struct message *m, int fd) { let_go(mail[0], m, sizeof *m, fd); }

/* The next message, and its descriptor or -1. False: there is none. */
static inline bool collect(struct message *m, int *fd) { return take(mail[1], m, sizeof *m, fd, MSG_DONTWAIT) == sizeof *m; }

#endif
