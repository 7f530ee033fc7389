/* quota_wait.c: see quota_wait.h. An answer is no reservation: who finds the room taken asks again under the same number. */
#include "quota_wait.h"

#include <string.h>

#include "state.h"

#define MOST_ASKS 64            /* threads that wait at once; further ones wait for a place among them */
#define LOOK_NS (50 * GPUD_MILLISECOND)     /* while the daemon is silent: nobody says when there is room */
#define LONGEST_LOSS_NS (30 * GPUD_SECOND)

enum { NOBODY, TO_ASK, ASKED, ANSWERED, TO_WITHDRAW };

static struct ask {
    const void *thread;
    uint32_t state, device, code, attachment;
    uint64_t request, bytes;
} asks[MOST_ASKS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t used;           /* asks that are not NOBODY's */
static uint32_t news;           /* futex word: an answer has come, a place is free */
static uint64_t last_request;
static uint64_t ready_ns;       /* of the session that was told what ASKED says */

static struct ask *own(void)
{
    for (uint32_t i = 0; i < MOST_ASKS; i++) {
        if (asks[i].thread == &gpud_thread && asks[i].state != NOBODY && asks[i].state != TO_WITHDRAW)
            return &asks[i];
    }
    return NULL;
}

static void drop(struct ask *ask)
{
    ask->state = NOBODY;
    gpud_store_total(&used, used - 1);
}

static void tell(void)
{
    gpud_add_total(&news, 1);
    gpud_futex_wake(&news, false);
}

/* The calling thread's ask, now for so many bytes; NULL: no place. Lock held. */
static struct ask *place(uint32_t device, uint64_t bytes)
{
    struct ask *ask = own();

    for (uint32_t i = 0; i < MOST_ASKS && ask == NULL; i++) {
        if (asks[i].state != NOBODY)
            continue;
        ask = &asks[i];
        *ask = (struct ask){ .thread = &gpud_thread, .request = ++last_request };
        gpud_store_total(&used, used + 1);
    }
    if (ask == NULL)
        return NULL;
    ask->device = device;
    ask->bytes = bytes;
    ask->state = TO_ASK;
    return ask;
}

/* Without a daemon nothing will ever be answered: so long after the end of its lease, what it set holds no thread any more. */
static bool is_lost(uint64_t now)
{
    uint64_t after = gpud_load(&gpud_control()->failsafe_after_ns);
    return now > gpud_sum_to(gpud_load(&gpud_control()->lease_until_ns), after < LONGEST_LOSS_NS ? after : LONGEST_LOSS_NS);
}

static bool is_let_go(void)
{
    return !gpud_load_acquire(&gpud_managed) || gpud_load(&gpud_control()->detach);
}

/* Lock not held. */
static bool is_answered(const struct ask *ask, uint32_t *code)
{
    pthread_mutex_lock(&lock);
    bool answered = ask->state == ANSWERED;
    *code = ask->code;
    pthread_mutex_unlock(&lock);
    return answered;
}

static struct ask *ask_for(uint32_t device, uint64_t bytes)
{
    pthread_mutex_lock(&lock);
    struct ask *ask = place(device, bytes);
    pthread_mutex_unlock(&lock);
    if (ask != NULL)
        gpud_keeper_wake();
    return ask;
}

static bool wait_for_answer(uint32_t device, uint64_t bytes)
{
    struct ask *ask = NULL;
    bool looked = false;
    uint32_t code;

    for (;;) {
        uint32_t seen = gpud_load_total(&news);
        uint64_t now = gpud_now();
        bool silent = now > gpud_load(&gpud_control()->lease_until_ns);
        if (gpud_load_total(&gpud_exiting) || is_lost(now))
            return false;
        if (is_let_go() || (silent && looked))      /* the driver says what there is; others' frees are seen without the daemon */
            return true;
        if (ask == NULL)
            ask = ask_for(device, bytes);
        if (ask != NULL && is_answered(ask, &code))
            return code == 0;
        gpud_futex_wait(&news, seen, now + (silent || ask == NULL ? LOOK_NS : GPUD_SECOND), false);
        looked = silent;
    }
}

bool gpud_quota_wait(uint32_t ordinal, uint64_t bytes)
{
    uint32_t device = ordinal < GPUD_MAX_DEVICES ? gpud_load(&gpud_slot_of[ordinal]) : GPUD_UNMANAGED;

    if (device >= GPUD_MAX_DEVICES || is_let_go() || !(gpud_load(&gpud_control()->device[device].memory_flags) & GPUD_MEMORY_WAIT))
        return false;
    return wait_for_answer(device, bytes);
}

void gpud_quota_waited(void)
{
    if (gpud_load_total(&used) == 0)
        return;
    pthread_mutex_lock(&lock);
    struct ask *ask = own();
    bool asked = ask != NULL && ask->state == ASKED;
    if (asked)
        ask->state = TO_WITHDRAW;
    else if (ask != NULL)
        drop(ask);
    pthread_mutex_unlock(&lock);
    if (asked)
        gpud_keeper_wake();
    else if (ask != NULL)
        tell();
}

void gpud_session_alloc_reply(struct gpud_session *session, const struct gpud_msg_memory *reply)
{
    if (session->state != GPUD_SESSION_READY) {
        gpud_session_nonsense(session, "ALLOC_REPLY out of order");
        return;
    }
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < MOST_ASKS; i++) {
        struct ask *ask = &asks[i];
        if (ask->state != ASKED || ask->request != reply->request || ask->device != reply->slot)
            continue;
        ask->state = ANSWERED;
        ask->code = reply->code;
    }
    pthread_mutex_unlock(&lock);
    tell();
}

static bool say(struct gpud_session *session, const struct ask *ask, uint64_t bytes, bool *full)
{
    struct gpud_msg_memory message = { { GPUD_WIRE_MAGIC, GPUD_MSG_ALLOC_ASKED, sizeof message }, ask->device, 0, ask->request, bytes, 0 };

    return !*full && gpud_session_send(session, &message, sizeof message, NULL, 0, full);
}

/* True: its place is free. Lock held. */
static bool keep(struct gpud_session *session, struct ask *ask, bool *full)
{
    bool ready = session->state == GPUD_SESSION_READY;

    if (ask->state == TO_ASK && ready && say(session, ask, ask->bytes, full))
        ask->state = ASKED;
    if (ask->state != TO_WITHDRAW || (ready && !say(session, ask, 0, full)))
        return false;
    drop(ask);
    return true;
}

void gpud_quota_keep(struct gpud_session *session, bool *full)
{
    bool changed = is_let_go();

    if (gpud_load_total(&used) == 0)
        return;
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < MOST_ASKS; i++) {
        if (session->state == GPUD_SESSION_READY && session->ready_ns != ready_ns && asks[i].state == ASKED)
            asks[i].state = TO_ASK;         /* this daemon knows of no question */
        changed |= keep(session, &asks[i], full);
    }
    ready_ns = session->state == GPUD_SESSION_READY ? session->ready_ns : ready_ns;
    pthread_mutex_unlock(&lock);
    if (changed)
        tell();
}

void gpud_quota_wait_forget(void)
{
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    memset(asks, 0, sizeof asks);
    used = 0;
    ready_ns = 0;
}
