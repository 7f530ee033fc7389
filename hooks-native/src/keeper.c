/* keeper.c: the one thread of our own in a client. It alone uses the session, maps pages, and asks streams. It sleeps on the
 * socket, and wakes by the clock only while the client is active (or was a moment ago), or has no daemon. */
#define _GNU_SOURCE
#include "keeper.h"

#include <signal.h>
#include <stdlib.h>
#include "budget.h"
#include "contexts.h"
#include "cost.h"
#include "entry.h"
#include "hookless.h"
#include "host_slots.h"
#include "lock.h"
#include "log.h"
#include "pool.h"
#include "quota.h"
#include "quota_wait.h"
#include "sample.h"
#include "session.h"
#include "state.h"
#include "swap_ask.h"
#include "turn.h"
#include "wait.h"

#define STACK_BYTES (512 * 1024)
#define ATTACH_WITHIN_NS GPUD_SECOND
#define LEAVE_WITHIN_NS (100 * GPUD_MILLISECOND)
#define BYE_WITHIN_NS (5 * GPUD_MILLISECOND)
#define DEFAULT_PERIOD_NS (500 * GPUD_MICROSECOND)
#define SHORTEST_PERIOD_NS (100 * GPUD_MICROSECOND)
#define LONGEST_PERIOD_NS GPUD_KEEPER_LINGERS_NS   /* a longer sleep is one that active devices forbid */

static uint32_t started;        /* 1: there is a keeper, or there cannot be one */
static uint32_t outcome;        /* futex word. 1: the first try to attach has ended */
static uint32_t waiting;        /* threads in gpud_initialised() */
static uint64_t in_line_until_ns;   /* they wait until then, whatever else bounds it */
static uint32_t shut_out;       /* 1: the policy does not let this program in */
static uint32_t parted;         /* futex word. 1: the keeper has said good-bye */
static struct gpud_config config;
static struct gpud_session session;

/* What the keeper knows of a device, from wake-up to wake-up. */
static struct look {
    uint64_t edge;
    uint64_t entered;
} looks[GPUD_MAX_DEVICES];
static uint64_t linger_until_ns;

void gpud_keeper_outcome(void)
{
    if (__atomic_exchange_n(&outcome, 1, __ATOMIC_RELEASE) == 0)
        gpud_futex_wake(&outcome, false);
}

bool gpud_keeper_waits(void)
{
    return gpud_load_acquire(&waiting) != 0 && !gpud_load(&outcome);
}

void gpud_keeper_in_line(uint64_t until_ns)
{
    gpud_store_release(&in_line_until_ns, until_ns);
}

void gpud_keeper_shut_out(void)
{
    gpud_store_release(&shut_out, 1);
}

static uint64_t period_of(uint32_t device)
{
    uint64_t half = gpud_load(&gpud_control()->device[device].resume_after_ns) / 2;
    if (half == 0)
        return DEFAULT_PERIOD_NS;
    return half < SHORTEST_PERIOD_NS ? SHORTEST_PERIOD_NS : half > LONGEST_PERIOD_NS ? LONGEST_PERIOD_NS : half;
}

/* Looks at every device; asks the driver about those that have launched nothing since the last look. Returns when to look again. */
static uint64_t look_at_devices(uint64_t now)
{
    uint64_t again = GPUD_NEVER;

    if (!gpud_load_acquire(&gpud_managed))
        return again;
    for (uint32_t device = 0; device < GPUD_MAX_DEVICES; device++) {
        uint64_t edge = gpud_load_total(gpud_edge_word(gpud_presence_at(device)));
        struct gpud_marks marks = gpud_marks(device);
        bool still = marks.entered == looks[device].entered && edge == looks[device].edge;
        if (GPUD_EDGE_ACTIVE(edge) && still && !gpud_load_total(&gpud_exiting))
            gpud_presence_ask(device);
        uint64_t next_sample = gpud_load_total(&gpud_exiting) ? GPUD_NEVER : gpud_sample_keep(device, gpud_now());
        again = next_sample < again ? next_sample : again;
        uint64_t next_turn = gpud_turn_idle(device, now);
        again = next_turn < again ? next_turn : again;
        if (GPUD_EDGE_ACTIVE(edge) || edge != looks[device].edge)
            linger_until_ns = now + GPUD_KEEPER_LINGERS_NS;
        looks[device] = (struct look){ edge, marks.entered };
        if (now < linger_until_ns && edge != 0) {
            uint64_t next = now + period_of(device);
            again = next < again ? next : again;
        }
    }
    return again;
}

static void *keep(void *unused)
{
    (void)unused;
    gpud_inside = 1;    /* a driver that comes back through our symbols is not gated here */
    pthread_setname_np(pthread_self(), "gpud");
    while (!gpud_load_total(&gpud_exiting)) {
        uint32_t heard = gpud_keeper_calls();
        uint64_t now = gpud_now();
        bool full = false;
        gpud_session_try(&session, now);
        gpud_session_read(&session);
        gpud_session_late(&session, now);
        uint64_t until = look_at_devices(now);
        uint64_t due = gpud_session_flush(&session, gpud_now(), &full);
        until = due < until ? due : until;
        due = gpud_lock_keep(&session, gpud_now(), &full);
        until = due < until ? due : until;
        gpud_quota_keep(&session, &full);
        if (gpud_pools_are_stale()) {
            gpud_add_total(&gpud_asking, 1);        /* the driver is asked: not while the process or a context ends */
            if (!gpud_load_total(&gpud_exiting) && !gpud_load_total(&gpud_ending))
                gpud_pools_look(UINT32_MAX, 0, false);
            gpud_sub_total(&gpud_asking, 1);
        }
        if (session.state == GPUD_SESSION_CLOSED)
            until = session.retry_ns < until ? session.retry_ns : until;
        until = session.deadline_ns < until ? session.deadline_ns : until;
        gpud_keeper_sleep(&session, until, full, heard);
    }
    gpud_session_bye(&session);
    gpud_keeper_outcome();
    gpud_store_release(&parted, 1);
    gpud_futex_wake(&parted, false);
    return NULL;
}

/* Process exit: no driver call of ours any more, and none under way when this returns (for all that can be waited for). */
static void leave(void)
{
    uint64_t now = gpud_now();

    if (!gpud_load(&started))
        return;
    gpud_store_total(&gpud_exiting, 1);
    gpud_keeper_wake();
    while ((gpud_load_total(&gpud_asking) != 0 || gpud_load_total(&gpud_synchronising)) && gpud_now() < now + LEAVE_WITHIN_NS)
        gpud_relax();
    while (!gpud_load_acquire(&parted) && gpud_now() < now + BYE_WITHIN_NS)
        gpud_futex_wait(&parted, 0, now + BYE_WITHIN_NS, false);
}

/* The child has no keeper, none of the pages, and whatever locks others held at the fork. It starts anew at its first CUDA call. */
static void forked(void)
{
    gpud_map_dummies();
    gpud_session_forget(&session);
    gpud_keeper_sleep_forget();
    gpud_bind_forget();
    gpud_closed = gpud_exiting = 0;
    started = outcome = parted = waiting = shut_out = 0;
    in_line_until_ns = 0;
    for (uint32_t device = 0; device < GPUD_MAX_DEVICES; device++)
        looks[device] = (struct look){ 0, 0 };
    gpud_slots_forget();
    gpud_presence_forget();
    gpud_window_forget();
    gpud_sample_fork();
    gpud_cost_fork();
    gpud_hold_forget();
    gpud_budget_fork();
    gpud_turn_fork();
    gpud_alloc_forget();
    gpud_hookless_told(UINT32_MAX);     /* of nothing */
    gpud_lock_forget();
    gpud_pool_forget();
    gpud_host_forget();
    gpud_swap_ask_forget();
    gpud_log_forget();
    gpud_live = 0;
}

void gpud_start(void)
{
    static uint32_t once;

    if (__atomic_exchange_n(&once, 1, __ATOMIC_ACQ_REL) != 0)
        return;
    gpud_log_start();
    gpud_slots_start();
    pthread_atfork(NULL, NULL, forked);
    atexit(leave);
    if (!gpud_barrier_register()) {
        gpud_word_raise(GPUD_WORD_FENCE, 0);
        gpud_log(GPUD_LOG_INFO, GPUD_ONCE_BARRIER, "the kernel refuses membarrier: launches cost some nanoseconds more");
    }
}

static bool start_keeper(void)
{
    pthread_attr_t attributes;
    sigset_t all, before;
    pthread_t thread;

    gpud_config_read(&config);
    if (!config.usable)
        return false;
    gpud_session_start(&session, &config);
    gpud_keeper_wakeable();
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failure = pthread_create(&thread, &attributes, keep, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (failure != 0)
        gpud_log(GPUD_LOG_WARNING, GPUD_ONCE_NO_THREAD, "no thread can be started (%d): this program runs without gpud; "
                 "is its number of threads limited?", failure);
    return failure == 0;
}

CUresult gpud_initialised(void)
{
    uint64_t until = gpud_now() + ATTACH_WITHIN_NS;

    gpud_add_total(&waiting, 1);
    if (__atomic_exchange_n(&started, 1, __ATOMIC_ACQ_REL) == 0 && !start_keeper())
        gpud_keeper_outcome();
    while (!gpud_load_acquire(&outcome)) {
        uint64_t line = gpud_load_acquire(&in_line_until_ns), now = gpud_now();
        uint64_t last = line > until ? line : until;
        if (now >= last)
            break;
        /* It looks once a second whether it is in line by now: nobody wakes it for that. */
        gpud_futex_wait(&outcome, 0, last - now > GPUD_SECOND ? now + GPUD_SECOND : last, false);
    }
    gpud_sub_total(&waiting, 1);
    return gpud_load_acquire(&shut_out) ? CUDA_ERROR_SYSTEM_NOT_READY : CUDA_SUCCESS;
}
