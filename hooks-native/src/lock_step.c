/* lock_step.c: how a process gets the device and leaves it, one device at a time. By the keeper, with or without a session: a daemon that
 * is gone takes nothing from who has the device, and gives nothing to who has it not. */
#include "entry.h"
#include "hookless_swap.h"
#include "lock.h"
#include "log.h"
#include "presence.h"
#include "state.h"
#include "swap.h"

#define DRAIN_LOOK_NS (50 * GPUD_MICROSECOND)
#define DRAIN_LOOK_MOST_NS GPUD_MILLISECOND
#define SHORT_RETRY_NS (20 * GPUD_MILLISECOND)
#define SWAP_WITHIN_NS (200 * GPUD_MILLISECOND)       /* then the daemon is listened to, and the swap goes on */
#define CLOSE_WITHIN_NS (200 * GPUD_MILLISECOND)
#define GIVE_BACK_WITHIN_NS (10 * GPUD_SECOND)
#define CUT "the device is given to the next one, and what it launches from now on waits for its next turn"
#define LATE "its launches cannot be held, it runs without the hook, and nobody else gets the device before the release"

/* The gate is shut: LEAVES. */
static void leave(uint32_t device, uint64_t deadline_ns, uint64_t now)
{
    struct gpud_lock_device *lock = &gpud_lock_devices[device];

    gpud_lock_ends(device, false);
    gpud_store(&gpud_lock_is_done[device], 0);
    lock->ends = lock->owed = false;
    lock->began_ns = now;
    lock->deadline_ns = deadline_ns;
    lock->told = false;
    gpud_lock_state(device, GPUD_LOCK_LEAVES);
}

void gpud_lock_leave(uint32_t device, uint64_t deadline_ns, uint64_t now)
{
    gpud_lock_take(device, 0);
    leave(device, deadline_ns, now);
}

void gpud_lock_ask_back(uint32_t device, uint64_t deadline_ns)
{
    struct gpud_lock_device *lock = &gpud_lock_devices[device];

    if (!lock->ends || deadline_ns < lock->deadline_ns)
        lock->deadline_ns = deadline_ns;
    lock->ends = true;
    gpud_lock_ends(device, true);
}

/* Leaves unless the program has a turn that it took itself. One that began while the gate was being shut is seen, and goes on. */
static bool leave_unless_held(uint32_t device, uint64_t deadline_ns, uint64_t now)
{
    if (gpud_lock_holds(device) != 0)
        return false;
    gpud_lock_take(device, 0);
    if (gpud_lock_holds(device) != 0) {
        gpud_lock_take(device, gpud_lock_devices[device].epoch);
        return false;
    }
    leave(device, deadline_ns, now);
    return true;
}

static void say_late(uint32_t device)
{
    gpud_log(GPUD_LOG_WARNING, GPUD_ONCE_CUT, "this program has not released its turn on device %u within the grace of the policy: %s; release() in "
             "time, or see `max_hold` and `grace` in `gpud why`", device, gpud_hookless ? LATE : CUT);
}

/* Nothing of this process runs there any more. Without hook that is what release() has waited for: until then nobody else gets in. */
static bool drained(uint32_t device)
{
    return gpud_hookless ? gpud_lock_holds(device) == 0 : gpud_presence_drained(device);
}

static uint64_t drain(uint32_t device, uint64_t now)
{
    struct gpud_lock_device *lock = &gpud_lock_devices[device];

    if (drained(device)) {
        gpud_lock_state(device, GPUD_LOCK_NONE);
        lock->owes_back = lock->left = true;
        lock->flags = 0;
        return now;
    }
    bool late = now >= lock->deadline_ns;
    if (late && gpud_load_total(&gpud_lock_captures[device]) != 0 && gpud_load_total(&gpud_captures) != 0) {
        /* Who is to end the capture is held itself: it cannot end by waiting, and the process goes on. */
        lock->told = lock->owes_back = true;
        lock->flags = GPUD_LOCK_NEVER;
        gpud_lock_state(device, GPUD_LOCK_HAS);
        gpud_lock_take(device, lock->epoch);
        return now;
    }
    if (late && !lock->told) {
        if (gpud_hookless)
            say_late(device);
        lock->told = lock->owes_back = true;
        lock->flags = GPUD_LOCK_OVERRUN | (gpud_load_total(&gpud_captures) != 0 ? GPUD_LOCK_NEVER : 0);
        return now;
    }
    if (gpud_hookless)
        return late ? GPUD_NEVER : lock->deadline_ns;       /* release() wakes the keeper */
    uint64_t nap = (now - lock->began_ns) / 8;
    nap = nap < DRAIN_LOOK_NS ? DRAIN_LOOK_NS : nap > DRAIN_LOOK_MOST_NS ? DRAIN_LOOK_MOST_NS : nap;
    return now + nap;
}

static enum gpud_swap_result swap_in(uint32_t device, uint64_t bytes, uint64_t now, uint64_t *moved)
{
    enum gpud_swap_result result = gpud_swap_in(device, bytes, now + SWAP_WITHIN_NS, moved);

    gpud_lock_devices[device].moved += *moved;
    return result;
}

/* What may come in now: the daemon has said how much of this program's memory may be on the device, and says so again as there is room. */
static uint64_t may_come_in(uint32_t device)
{
    uint64_t most = gpud_lock_devices[device].bytes, there = gpud_pool_resident(device);

    return most == UINT64_MAX ? most : most > there ? most - there : 0;
}

/* DONE: nothing lacks any more. */
static enum gpud_swap_result bring_in(uint32_t device, uint64_t now)
{
    enum gpud_swap_result result = GPUD_SWAP_DONE;
    uint64_t moved = 1;

    while (result == GPUD_SWAP_DONE && gpud_pool_lacks(device) != 0)
        result = moved == 0 ? GPUD_SWAP_LITTLE : swap_in(device, may_come_in(device), now, &moved);
    return result;
}

/* Nothing lacks: launches pass, as far as the gate lets them. */
static void open_again(uint32_t device)
{
    if (!(gpud_load(&gpud_closed) & 1u << device))
        return;
    gpud_open(device);
    if (gpud_pool_lacks(device) != 0)       /* an allocation just now that the gate, shut again, left without memory */
        gpud_shut(device);
}

/* Memory first; only then do launches pass. An allocation that still saw COMES_IN may be without memory: looked at once more. */
static uint64_t come_in(uint32_t device, uint64_t now)
{
    struct gpud_lock_device *lock = &gpud_lock_devices[device];

    if (now < lock->retry_ns)
        return lock->retry_ns;
    if (gpud_hookless_moves())
        return GPUD_NEVER;          /* its end wakes the keeper */
    enum gpud_swap_result result = gpud_hookless && lock->bytes != UINT64_MAX ? GPUD_SWAP_LITTLE : bring_in(device, now);
    gpud_lock_state(device, GPUD_LOCK_HAS);
    if (result == GPUD_SWAP_DONE)
        result = bring_in(device, now);
    if (result != GPUD_SWAP_DONE)
        gpud_lock_state(device, GPUD_LOCK_COMES_IN);
    if (result == GPUD_SWAP_MORE)
        return now;
    if (result != GPUD_SWAP_DONE) {
        /* Where the daemon has said that there is room for all, it hears each time that there is not, and finds more. Where it has not yet
         * said so, it knows: what is said then could be taken for an answer to what it says meanwhile. */
        if (may_come_in(device) >= gpud_pool_lacks(device)) {
            lock->owes_in = true;
            lock->flags |= GPUD_LOCK_SHORT;
        }
        return lock->retry_ns = gpud_now() + SHORT_RETRY_NS;
    }
    open_again(device);
    lock->flags = 0;
    lock->owes_in = true;
    gpud_store(&gpud_lock_is_done[device], 0);
    gpud_lock_take(device, lock->epoch);
    return now;
}

/* Nobody speaks of turns any more: memory that is out comes back by itself, as soon as there is room, then the device is open. */
static uint64_t come_home(uint32_t device, uint64_t now)
{
    struct gpud_lock_device *lock = &gpud_lock_devices[device];
    enum gpud_swap_result result = GPUD_SWAP_DONE;
    uint64_t moved = 0;

    if (now < lock->retry_ns)
        return lock->retry_ns;
    lock->retry_ns = 0;
    while (result == GPUD_SWAP_DONE && gpud_pool_lacks(device) != 0)
        result = swap_in(device, UINT64_MAX, now, &moved);
    if (result == GPUD_SWAP_DONE)
        open_again(device);
    else if (result != GPUD_SWAP_MORE)
        lock->retry_ns = gpud_now() + SHORT_RETRY_NS;
    return result == GPUD_SWAP_DONE ? GPUD_NEVER : result == GPUD_SWAP_MORE ? now : lock->retry_ns;
}

/* There are no turns on this device any more: whatever it had, or was about to have or to give back, is nothing now. */
static void no_turns(uint32_t device)
{
    struct gpud_lock_device *lock = &gpud_lock_devices[device];

    if (lock->state <= GPUD_LOCK_ASKS)
        return;
    gpud_lock_take(device, 0);
    gpud_lock_ends(device, false);
    lock->ends = false;
    lock->owes_in = false;
    lock->owed = true;
    lock->flags = 0;
    gpud_lock_state(device, GPUD_LOCK_NONE);
}

static uint64_t has(uint32_t device, uint64_t now)
{
    struct gpud_lock_device *lock = &gpud_lock_devices[device];
    const struct gpud_control_device *knobs = &gpud_control()->device[device];

    if (gpud_load_acquire(&knobs->grant_epoch) != lock->epoch) {       /* taken out of the page: the gate is shut already */
        gpud_lock_leave(device, lock->ends ? lock->deadline_ns : GPUD_NEVER, now);
    } else if (lock->ends && now >= lock->deadline_ns && gpud_lock_holds(device) != 0) {
        say_late(device);
        gpud_lock_leave(device, lock->deadline_ns, now);
    } else if (lock->ends) {
        return leave_unless_held(device, lock->deadline_ns, now) ? now : lock->deadline_ns;
    } else if (gpud_lock_given_up(device)) {
        return leave_unless_held(device, now + GIVE_BACK_WITHIN_NS, now) ? now : GPUD_NEVER;
    }
    return lock->state == GPUD_LOCK_HAS ? GPUD_NEVER : now;
}

uint64_t gpud_lock_step(uint32_t device, uint64_t now)
{
    struct gpud_lock_device *lock = &gpud_lock_devices[device];
    const struct gpud_control_device *knobs = &gpud_control()->device[device];
    uint64_t again = GPUD_NEVER;

    gpud_pool_tidy(device);
    if (!gpud_load_acquire(&gpud_managed) || !(gpud_load_acquire(&knobs->gate) & GPUD_GATE_GRANT)) {
        no_turns(device);
        return gpud_load(&gpud_closed) & 1u << device ? come_home(device, now) : again;
    }
    if (lock->owed)
        gpud_lock_leave(device, GPUD_NEVER, now);
    if (lock->state == GPUD_LOCK_HAS)
        again = has(device, now);
    else if (lock->state == GPUD_LOCK_COMES_IN && gpud_load_acquire(&knobs->grant_epoch) != lock->epoch)
        gpud_lock_leave(device, GPUD_NEVER, now);
    if (lock->state == GPUD_LOCK_COMES_IN)
        return come_in(device, now);
    return lock->state == GPUD_LOCK_LEAVES ? drain(device, now) : again;
}

/* SWAP_OUT, or the next part of it: the device stays closed until its memory is in again, whatever the gate says. False: it goes on. */
bool gpud_lock_swap(uint32_t device, uint64_t now)
{
    struct gpud_lock_device *lock = &gpud_lock_devices[device];
    enum gpud_swap_result result = GPUD_SWAP_NOT_NOW;
    uint64_t moved = 0;

    if (lock->state <= GPUD_LOCK_ASKS && gpud_close(device, now + CLOSE_WITHIN_NS) == 0) {
        if (gpud_presence_drained(device))
            result = gpud_swap_out(device, lock->swap.bytes - lock->swapped, now + SWAP_WITHIN_NS, &moved);
        if (gpud_pool_lacks(device) == 0)
            open_again(device);
    } else if (gpud_pool_lacks(device) != 0) {
        gpud_shut(device);      /* an allocation without memory just now, while gpud_close had shut it for itself */
    }
    lock->swapped += moved;
    if (result == GPUD_SWAP_MORE)
        return false;
    lock->swap.code = result == GPUD_SWAP_DONE || result == GPUD_SWAP_LITTLE ? 1 : result == GPUD_SWAP_BROKEN ? 3 : 2;
    lock->swap.bytes = lock->swapped;
    return true;
}
