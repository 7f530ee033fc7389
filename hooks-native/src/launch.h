/* launch.h: the launch path, inlined into every GATE trampoline. Contract of the data plane's two halves:
 * interception (entry, real, trampolines, tbl/) calls these; gate, presence, window, keeper, session implement them.
 *
 *     struct gpud_pass pass = gpud_enter();
 *     result = real(…);
 *     gpud_leave(&pass, stream, result);
 *
 * Nothing here reads a clock, takes a lock, or writes a shared line while the gate is open and the client is active. */
#ifndef GPUD_LAUNCH_H
#define GPUD_LAUNCH_H

#include "cuda_types.h"
#include "gpud_page.h"

struct gpud_pass {
    struct gpud_slot *slot;         /* of this thread on the current device */
    uint32_t device;                /* device slot */
    uint32_t flags;                 /* GPUD_PASS_* */
};
#define GPUD_PASS_CAPTURING 1       /* the stream is capturing: neither held nor counted */
#define GPUD_PASS_WINDOW 2          /* the window wants to know of this launch */
#define GPUD_PASS_SHARED 4          /* slot shared among threads: atomic adds */

/* `stream` is the stream argument as the caller gave it, `per_thread` true in _ptsz entries (a NULL stream then means the
 * thread's own default stream). Fast path inline (gate.h has it), slow path in gate.c. */
static inline struct gpud_pass gpud_enter(CUstream stream, int per_thread);
static inline void gpud_leave(struct gpud_pass *pass, CUstream stream, int per_thread, CUresult result);

/* SYNC entries, after the real call returned `result`: what it proves about idleness. */
enum gpud_proof {
    GPUD_PROOF_CONTEXT,             /* cuCtxSynchronize: handle unused */
    GPUD_PROOF_STREAM,              /* stream synchronise or query that answered success, blocking copy: handle = CUstream */
    GPUD_PROOF_EVENT                /* event synchronise or query: handle = CUevent */
};
void gpud_proved(enum gpud_proof proof, void *handle, int per_thread, CUresult result);
/* cuEventRecord*: the event now stands for this point of that stream. */
void gpud_event_recorded(CUevent event, CUstream stream, int per_thread);

/* LIFECYCLE entries, after the real call: anything that may change which device a thread's current context is on. */
void gpud_context_changed(int whole_process);   /* 0: this thread's current context only */
/* cuInit returned success: devices can be asked (starts the keeper, attaches; waits for it at most a second). */
void gpud_initialised(void);

/* CAPTURE entries: one more, one less stream capture is open in this process. */
void gpud_capture_began(CUstream stream);
void gpud_capture_ended(CUstream stream);

/* RESERVE / RELEASE entries, after the real call succeeded. Unknown addresses are ignored. */
void gpud_allocated(uint64_t address, uint64_t bytes);
void gpud_freed(uint64_t address);

/* First CUDA call of any kind in this process (idempotent, cheap): real pointers are resolved before it is called. */
void gpud_start(void);

#endif
