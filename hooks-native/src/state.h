/* state.h: what the hook knows in one process, and the words that its parts share. */
#ifndef GPUD_STATE_H
#define GPUD_STATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include "cuda_types.h"
#include "launch.h"
#include "page.h"
#include "sys.h"

#pragma GCC visibility push(hidden)

/* The process's own word beside the gate words. A launch takes the fast path only while it equals what its thread saw last
 * when it looked at everything. Low bits: reasons to take the slow path always; the rest is a generation, raised whenever
 * something that threads cache may have changed. */
#define GPUD_WORD_CAPTURE 1     /* a stream capture is open */
#define GPUD_WORD_CLOSED 2      /* the keeper has closed a device */
#define GPUD_WORD_FENCE 4       /* no membarrier here: launches take a full fence */
#define GPUD_WORD_DECIDING 8    /* somebody is about to make a device idle: launches note their streams */
#define GPUD_WORD_REASONS 15
#define GPUD_WORD_STEP 16
extern uint64_t gpud_word;

#define GPUD_UNMANAGED GPUD_MAX_DEVICES     /* device of a thread that has none, or one that nobody arbitrates */
#define GPUD_NO_PEER UINT32_MAX
#define GPUD_NO_STREAM ((CUstream)UINTPTR_MAX)  /* equal to no stream: look at everything at the next launch */
#define GPUD_PASS_WAKE 8        /* beside those of launch.h: wake the keeper once the launch is made */

/* A word that says whether a launch under preempt may pass without asking the clock: the edge word of a peer ranked above, with its
 * value when it was last found idle past resume_after; and the words that say whether the list itself still holds. */
struct gpud_watch {
    const uint64_t *word;
    uint64_t quiet;
};
#define GPUD_MAX_WATCH (GPUD_MAX_PEERS + 3)
#define GPUD_MORE_WATCHED 0xff  /* `more`: so many watched words must be quiet */
#define GPUD_MORE_CREDIT 0x100  /* the launch is taken from the thread's credit (credit.h) */
#define GPUD_MORE_CHARGED 0x200 /* … GPU time too */
#define GPUD_MORE_BLOCKS 0x400  /* … and blocks, which are limited */

/* One per thread, initial-exec. The first part is read by each launch. */
struct gpud_thread {
    struct gpud_slot *slot;     /* on the current device */
    const uint32_t *gate;       /* gate word of that device */
    const uint64_t *edge;       /* edge word of that device: active, edges */
    uint64_t edge_seen;
    uint64_t word;              /* gpud_word as seen; never equal to it while a reason bit is set */
    CUstream stream;            /* the stream that this thread last registered in the burst */
    uint32_t device;
    uint32_t flags;             /* of its passes: GPUD_PASS_SHARED */
    uint32_t gate_seen;         /* gate word that may be passed at once: open, or with what `more` says */
    uint32_t more;              /* GPUD_MORE_*, and below them how many words are watched; 0: nothing else to look at */
    struct gpud_credit *credit; /* of its slot; NULL: a shared one, or none */
    struct gpud_watch watch[GPUD_MAX_WATCH];
    /* the rest is for slow paths */
    uint64_t bound;             /* generation for which device and context are valid; 0: look anew */
    CUcontext context;
    uint64_t alive;             /* `bound` when the context was seen alive after some have ended; 0: not looked since */
    uint32_t ordinal;
    uint32_t attachment;        /* attachment for which slots[] holds */
    uint32_t passes;            /* launches that max_pause still lets through */
    uint64_t pass_ns;           /* or GPU time */
    struct gpud_slot *slots[GPUD_MAX_DEVICES];
    uint32_t shared;            /* bit per device: its slot is the shared one */
    uint32_t id;                /* kernel thread id */
    uint32_t gave_idle;         /* 1: its allocation found no room, and is tried once more with what the pool kept in no use */
    struct gpud_slot own;       /* counts nobody reads: no device, or a shared slot */
};
_Static_assert(sizeof(struct gpud_thread) <= 960, "with gpud_inside the hook's thread-local storage stays below 1 KiB");
extern __thread struct gpud_thread gpud_thread __attribute__((tls_model("initial-exec")));

extern const uint32_t gpud_open_gate;       /* what a thread without a device looks at: open, and no edge ever */
extern const uint64_t gpud_no_edge;
extern uint32_t gpud_managed;       /* 1: attached, device slots known, not detached */
extern uint32_t gpud_was_managed;   /* 1: it was once, and then not any more */
extern uint32_t gpud_attachment;    /* raised with each new set of own pages */
extern uint32_t gpud_devices_used;  /* bit per device slot that some thread has launched on */
extern uint32_t gpud_slot_of[GPUD_MAX_DEVICES];     /* client ordinal → device slot; UINT32_MAX: not managed */
extern uint32_t gpud_closed;        /* bit per device slot: closed, see closing.c */
extern uint32_t gpud_holding;       /* threads held at this moment */
extern uint32_t gpud_captures;      /* open stream captures */
extern uint32_t gpud_asking;        /* how many of ours are asking the driver right now, outside of launches */
extern uint32_t gpud_ending;        /* how many contexts are just being ended: nobody of ours asks the driver meanwhile */
extern uint32_t gpud_exiting;       /* the process exits, or the driver is gone: no driver call of our own any more */

/* Raises the generation of gpud_word and sets or clears reasons. */
void gpud_word_raise(uint64_t set, uint64_t clear);
/* Sets and clears GPUD_WORD_DECIDING without raising the generation: what threads know stays true. */
void gpud_deciding_begin(void);
void gpud_deciding_end(void);
void gpud_bind_forget(void);                /* forked child */

/* slots.c */
void gpud_slots_start(void);
void gpud_slots_outdate(void);              /* keeper, before the last look at the marks of pages that go */
void gpud_slots_renew(void);                /* keeper: new pages; slots of before belong to nobody */
void gpud_slots_forget(void);               /* forked child: this thread starts anew */
struct gpud_slot *gpud_slot_claim(struct gpud_thread *thread, uint32_t device);
uint32_t gpud_slot_users(uint32_t device);  /* how many threads have a slot; 1 … GPUD_MAX_SLOTS */
struct gpud_marks {
    uint64_t entered, left;
};
/* Sums of a device; equal: no launch was between the gate and its return at some moment during the call. */
struct gpud_marks gpud_marks(uint32_t device);

/* bind.c: finds device, context and slot of the calling thread anew; true if it has a managed device. */
bool gpud_bind(struct gpud_thread *thread);

/* gate.c. `function` and `blocks` are what the cost of the launch is known by (cost.h). */
struct gpud_pass gpud_enter_slow(CUstream stream, const void *function, uint64_t blocks);
void gpud_leave_slow(struct gpud_pass *pass, CUstream stream, CUresult result);
/* Into a capture; the driver is asked only while any capture is open. */
bool gpud_is_capturing(CUstream stream);

/* presence.c */
/* Before a launch of a thread bound to a managed device, which is marked already: makes the device active (`woke` is set if this
 * call did) and notes the stream. */
void gpud_presence_enter(struct gpud_thread *thread, CUstream stream, bool *woke);
/* Asks the driver whether all used streams of the device are finished; goes idle if so. Never waits for a lock. */
bool gpud_presence_ask(uint32_t device);
void gpud_presence_forget(void);            /* forked child */
CUstream gpud_stream_named(CUstream stream, int per_thread);

/* keeper.c */
void gpud_keeper_wake(void);                /* callable from any thread; never blocks */
void gpud_keeper_call(void);                /* likewise, and it does not sleep on for a moment, as it may between two looks at a busy device */
extern uint32_t gpud_keeper_asleep;         /* 1: it sleeps without a deadline, and an edge must wake it */

/* closing.c: closed is a device whose memory is not all there. gpud_shut closes it at once: for who knows that no launch is past the gate,
 * or that none uses what is missing. gpud_close returns 0 when no launch is past the gate, or -ETIMEDOUT at `deadline_ns`, and then it is
 * open if it was before. Opening and gpud_close: keeper only. */
void gpud_shut(uint32_t device);
int gpud_close(uint32_t device, uint64_t deadline_ns);
void gpud_open(uint32_t device);
/* For a thread without gate (no daemon): waits a while if its device is closed; true: look again. */
bool gpud_wait_open(const struct gpud_thread *thread);

/* alloc.c */
void gpud_alloc_publish(void);              /* counts so far into the pages of the present attachment */
void gpud_alloc_forget(void);

#pragma GCC visibility pop
#endif
