/* schedule.h: what runs when on the simulated devices. Pure: a model clock in nanoseconds, no I/O, no host clock.
 *
 * The schedule only ever stands at the time of something that happened. sched_advance() lets everything happen that is due
 * up to a time, each at the model time at which it was due; sched_submit() adds a command at the time it was submitted.
 * So a caller who comes late changes nothing but the moment at which results are told. One thread only. */
#ifndef GPUD_SIM_SCHEDULE_H
#define GPUD_SIM_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "link.h"

#define SCHED_NEVER UINT64_MAX

struct schedule;
struct sched_context;
struct sched_queue;
struct sched_event;

/* How fast one device is: a whole one, or a MIG instance. */
struct sched_profile {
    uint32_t sm_count;
    uint32_t whole_sm_count;        /* SMs of the device that kernels' durations are given for; 0: this one */
    uint32_t blocks_per_sm;
    uint32_t threads_per_sm;
    uint32_t shared_per_sm;
    bool merged;                    /* MPS: all contexts share the device as if they were one */
    uint64_t slice_ns;              /* how long a context keeps the device when others have work */
    uint64_t switch_ns;             /* from one context to another */
    uint64_t launch_ns;             /* from submission to the start on an idle device */
    uint64_t block_ns;              /* one wave of blocks, for kernels without a duration of their own */
    uint64_t copy_latency_ns;
    uint64_t h2d_bytes_per_us;
    uint64_t d2h_bytes_per_us;
    uint64_t memory_bytes_per_us;   /* memsets, and copies within the device (which read and write) */
    uint64_t hold_ns;               /* how long a command that is not computed keeps its place behind its modelled end; 0: for ever */
};

/* A command as submitted. */
struct sched_work {
    uint32_t kind;                  /* enum sim_kind */
    uint32_t name;                  /* handed back in the report */
    uint64_t ticket;
    uint64_t submit_ns;
    uint64_t stamp_ns;              /* handed back in the report */
    bool exact;                     /* submit_ns is modelled, not read off a clock: counted if it comes too late */
    uint64_t duration_ns;           /* KERNEL: running alone; 0: by waves of blocks */
    uint64_t blocks;
    uint32_t threads_per_block;
    uint32_t shared_bytes;
    uint64_t bytes;
    uint64_t number;                /* RECORD: what waits name it by; 0: its ticket */
    uint64_t wait_ticket;           /* WAIT: number of the record */
    struct sched_event *event;      /* RECORD, WAIT; NULL: nothing to tell, nothing to wait for */
};

struct sched_piece { uint64_t start_ns, end_ns; };

/* What became of a kernel, memset or copy. */
struct sched_report {
    const struct sched_work *work;
    void *queue_user, *context_user;
    uint32_t device;
    uint32_t context;               /* number, unique in the schedule */
    uint64_t start_ns, end_ns;
    uint64_t run_ns;                /* time on the device, without the time it was cut off */
    uint64_t overrun_ns;            /* waited for its computation after the modelled end */
    uint32_t piece_count;           /* pieces it was cut into */
    uint32_t piece_kept;            /* pieces[] has so many of them, the first: at most SCHED_PIECES; 0: it was never cut */
    const struct sched_piece *pieces;
    bool dropped;                   /* its process or context went away before its end */
};
#define SCHED_PIECES 65536

struct sched_counters {
    uint64_t busy_ns;               /* a kernel, memset or copy within the device was on the device */
    uint64_t copy_busy_ns;          /* sum of both copy engines */
    uint64_t overrun_ns;            /* kernels and memsets that waited for their computation */
    uint64_t copy_overrun_ns;       /* copies that did */
    uint64_t switch_ns;
    uint64_t kernels, copies, switches, cuts;
    uint64_t overruns, copy_overruns;
    /* Where the host's time got into the model's: */
    uint64_t shifted_ns;            /* by how much overruns put modelled ends off */
    uint64_t moved, moved_ns;       /* exact commands that came when other things had happened already */
    uint64_t host_timed;            /* commands whose time was read off a clock */
};

/* What the owner is asked and told. `queue_user`, `event_user`: as given at creation. */
struct sched_hooks {
    void *arg;
    bool (*computed)(void *arg, void *queue_user, uint64_t ticket);                 /* is the host done with it? */
    /* How long a host function ran, model ns. NULL: until it is looked at. */
    uint64_t (*took)(void *arg, void *queue_user, uint64_t ticket);
    void (*held)(void *arg, void *queue_user, uint64_t ticket);                     /* at its modelled end it was not */
    void (*done)(void *arg, void *queue_user, uint64_t ticket, uint64_t model_ns);
    void (*recorded)(void *arg, void *event_user, uint64_t number, uint64_t model_ns);      /* or dropped with its queue */
    void (*finished)(void *arg, const struct sched_report *report);
    void (*queue_gone)(void *arg, void *queue_user);    /* a queue that was closed has run dry */
    /* The device goes from one context to another (numbers; UINT32_MAX: one that is gone). NULL: nobody wants to know. */
    void (*switched)(void *arg, uint32_t device, uint32_t from, uint32_t to, uint64_t start_ns, uint64_t end_ns);
};

/* NULL: no memory. `profiles` has one entry a device and is copied. */
struct schedule *sched_new(const struct sched_profile *profiles, uint32_t devices, const struct sched_hooks *hooks);
void sched_free(struct schedule *s);

struct sched_context *sched_context_new(struct schedule *s, uint32_t device, void *user);
/* Drops what its queues still hold, and says how many commands; the queues are gone too (no queue_gone for them). */
uint64_t sched_context_drop(struct schedule *s, struct sched_context *context, uint64_t now);
struct sched_queue *sched_queue_new(struct schedule *s, struct sched_context *context, int priority, void *user);
/* What was submitted still runs; queue_gone (perhaps at once) says when the last of it is done. */
void sched_queue_close(struct schedule *s, struct sched_queue *queue);
/* Drops what the queue holds, and says how many commands; records are told. What is submitted to it later is up to the caller. A queue
 * that was closed is gone afterwards. */
uint64_t sched_queue_stop(struct schedule *s, struct sched_queue *queue, uint64_t now);
struct sched_event *sched_event_new(struct schedule *s, void *user);
/* Records still under way complete untold. */
void sched_event_close(struct schedule *s, struct sched_event *event);

/* Adds `work` at its submit_ns, or at the time of the last thing that happened if that is later. False: no memory. */
bool sched_submit(struct schedule *s, struct sched_queue *queue, const struct sched_work *work);
/* Lets everything happen that is due at or before `until`. */
void sched_advance(struct schedule *s, uint64_t until);
/* Lets the next thing happen, which is due at sched_next(). */
void sched_once(struct schedule *s);
/* When the next thing is due; SCHED_NEVER when nothing is until somebody submits or computes. */
uint64_t sched_next(const struct schedule *s);
/* The model time of the last thing that happened. */
uint64_t sched_now(const struct schedule *s);
/* A patient schedule stands still while a command at its modelled end is not computed, and it ends there; with an impatient one
 * all else goes on, and the command holds its place until it is computed, or for `hold_ns`. */
void sched_patient(struct schedule *s, bool patient);
bool sched_standing(const struct schedule *s);          /* does it stand still for that now? */
/* Looks again at commands that were held for their computation; `now` is the time by the clock. */
void sched_recheck(struct schedule *s, uint64_t now);
bool sched_holding(const struct schedule *s);           /* is any command held? */
bool sched_held_computed(const struct schedule *s);     /* would sched_recheck() let one go? */

struct sched_counters sched_counters(const struct schedule *s, uint32_t device);
/* Share of the model second before `now` in which the device computed, and in which memory was copied or set: 0 … 100. */
void sched_utilisation(const struct schedule *s, uint32_t device, uint64_t now, uint32_t *gpu, uint32_t *memory);
/* The same for what one context had of it. */
void sched_context_utilisation(const struct sched_context *context, uint64_t now, uint32_t *gpu, uint32_t *memory);

#endif
