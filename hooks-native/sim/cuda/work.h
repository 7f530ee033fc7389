/* work.h: what is put into streams: computed in this process in the order of submission, timed by the device process. */
#ifndef SIM_CUDA_WORK_H
#define SIM_CUDA_WORK_H

#include "sim.h"

#define WORK_INLINE_PARAMS 512

/* WAIT and FAULT are for compute.c alone. */
enum work_kind { WORK_KERNEL, WORK_COPY, WORK_SET, WORK_CALL, WORK_WAIT, WORK_FAULT };

struct kernel_work {
    const struct function *function;
    uint64_t function_id;           /* its handle's: it may have been unloaded */
    CUkernel kern;                  /* what a graph's node named instead */
    bool cooperative;
    const struct gpud_kernel_desc *desc;
    struct image *image;            /* held, so that the code stays loaded */
    struct gpud_launch launch;
    uint64_t blocks;
    void *params;                   /* inline_params or malloc */
};

struct copy_work {
    char *dst;
    const char *src;
    size_t width, height, depth, dst_pitch, src_pitch, dst_plane, src_plane;
    bool snapshot;                  /* pageable source of an asynchronous copy: taken when it is submitted */
    char *owned;                    /* the snapshot */
};

struct set_work { char *dst; size_t pitch, width, height; unsigned size; uint32_t value; };

struct call_work { CUhostFn fn; CUstreamCallback callback; void *data; CUstream stream; uint64_t after; };

/* Waits until queue `on` has been computed up to `ticket`; on 0: until the record with that number of the event is reached. */
struct wait_work { uint32_t on, event; uint64_t ticket; };

struct work {
    struct work *next, *next_over;
    enum work_kind kind;
    struct ctx *ctx;
    uint32_t queue;
    uint64_t ticket;
    struct sim_command command;     /* what the device process is told */
    union { struct kernel_work kernel; struct copy_work copy; struct set_work set; struct call_work call; struct wait_work wait; };
    unsigned char inline_params[WORK_INLINE_PARAMS] __attribute__((aligned(16)));
};

struct work *work_new(enum work_kind kind);     /* NULL: no host memory */
/* set.c: the work of a memset that is not of nothing; `locked`: of page-locked host memory. */
CUresult set_make(const struct set_work *set, struct ctx *ctx, struct work **out, bool *locked);
void work_free(struct work *work);
struct work *work_clone(const struct work *work);               /* for graphs; not a snapshot */
bool work_params(struct work *work, size_t bytes);              /* room for the parameter block, zeroed */

/* Puts work into a stream (or, while it captures, into its graph; `captured` may be NULL). Takes the work over whatever the result. */
CUresult work_submit(struct stream *stream, struct work *work, bool *captured);
/* The same with the submit lock held, never captured. `ticket` may be NULL. */
CUresult work_push(struct stream *stream, struct work *work, uint64_t *ticket);
/* Makes a stream obey the rules of the legacy default stream before its next command; submit lock held. */
CUresult work_order(struct stream *stream);
/* Lets `waiter` wait for all that `runner` holds now; submit lock held. */
CUresult work_wait_for(struct stream *waiter, struct stream *runner);
/* A command without computing (RECORD); submit lock held. */
CUresult work_command(struct stream *stream, const struct sim_command *command, uint64_t *ticket);
/* Lets a stream wait for a record, by its ticket (number, of an interprocess event). `queue`: that it lies in; 0: perhaps in one of
 * another process, and `sim_event` is for this wait alone, which destroys it. Submit lock held. */
CUresult work_wait(struct stream *stream, uint32_t sim_event, uint64_t ticket, uint32_t queue);
/* Lets a stream wait for the newest record of an event; submit lock held. */
CUresult work_wait_event(struct stream *stream, const struct event *event);

/* fault.c: computes; a fault on the way becomes an error. Compute thread only. */
CUresult fault_guarded(CUresult (*compute)(const struct work *work), const struct work *work);
void fault_thread_start(void);                  /* alternate signal stack of the compute thread */

#endif
