/* session_lock_keep.c: the device lock's half of the session: what is said to the daemon of it, and when. Keeper only. */
#include <pthread.h>

#include "entry.h"
#include "hookless_swap.h"
#include "lock.h"
#include "session.h"
#include "state.h"
#include "swap.h"
#include "swap_ask.h"

#define TRY_AGAIN_NS (100 * GPUD_MICROSECOND)

static bool say(struct gpud_session *session, uint16_t type, uint32_t slots, uint32_t flags, uint64_t epoch, uint64_t time_ns,
                uint64_t bytes, bool *full)
{
    struct gpud_msg_lock message = { { GPUD_WIRE_MAGIC, type, sizeof message }, slots, flags, epoch, time_ns, bytes };

    if (type != GPUD_MSG_LOCK_WITHDRAWN)
        message.flags |= gpud_hookless_flags();
    return !*full && gpud_session_send(session, &message, sizeof message, NULL, 0, full);
}

/* Threads are held at the gate, for the device. */
static bool wants(uint32_t device)
{
    return gpud_load_total(&gpud_lock_waits[device]) != 0 && gpud_load(&gpud_control()->device[device].gate) & GPUD_GATE_GRANT;
}

/* Their question. */
static uint64_t keep_question(struct gpud_session *session, uint32_t device, uint64_t now, bool *full)
{
    struct gpud_lock_device *lock = &gpud_lock_devices[device];

    if (wants(device) && !lock->asked) {
        if (now < lock->retry_ns)
            return lock->retry_ns;
        uint64_t id = gpud_lock_number();
        lock->id = id;
        lock->asked = say(session, GPUD_MSG_LOCK_ASKED, 1u << device, 0, id, UINT64_MAX, gpud_pool_lacks(device), full);
    } else if (!wants(device) && lock->asked) {
        lock->asked = !say(session, GPUD_MSG_LOCK_WITHDRAWN, 1u << device, 0, lock->id, 0, 0, full);
    }
    return GPUD_NEVER;
}

/* How long it waits from now on. */
static uint64_t left_of(const struct gpud_lock_request *request, uint64_t now)
{
    return request->until_ns == GPUD_NEVER ? GPUD_NEVER : request->until_ns > now ? request->until_ns - now : 0;
}

/* The device has been left: a request that was granted and then taken back before its threads saw it is not one that the daemon still knows.
 * It is asked again under its number, which changes nothing where the daemon does know it. Mutex held. */
static void note_left(uint32_t device)
{
    for (uint32_t i = 0; i < GPUD_LOCK_REQUESTS; i++) {
        if (gpud_lock_requests[i].slots & 1u << device)
            gpud_lock_requests[i].unsure = gpud_lock_requests[i].sent;
    }
    gpud_lock_devices[device].left = false;
}

/* It is being given back: a question that came before LOCK_BACK would be about a device that the daemon takes to be its own. */
static bool leaves(uint32_t device)
{
    const struct gpud_lock_device *lock = &gpud_lock_devices[device];

    bool given_up = lock->state == GPUD_LOCK_HAS && gpud_lock_given_up(device) && gpud_lock_holds(device) == 0;

    return given_up || lock->state == GPUD_LOCK_LEAVES || lock->owes_back;
}

/* The program's own requests: asked once, withdrawn when nobody waits any more. False: somebody is changing them. */
static bool keep_requests(struct gpud_session *session, uint64_t now, uint32_t *asks, bool *full)
{
    if (pthread_mutex_trylock(&gpud_lock_mutex) != 0)
        return false;
    for (uint32_t device = 0; device < GPUD_MAX_DEVICES; device++) {
        if (gpud_lock_devices[device].left && !gpud_lock_devices[device].owes_back)
            note_left(device);
    }
    for (uint32_t i = 0; i < GPUD_LOCK_REQUESTS; i++) {
        struct gpud_lock_request *it = &gpud_lock_requests[i];
        uint64_t lacks = 0;
        bool held = it->slots != 0, later = false;
        for (uint32_t device = 0; device < GPUD_MAX_DEVICES; device++) {
            if (it->slots & 1u << device) {
                lacks += gpud_pool_lacks(device);
                later |= leaves(device);
                held &= gpud_lock_devices[device].state == GPUD_LOCK_HAS || gpud_lock_devices[device].state == GPUD_LOCK_COMES_IN;
            }
        }
        if (it->waiters != 0 && !it->refused && (!it->sent || (it->longer && !held) || it->unsure)) {
            bool said = !later && say(session, GPUD_MSG_LOCK_ASKED, it->slots, GPUD_LOCK_EXPLICIT, it->id, left_of(it, now), lacks, full);
            it->sent |= said;
            it->longer &= !said;
            it->unsure &= !said;
        } else if (it->waiters == 0 && it->sent) {
            it->sent = !(it->refused || held || say(session, GPUD_MSG_LOCK_WITHDRAWN, it->slots, GPUD_LOCK_EXPLICIT, it->id, 0, 0, full));
        }
        *asks |= it->sent && !it->refused ? it->slots : 0;
    }
    pthread_mutex_unlock(&gpud_lock_mutex);
    return true;
}

/* What is wanted of that device alone, and not asked for yet. Mutex held. */
static struct gpud_lock_request *unsaid(uint32_t device)
{
    for (uint32_t i = 0; i < GPUD_LOCK_REQUESTS; i++) {
        struct gpud_lock_request *it = &gpud_lock_requests[i];
        if (it->waiters != 0 && it->slots == 1u << device && !it->sent && !it->refused)
            return it;
    }
    return NULL;
}

/* Given back. If the program wants it again already, the same message says so: who takes turns without a pause wakes the daemon once. */
static void say_back(struct gpud_session *session, uint32_t device, uint64_t now, bool *full)
{
    struct gpud_lock_device *lock = &gpud_lock_devices[device];
    bool drained = lock->flags == 0 && lock->left, looks = drained && pthread_mutex_trylock(&gpud_lock_mutex) == 0;
    struct gpud_lock_request *again = looks ? unsaid(device) : NULL;

    if (again != NULL) {
        lock->owes_back = !say(session, GPUD_MSG_LOCK_BACK, 1u << device, GPUD_LOCK_AND_ASKS | GPUD_LOCK_EXPLICIT, lock->epoch,
                               left_of(again, now), again->id, full);
        if (!lock->owes_back) {
            note_left(device);
            again->sent = 1;
            again->longer = 0;
        }
    } else if (drained && wants(device) && !lock->asked && now >= lock->retry_ns) {
        lock->id = gpud_lock_number();
        lock->asked = say(session, GPUD_MSG_LOCK_BACK, 1u << device, GPUD_LOCK_AND_ASKS, lock->epoch, UINT64_MAX, lock->id, full);
        lock->owes_back = !lock->asked;
    } else {
        lock->owes_back = !say(session, GPUD_MSG_LOCK_BACK, 1u << device, lock->flags, lock->epoch, now - lock->began_ns, 0, full);
    }
    if (looks)
        pthread_mutex_unlock(&gpud_lock_mutex);
}

/* What the program says of its memory, which it moves itself. */
static bool moved_itself(struct gpud_lock_device *lock)
{
    enum gpud_hookless_answer answer = gpud_hookless_swap();

    if (answer == GPUD_HOOKLESS_NOT_YET)
        return false;
    lock->swap.code = answer == GPUD_HOOKLESS_FAILED ? 2 : 1;
    lock->swap.bytes = answer == GPUD_HOOKLESS_MOVED ? lock->swap.bytes : 0;
    return true;
}

/* True: more memory is to leave, at once. */
static bool pay(struct gpud_session *session, uint32_t device, uint64_t now, bool *full)
{
    struct gpud_lock_device *lock = &gpud_lock_devices[device];

    if (lock->owes_in)
        lock->owes_in = !say(session, GPUD_MSG_LOCK_IS_IN, 1u << device, lock->flags, lock->epoch, now - lock->began_ns, lock->moved, full);
    if (lock->owes_back)
        say_back(session, device, now, full);
    bool goes_on = lock->swaps && !gpud_hookless && gpud_swap_has_slots(session, device, lock->swap.bytes - lock->swapped, full);
    if (lock->swaps && gpud_hookless ? moved_itself(lock) : goes_on && gpud_lock_swap(device, now)) {
        goes_on = lock->swaps = false;
        lock->swap.head.type = GPUD_MSG_SWAPPED;
        lock->swap.head.bytes = sizeof lock->swap;
        lock->owes_swapped = true;
    }
    if (lock->owes_swapped)
        lock->owes_swapped = *full || !gpud_session_send(session, &lock->swap, sizeof lock->swap, NULL, 0, full);
    return goes_on;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t talk(struct gpud_session *session, uint32_t device, uint32_t asks, uint64_t now, bool *full)
{
    struct gpud_lock_device *lock = &gpud_lock_devices[device];
    uint64_t again = GPUD_NEVER;

    bool owed = lock->owes_back;

    bool goes_on = pay(session, device, gpud_now(), full);
    if (goes_on || ((lock->left || owed) && !lock->owes_back))      /* the requests are looked at once more */
        again = now;
    if (lock->state <= GPUD_LOCK_ASKS) {
        again = earlier(again, keep_question(session, device, now, full));
        uint32_t state = lock->asked || asks & 1u << device ? GPUD_LOCK_ASKS : GPUD_LOCK_NONE;
        if (state != lock->state)
            gpud_lock_state(device, state);
    }
    return again;
}

uint64_t gpud_lock_keep(struct gpud_session *session, uint64_t now, bool *full)
{
    uint64_t again = GPUD_NEVER;
    uint32_t asks = 0, slots = gpud_lock_slots();
    bool swaps = false;

    if (gpud_load_total(&gpud_exiting) || session->state == GPUD_SESSION_MAPPED)    /* MAPPED: which slots are whose is yet to be said */
        return again;
    if (session->state == GPUD_SESSION_READY)
        gpud_lock_begin_anew(session);
    bool ready = session->state == GPUD_SESSION_READY;
    if (ready && !keep_requests(session, now, &asks, full))
        again = earlier(again, now + TRY_AGAIN_NS);
    for (uint32_t device = 0; device < GPUD_MAX_DEVICES; device++) {
        if (!(slots & 1u << device))
            continue;
        /* Nobody will say that more may come in: it looks itself. What the program brings in itself would fail without room: it waits. */
        if (session->state != GPUD_SESSION_READY && !(gpud_hookless_flags() & GPUD_LOCK_OUT))
            gpud_lock_devices[device].bytes = UINT64_MAX;
        again = earlier(again, gpud_lock_step(device, now));
        if (ready)
            again = earlier(again, talk(session, device, asks, now, full));
        ready = session->state == GPUD_SESSION_READY;
        swaps |= gpud_lock_devices[device].swaps;
    }
    if (!swaps)
        gpud_hookless_swapped();
    return again;
}
