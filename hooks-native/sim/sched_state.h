/* sched_state.h: inside of the schedule, shared by schedule.c and sched_*.c. */
#ifndef GPUD_SIM_SCHED_STATE_H
#define GPUD_SIM_SCHED_STATE_H

#include "schedule.h"

enum sched_state { SCHED_QUEUED, SCHED_STARTABLE, SCHED_RUNNING, SCHED_COPYING, SCHED_HELD };

struct sched_command {
    struct sched_work work;
    struct sched_queue *queue;
    struct sched_command *next;             /* in its queue */
    struct sched_command *peer;             /* in the context's startable or running list, or the copy engine's */
    struct sched_command *next_held;
    struct sched_command *next_record;      /* in its slot of the records */
    enum sched_state state;
    bool started;
    bool evicted;                           /* held for so long that it has lost its place on the device */
    uint64_t seq;                           /* order of becoming startable */
    uint64_t earliest;                      /* submission and launch latency */
    uint64_t start_ns, due_ns;              /* due_ns: when held, the modelled end */
    uint64_t run_ns;
    /* kernels: work in SM × ns, so that shares of the device add up in whole numbers */
    uint32_t need, have;                    /* SMs it can fill, SMs it has */
    uint64_t total, left, wave;
    uint64_t piece_start;
    uint32_t piece_count, piece_kept;       /* pieces[] has the first piece_kept */
    struct sched_piece *pieces;
};

struct sched_queue {
    struct sched_context *context;
    void *user;
    struct sched_command *head, *tail;
    uint64_t length;
    int priority;
    bool closing, dropped;
    bool in_work, in_waking, in_blocked;
    struct sched_queue *next_work, *next_waking, *next_blocked;
    uint64_t dry_ns;                        /* when it last had nothing left to do */
    struct sched_queue *next;               /* of the context */
};

struct sched_event {
    void *user;
    uint32_t references;                    /* commands that name it */
    bool closing;
    struct sched_event *next, **link;       /* of the schedule */
};

#define SCHED_BUCKETS 16
#define SCHED_BUCKET_NS 100000000ull

/* Of each tenth of the last second, and of some before it: id says which. */
struct sched_load { uint64_t id[SCHED_BUCKETS], busy[SCHED_BUCKETS], memory[SCHED_BUCKETS]; };

struct sched_context {
    struct sched_load load;
    uint64_t counted_ns;                    /* its share of the device is in `load` up to here */
    struct sched_device *device;
    struct sched_group *group;
    void *user;
    uint32_t number;
    bool tardy;                             /* one of its commands was evicted, and none computed since: no other one holds a place */
    struct sched_queue *queues;
    struct sched_context *next;             /* of the schedule */
};

/* What has the device one after another: each context by itself, or (MPS) all of them together. */
struct sched_group {
    struct sched_device *device;
    uint32_t number;                        /* of its (first) context */
    uint32_t contexts;
    struct sched_command *startable;        /* by priority, then seq */
    struct sched_command *running;          /* RUNNING and HELD */
    bool in_ready;
    struct sched_group *next_ready;
};

#define SCHED_SLOTS 8192u               /* of a hash table; a power of two */

struct sched_engine {
    struct sched_command *head, *tail;      /* the head is being copied */
    uint64_t end;                           /* of the head; SCHED_NEVER when it is held */
};

struct sched_device {
    struct schedule *schedule;
    uint32_t index;
    struct sched_profile profile;
    struct sched_group *holder;             /* has the device, or is being switched to */
    uint32_t last;                          /* number of the group whose state is on the device; 0: none */
    struct sched_group *merged;             /* of all contexts (MPS) */
    struct sched_group *ready, *ready_tail; /* others with work, in turn */
    uint64_t usable_from;                   /* end of the switch */
    uint64_t slice_start, slice_end;        /* slice_end is right only while somebody is ready */
    uint64_t at;                            /* kernels have progressed up to here */
    struct sched_engine engines[2];         /* to the device, from the device */
    struct sched_counters counters;
    struct sched_load load;
};

struct schedule {
    struct sched_hooks hooks;
    uint64_t now;                           /* of the last thing that happened */
    uint64_t told;                          /* by the owner's clock, while commands are rechecked */
    uint64_t seq;
    bool patient;
    uint32_t late;                          /* held commands that are no host functions */
    uint32_t context_numbers;
    struct sched_context *contexts;
    struct sched_event *events;
    struct sched_queue *work;               /* heads to look at */
    struct sched_queue *waking;             /* heads that wait for their `earliest` */
    /* By event and ticket: records that are submitted and not reached, and queues whose heads wait for one of them. */
    struct sched_command *records[SCHED_SLOTS];
    struct sched_queue *blocked[SCHED_SLOTS];
    struct sched_command *held;
    struct sched_command *spare;            /* commands to use again */
    uint32_t device_count;
    struct sched_device devices[SIM_MAX_DEVICES];
};

/* sched_clock.c */
void sched_step(struct schedule *s, uint64_t now);
void sched_settle(struct schedule *s);                                  /* who has which device, and what runs */

/* sched_load.c. Adds [from, to): it computed, or (`memory`) bytes were moved or set. */
void sched_load_add(struct sched_load *load, uint64_t from, uint64_t to, bool busy, bool memory);

/* sched_count.c */
void sched_report(struct schedule *s, struct sched_command *c, bool dropped);   /* a kernel, memset or copy is over: counts and tells */
void sched_note_time(const struct sched_command *c, bool idle);         /* it is being submitted; `idle`: its queue has nothing else */

/* sched_queue.c: the order within a queue, events */
void sched_look(struct schedule *s, struct sched_queue *queue);         /* put the queue on the work list */
void sched_work(struct schedule *s);                                    /* until the work list is empty */
void sched_wake(struct schedule *s);                                    /* heads whose time has come */
/* The head ends now: told, reported (kernels, copies), popped, next head looked at. */
void sched_end(struct schedule *s, struct sched_command *c);
uint64_t sched_queue_drop(struct schedule *s, struct sched_queue *queue);   /* all its commands, wherever they are; how many */
void sched_event_unref(struct schedule *s, struct sched_event *event);

/* sched_hold.c */
/* The modelled end is reached: ends, or is held when the host has not computed it. */
void sched_due(struct schedule *s, struct sched_command *c);
void sched_unhold(struct schedule *s, struct sched_command *c);
void sched_leave_device(struct sched_command *c);                       /* it has started, and gives up what it has of the device */
void sched_hold_ends(struct schedule *s);                               /* what has been held for too long loses its place */
uint64_t sched_hold_next(const struct schedule *s);

/* sched_size.c: need, total, left and wave of a command */
void sched_size(struct sched_command *c);

/* sched_compute.c: kernels on the SMs */
void sched_compute_add(struct sched_command *c);                        /* a kernel that may start now */
void sched_compute_remove(struct sched_command *c);                     /* ended or dropped */
void sched_compute_piece(struct sched_command *c, bool last);           /* it stops for now, or for ever: a piece of it is complete */
void sched_compute_progress(struct sched_device *device, uint64_t now);
void sched_compute_ends(struct sched_device *device);
void sched_compute_dispatch(struct sched_device *device);               /* hands SMs out to what the holder has */
uint64_t sched_compute_next(const struct sched_device *device);

/* sched_slice.c: who has the device */
bool sched_group_works(const struct sched_group *group);
bool sched_group_join(struct sched_context *context);                   /* false: no memory */
void sched_group_leave(struct sched_context *context);                  /* the context goes away, its queues are gone */
void sched_slice_ready(struct sched_group *group);                      /* waits for its turn */
void sched_slice_unready(struct sched_group *group);
void sched_slice_settle(struct sched_device *device);                   /* who has the device now, and what runs */

/* sched_copy.c: the two copy engines */
void sched_copy_add(struct sched_command *c);
void sched_copy_remove(struct sched_command *c);
void sched_copy_ends(struct sched_device *device);
uint64_t sched_copy_next(const struct sched_device *device);

static inline bool sched_is_copy(uint32_t kind) { return kind == SIM_COPY_H2D || kind == SIM_COPY_D2H; }
/* A host function: takes nothing of the device, holds its queue until the host has run it. */
static inline bool sched_is_host(const struct sched_work *work) { return work->kind == SIM_MEMSET && !work->bytes; }

#endif
