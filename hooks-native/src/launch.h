/* launch.h: the launch path, inlined into every GATE trampoline. Contract of the data plane's two halves:
 * interception (entry, real, trampolines, tbl/) calls these; gate, presence, window, keeper, session implement them.
 *
 *     if (gpud_enter_fast(stream, …, &slot)) {         else {
 *         result = real(…);                                pass = gpud_enter_slow(stream, …);
 *         gpud_leave_fast(slot, …, result);                result = real(…);
 *     }                                                    gpud_leave_slow(&pass, stream, result);
 *                                                      }
 *
 * Nothing here reads a clock, takes a lock, or writes a shared line while the gate is open and the client is active. */
#ifndef GPUD_LAUNCH_H
#define GPUD_LAUNCH_H

#include <stdbool.h>

#include "cuda_api.h"
#include "gpud_page.h"

struct gpud_pass {
    struct gpud_slot *slot;         /* of this thread on the current device */
    uint32_t device;                /* device slot */
    uint32_t flags;                 /* GPUD_PASS_* */
    uint64_t cost_ns;               /* what the launch is charged with; 0: launches are not charged */
    struct gpud_pending *sample;    /* its GPU time is being measured (sample.h) */
};
#define GPUD_PASS_CAPTURING 1       /* the stream is capturing: neither held nor counted */
#define GPUD_PASS_WINDOW 2          /* the window wants to know of this launch */
#define GPUD_PASS_SHARED 4          /* slot shared among threads: atomic adds */

/* gate.h defines the launch path itself (it needs more than this file): gpud_enter_fast, gpud_leave_fast, gpud_nested, gpud_unmark,
 * gpud_enter_slow, gpud_leave_slow; gpud_enter and gpud_leave are the two paths in one. `stream` is the stream argument as the
 * caller gave it, `per_thread` true in _ptsz entries (a NULL stream then means the thread's own default stream); the slow
 * halves get CU_STREAM_PER_THREAD in its place. */

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
/* Before the real call that destroys a stream, or an event (or gives it a meaning nobody here knows): from now on the handle must
 * not be handed to the driver any more, and a new one may get the same value. */
void gpud_stream_gone(CUstream stream);
void gpud_event_gone(CUevent event);
/* Before the real call that may destroy a context, and with it its streams and events. One of the two others follows. */
void gpud_context_going(void);
void gpud_context_gone(CUcontext context, CUresult result);     /* this one is destroyed; NULL: nobody knows which */
void gpud_primary_gone(CUdevice device, int reset, CUresult result);    /* released: it may live on for its other owners */
/* cuInit returned success: devices can be asked (starts the keeper, attaches). Waits for that at most a second, or for as long as the
 * policy keeps this program in line. What cuInit shall answer: CUDA_ERROR_SYSTEM_NOT_READY if the policy does not let it in. */
CUresult gpud_initialised(void);

/* CAPTURE entries: one more, one less stream capture is open in this process. Call began BEFORE the real cuStreamBeginCapture*
 * and ended if that fails: once began has returned the keeper asks no stream, which would invalidate the capture. */
/* `stream` is CU_STREAM_PER_THREAD where a _ptsz entry was given NULL. */
void gpud_capture_began(CUstream stream);
void gpud_capture_ended(CUstream stream);

/* RESERVE entries. What a call may take is asked for before the driver is (refused: CUDA_ERROR_OUT_OF_MEMORY, the driver is not asked), and
 * settled after it, at what it really took. Where the policy lets allocations wait for room, these wait. Arrays have keys of their own. */
struct gpud_charge {
    uint64_t bytes;             /* reserved for it */
    CUcontext context;          /* what it goes with; NULL: nothing */
    CUmemoryPool pool;          /* stream-ordered: from which */
    uint32_t ordinal;           /* beyond all devices: nothing is charged */
    bool refused, ordered, managed;
};
struct gpud_charge gpud_reserves(uint64_t bytes);                               /* on the current device */
struct gpud_charge gpud_reserves_managed(uint64_t bytes);
struct gpud_charge gpud_reserves_on(int type, int ordinal, uint64_t bytes);     /* at a CUmemLocation */
/* True: the device was full, and by now may not be: all is to be done once more. */
bool gpud_reserved(const struct gpud_charge *charge, uint64_t address, uint64_t bytes, CUresult result);
/* Stream-ordered: what the pool holds is charged. `pool` NULL: the device's current one. */
struct gpud_charge gpud_reserves_ordered(uint64_t bytes, CUmemoryPool pool, CUstream stream, int per_thread);
struct gpud_charge gpud_fits(uint64_t bytes);   /* a memory node of a graph, which takes its memory later: nothing is reserved */
void gpud_pool_made(CUmemoryPool pool, const CUmemPoolProps *props);
/* Before the real call, after which nobody may ask about it; and after it where the driver refused. */
uint32_t gpud_pool_ended(CUmemoryPool pool);
void gpud_pool_stays(CUmemoryPool pool, uint32_t home);
void gpud_pool_changed(void);

/* RELEASE entries: taken out of the ledger before the real call (after it, another thread may own the address already), given back after
 * it; put in again where the driver refused. Unknown addresses are ignored. */
struct gpud_freeing {
    uint64_t address, bytes, charged, handle, number;
    CUcontext context;
    uint32_t ordinal, pin;
    bool known;
};
/* Addresses, cuMemCreate's memory (alloc_handle.c) and arrays share one ledger. */
#define GPUD_HANDLE_KEYS (UINT64_C(1) << 63)
#define GPUD_ARRAY_KEYS (UINT64_C(1) << 62)
struct gpud_freeing gpud_frees(uint64_t address);
void gpud_is_freed(const struct gpud_freeing *freeing, CUresult result);

/* Memory by handles, after the real call succeeded: it stays the program's until the last handle is released and the last mapping gone. What
 * _made answers is its key in the ledger. */
uint64_t gpud_handle_made(uint64_t handle);
void gpud_handle_retained(uint64_t handle, uint64_t address);
void gpud_handle_mapped(uint64_t start, uint64_t bytes, uint64_t handle);
void gpud_handle_unmapped(uint64_t start, uint64_t bytes);
/* Around calls that give somebody outside the memory there: where it could leave the device, it never does from now on. */
struct gpud_pin {
    uint64_t at, bytes, counted;
    bool owned;
};
struct gpud_pin gpud_pins(uint64_t at, uint64_t bytes);
void gpud_pinned(const struct gpud_pin *pin, CUresult result);
/* Around cuMemRelease, as gpud_frees and gpud_is_freed. */
struct gpud_freeing gpud_handle_frees(uint64_t handle);
void gpud_handle_is_freed(const struct gpud_freeing *freeing, CUresult result);

/* The two in one, for what the driver has given, or is about to take back, in any case. */
void gpud_allocated(uint64_t address, uint64_t bytes);
void gpud_freed(uint64_t address);

/* QUERY entries, after the real call succeeded: the answers are lowered to the tenant's limit. Any pointer may be NULL. */
void gpud_limit_info(size_t *left, size_t *total);
void gpud_limit_total(size_t *total, int ordinal);
void gpud_limit_info_old(unsigned int *left, unsigned int *total);
void gpud_limit_total_old(unsigned int *total, int ordinal);

/* MEMSET entries, before the real call; gpud_copied after it. */
uint64_t gpud_sets(CUstream stream, int per_thread);

/* COPY entries, before the real call: `bytes` go to, from or within the device of the current context. Returns when they may, and what
 * gpud_copied is to be told; 0: nothing. */
uint64_t gpud_copies(uint64_t bytes, CUstream stream, int per_thread);
void gpud_copied(uint64_t counted, CUresult result);

/* Before the real call that destroys a function or executable graph, or changes what is behind it: what is known of its cost is. NULL:
 * whichever. */
void gpud_function_gone(const void *handle);
void gpud_function_changed(const void *handle);

/* Before the real call that makes a stream wait for something that is not its own work: an event, the host, a word of memory. */
void gpud_stream_waits(void);

/* First CUDA call of any kind in this process (idempotent, cheap): real pointers are resolved before it is called. */
void gpud_start(void);

#endif
