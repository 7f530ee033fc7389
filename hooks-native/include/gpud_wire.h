/* gpud_wire.h: the session protocol between a hook (or `gpud run`) and the daemon.
 *
 * Transport: AF_UNIX SOCK_SEQPACKET at $GPUD_RUNTIME_DIR/hook.sock: one message = one packet = one struct below, all
 * fields little endian, file descriptors by SCM_RIGHTS where said. A packet that is shorter or longer than its struct (for
 * those with text: than fixed part + text_bytes), of unknown type, out of order, or with unexpected descriptors detaches
 * that client with a logged reason. Identity comes from the kernel (SO_PEERCRED, pidfd), never from a message.
 *
 *   hook                                daemon
 *   HELLO (+2 fds if REATTACH)    →
 *                                 ←     PING (nonce: the peer is alive and is who SO_PEERCRED said)  or REFUSED
 *   PONG                          →
 *                                 ←     QUEUED: it waits in line (a client that said WAITS only); WELCOME or REFUSED comes later
 *                                 ←     WELCOME + fds [control] or [control, presence, activity] (not REATTACH)
 *   MAPPED                        →     (daemon now seals presence and activity F_SEAL_FUTURE_WRITE, checks, maps them read-only)
 *   DEVICES                       →     (after cuInit; may be sent again)
 *                                 ←     DEVICE_SLOTS
 *                                 ←     PEERS + fds: whenever the peers of this client change
 *   PEERS_MAPPED                  →
 *   WENT_ACTIVE / WENT_IDLE       →     edges, coalesced by the keeper
 *   BYE                           →     orderly exit (the pidfd decides in any case)
 *                                 ←     DETACH (reason): the client goes on without gate
 *
 *   Device lock. A request is of a process and a set of device slots, all or nothing, in slot order of their UUIDs.
 *   LOCK_ASKED                    →     (first launch without a grant, or gpud_acquire)
 *                                 ←     LOCK_GRANTED: control page has the epoch; the hook brings its memory in, then launches pass
 *   LOCK_IS_IN                    →     memory is in (or what did not fit)
 *                                 ←     LOCK_REVOKED: shut, drain, give back
 *   LOCK_BACK                     →     drained, or not within the grace; who wants it again at once says so in the same message
 *   LOCK_WITHDRAWN                →     nobody in the process waits any more
 *
 *   Memory.
 *   ALLOC_ASKED                   →     does not fit below the limit, or the device is full
 *                                 ←     ALLOC_REPLY
 *                                 ←     SWAP_OUT: so many bytes shall leave the device (the gate is shut and drained)
 *   SWAPPED                       →     progress and end
 *   SLOTS_ASKED                   →     host slots for so many bytes more
 *                                 ←     SLOTS + fd: a sealed memfd of that size, or why not
 *
 *   gpud run                            daemon
 *   HELLO (role LAUNCHER)         →     PING/PONG as above
 *   LAUNCH (class, labels, name)  →
 *                                 ←     QUEUED: it waits in line; JOB or REFUSED comes later
 *                                 ←     JOB (id + environment for the job)  or REFUSED
 *                                 ←     ATTACHED (pid): a process of the job attached
 *
 */
#ifndef GPUD_WIRE_H
#define GPUD_WIRE_H

#include <stdint.h>

/* cffi: begin */
#define GPUD_WIRE_MAGIC 0x4447  /* "GD" */
#define GPUD_WIRE_VERSION_MIN 1
#define GPUD_WIRE_VERSION_MAX 1
#define GPUD_WIRE_MAX_BYTES 16384
#define GPUD_WIRE_MAX_FDS 16

#define GPUD_MSG_HELLO 1
#define GPUD_MSG_PONG 2
#define GPUD_MSG_MAPPED 3
#define GPUD_MSG_DEVICES 4
#define GPUD_MSG_PEERS_MAPPED 5
#define GPUD_MSG_WENT_ACTIVE 6
#define GPUD_MSG_WENT_IDLE 7
#define GPUD_MSG_BYE 8
#define GPUD_MSG_LAUNCH 9
#define GPUD_MSG_ALLOC_ASKED 10
#define GPUD_MSG_LOCK_ASKED 11
#define GPUD_MSG_LOCK_BACK 12
#define GPUD_MSG_LOCK_IS_IN 13
#define GPUD_MSG_LOCK_WITHDRAWN 14
#define GPUD_MSG_SWAPPED 15
#define GPUD_MSG_SLOTS_ASKED 16

#define GPUD_MSG_PING 64
#define GPUD_MSG_WELCOME 65
#define GPUD_MSG_REFUSED 66
#define GPUD_MSG_DEVICE_SLOTS 67
#define GPUD_MSG_PEERS 68
#define GPUD_MSG_DETACH 69
#define GPUD_MSG_JOB 70
#define GPUD_MSG_ATTACHED 71
#define GPUD_MSG_ALLOC_REPLY 72
#define GPUD_MSG_LOCK_GRANTED 73
#define GPUD_MSG_LOCK_REVOKED 74
#define GPUD_MSG_SWAP_OUT 75
#define GPUD_MSG_QUEUED 76
#define GPUD_MSG_SLOTS 77
#define GPUD_MSG_LOCK_REFUSED 78

#define GPUD_ROLE_HOOK 1
#define GPUD_ROLE_LAUNCHER 2

#define GPUD_HELLO_REATTACH 1
#define GPUD_HELLO_WAITS 2         /* the program waits in cuInit for the answer, so it may be kept in line or refused */
#define GPUD_HELLO_HOOKLESS 4      /* it takes turns by gpud.acquire alone: none of its launches is seen or held, none of its memory moved */

#define GPUD_REFUSED_VERSION 1     /* no common protocol version */
#define GPUD_REFUSED_IDENTITY 2    /* pid 0 (PID namespace), dead, or not who it was */
#define GPUD_REFUSED_POLICY 3      /* class may not be claimed, unknown class, … */
#define GPUD_REFUSED_PROTOCOL 4    /* malformed */
#define GPUD_REFUSED_RESOURCES 5   /* the daemon could not make pages */
#define GPUD_REFUSED_DRAINING 6    /* shutting down */
#define GPUD_REFUSED_ADMISSION 7   /* the policy lets no further job in now: cuInit fails */

struct gpud_msg {               /* head of every message */
    uint16_t magic;
    uint16_t type;
    uint32_t bytes;             /* of the whole message */
};

struct gpud_msg_hello {
    struct gpud_msg head;
    uint16_t version_min;
    uint16_t version_max;
    uint16_t role;
    uint16_t flags;             /* GPUD_HELLO_* */
    uint32_t page_version;      /* GPUD_PAGE_VERSION */
    uint32_t client;            /* REATTACH: the id it had, else 0 */
    uint64_t generation;        /* REATTACH: the attach generation it had, else 0 */
};                              /* 32 bytes */

struct gpud_msg_nonce {         /* PING, PONG */
    struct gpud_msg head;
    uint64_t nonce;
};

struct gpud_msg_welcome {
    struct gpud_msg head;
    uint16_t version;           /* chosen */
    uint16_t reserved;
    uint32_t client;
    uint64_t generation;        /* attach generation, in the header of presence and activity pages */
    uint32_t control_bytes;
    uint32_t presence_bytes;
    uint32_t activity_bytes;
    uint32_t job;
};

struct gpud_msg_plain {         /* MAPPED, BYE */
    struct gpud_msg head;
};

struct gpud_device_id {
    uint8_t uuid[16];           /* cuDeviceGetUuid_v2. Of a client without hook that has not initialised the driver: zeros, and total_bytes is */
    uint64_t total_bytes;       /* the device's number in the driver's (PCI) order; or total_bytes is 0, and CUDA_VISIBLE_DEVICES names it */
};

struct gpud_msg_devices {       /* in the client's ordinal order */
    struct gpud_msg head;
    uint32_t count;
    uint32_t reserved;
    struct gpud_device_id device[GPUD_MAX_DEVICES];
};

struct gpud_msg_device_slots {
    struct gpud_msg head;
    uint32_t count;
    uint32_t slot[GPUD_MAX_DEVICES];    /* UINT32_MAX: this device is not managed */
    uint32_t reserved;
};

struct gpud_peer_page {         /* the i-th names the i-th descriptor; it becomes present index `present` */
    uint32_t present;
    uint32_t client;
    uint64_t generation;
    uint32_t bytes;
    uint32_t reserved;
};

struct gpud_msg_peers {         /* the complete set; entries already mapped (same present and generation) come without descriptor */
    struct gpud_msg head;
    uint32_t serial;
    uint16_t count;
    uint16_t descriptors;       /* the first `descriptors` entries have one each */
    struct gpud_peer_page peer[GPUD_MAX_PEERS];
};

struct gpud_msg_peers_mapped {
    struct gpud_msg head;
    uint32_t serial;
    uint32_t mapped;            /* how many it could map */
};

struct gpud_msg_edge {          /* WENT_ACTIVE, WENT_IDLE */
    struct gpud_msg head;
    uint32_t slot;              /* device slot */
    uint32_t edges;             /* counter of the presence page at that time */
    uint64_t when_ns;
};

/* LOCK_ASKED, LOCK_WITHDRAWN, LOCK_GRANTED, LOCK_REVOKED, LOCK_IS_IN, LOCK_BACK: about the device lock. */
struct gpud_msg_lock {
    struct gpud_msg head;
    uint32_t slots;             /* bit per device slot */
    uint32_t flags;             /* GPUD_LOCK_… below */
    uint64_t epoch;             /* of the grant; in LOCK_ASKED and LOCK_WITHDRAWN: the process's own number of the request */
    uint64_t time_ns;           /* LOCK_ASKED: waits at most so long (UINT64_MAX: for ever); LOCK_GRANTED: end of the turn;
                                   LOCK_REVOKED: deadline for LOCK_BACK; LOCK_IS_IN, LOCK_BACK: how long it took;
                                   LOCK_BACK with AND_ASKS: as in LOCK_ASKED */
    uint64_t bytes;             /* LOCK_ASKED: what must come in; LOCK_IS_IN: what came in; LOCK_GRANTED: of memory
                                   that can leave, at most so much may be on the device (UINT64_MAX: any; without hook: 0 until it may come in); sent again, with the
                                   same epoch, as that changes; LOCK_BACK with AND_ASKS: the number of the request */
};
#define GPUD_LOCK_EXPLICIT 1    /* LOCK_ASKED, LOCK_BACK with AND_ASKS: by gpud_acquire; idle_release does not hold for it */
#define GPUD_LOCK_OVERRUN 2     /* LOCK_BACK: not drained by the deadline; the process still works on the device, the gate is shut */
#define GPUD_LOCK_SHORT 4       /* LOCK_IS_IN: not all could come in; the rest is still in the host slots */
#define GPUD_LOCK_NEVER 8       /* LOCK_BACK: an open capture waits for the device: holder goes on; with OVERRUN: a capture is open, the gate shut */
#define GPUD_LOCK_AGAIN 16      /* LOCK_GRANTED: nothing new; look at your page. Nothing at all to who has given that grant back since */
#define GPUD_LOCK_AND_ASKS 64   /* LOCK_BACK, drained: and a request for the same devices, behind all that wait by then */
#define GPUD_LOCK_SWAPS 128      /* LOCK_ASKED, LOCK_IS_IN, LOCK_BACK of a client without hook: it lets its memory go when asked (SWAP_OUT) */
#define GPUD_LOCK_OUT 256       /* likewise: its memory is out, and has not come in since */
#define GPUD_LOCK_LEVEL 32      /* LOCK_GRANTED: of a grant under which memory comes in, `bytes` alone is new. Likewise */

/* ALLOC_ASKED, ALLOC_REPLY, SWAP_OUT, SWAPPED, SLOTS_ASKED, SLOTS: about memory of one device. */
struct gpud_msg_memory {
    struct gpud_msg head;
    uint32_t slot;
    uint32_t code;              /* ALLOC_REPLY, SLOTS: 0 = yes, else GPUD_MEMORY_NO_*; SWAPPED: 0 goes on, 1 done, 2 failed, 3 never */
    uint64_t request;           /* the asker's own number, in the answer too */
    uint64_t bytes;             /* asked; SWAP_OUT: at least so much; SWAPPED: left so far; done without hook and 0: it was out already */
    uint64_t time_ns;           /* ALLOC_ASKED: waits at most; else 0 */
};
#define GPUD_MEMORY_NO_LIMIT 1  /* over the tenant's own limit */
#define GPUD_MEMORY_NO_DEVICE 2 /* nobody can give so much */
#define GPUD_MEMORY_NO_TIME 3   /* waited as long as the policy says */
#define GPUD_MEMORY_NO_HOST 4   /* the host tier is full */

/* Followed by text_bytes of UTF-8 (no terminating zero). LAUNCH: lines `key=value`, keys: class, name, label.K, command, exe,
 * gpu (names), gpus (how many), mem (bytes), compute (millionths of a device). JOB: lines `NAME=value`, environment for the job.
 * REFUSED, DETACH, QUEUED: a sentence for the user. */
struct gpud_msg_text {          /* LAUNCH, JOB, REFUSED, DETACH, ATTACHED, QUEUED, LOCK_REFUSED (code: the request) */
    struct gpud_msg head;
    uint32_t code;              /* JOB: job id; REFUSED: GPUD_REFUSED_*; ATTACHED: pid; QUEUED: seconds that it may take at most,
                                   UINT32_MAX: no bound; else 0 */
    uint32_t text_bytes;
};
/* cffi: end */

_Static_assert(sizeof(struct gpud_msg) == 8, "head");
_Static_assert(sizeof(struct gpud_msg_hello) == 32, "hello");
_Static_assert(sizeof(struct gpud_msg_nonce) == 16, "nonce");
_Static_assert(sizeof(struct gpud_msg_welcome) == 40, "welcome");
_Static_assert(sizeof(struct gpud_device_id) == 24, "device id");
_Static_assert(sizeof(struct gpud_msg_devices) == 16 + 24 * GPUD_MAX_DEVICES, "devices");
_Static_assert(sizeof(struct gpud_msg_device_slots) == 16 + 4 * GPUD_MAX_DEVICES, "device slots");
_Static_assert(sizeof(struct gpud_peer_page) == 24, "peer page");
_Static_assert(sizeof(struct gpud_msg_peers) == 16 + 24 * GPUD_MAX_PEERS, "peers");
_Static_assert(sizeof(struct gpud_msg_edge) == 24, "edge");
_Static_assert(sizeof(struct gpud_msg_lock) == 40, "lock");
_Static_assert(sizeof(struct gpud_msg_memory) == 40, "memory");
_Static_assert(sizeof(struct gpud_msg_text) == 16, "text");

#endif
