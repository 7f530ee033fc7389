/* sample_state.h: what sample.c, sample_read.c, sample_stretch.c, sample_delay.c and sample_others.c share. */
#ifndef GPUD_SAMPLE_STATE_H
#define GPUD_SAMPLE_STATE_H

#include "cost.h"
#include "sample.h"

#pragma GCC visibility push(hidden)

#define GPUD_SAMPLE_POOL 32         /* pairs under way on a device */
#define GPUD_SAMPLE_PAUSE 480       /* launches from one to the next, on average */
#define GPUD_SAMPLE_ABANDON_NS (10 * GPUD_SECOND)   /* not finished for so long: its place is needed */

/* How many other clients are at work on a device, and a trace that is another one if anybody was meanwhile. */
struct gpud_others {
    uint32_t active;
    uint64_t trace;
};
struct gpud_others gpud_others_look(uint32_t device, uint64_t now);

/* Who may touch one: FREE nobody, OPEN the launching thread, WAITING nobody, READING who made it so. Changes by compare-and-swap. */
enum gpud_pending_state { GPUD_PENDING_FREE, GPUD_PENDING_OPEN, GPUD_PENDING_WAITING, GPUD_PENDING_READING, GPUD_PENDING_LOST };

struct gpud_pending {
    uint32_t state;
    uint32_t device;
    CUevent begin, end;         /* kept for the next pair in the same context */
    CUcontext context;
    CUstream stream;
    const void *function;
    uint64_t blocks;
    uint64_t worth;             /* 0: nothing, its function went */
    uint64_t launched_ns;       /* host time before the launch */
    uint64_t host_ns;           /* what the launch took on the host */
    uint64_t next_ns;           /* not asked about before */
    struct gpud_others others;  /* before the launch */
    bool behind;                /* the stream was at work before the first event, too: else that is reached before the device is the client's */
    bool busy;                  /* … and the first event was not reached yet when the second was recorded */
    bool delay;                 /* to be told how long it waited for its start */
    bool anchored;              /* the anchor was recorded right before it */
};

/* Launches between two events, all of one thread, and what they were charged with. */
struct gpud_measured {
    uint32_t state;             /* WAITING, READING, FREE */
    uint32_t from, to;          /* which of the events */
    uint64_t charged_ns;
    uint64_t launches;
    double factor;              /* in what was charged; 0: it says nothing of the factor */
    uint32_t alone;             /* 1: no other thread launched meanwhile */
    uint32_t attachment;
    uint64_t recorded_ns;       /* host time of the second event */
    uint64_t next_ns;
    struct gpud_others others;  /* at the first */
};

#define GPUD_STRETCHES 4        /* measured and not read yet */
#define GPUD_STRETCH_EVENTS 8

/* The stretch that a thread is adding to, and those before it. */
struct gpud_stretch {
    uint32_t state;             /* FREE; OPEN: its thread adds to it; READING: somebody is at it */
    uint32_t thread;
    CUevent event[GPUD_STRETCH_EVENTS];
    CUcontext context;          /* of the events */
    CUstream stream;
    const struct gpud_slot *slot;
    uint32_t attachment;
    uint32_t from;              /* which event it began with */
    uint64_t entered, all_entered;  /* launches of the thread, of all threads, at its begin */
    uint64_t charged_ns;
    uint64_t unsure, young, beside;
    double factor;
    uint64_t began_ns;
    struct gpud_others others;
    uint32_t length;            /* launches in it */
    uint32_t dry;               /* stretches in a row in which the device had nothing to do for a moment */
    uint32_t was_dry;           /* 1: one was, so length has a limit */
    struct gpud_measured measured[GPUD_STRETCHES];
};

/* A point on the clocks of host and device; see sample_delay.c. */
struct gpud_anchor {
    uint32_t busy;              /* 1: somebody is at it */
    uint32_t current;           /* which of the two */
    CUevent event[2];
    CUcontext context;
    uint64_t host_ns[2];
    bool fresh;                 /* `base` is still that of the other one */
    bool known;
    double base_ns;
    uint64_t base_at_ns;
};

struct gpud_sampler {
    int32_t left;               /* launches of all threads until something is due */
    uint32_t turn;              /* pairs and stretches take turns */
    uint32_t stretches;         /* measured so far */
    uint32_t random;
    uint64_t launches;
    uint64_t young;             /* pairs of young functions so far */
    uint64_t next_ns;           /* nothing is worth reading before */
    uint64_t latency_ns;        /* from launch to its end, lately */
    uint64_t quiet_until_ns;    /* the driver answered errors */
    uint32_t errors;            /* in a row */
    struct gpud_stretch stretch;
    struct gpud_anchor anchor;
    struct gpud_pending pending[GPUD_SAMPLE_POOL];
};
extern struct gpud_sampler gpud_samplers[GPUD_MAX_DEVICES];

/* May the driver be asked now? Then whoever begins a capture or ends a context waits until gpud_asked(). */
static inline bool gpud_may_ask(void)
{
    if (gpud_load(&gpud_captures) != 0 || gpud_load(&gpud_ending) != 0 || gpud_load(&gpud_exiting))
        return false;
    gpud_add_total(&gpud_asking, 1);
    if (gpud_load_total(&gpud_captures) == 0 && gpud_load_total(&gpud_ending) == 0 && !gpud_load_total(&gpud_exiting))
        return true;
    gpud_sub_total(&gpud_asking, 1);
    return false;
}

static inline void gpud_asked(void)
{
    gpud_sub_total(&gpud_asking, 1);
}

static inline void gpud_count_calls(uint32_t device, uint32_t calls)
{
    gpud_add(&gpud_activity()->device[device].calls, calls);
}

static inline bool gpud_state_change(uint32_t *state, uint32_t from, uint32_t to)
{
    return __atomic_compare_exchange_n(state, &from, to, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* sample.c */
void gpud_sample_trouble(uint32_t device, CUresult result, uint64_t now);     /* the driver answered an error to something of ours */
void gpud_sample_next(struct gpud_sampler *sampler, uint64_t next_ns);        /* worth reading at this time */
/* An event of the calling thread's context in *event, as `context` says it has one already. False: none to be had. */
bool gpud_sample_event(uint32_t device, CUevent *event, unsigned int flags);
bool gpud_sample_at_work(uint32_t device, CUstream stream);     /* the stream is not finished. Asking is allowed. */

/* sample_read.c. Wall nanoseconds from event to event. NOT_READY: not finished. Asking is allowed. */
CUresult gpud_sample_elapsed(uint32_t device, CUevent from, CUevent to, double *ns);
/* When to ask again about what is not finished. */
uint64_t gpud_sample_again(const struct gpud_sampler *sampler, uint64_t launched_ns, uint64_t now);
/* The same where the context may have to be made current (not NULL): it is asked first whether that is worth it. After success, _leave(). */
CUresult gpud_sample_ask(uint32_t device, CUcontext enter, CUevent from, CUevent to, double *ns);
void gpud_sample_leave(CUcontext entered);

/* sample_stretch.c: what happened in streams beside launches: waits for others, and copies. Another value: something did. */
uint64_t gpud_sample_beside(uint32_t device);

/* sample_stretch.c; asking is allowed, but for left(). */
uint32_t gpud_stretch_left(uint32_t device);        /* launches until the calling thread's is over; UINT32_MAX: it has none */
void gpud_stretch_begin(uint32_t device, CUstream stream, uint64_t charged_ns, uint64_t now);
void gpud_stretch_end(uint32_t device, CUstream stream, uint64_t charged_ns, uint64_t now);
/* Reads what is due, in `own` context, which is current, or, where that is NULL, in its own. */
void gpud_stretch_read(uint32_t device, CUcontext own, uint64_t now);

/* sample_delay.c; asking is allowed. */
void gpud_anchor_record(uint32_t device, struct gpud_pending *pending, CUstream stream, uint64_t now);
void gpud_delay_learn(uint32_t device, const struct gpud_pending *pending, double interval_ns, uint64_t now);

#pragma GCC visibility pop
#endif
