/* gate.c: the slow path of a launch: who is this thread, may it pass, and if not, how it waits. */
#include "gate.h"

#include <sys/prctl.h>
#include "gate_decide.h"
#include "presence.h"
#include "real.h"
#include "wait.h"

uint64_t gpud_peers_serial = 1;
uint32_t gpud_closed;
uint32_t gpud_captures;
uint32_t gpud_exiting;

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
        gpud_take_back(slot);
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

bool gpud_is_capturing(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return gpud_load(&gpud_captures) != 0 && real.cuStreamIsCapturing != NULL &&
           real.cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE;
}

static void unwatch(struct gpud_thread *thread)
{
    thread->gate_seen = 0;
    thread->watch_count = 0;
}

static void watch_word(struct gpud_thread *thread, const uint64_t *word, uint64_t quiet)
{
    thread->watch[thread->watch_count++] = (struct gpud_watch){ word, quiet };
}

/* A launch has just passed by itself under preempt alone: as long as the edge words of the peers above stay what they are, no
 * clock needs to be read for the next one. Where one of them is not quiet long enough, nothing is watched. */
static void watch_anew(struct gpud_thread *thread, uint64_t now)
{
    const struct gpud_control_device *knobs = &gpud_control()->device[thread->device];
    const uint64_t *peer_words = (const uint64_t *)(const void *)&knobs->peer_count;    /* and others_active */

    unwatch(thread);
    watch_word(thread, &knobs->generation, gpud_load_acquire(&knobs->generation));
    watch_word(thread, &gpud_peers_serial, gpud_load_acquire(&gpud_peers_serial));
    watch_word(thread, peer_words, gpud_load_acquire(peer_words));
    uint32_t count = (uint32_t)thread->watch[2].quiet, others = (uint32_t)(thread->watch[2].quiet >> 32);
    uint64_t resume_after = gpud_load(&knobs->resume_after_ns);
    bool all_quiet = others == 0;
    for (uint32_t i = 0; i < count && i < GPUD_MAX_PEERS; i++) {
        const struct gpud_presence_page *page = gpud_peer_above(knobs, &knobs->peers[i], gpud_present, GPUD_MAX_PRESENT);
        if (page == NULL)
            continue;
        const struct gpud_presence_device *device = &page->device[thread->device];
        uint64_t word = gpud_load_acquire(gpud_peer_edge_word(device));
        uint64_t since = gpud_load(&device->idle_since_ns);
        all_quiet &= !GPUD_EDGE_ACTIVE(word) && (since == 0 || gpud_sum_to(since, resume_after) <= now);
        watch_word(thread, gpud_peer_edge_word(device), word);
    }
    if (all_quiet)
        thread->gate_seen = GPUD_GATE_PREEMPT;
    else
        unwatch(thread);
}
_Static_assert(offsetof(struct gpud_control_device, peer_count) % 8 == 0 &&
               offsetof(struct gpud_control_device, others_active) == offsetof(struct gpud_control_device, peer_count) + 4,
               "read as one word");

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

/* A client is held as a whole: on all devices it uses while one of them is claimed, else a rank that waits for its peer spins
 * on one device while the peer is held on another. Windows are each device's own. */
static struct gpud_decision decide(const struct gpud_thread *thread, struct gpud_own own, uint64_t now)
{
    struct gpud_decision first = gpud_decide(gpud_control(), thread->device, gpud_present, GPUD_MAX_PRESENT, &own, now);
    uint32_t others = gpud_load(&gpud_devices_used) & ~(1u << thread->device);

    own.inflight = 0;
    while (!first.hold && others != 0) {
        uint32_t device = (uint32_t)__builtin_ctz(others);
        struct gpud_decision other = gpud_decide(gpud_control(), device, gpud_present, GPUD_MAX_PRESENT, &own, now);
        if (other.hold || first.why == GPUD_WHY_OPEN)
            first = other;
        others &= others - 1;
    }
    return first;
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
            decision = decide(thread, own, now);
        }
        if (!decision.hold && (limit == 0 || gpud_window_take(device, limit, decision.why != GPUD_WHY_OPEN))) {
            count_passes(thread, &decision);
            if (gate == GPUD_GATE_PREEMPT && decision.why == GPUD_WHY_OPEN && gpud_load(&gpud_devices_used) == 1u << device)
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

/* The first launch of a burst through an open gate: the edge before all else, since lower clients wait for no longer than this.
 * True if it was made. The stream is noted later; until then the keeper cannot find the device idle, for the launch is marked. */
static inline bool go_active_at_once(const struct gpud_thread *thread)
{
    bool woke = false;
    if (thread->word == gpud_load(&gpud_word) && thread->device != GPUD_UNMANAGED && gpud_load(thread->gate) == 0 &&
        !GPUD_EDGE_ACTIVE(gpud_load(thread->edge)))
        gpud_make_active(thread->device, &woke);
    return woke;
}

/* The launch is not counted after all (something changed since the edge): the keeper finds the device idle again. */
static void edge_for_nothing(bool woke)
{
    if (woke)
        gpud_keeper_wake();
}

struct gpud_pass gpud_enter_slow(CUstream stream)
{
    struct gpud_thread *thread = &gpud_thread;
    struct gpud_hold hold = { 0 };
    struct gpud_pass pass;
    bool woke = go_active_at_once(thread);
    uint64_t word;

    gpud_unmark();
    for (;;) {
        unwatch(thread);
        word = gpud_load_acquire(&gpud_word);
        if (!gpud_bind(thread)) {
            gpud_hold_end(thread, &hold);
            edge_for_nothing(woke);
            return pass_unmanaged(thread, stream, word);
        }
        if (gpud_is_capturing(stream)) {
            gpud_hold_end(thread, &hold);
            edge_for_nothing(woke);
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
    if (gpud_load(thread->edge) != thread->edge_seen || stream != thread->stream || word & GPUD_WORD_DECIDING) {
        gpud_presence_enter(thread, stream, &woke);
        thread->stream = stream;
    }
    if (woke && gpud_load_total(&gpud_keeper_asleep))     /* in one order with the edge: sleep_until() looks the other way round */
        pass.flags |= GPUD_PASS_WAKE;
    thread->word = word & GPUD_WORD_REASONS || pass.flags & GPUD_PASS_SHARED ? 0 : word;
    return pass;
}

static void count_failure(uint32_t device, CUresult result)
{
    if (device != GPUD_UNMANAGED)
        gpud_add(&gpud_activity()->device[device].launches_failed, 1);
    if (result == CUDA_ERROR_DEINITIALIZED)
        gpud_store_total(&gpud_exiting, 1);
}

void gpud_leave_slow(struct gpud_pass *pass, CUstream stream, CUresult result)
{
    if (pass->flags & GPUD_PASS_CAPTURING)
        return;
    if (pass->flags & GPUD_PASS_WINDOW)
        gpud_window_launched(pass->device, stream, result);
    if (result != CUDA_SUCCESS)
        count_failure(pass->device, result);
    if (pass->flags & GPUD_PASS_SHARED)
        __atomic_fetch_add(&pass->slot->left, 1, __ATOMIC_RELEASE);
    else
        gpud_store_release(&pass->slot->left, gpud_load(&pass->slot->left) + 1);
    if (pass->flags & GPUD_PASS_WAKE)
        gpud_keeper_wake();
}
