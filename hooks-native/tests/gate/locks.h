/* locks.h: the daemon's half of the device lock, for tests that play it on device 0; and a program's turns. */
#ifndef GPUD_TEST_LOCKS_H
#define GPUD_TEST_LOCKS_H

#include "cases.h"
#include "gpud.h"
#include "lock.h"

int gpud_hook_acquire(const int *devices, unsigned count, uint64_t timeout_ns);
int gpud_hook_release(const int *devices, unsigned count, uint64_t timeout_ns);
static const int first = 0;

static inline void page_epoch(uint64_t epoch)
{
    gpud_store_release(&player.control->device[0].grant_epoch, epoch);
}

static inline void tell(uint16_t type, uint64_t epoch, uint64_t time_ns)
{
    struct gpud_msg_lock message = { { GPUD_WIRE_MAGIC, type, sizeof message }, 1, 0, epoch, time_ns, UINT64_MAX };
    player_send(&player, &message, sizeof message, NULL, 0);
}

/* Another one waits for the device, says the page. */
static inline void wanted(void)
{
    gpud_store(&player.control->device[0].lock_flags, GPUD_LOCK_WANTED);
}

static inline void grant(uint64_t epoch)
{
    page_epoch(epoch);
    tell(GPUD_MSG_LOCK_GRANTED, epoch, GPUD_NEVER);
}

static inline void ask_back(uint64_t epoch, uint64_t within_ns)
{
    tell(GPUD_MSG_LOCK_REVOKED, epoch, gpud_now() + within_ns);
}

/* The next message, of device 0; epoch 0: whichever. */
static inline const struct gpud_msg_lock *expect(uint16_t type, uint64_t epoch, uint32_t flags)
{
    const struct gpud_msg_lock *message = player_expect(&player, type);
    CHECK(message != NULL && message->slots == 1 && (epoch == 0 || message->epoch == epoch) && message->flags == flags,
          "message %u: flags %u", type, message != NULL ? message->flags : 999);
    return message;
}

/* Given back and asked for again: by one message, or, where the program wants it only after that, by two. The number of the request. */
static inline uint64_t expect_back_and_asked(uint64_t epoch, uint32_t flags)
{
    const struct gpud_msg_lock *back = player_expect(&player, GPUD_MSG_LOCK_BACK);
    CHECK(back != NULL && back->slots == 1 && back->epoch == epoch, "given back");
    if (back != NULL && back->flags == 0) {
        const struct gpud_msg_lock *asked = expect(GPUD_MSG_LOCK_ASKED, 0, flags);
        return asked != NULL ? asked->epoch : 0;
    }
    CHECK(back != NULL && back->flags == (GPUD_LOCK_AND_ASKS | flags), "given back: flags %u", back != NULL ? back->flags : 999);
    return back != NULL ? back->bytes : 0;
}

static inline uint32_t state(void)
{
    return gpud_load_total(&player.presence->device[0].lock);
}

static inline uint32_t turns_told(void)
{
    return gpud_load_total(&player.presence->device[0].holds);
}

static inline int acquire(uint64_t timeout_ns)
{
    return gpud_hook_acquire(&first, 1, timeout_ns);
}

static inline int release(void)
{
    return gpud_hook_release(&first, 1, 0);
}

/* In a thread of its own; its answer by join. */
static inline void *acquires(void *timeout)
{
    return (void *)(intptr_t)acquire((uint64_t)(uintptr_t)timeout);
}

static inline pthread_t begin_acquire(uint64_t timeout_ns)
{
    pthread_t thread;
    pthread_create(&thread, NULL, acquires, (void *)(uintptr_t)timeout_ns);
    return thread;
}

static inline int answer_of(pthread_t thread)
{
    void *answer;
    pthread_join(thread, &answer);
    return (int)(intptr_t)answer;
}

/* The process attaches, there are turns, and it takes one itself. */
static inline void take_a_turn(uint64_t epoch)
{
    pthread_t thread = begin_acquire(600 * GPUD_SECOND);
    expect(GPUD_MSG_LOCK_ASKED, 0, GPUD_LOCK_EXPLICIT);
    grant(epoch);
    expect(GPUD_MSG_LOCK_IS_IN, epoch, 0);
    CHECK(answer_of(thread) == GPUD_OK && turns_told() == 1 && state() == GPUD_LOCK_HAS, "has its turn");
}

static inline void attach_with_turns(void)
{
    player_listen(&player);
    client_initialise();
    player_attach(&player);
    set_gate(GPUD_GATE_GRANT);
}

#endif
