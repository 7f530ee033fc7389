/* link_state.h: inside of the client's side of the link, shared by link.c and link_*.c. */
#ifndef GPUD_SIM_LINK_STATE_H
#define GPUD_SIM_LINK_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "link.h"
#include "proto.h"
#include "ring.h"

#define LINK_NAMES 1024                 /* heads of the table of names; a power of two */

struct link_name { struct link_name *next; uint32_t id; char text[]; };

struct sim_link {
    int socket, doorbell;
    int memory_fd[SIM_MAX_DEVICES];
    const struct sim_node_page *node;
    const struct sim_done_page *done;
    struct sim_client_page *page;
    uint64_t serial;                    /* no other link of this process or of its parents has it */
    struct sim_link *older;             /* forked child: the link of the parent's parent */
    _Atomic bool dead;                  /* the device process is gone, or this is a forked child's copy */
    pthread_mutex_t ask_lock;           /* one request at a time; names */
    struct link_name *names[LINK_NAMES];
    pthread_mutex_t ring_lock;
    uint64_t ticket;                    /* the last one given out */
    uint64_t head;                      /* commands written */
    uint64_t last[SIM_MAX_QUEUES];      /* ticket of the newest command of each queue */
};

/* link_ask.c: one packet there and one back. */
struct link_question {
    struct sim_request_head out;
    const void *text;                   /* out.text_bytes of it */
    struct sim_reply_head in;
    void *answer;                       /* room for the text of the reply; what does not fit is dropped */
    size_t room;
    int fd;                             /* that came with the reply; −1: none */
};
#define LINK_ASK(kind, ...) struct link_question question = { .out = { .magic = SIM_PROTO_MAGIC, .type = kind, __VA_ARGS__ }, .fd = -1 }
int link_ask(struct sim_link *link, struct link_question *question);   /* the reply's result, or −EPIPE */

/* link_host.c: where this thread is on the model's clock. `timed`: the host's time has got in since the last command. */
uint64_t link_clock(void);                                              /* CLOCK_MONOTONIC, ns */
uint64_t link_host_time(struct sim_link *link, uint64_t wall_ns, bool *timed);
/* Around whatever this thread waits for in here: that is not the program's time. `model_ns`: when what it waited for happened;
 * 0: not known, or at once. */
void link_host_enter(struct sim_link *link);
void link_host_leave(struct sim_link *link, uint64_t model_ns);

/* link_ring.c */
void link_doorbell(struct sim_link *link);

/* link.c */
bool link_alive(struct sim_link *link);

/* link_start.c: connects to the node's device process, starting one when there is none. The socket, or a negative errno and a
 * sentence. `hello` is filled in from the environment. */
int link_connect(struct sim_hello *hello, char *error, size_t error_size);

#endif
