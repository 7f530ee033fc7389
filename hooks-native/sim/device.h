/* device.h: the device process: one simulated node, its devices and its clients. Single-threaded. */
#ifndef GPUD_SIM_DEVICE_H
#define GPUD_SIM_DEVICE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "memory.h"
#include "profile.h"
#include "proto.h"
#include "ring.h"
#include "schedule.h"

#define DEVICE_MAX_OUTSTANDING 16384u   /* commands of one client in the schedule; the rest stays in its ring */

struct device_queue {
    struct client *client;
    uint32_t id;                        /* slot of its client */
    uint32_t number;                    /* for the log */
    uint32_t context;                   /* slot of its client */
    struct sched_queue *queue;
    bool closed;                        /* no more commands; the slot is free when it has run dry */
};

struct device_event { struct client *client; uint32_t id; struct sched_event *event; };

struct device_context { struct sched_context *context; uint32_t device; };

struct client {
    struct node *node;
    struct client *next;
    int socket, doorbell, pidfd;
    pid_t pid;
    bool attached;                      /* said hello */
    bool doomed;                        /* ends after this round */
    char reason[128];
    struct sim_client_page *page;       /* written by the client: never trusted */
    struct sim_done_page *done;
    uint64_t tail;                      /* commands taken */
    uint64_t head;                      /* as last read, checked */
    uint64_t looked_ns;                 /* CLOCK_MONOTONIC at the last look at the ring */
    uint64_t outstanding;               /* commands in the schedule */
    uint64_t last_ticket;
    struct sim_slot next_slot;          /* taken from the ring, not submitted yet */
    bool has_next;
    struct device_context contexts[SIM_MAX_CONTEXTS];
    struct device_queue *queues[SIM_MAX_QUEUES];
    struct device_event *events[SIM_MAX_EVENTS];
    uint32_t next_queue, next_event;    /* where the search for a free slot begins */
    uint32_t *names;                    /* the client's name id − 1 → index in node.names */
    uint32_t name_count, name_room;
};

struct name { char text[SIM_NAME]; uint64_t duration_ns; };

struct node {
    const char *name;
    const struct profile *profile;
    const char *log_path;               /* NULL: no log */
    char address[108];
    int listener, epoll, timer;
    uint32_t device_count;
    struct schedule *schedule;
    struct memory memory[SIM_MAX_DEVICES];
    int page_fd;
    struct sim_node_page *page;
    struct client *clients;
    uint32_t attached;                  /* clients that said hello */
    bool served;                        /* somebody ever said hello */
    uint64_t alone_since_ns;            /* CLOCK_MONOTONIC when the last client left */
    struct name *names;
    uint32_t name_count, name_room;
    uint32_t queue_numbers;
    struct log *log;
};

/* node.c */
/* Binds the node's address: whoever succeeds is the device process. 0, 1 (another one is), or a negative errno. */
int node_claim(struct node *node);
/* Devices, log, listening. 0, or −1 and a sentence. */
int node_open(struct node *node, int signal_fd, char *error, size_t error_size);
void node_serve(struct node *node);                                     /* until the last client has left, or a signal */
void node_close(struct node *node);
uint64_t device_clock(void);                                            /* CLOCK_MONOTONIC, ns */
uint64_t device_model(const struct node *node, uint64_t clock_ns);
uint64_t device_wall(const struct node *node, uint64_t model_ns);

/* clients.c */
void clients_accept(struct node *node);
void client_readable(struct client *client);
void client_doom(struct client *client, const char *format, ...) __attribute__((format(printf, 2, 3)));
void clients_bury(struct node *node);                                   /* ends the doomed ones */
void clients_close(struct node *node);

/* requests.c: one request of an attached client, and what a client leaves behind. */
void request_handle(struct client *client, struct sim_request *request, struct sim_reply *reply);
void requests_release(struct client *client);
void requests_queue_free(struct device_queue *queue);

/* ring.c: rings in, completions out */
void rings_take(struct node *node);                                     /* all commands that are in the rings, in order of time */
bool rings_pending(struct node *node);                                  /* is there a command to take, or a client to end? */
bool rings_computed(struct node *node);                                 /* is a command that was held computed now? */
extern const struct sched_hooks rings_hooks;
/* A new queue has reached all that was submitted so far; `everything`: and all that ever will be (its context is gone). */
void ring_queue_reset(struct device_queue *queue, bool everything);
void ring_event_reset(struct client *client, uint32_t id);

/* requests.c: node-wide names by text: index, or −1 when there is no memory. Index 0 is a kernel without a name. */
int64_t node_name(struct node *node, const char *mangled);

#endif
