/* gpud_page.h: the pages that the daemon and the hooks share. The ABI.
 *
 * Plain structs of fixed-width fields with explicit padding, read by C and (the part between the two `cffi` lines, which
 * must hold nothing but integer #defines and structs) by cffi. No page is written by two parties:
 *
 *   control page   one per client  written by the daemon  read by that client
 *   presence page  one per client  written by that client read by the daemon and by the peers that wait for it
 *   activity page  one per client  written by that client read by the daemon only
 *
 * Words that the other side reads while they change are accessed with C11 atomics on the naked type (see page.h); times
 * are CLOCK_MONOTONIC nanoseconds. A device is named in pages by its node-wide slot, 0 … GPUD_MAX_DEVICES-1, which the
 * daemon hands out (GPUD_MSG_DEVICE_SLOTS). */
#ifndef GPUD_PAGE_H
#define GPUD_PAGE_H

#include <stdint.h>

/* cffi: begin */
#define GPUD_PAGE_VERSION 4
#define GPUD_PAGE_MAGIC 0x64757067  /* "gpud", little endian */
#define GPUD_PAGE_CONTROL 1
#define GPUD_PAGE_PRESENCE 2
#define GPUD_PAGE_ACTIVITY 3
#define GPUD_MAX_DEVICES 8
#define GPUD_MAX_PEERS 16  /* peers looked at directly; beyond, others_active */
#define GPUD_MAX_SLOTS 64  /* launching threads with a slot of their own, per device */
#define GPUD_HISTOGRAM_BUCKETS 32
#define GPUD_REASON_BYTES 36

/* Gate word: zero is open, nothing else to ask. Bits, so that reasons to look combine. */
#define GPUD_GATE_PAUSED 1      /* hold every launch */
#define GPUD_GATE_PREEMPT 2     /* look at the peers ranked above */
#define GPUD_GATE_WINDOW 4      /* max_inflight, max_inflight_ns */
#define GPUD_GATE_BUDGET 8      /* cap: GPU time of the own tenant is limited */
#define GPUD_GATE_GRANT 16      /* exclusive: only the holder of the device lock, with its memory in (grant_epoch) */
#define GPUD_GATE_RATE 32       /* launch_rate, block_rate */
#define GPUD_GATE_CHARGE 64     /* holds nothing: launches are charged with their cost and sampled now and then */
#define GPUD_GATE_SHARE 128     /* one tenant at a time, by who is furthest behind its share */
#define GPUD_GATE_COPY 256      /* copy_rate: copies are gated too */

/* cap_flags */
#define GPUD_CAP_SOFT 1         /* may be exceeded while nobody else wants the device */

/* memory_flags */
#define GPUD_MEMORY_SWAP 1      /* allocations come from the pool of chunks, so that they can leave the device (docs/turns-and-memory.md) */
#define GPUD_MEMORY_WAIT 2      /* over the limit or the device: ask (ALLOC_ASKED) and wait, instead of failing at once */

/* lock_flags */
#define GPUD_LOCK_WANTED 1      /* somebody waits for the device: who holds it and is done gives it back at once */

/* gpud_activity_device.pins: counted memory that cannot leave the device, by why. */
#define GPUD_PIN_EARLY 0        /* allocated where nothing could leave: before the policy said so, or where the hook cannot make it */
#define GPUD_PIN_CAPTURE 1      /* … while a stream capture was open */
#define GPUD_PIN_ARRAY 2
#define GPUD_PIN_MANAGED 3
#define GPUD_PIN_HANDLE 4       /* made by cuMemCreate: the program's own mappings */
#define GPUD_PIN_POOL 5         /* held by memory pools of the driver */
#define GPUD_PIN_GRAPH 6        /* … by its graphs */
#define GPUD_PIN_OUTSIDE 7      /* could leave, but somebody was given a handle of it, or reaches it past the driver */
#define GPUD_PINS 8

/* gpud_presence_device.lock: what this process makes of the device lock. */
#define GPUD_LOCK_NONE 0        /* has no grant */
#define GPUD_LOCK_ASKS 1        /* a thread waits for a grant */
#define GPUD_LOCK_COMES_IN 2    /* granted; its memory is on the way in, the gate still shut */
#define GPUD_LOCK_HAS 3         /* launches pass */
#define GPUD_LOCK_LEAVES 4      /* asked back: gate shut, draining */

/* gpud_peer.flags */
#define GPUD_PEER_OWN 1         /* another process of the own tenant: its spent_ns is spent of the own cap and share */
#define GPUD_PEER_SHARE 2       /* takes turns with the own tenant (GPUD_GATE_SHARE) */

/* gpud_presence_device.turn. A tenant *wants* the device as long as one of its processes says anything but NONE. */
#define GPUD_TURN_NONE 0
#define GPUD_TURN_HAS 1         /* uses the device by its turn */
#define GPUD_TURN_ASKS 2        /* a thread is held by GPUD_GATE_SHARE alone */

/* Failsafe: what a hook does once the lease has run out (only looked at where a launch would be held). */
#define GPUD_FAILSAFE_OPEN 0    /* open failsafe_after_ns after the lease ended */
#define GPUD_FAILSAFE_HOLD 1    /* never open by itself (exclusive) */

struct gpud_page_header {
    uint32_t magic;
    uint16_t version;       /* GPUD_PAGE_VERSION of the writer */
    uint16_t kind;          /* GPUD_PAGE_CONTROL, … */
    uint32_t size;          /* whole page, bytes */
    uint32_t client;        /* client id, unique in one daemon's life */
    uint64_t generation;    /* control: generation of what was published last; others: attach generation */
    uint64_t epoch_ns;      /* when the page was made, CLOCK_MONOTONIC */
    uint32_t shift;         /* presence: see gpud_presence_index() */
    uint8_t pad[28];
};                          /* 64 bytes */

/* What this client must know of one peer on one device. `present` is the index under which the peer's presence page was
 * handed over (GPUD_MSG_PEERS); it holds only while the generations agree. */
struct gpud_peer {
    uint32_t rank;          /* smaller is higher; looked at if rank < own rank */
    uint32_t unit;          /* reserved: 0 */
    uint64_t generation;    /* of the presence page; 0: entry unused */
    uint32_t present;       /* index into the hook's table of mapped presence pages */
    uint32_t flags;         /* GPUD_PEER_* */
    uint32_t tenant;        /* job of the peer; entries of one tenant are next to each other */
    uint32_t share_seq;     /* odd while the three below change */
    int64_t share_base_ns;  /* of the peer's tenant: see gpud_control_device.share_base_ns */
    uint64_t share_t0_ns;
    uint32_t share_rate_ppm; /* 0: takes no part in the turns */
    uint8_t pad[12];
};                          /* 64 bytes */

/* GPU time. Times and rates are of the wall clock: 1e6 ppm is one whole device. `spent` of a tenant is the sum of spent_ns of
 * the presence pages of its processes (own page, and peers with GPUD_PEER_OWN). Two levels, in nanoseconds of GPU time, follow from
 * words that the daemon writes anew at each tick; nobody stores a level:
 *
 *   cap level   = min(cap_base + cap_rate × (now − cap_t0) − spent, cap_burst)     what the tenant may still use
 *   share level = share_base + share_rate × (now − share_t0) − spent               how far it is behind its share
 *   lag         = share level ÷ share_rate                                         the same as time: who waits for it
 */
struct gpud_control_device {
    uint32_t gate;          /* GPUD_GATE_* */
    uint32_t wake;          /* futex word: the daemon adds 1 and wakes when a held thread should look again now */
    uint32_t rank;          /* own rank under preempt; smaller is higher */
    uint32_t unit;          /* reserved: 0 */
    uint32_t peer_count;    /* entries of peers[] in use */
    uint32_t others_active; /* 1: some higher peer beyond GPUD_MAX_PEERS is active (written per tick) */
    uint32_t max_inflight;  /* launches submitted and unfinished; 0 = unlimited (GPUD_GATE_WINDOW) */
    uint32_t pass_launches; /* launches per held thread that max_pause lets through; ≥ 1 */
    uint64_t resume_after_ns;
    uint64_t max_pause_ns;  /* UINT64_MAX = unlimited */
    uint64_t max_inflight_ns;  /* GPU time submitted and unfinished; 0 = unlimited (GPUD_GATE_WINDOW) */
    uint64_t memory_limit;  /* of the own tenant on this device, bytes; UINT64_MAX = unlimited. Holds for reserved_bytes in sum over its
                               processes (own page, peers with GPUD_PEER_OWN), others_reserved and overhead_bytes */
    /* 64 bytes so far */
    uint32_t level_seq;     /* odd while the words of the two levels change */
    uint32_t cap_rate_ppm;  /* GPUD_GATE_BUDGET; 0: nothing may run */
    int64_t cap_base_ns;
    uint64_t cap_t0_ns;
    uint64_t cap_burst_ns;
    uint32_t cap_flags;     /* GPUD_CAP_* */
    uint32_t share_rate_ppm;   /* GPUD_GATE_SHARE */
    int64_t share_base_ns;
    uint64_t share_t0_ns;
    uint64_t share_turn_ns; /* whoever has the turn keeps it until the lag of one who wants it is larger by this */
    /* 128 */
    uint64_t draw_ns;       /* at most this much GPU time is drawn from a level at once, by all threads together; 0: as charged */
    uint64_t pass_ns;       /* beside pass_launches: GPU time that max_pause lets through; 0: by launches */
    uint64_t launch_rate;   /* this client's part, launches per 1000 s; UINT64_MAX = unlimited (GPUD_GATE_RATE) */
    uint64_t block_rate;    /* thread blocks per 1000 s, likewise */
    uint64_t copy_rate;     /* bytes per second; UINT64_MAX = unlimited (GPUD_GATE_COPY) */
    uint64_t burst_ns;      /* a rate's unused part is kept for this long */
    int64_t others_lag_ns;  /* largest lag among tenants beyond the table that want the device; INT64_MIN: none (per tick) */
    uint64_t generation;    /* bumped after every change of this struct but the levels' */
    /* 192 */
    uint64_t grant_epoch;   /* fencing epoch of the own grant of the device lock (GPUD_GATE_GRANT); 0: none */
    uint64_t grant_until_ns;   /* end of the turn while others wait, for callers that ask; UINT64_MAX: open */
    uint32_t tenant;        /* own job */
    uint32_t others_edges;  /* counts on whenever somebody beyond the table was active since the last tick */
    uint32_t watched;       /* 1: the daemon looks at presence often enough by itself, or not at all: edges need not be told */
    uint32_t memory_flags;  /* GPUD_MEMORY_* */
    uint64_t others_reserved;  /* reserved_bytes of processes of the own tenant beyond the table (per tick) */
    uint64_t overhead_bytes;   /* of the own tenant: contexts, modules and all that the driver holds beside allocations, measured */
    uint32_t lock_flags;    /* GPUD_LOCK_* of this group */
    uint32_t lock_place;    /* place in line of the own tenant, 1 = next; 0: not in line */
    uint8_t pad[8];
    /* 256 */
    struct gpud_peer peers[GPUD_MAX_PEERS];
};                          /* 256 + 16 × 64 = 1280 bytes */

struct gpud_control_page {
    struct gpud_page_header header;
    uint64_t lease_until_ns;    /* valid until; refreshed by the daemon */
    uint64_t failsafe_after_ns; /* after the end of the lease, what was set is held this long */
    uint32_t failsafe;          /* GPUD_FAILSAFE_* */
    uint32_t detach;            /* 1: the daemon has detached this client: act as if there were no gate */
    uint8_t pad[40];            /* 128 bytes so far */
    struct gpud_control_device device[GPUD_MAX_DEVICES];
};

struct gpud_presence_device {
    uint32_t active;        /* 1 from the first launch after idle until all launched work is proven finished */
    uint32_t edges;         /* + 1 on every 0→1 and 1→0 */
    uint64_t idle_since_ns; /* valid while active == 0 */
    uint64_t inflight;      /* launches submitted and not known to be finished (0 where nobody counts) */
    uint64_t spent_ns;      /* GPU time charged since attach (GPUD_GATE_CHARGE and all that limit it) */
    uint32_t waiting;       /* threads held at the gate now, but for a paused job's */
    uint32_t turn;          /* GPUD_TURN_* */
    uint64_t full_ns;       /* until when the client had more work submitted than its window takes, as far as it knows */
    uint64_t reserved_bytes;   /* device memory that this process holds or is about to ask the driver for */
    uint32_t lock;          /* GPUD_LOCK_NONE, … */
    uint32_t holds;         /* turns that the program has taken explicitly and not released */
};                          /* 64 bytes */

struct gpud_presence_page {
    struct gpud_page_header header;
    struct gpud_presence_device device[GPUD_MAX_DEVICES];   /* by gpud_presence_index() */
};

/* One launching thread on one device. Only that thread writes (threads beyond GPUD_MAX_SLOTS share the last one with
 * atomic adds). entered != left: a thread may be past the gate. */
struct gpud_slot {
    uint64_t entered;
    uint64_t left;
    uint64_t blocks;        /* thread blocks launched, while launches are charged */
    uint64_t held;          /* times a launch of this thread was held */
    uint64_t held_ns;       /* for how long in sum */
    uint32_t thread;        /* kernel thread id; 0: free */
    uint32_t holding;       /* 1 while held; its reason in hold_reason */
    uint32_t hold_reason;   /* the GPUD_GATE_* bit that holds */
    uint32_t hold_peer;     /* present index of the peer waited for; UINT32_MAX: none */
    uint64_t hold_since_ns;
};                          /* 64 bytes */

struct gpud_activity_device {
    uint64_t used_bytes;        /* device memory, by the entries that passed through the hook */
    uint64_t allocations;       /* live ones */
    uint64_t launches_failed;   /* the driver answered an error */
    uint64_t passed;            /* launches let through by max_pause */
    uint64_t copy_bytes;        /* to, from and within the device, while copies are gated or launches are charged */
    uint64_t last_finish_ns;    /* when a launch was last proven finished */
    uint64_t samples;           /* launches whose GPU time was measured */
    uint64_t clean;             /* of these, with no other tenant active meanwhile */
    uint64_t calls;             /* driver calls made for windows and samples */
    uint32_t factor_ppm;        /* what charges are multiplied with, learned from time alone; 1e6: 1 */
    uint32_t estimated;         /* 1: no clean sample for 5 s: what is charged comes from time shared with others */
    uint64_t resident_bytes;    /* of the pool's chunks: backed by device memory now */
    uint64_t host_bytes;        /* … in host slots and not on the device */
    uint64_t lazy_bytes;        /* … without backing and without contents */
    uint64_t swap_done_bytes;   /* of the swap under way; 0 / 0: none is */
    uint64_t swap_total_bytes;
    uint64_t lost_bytes;        /* of the pool's chunks: what the host's memory has not kept */
    uint64_t slots_bytes;       /* host slots that this process has, for all of its devices … */
    uint64_t unpinned_bytes;    /* … and of these, what the driver has refused to page-lock */
    uint64_t pins[GPUD_PINS];   /* bytes, by GPUD_PIN_* */
    uint8_t pad[48];            /* 256 */
    uint64_t held_histogram[GPUD_HISTOGRAM_BUCKETS]; /* bucket i: held for [2^i, 2^(i+1)) µs, the first below 1 µs·2 */
    uint64_t delay_histogram[GPUD_HISTOGRAM_BUCKETS]; /* launch → start, of sampled launches, likewise */
    struct gpud_slot slots[GPUD_MAX_SLOTS];
};                          /* 256 + 512 + 4096 bytes */

struct gpud_activity_page {
    struct gpud_page_header header;
    uint64_t errors;            /* faults inside the hook that were degraded and counted */
    uint64_t attaches;          /* re-attachments so far */
    uint64_t keeper_wakes;
    uint32_t reason_slots;      /* bit per device slot: there `reason` says what the program's turn is for; 0 while it changes */
    uint8_t reason[GPUD_REASON_BYTES];  /* the program's own text, UTF-8, zeros after it: not to be believed or shown as it is */
    /* 128 */
    struct gpud_activity_device device[GPUD_MAX_DEVICES];
};
/* cffi: end */

/* Where a device's line lies in a presence page. Whoever looks at many clients' lines for one device, before each launch, would find them
 * at the same place of as many pages, and so in the same few lines of its cache: pages are shifted against each other. */
static inline uint32_t gpud_presence_index(const struct gpud_page_header *header, uint32_t device)
{
    return (device + __atomic_load_n(&header->shift, __ATOMIC_RELAXED)) % GPUD_MAX_DEVICES;
}

#define GPUD_ROUND_4K(n) (((n) + 4095u) & ~4095u)
#define GPUD_CONTROL_BYTES GPUD_ROUND_4K(sizeof(struct gpud_control_page))
#define GPUD_PRESENCE_BYTES GPUD_ROUND_4K(sizeof(struct gpud_presence_page))
#define GPUD_ACTIVITY_BYTES GPUD_ROUND_4K(sizeof(struct gpud_activity_page))

_Static_assert(sizeof(struct gpud_page_header) == 64, "header is one cache line");
_Static_assert(sizeof(struct gpud_peer) == 64, "peer is one cache line");
_Static_assert(sizeof(struct gpud_control_device) == 256 + 64 * GPUD_MAX_PEERS, "control device");
_Static_assert(sizeof(struct gpud_control_page) == 128 + GPUD_MAX_DEVICES * sizeof(struct gpud_control_device), "control page");
_Static_assert(sizeof(struct gpud_presence_device) == 64, "presence device is one cache line");
_Static_assert(sizeof(struct gpud_slot) == 64, "slot is one cache line");
_Static_assert(sizeof(struct gpud_activity_device) == 256 + 16 * GPUD_HISTOGRAM_BUCKETS + 64 * GPUD_MAX_SLOTS, "activity device");

#endif
