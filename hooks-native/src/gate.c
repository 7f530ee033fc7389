/* gate.c: the slow path of a launch: who is this thread, may it pass, and if not, how it waits. */
#include "gate.h"

#include <sys/prctl.h>
#include "gate_decide.h"
#include "real.h"
#include "wait.h"

uint64_t gpud_word = GPUD_WORD_STEP;
uint32_t gpud_managed;
uint64_t gpud_peers_serial = 1;
uint32_t gpud_slot_of[GPUD_MAX_DEVICES];
uint32_t gpud_closed;
uint32_t gpud_captures;
uint32_t gpud_exiting;

#define NEVER_QUIET UINT64_MAX      /* no edge word looks like this */
#define CONTEXT_STALE 1             /* in thread->bound: the generation holds, the context may not */

void gpud_word_raise(uint64_t set, uint64_t clear)
{
    uint64_t before = gpud_load(&gpud_word);
    while (!__atomic_compare_exchange_n(&gpud_word, &before, ((before + GPUD_WORD_STEP) | set) & ~clear, false,
                                        __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
        ;
}

void gpud_context_changed(int whole_process)
{
    struct gpud_thread *thread = &gpud_thread;

    if (whole_process) {
        gpud_word_raise(0, 0);
        return;
    }
    thread->word = 0;
    thread->bound |= CONTEXT_STALE;
}

static uint32_t device_slot_of(uint32_t ordinal)
{
    if (!gpud_load_acquire(&gpud_managed) || ordinal >= GPUD_MAX_DEVICES)
        return GPUD_UNMANAGED;
    uint32_t device = gpud_load(&gpud_slot_of[ordinal]);
    return device < GPUD_MAX_DEVICES ? device : GPUD_UNMANAGED;
}

bool gpud_bind(struct gpud_thread *thread)
{
    static const uint32_t open_gate;
    static const uint64_t no_edge;
    uint64_t generation = gpud_load_acquire(&gpud_word) & ~(uint64_t)GPUD_WORD_REASONS;
    CUcontext context = NULL;
    CUdevice ordinal = -1;

    if (thread->bound == generation)
        return thread->device != GPUD_UNMANAGED;
    thread->word = 0;
    if (real.cuCtxGetCurrent == NULL || real.cuCtxGetCurrent(&context) != CUDA_SUCCESS)
        context = NULL;
    if (thread->bound == (generation | CONTEXT_STALE) && context != NULL && context == thread->context) {
        thread->bound = generation;
        return thread->device != GPUD_UNMANAGED;
    }
    if (context == NULL || real.cuCtxGetDevice(&ordinal) != CUDA_SUCCESS)
        ordinal = -1;
    thread->context = context;
    thread->ordinal = (uint32_t)ordinal;
    thread->device = device_slot_of((uint32_t)ordinal);
    thread->stream = GPUD_NO_STREAM;
    if (thread->device == GPUD_UNMANAGED) {
        thread->slot = &thread->own;
        thread->gate = &open_gate;
        thread->edge = &no_edge;
        thread->edge_seen = 0;
        thread->flags = 0;
    } else {
        struct gpud_slot *slot = gpud_slot_claim(thread, thread->device);
        thread->flags = thread->shared & 1u << thread->device ? GPUD_PASS_SHARED : 0;
        thread->slot = thread->flags ? &thread->own : slot;
        thread->gate = &gpud_control()->device[thread->device].gate;
        thread->edge = gpud_edge_word(&gpud_presence()->device[thread->device]);
        thread->edge_seen = NEVER_QUIET;
    }
    thread->bound = generation;
    return thread->device != GPUD_UNMANAGED;
}

/* The marks. One more thread in the gate; and taken back where the launch is not made now. */
static void mark(struct gpud_slot *slot, uint32_t flags)
{
    if (flags & GPUD_PASS_SHARED)
        gpud_add_total(&slot->entered, 1);
    else
        gpud_bump(&slot->entered);
}

static void unmark(struct gpud_slot *slot, uint32_t flags)
{
    if (flags & GPUD_PASS_SHARED)
        gpud_sub_total(&slot->entered, 1);
    else
        gpud_store(&slot->entered, gpud_load(&slot->entered) - 1);
}

/* Orders the mark before the next look where the closer cannot do it by membarrier. */
static void fence_if_needed(void)
{
    static uint32_t any;
    if (gpud_load(&gpud_word) & GPUD_WORD_FENCE) {
#if defined(__SANITIZE_THREAD__)
        gpud_add_total(&any, 0);
#else
        (void)any;
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
    }
}

static bool capturing(CUstream stream)
{
    CUstreamCaptureStatus status = 0;
    return gpud_load(&gpud_captures) != 0 && real.cuStreamIsCapturing != NULL &&
           real.cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* The peers above, with the edge words of those that are idle past resume_after: as long as a word stays what it was, no clock
 * needs to be read. */
static void watch_anew(struct gpud_thread *thread, uint64_t now)
{
    const struct gpud_control_device *knobs = &gpud_control()->device[thread->device];
    uint64_t control = gpud_load_acquire(&knobs->generation), serial = gpud_load_acquire(&gpud_peers_serial);
    uint64_t resume_after = gpud_load(&knobs->resume_after_ns);
    uint32_t count = gpud_load(&knobs->peer_count), watched = 0;

    for (uint32_t i = 0; i < count && i < GPUD_MAX_PEERS; i++) {
        const struct gpud_presence_page *page = gpud_peer_above(knobs, &knobs->peers[i], gpud_present, GPUD_MAX_PRESENT);
        if (page == NULL)
            continue;
        const struct gpud_presence_device *device = &page->device[thread->device];
        uint64_t word = gpud_load_acquire(gpud_peer_edge_word(device));
        uint64_t since = gpud_load(&device->idle_since_ns);
        bool quiet = !GPUD_EDGE_ACTIVE(word) && (since == 0 || gpud_sum_to(since, resume_after) <= now);
        thread->watch[watched].word = gpud_peer_edge_word(device);
        thread->watch[watched++].quiet = quiet ? word : NEVER_QUIET;
    }
    thread->watch_count = watched;
    thread->watch_device = thread->device;
    thread->watch_control = control;
    thread->watch_peers = serial;
}

/* Only peers are to be looked at, all else is as this thread saw it last, and all peers are as quiet as they were. */
static inline bool all_quiet(const struct gpud_thread *thread, CUstream stream)
{
    uint64_t look = (gpud_load(&gpud_word) ^ thread->word) | ((uintptr_t)stream ^ (uintptr_t)thread->stream) |
                    (gpud_load(thread->edge) ^ thread->edge_seen) | (gpud_load(thread->gate) ^ GPUD_GATE_PREEMPT) |
                    (thread->watch_device ^ thread->device);
    if (look != 0)
        return false;
    const struct gpud_control_device *knobs = &gpud_control()->device[thread->device];
    look = (gpud_load(&knobs->generation) ^ thread->watch_control) | (gpud_load(&gpud_peers_serial) ^ thread->watch_peers) |
           gpud_load(&knobs->others_active);
    for (uint32_t i = 0; i < thread->watch_count; i++)
        look |= gpud_load(thread->watch[i].word) ^ thread->watch[i].quiet;
    return look == 0;
}

/* Passes counted by max_pause; a launch that passes by itself ends them. */
static void count_passes(struct gpud_thread *thread, const struct gpud_decision *decision)
{
    if (decision->why != GPUD_WHY_MAX_PAUSE) {
        thread->passes = 0;
        return;
    }
    if (thread->passes == 0) {
        uint32_t launches = gpud_load(&gpud_control()->device[thread->device].pass_launches);
        thread->passes = launches > 0 ? launches : 1;
    }
    thread->passes--;
    gpud_add(&gpud_activity()->device[thread->device].passed, 1);
}

/* Waits until the launch may pass, or until what the thread knows is out of date (then `again`). Returns the pass's flags. */
static uint32_t pass_gate(struct gpud_thread *thread, struct gpud_hold *hold, bool *again)
{
    uint32_t device = thread->device;
    const struct gpud_control_device *knobs = &gpud_control()->device[device];

    for (;;) {
        uint32_t seen = gpud_load_acquire(&knobs->wake);
        if ((gpud_load_acquire(&gpud_word) & ~(uint64_t)GPUD_WORD_REASONS) != thread->bound) {
            *again = true;
            return 0;
        }
        struct gpud_decision decision = { .hold = true, .why = GPUD_WHY_PAUSED, .bit = GPUD_GATE_PAUSED,
                                          .peer = GPUD_NO_PEER, .until_ns = GPUD_NEVER };
        uint64_t now = gpud_now();
        uint32_t gate = gpud_load(&knobs->gate), limit = gate & GPUD_GATE_WINDOW ? gpud_load(&knobs->max_inflight) : 0;
        if (!(gpud_load(&gpud_closed) & 1u << device)) {
            struct gpud_own own = { .held_since_ns = hold->since_ns, .passes = thread->passes };
            if (limit != 0)
                own.inflight = gpud_window_poll(device, limit, hold->since_ns == 0 || hold->lead);
            decision = gpud_decide(gpud_control(), device, gpud_present, GPUD_MAX_PRESENT, &own, now);
        }
        if (!decision.hold && (limit == 0 || gpud_window_take(device, limit, decision.why != GPUD_WHY_OPEN))) {
            count_passes(thread, &decision);
            if (gate & GPUD_GATE_PREEMPT)
                watch_anew(thread, now);
            return limit != 0 ? GPUD_PASS_WINDOW : 0;
        }
        if (!decision.hold)
            continue;       /* another thread took the last place in the window */
        gpud_hold_step(thread, hold, &decision, seen, now);
    }
}

static struct gpud_pass pass_unmanaged(struct gpud_thread *thread, CUstream stream, uint64_t word)
{
    gpud_bump(&thread->own.entered);
    thread->stream = stream;
    thread->word = word & GPUD_WORD_REASONS ? 0 : word;
    return (struct gpud_pass){ .slot = &thread->own, .device = GPUD_UNMANAGED, .flags = 0 };
}

struct gpud_pass gpud_enter_slow(CUstream stream)
{
    struct gpud_thread *thread = &gpud_thread;
    struct gpud_hold hold = { 0 };
    struct gpud_pass pass;
    uint64_t word;

    if (all_quiet(thread, stream))
        return (struct gpud_pass){ .slot = thread->slot, .device = thread->device, .flags = 0 };
    unmark(thread->slot, 0);
    for (;;) {
        word = gpud_load_acquire(&gpud_word);
        if (!gpud_bind(thread)) {
            gpud_hold_end(thread, &hold);
            return pass_unmanaged(thread, stream, word);
        }
        if (capturing(stream)) {
            gpud_hold_end(thread, &hold);
            return (struct gpud_pass){ .slot = NULL, .device = thread->device, .flags = GPUD_PASS_CAPTURING };
        }
        pass = (struct gpud_pass){ .slot = thread->slots[thread->device], .device = thread->device, .flags = thread->flags };
        bool again = false;
        uint32_t closed = gpud_load(&gpud_closed) & 1u << pass.device;
        if (gpud_load(thread->gate) | closed)
            pass.flags |= pass_gate(thread, &hold, &again);
        if (again)
            continue;
        mark(pass.slot, pass.flags);
        fence_if_needed();
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        word = gpud_load_acquire(&gpud_word);
        if ((word & ~(uint64_t)GPUD_WORD_REASONS) == thread->bound && !(gpud_load(&gpud_closed) & 1u << pass.device))
            break;
        unmark(pass.slot, pass.flags);
        if (pass.flags & GPUD_PASS_WINDOW)
            gpud_window_launched(pass.device, stream, CUDA_ERROR_NOT_READY);    /* gives the place back */
    }
    gpud_hold_end(thread, &hold);
    if (gpud_load(thread->edge) != thread->edge_seen || stream != thread->stream) {
        if (gpud_presence_enter(thread, stream))
            pass.flags |= GPUD_PASS_WAKE;
        thread->stream = stream;
    }
    thread->word = word & GPUD_WORD_REASONS || pass.flags & GPUD_PASS_SHARED ? 0 : word;
    return pass;
}

void gpud_leave_slow(struct gpud_pass *pass, CUstream stream, CUresult result)
{
    if (pass->flags & GPUD_PASS_CAPTURING)
        return;
    if (pass->flags & GPUD_PASS_WINDOW)
        gpud_window_launched(pass->device, stream, result);
    if (result != CUDA_SUCCESS && pass->device != GPUD_UNMANAGED)
        gpud_add(&gpud_activity()->device[pass->device].launches_failed, 1);
    if (result == CUDA_ERROR_DEINITIALIZED)
        gpud_store_total(&gpud_exiting, 1);
    if (pass->flags & GPUD_PASS_SHARED)
        __atomic_fetch_add(&pass->slot->left, 1, __ATOMIC_RELEASE);
    else
        gpud_store_release(&pass->slot->left, gpud_load(&pass->slot->left) + 1);
    if (pass->flags & GPUD_PASS_WAKE)
        gpud_keeper_wake();
}
