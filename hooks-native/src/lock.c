/* lock.c: the words of the device lock that a process's threads and its keeper share: who waits, what is taken in, how many turns the
 * program has taken itself. The keeper's steps are in lock_step.c, its half of the session in session_lock.c. */
#include <pthread.h>

#include "entry.h"
#include "hookless_swap.h"
#include "lock.h"
#include "state.h"

uint64_t gpud_taken[GPUD_MAX_DEVICES];
uint32_t gpud_lock_news;
uint32_t gpud_lock_waits[GPUD_MAX_DEVICES], gpud_lock_is_done[GPUD_MAX_DEVICES], gpud_lock_captures[GPUD_MAX_DEVICES];
static uint32_t turns[GPUD_MAX_DEVICES];        /* that the program has taken itself and not released; told in the presence page */
static uint32_t holds[GPUD_MAX_DEVICES];        /* these, and those that are just being taken */
static uint32_t ends;                           /* bit per device: it is asked back, and no turn begins on it any more */
pthread_mutex_t gpud_lock_mutex = PTHREAD_MUTEX_INITIALIZER;
struct gpud_lock_request gpud_lock_requests[GPUD_LOCK_REQUESTS];
struct gpud_lock_device gpud_lock_devices[GPUD_MAX_DEVICES];
static uint64_t last_number;

uint64_t gpud_lock_number(void)
{
    return gpud_add(&last_number, 1) + 1;
}

bool gpud_lock_held(uint32_t device)
{
    uint64_t epoch = gpud_load_acquire(&gpud_taken[device]);
    return epoch != 0 && epoch == gpud_load_acquire(&gpud_control()->device[device].grant_epoch);
}

void gpud_lock_captures_wait(uint32_t device, bool begins)
{
    if (begins)
        gpud_add_total(&gpud_lock_captures[device], 1);
    else
        gpud_sub_total(&gpud_lock_captures[device], 1);
}

void gpud_lock_wait(uint32_t device, bool captures)
{
    if (captures)
        gpud_lock_captures_wait(device, true);
    if (gpud_add_total(&gpud_lock_waits[device], 1) == 0)
        gpud_keeper_call();
}

void gpud_lock_wait_end(uint32_t device, bool captures)
{
    if (captures)
        gpud_lock_captures_wait(device, false);
    if (gpud_sub_total(&gpud_lock_waits[device], 1) == 1 && !gpud_lock_held(device))
        gpud_keeper_call();         /* the question is withdrawn */
}

uint32_t gpud_lock_holds(uint32_t device)
{
    return gpud_load_total(&holds[device]);
}

uint32_t gpud_lock_turns(uint32_t device)
{
    return gpud_load_total(&turns[device]);
}

void gpud_lock_tell_turns(uint32_t device)
{
    uint32_t count;

    do {        /* of two threads, the one that looked first may write last */
        count = gpud_load_total(&turns[device]);
        gpud_store_total(&gpud_presence_at(device)->holds, count);
    } while (gpud_load_total(&turns[device]) != count);
}

bool gpud_lock_given_up(uint32_t device)
{
    return gpud_load_total(&gpud_lock_is_done[device]) != 0
           && gpud_load_total(&gpud_control()->device[device].lock_flags) & GPUD_LOCK_WANTED;
}

/* The device is about to be left: no turn begins on it any more. */
static bool is_over(uint32_t device)
{
    return gpud_load_total(&ends) & 1u << device || gpud_lock_given_up(device);
}

static void hold_no_more(uint32_t device)
{
    if (gpud_sub_total(&holds[device], 1) == 1 && (gpud_hookless || is_over(device)))
        gpud_keeper_call();
}

/* One more of turns that the process has. Where nothing can be held at a gate, who has a turn has it until its release, however late: a
 * nested one that waited for the device would wait for the outer one. */
static bool begin_nested(uint32_t device)
{
    if (gpud_load_total(&turns[device]) == 0)
        return false;
    gpud_add_total(&holds[device], 1);
    for (uint32_t count = gpud_load_total(&turns[device]); count != 0;) {
        if (__atomic_compare_exchange_n(&turns[device], &count, count + 1, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
            gpud_lock_tell_turns(device);
            return true;
        }
    }
    hold_no_more(device);
    return false;
}

bool gpud_lock_begin(uint32_t device)
{
    if (gpud_hookless && begin_nested(device))
        return true;
    bool ended = gpud_load_total(&holds[device]) == 0 && is_over(device);

    if (ended || !gpud_lock_held(device))
        return false;
    /* Counted before the look, and the keeper looks at the count after it has shut: one of the two sees the other. */
    bool outermost = gpud_add_total(&holds[device], 1) == 0;
    if (gpud_lock_held(device) && !(outermost && is_over(device)) && !gpud_hookless_moves()) {
        gpud_add_total(&turns[device], 1);
        gpud_lock_tell_turns(device);
        return true;
    }
    hold_no_more(device);
    return false;
}

void gpud_lock_end(uint32_t device, bool done)
{
    bool last = gpud_sub_total(&turns[device], 1) == 1;

    gpud_lock_tell_turns(device);
    if (last && done)
        gpud_store_total(&gpud_lock_is_done[device], 1);
    hold_no_more(device);
}

void gpud_lock_ends(uint32_t device, bool yes)
{
    if (yes)
        __atomic_fetch_or(&ends, 1u << device, __ATOMIC_SEQ_CST);
    else
        __atomic_fetch_and(&ends, ~(1u << device), __ATOMIC_SEQ_CST);
}

static void news(uint32_t device)
{
    gpud_add_total(&gpud_lock_news, 1);
    gpud_futex_wake(&gpud_lock_news, false);
    gpud_futex_wake(&gpud_control()->device[device].wake, true);
}

void gpud_lock_state(uint32_t device, uint32_t state)
{
    gpud_lock_devices[device].state = state;
    gpud_store_total(&gpud_presence_at(device)->lock, state);
}

void gpud_lock_take(uint32_t device, uint64_t epoch)
{
    gpud_store_total(&gpud_taken[device], epoch);
    gpud_word_raise(0, 0);
    if (epoch == 0)
        gpud_barrier();     /* from here on each launch sees it, or its mark is seen here */
    news(device);
}

void gpud_lock_forget(void)
{
    gpud_lock_mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    gpud_lock_news = ends = 0;
    gpud_lock_reason_forget();
    gpud_hookless_swap_forget();
    for (uint32_t i = 0; i < GPUD_LOCK_REQUESTS; i++)
        gpud_lock_requests[i] = (struct gpud_lock_request){ 0 };
    for (uint32_t device = 0; device < GPUD_MAX_DEVICES; device++) {
        gpud_lock_devices[device] = (struct gpud_lock_device){ 0 };
        gpud_taken[device] = 0;
        gpud_lock_waits[device] = gpud_lock_is_done[device] = gpud_lock_captures[device] = holds[device] = turns[device] = 0;
    }
}
