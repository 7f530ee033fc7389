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

#define DEVICE_TAG_EXPORT 3u            /* in the low bits of what is watched: 1 a process, 2 a doorbell, 3 an export */
#define DEVICE_FAULT_RULES 64u
#define DEVICE_NAME_HEADS 16384u         /* of the table of names; a power of two */
#define DEVICE_MAX_OUTSTANDING 16384u   /* commands of one client in the schedule; the rest stays in its ring */

struct device_queue {
    struct client *client;
    uint32_t id;                        /* slot of its client */
    uint32_t number;                    /* for the log */
    uint32_t context;                   /* slot of its client */
    struct sched_queue *queue;
    bool closed;                        /* no more commands; the slot is free when it has run dry */
    bool stopped;                       /* its context has ended by a fault: what still comes is done at once */
};

/* What events of clients stand for; an interprocess one is open in several. */
struct node_event {
    struct sched_event *event;
    struct device_event *openers;
    uint64_t number;                    /* of an interprocess event; 0: records are told by their tickets */
    uint64_t newest, reached, reached_ns;   /* interprocess: number of the newest record, and of the newest reached */
    struct node_event *next;            /* interprocess events of the node */
};

struct device_event { struct client *client; uint32_t id; struct node_event *shared; struct device_event *next; };

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
    uint32_t context_count;
    uint64_t active_ns;                 /* CLOCK_MONOTONIC when it last submitted or was told what it waited for */
    uint64_t looked_ns;                 /* CLOCK_MONOTONIC when it was last looked whether it sleeps */
    uint32_t slept;                     /* … and how many times in a row it did */
    uint64_t model_ns;                  /* the only program: where it is on the model's clock, as far as its commands say */
    bool blocked;                       /* the only program: it waited for the device at the last look */
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
    int reply_fd;                       /* goes with the reply that is being made; −1: none */
};

struct name {
    char text[SIM_NAME];
    const struct profile_kernel *kernel;
    uint64_t launches;
    uint32_t users;                     /* how often programs have it */
    uint32_t next;                      /* with the same hash, or spare; 0: none */
};

struct node {
    const char *name;
    const struct profile *profile;
    const char *log_path;               /* NULL: no log */
    const char *faults;                 /* rules for all processes; "": none */
    char address[108];
    int listener, epoll, timer;
    int spare;                          /* a descriptor to close when there is no other left */
    uint32_t device_count;              /* whole devices, or all their MIG instances */
    uint32_t whole_count;
    struct schedule *schedule;
    struct sched_profile timing[SIM_MAX_DEVICES];
    struct memory memory[SIM_MAX_DEVICES];
    int page_fd;
    struct sim_node_page *page;
    struct client *clients;
    int64_t start_ns;                   /* CLOCK_MONOTONIC when the node began */
    struct client *sole;                /* the only one that has contexts (pace.c) */
    bool stands;                        /* the clock stands for what it does next */
    uint64_t held_ns;                   /* CLOCK_MONOTONIC since when it stands for a computation; 0: it does not */
    uint32_t attached;                  /* clients that said hello */
    bool served;                        /* somebody ever said hello */
    uint64_t alone_since_ns;            /* CLOCK_MONOTONIC when the last client left */
    struct name *names;
    uint32_t name_count, name_room;
    uint32_t name_spare;                /* a place that is not used; 0: none */
    uint32_t name_heads[DEVICE_NAME_HEADS];
    uint32_t queue_numbers;
    struct node_event *events;          /* interprocess */
    struct export *exports;             /* descriptors under way; the node lives while there are any */
    uint64_t event_numbers, pool_numbers;
    uint64_t fault_uses[DEVICE_FAULT_RULES];
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

/* asleep.c */
bool client_asleep(const struct client *client);                        /* all its threads */

/* pace.c: how far the model clock may go */
void pace_count(struct node *node);                                     /* contexts have come or gone */
void pace_advance(struct node *node, uint64_t clock_ns);                /* lets happen what may */
uint64_t pace_now(struct node *node, uint64_t clock_ns);                /* the model time, as far as it may have come */
uint64_t pace_next(struct node *node, uint64_t clock_ns);               /* when to look again, CLOCK_MONOTONIC; UINT64_MAX: never */
/* Lets happen what may up to now, and says what time that is by the model: before something ends, or is asked about. */
uint64_t pace_catch_up(struct node *node);
bool pace_changed(struct node *node);                                   /* it stood, and need not any more */
/* A command that is being taken says that its program is at this model time: when it is submitted. */
uint64_t pace_stamp(struct client *client, uint64_t model_ns, uint64_t clock_ns);

/* accept.c */
void clients_accept(struct node *node);
void accept_spare(struct node *node);                                   /* opens the spare descriptor when it is not open */
void client_no_room(struct sim_reply *reply, int error);                /* there are no descriptors or no memory for one more program */
int device_watch(const struct node *node, int fd, uint32_t events, uint64_t tag);      /* 0, or −1 and errno */

/* clients.c */
void client_readable(struct client *client);
void client_doom(struct client *client, const char *format, ...) __attribute__((format(printf, 2, 3)));
void clients_bury(struct node *node);                                   /* ends the doomed ones */
void clients_close(struct node *node);

/* requests.c: one request of an attached client, and what a client leaves behind. */
void request_handle(struct client *client, struct sim_request *request, struct sim_reply *reply);
void requests_release(struct client *client);
void requests_queue_free(struct device_queue *queue);
/* The first free place of a table of `count` pointers of a client after `from`, all the way round; 0, which is none, when it is full. */
uint32_t client_free_slot(const void *table, uint32_t count, uint32_t from);

/* ring.c: rings in, completions out */
void rings_take(struct node *node);                                     /* all commands that are in the rings, in order of time */
bool rings_pending(struct node *node);                                  /* is there a command to take, or a client to end? */
bool ring_untaken(const struct client *client);                         /* are there commands that may be taken? */
bool rings_computed(struct node *node);                                 /* is a command that was held computed now? */
extern const struct sched_hooks rings_hooks;
/* A new queue has reached all that was submitted so far; `everything`: and all that ever will be (its context is gone). */
void ring_queue_reset(struct client *client, uint32_t id, bool everything);
void ring_event_reset(struct client *client, uint32_t id);

/* events.c. 0 or a negative errno. */
int32_t event_new(struct client *client, bool interprocess, struct sim_reply *reply);
int32_t event_open(struct client *client, uint64_t number, struct sim_reply *reply);
int32_t event_taken(const struct client *client, uint32_t id);
int32_t event_end(struct client *client, uint32_t id);

/* faults.c. 0 or a negative errno. */
int32_t fault_request(struct client *client, struct sim_request *request, struct sim_reply *reply);
int32_t context_stop(struct client *client, uint32_t id);               /* drops what its queues hold, and what will come */
bool device_lost(const struct node *node, uint32_t device);

/* monitor.c: PROCESSES, USAGE, UTILISATION of a device. */
int32_t monitor_request(struct node *node, const struct sim_request *request, struct sim_reply *reply);

/* exports.c. 0 or a negative errno. */
int32_t export_new(struct client *client, const struct sim_request *request, struct sim_reply *reply);
int32_t export_open(struct client *client, const struct sim_request *request, struct sim_reply *reply);
void export_closed(struct export *export);                              /* the last copy of its descriptor is closed */
void exports_close(struct node *node);

/* node_names.c: node-wide names by text: index, or −1 when there is no memory. The first one made, 0, is that of kernels without a
 * name. Each use is given back by node_name_drop. */
int64_t node_name(struct node *node, const char *mangled);
void node_name_drop(struct node *node, uint32_t index);

#endif
