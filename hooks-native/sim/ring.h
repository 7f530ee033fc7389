/* ring.h: the memory a client process and the device process share.
 *
 * Three kinds of pages, each a sealed memfd made by the device process and written by one side only:
 *   client page   written by one client: the ring of commands, what is computed, who waits. Never trusted by the other side.
 *   done page     written by the device process, one a client: what has been reached.
 *   node page     written by the device process, the same for all: the devices, the clock, whether it sleeps.
 *
 * No wake-up is lost: each side first writes its word, then a full barrier, then reads the other's.
 *   A client publishes commands, then rings only if the device process sleeps and has nothing left of that queue to do
 *   (else it wakes up for that anyway and looks at all rings before anything else happens). */
#ifndef GPUD_SIM_RING_H
#define GPUD_SIM_RING_H

#include <stdatomic.h>
#include <stdint.h>

#include "link.h"

#define SIM_PAGE_MAGIC 0x4d495344u
#define SIM_PAGE_VERSION 2u
#define SIM_RING 4096u                  /* commands; a power of two */
#define SIM_MAX_QUEUES 4096u            /* of one client */
#define SIM_MAX_EVENTS 65536u
#define SIM_MAX_CONTEXTS 256u
#define SIM_MAX_NAMES 65536u
#define SIM_WAITS 32u                   /* waiting threads of one client that are known one by one */

struct sim_slot {
    uint64_t ticket;
    uint64_t stamp_ns;                  /* CLOCK_MONOTONIC at submission */
    uint64_t blocks;
    uint64_t bytes;
    uint64_t wait_ticket;
    uint16_t kind;
    uint16_t host_timed;                /* model_ns was read off a clock: the thread had slept or worked before */
    uint32_t queue;
    uint32_t name;
    uint32_t threads_per_block;
    uint32_t shared_bytes;
    uint32_t event;
    uint64_t model_ns;                  /* where the submitting thread is on the model's clock (link_host.c) */
};

/* What a thread waits for: ticket of a queue, or number of an event's record. */
struct sim_wait_record {
    _Atomic uint32_t slot;              /* 0: nobody; 1 + queue; 1 + SIM_MAX_QUEUES + event; SIM_WAIT_UNKNOWN: being written */
    uint32_t spare;
    _Atomic uint64_t ticket;
};
#define SIM_WAIT_UNKNOWN UINT32_MAX

struct sim_client_page {
    _Alignas(64) _Atomic uint64_t head;     /* commands ever written */
    _Atomic uint32_t room_waiters;          /* threads that wait for room in the ring */
    _Atomic uint32_t more_waiters;          /* threads that wait for anything and found no place in `waits` */
    _Atomic uint64_t asked;                 /* commands written when a thread last asked whether something is done, and it was not */
    struct sim_wait_record waits[SIM_WAITS];
    _Atomic uint64_t took[SIM_MAX_QUEUES];  /* how long the host function that was computed last ran, model ns */
    _Alignas(64) _Atomic uint64_t computed[SIM_MAX_QUEUES];
    _Atomic uint32_t queue_waiters[SIM_MAX_QUEUES];
    _Atomic uint32_t event_waiters[SIM_MAX_EVENTS];
    _Alignas(64) struct sim_slot ring[SIM_RING];
};

/* `seq` is odd while the pair is being written, and the futex word to wait on. */
struct sim_done_slot {
    _Atomic uint32_t seq;
    uint32_t spare;
    _Atomic uint64_t ticket;
    _Atomic uint64_t model_ns;
    _Atomic uint64_t held;              /* queues: the command with this ticket waits for its computation; 0: none.
                                         * Interprocess events: number of the newest record */
};

struct sim_done_page {
    _Alignas(64) _Atomic uint64_t tail;     /* commands taken from the ring */
    _Atomic uint32_t room_seq;              /* futex word: the tail moved */
    _Alignas(64) struct sim_done_slot queues[SIM_MAX_QUEUES];
    struct sim_done_slot events[SIM_MAX_EVENTS];
};

struct sim_node_page {
    uint32_t magic, version;
    uint32_t device_count;
    uint32_t pid;                       /* of the device process */
    _Atomic int64_t epoch_ns;           /* CLOCK_MONOTONIC at model time 0; moves when the clock has stood (pace.c) */
    double time_scale;
    _Alignas(64) _Atomic uint32_t sleeping;
    _Atomic uint32_t standing;          /* it waits for what the only program does next */
    _Atomic uint32_t lost;              /* bit n: device n has fallen off the bus */
    char faults[SIM_FAULTS];
    uint32_t whole_count;
    _Alignas(64) struct sim_device_info devices[SIM_MAX_DEVICES];
    struct sim_device_info wholes[SIM_MAX_DEVICES];     /* without MIG the same as the devices */
};

_Static_assert(sizeof(struct sim_slot) == 72, "both sides agree on the slot");
_Static_assert(sizeof(struct sim_done_slot) == 32, "both sides agree on the pair");

#endif
