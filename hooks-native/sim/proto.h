/* proto.h: requests to the device process over its SEQPACKET socket `\0gpud-sim-<uid>-<node>`. One packet each way. */
#ifndef GPUD_SIM_PROTO_H
#define GPUD_SIM_PROTO_H

#include <stddef.h>
#include <stdint.h>

#include "link.h"

#define SIM_PROTO_MAGIC 0x53445047u     /* "GPDS" */
#define SIM_PROTO_VERSION 2u
#define SIM_TEXT 12288u                 /* the most text or data a packet carries */
#define SIM_NODE_NAME 65u               /* with its zero byte */
#define SIM_DEFAULT_PROFILE "a100-40gb"

enum sim_request_type {
    SIM_HELLO = 1,      /* text: struct sim_hello; reply: fds client page, done page, node page, doorbell, memory of each device */
    SIM_ALLOC,          /* device, a = bytes, b = alignment; reply: a = offset */
    SIM_FREE,           /* device, a = offset */
    SIM_INFO,           /* device; reply: a = free, b = total */
    SIM_CONTEXT_NEW,    /* device; reply: id */
    SIM_CONTEXT_END,    /* id */
    SIM_QUEUE_NEW,      /* id = context, a = priority; reply: id */
    SIM_QUEUE_END,      /* id */
    SIM_EVENT_NEW,      /* device, a = 1: interprocess; reply: id, a = its number in the node or 0 */
    SIM_EVENT_END,      /* id */
    SIM_NAME_NEW,       /* text: the kernel's name; reply: id */
    SIM_PROCESSES,      /* device; reply text: struct sim_process[], id = how many there are */
    SIM_UTILISATION,    /* device; reply: a = gpu, b = memory */
    SIM_USAGE,          /* device; reply text: struct sim_usage */
    SIM_RANGE,          /* device, a = offset; reply: a = id of the range, b = bytes */
    SIM_HOLD,           /* device, a = offset, b = id of the range: one more hold, which SIM_FREE takes off; reply: b = bytes */
    SIM_EXPORT,         /* device, id = 0: the range at offset a; 1: pool b, 0 for a new one; reply: one fd, a = number of the pool */
    SIM_IMPORT,         /* a = inode number of an exported fd, id as there; reply: id = device, a = offset (held) or pool, b = bytes */
    SIM_EVENT_OPEN,     /* a = number of an interprocess event; reply: id */
    SIM_EVENT_TAKEN,    /* id; what the client submitted before has been taken from its ring now, and records have their numbers */
    SIM_FAULT_USE,      /* id = rule of the node's faults; reply: a = uses so far, with this one */
    SIM_FAULT_HAPPENED, /* text: the call, a zero byte, what happened: for the log */
    SIM_LOSE,           /* device: it falls off the bus */
    SIM_CONTEXT_STOP,   /* id: a fault has ended it; what its queues hold is dropped */
};

/* What the client asks of the node; empty: whatever the node has. */
struct sim_hello {
    uint32_t version;
    uint32_t pid;                       /* as the client sees itself */
    uint32_t devices;                   /* 0: any */
    uint32_t reserved;
    double time_scale;                  /* 0: any */
    char profile[1024];
    char mode[64];
    char log[4096];
    char faults[SIM_FAULTS];            /* rules of $GPUD_SIM_FAULTS for all processes of the node */
};

#define SIM_REQUEST_FIELDS \
    uint32_t magic, type; \
    uint32_t device, id; \
    int64_t a, b; \
    uint32_t text_bytes, reserved;
/* `result`: 0 or a negative errno; with HELLO, text says why. */
#define SIM_REPLY_FIELDS \
    int32_t result; \
    uint32_t id; \
    int64_t a, b; \
    uint32_t text_bytes, reserved;

struct sim_request_head { SIM_REQUEST_FIELDS };
struct sim_reply_head { SIM_REPLY_FIELDS };
struct sim_request { SIM_REQUEST_FIELDS char text[SIM_TEXT]; };
struct sim_reply { SIM_REPLY_FIELDS char text[SIM_TEXT]; };

#define SIM_REQUEST_HEAD sizeof(struct sim_request_head)
#define SIM_REPLY_HEAD sizeof(struct sim_reply_head)
_Static_assert(SIM_REQUEST_HEAD == offsetof(struct sim_request, text), "the text follows the head");
_Static_assert(SIM_REPLY_HEAD == offsetof(struct sim_reply, text), "the text follows the head");

#endif
