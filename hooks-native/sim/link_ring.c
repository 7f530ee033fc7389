/* link_ring.c: the fast half of the link: submitting commands, and waiting for what the device process says is done. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "link_state.h"

#define LOOK_NS 100000000               /* how often a sleeper looks whether the device process is still there */
#define NOT_SAID UINT32_MAX

void link_doorbell(struct sim_link *link)
{
    uint64_t one = 1;
    ssize_t written = write(link->doorbell, &one, sizeof one);
    (void)written;
}

/* Sleeps while the word has this value, a tenth of a second at most. */
static void sleep_on(const _Atomic uint32_t *word, uint32_t value)
{
    struct timespec patience = { .tv_nsec = LOOK_NS };
    syscall(SYS_futex, word, FUTEX_WAIT, value, &patience, NULL, 0);
}

/* Waits until the ring has room; ring_lock held. */
static bool wait_for_room(struct sim_link *link)
{
    if (link->head - atomic_load_explicit(&link->done->tail, memory_order_acquire) < SIM_RING)
        return true;
    link_host_enter(link);
    while (link->head - atomic_load_explicit(&link->done->tail, memory_order_acquire) >= SIM_RING) {
        atomic_fetch_add(&link->page->room_waiters, 1);
        uint32_t seq = atomic_load(&link->done->room_seq);
        if (link->head - atomic_load(&link->done->tail) >= SIM_RING) {
            if (atomic_load(&link->node->sleeping))
                link_doorbell(link);
            sleep_on(&link->done->room_seq, seq);
        }
        atomic_fetch_sub(&link->page->room_waiters, 1);
        if (!link_alive(link))
            return false;
    }
    link_host_leave(link, 0);
    return true;
}

uint64_t sim_submit(struct sim_link *link, uint32_t queue, const struct sim_command *command)
{
    bool timed = false;
    if (atomic_load_explicit(&link->dead, memory_order_relaxed) || queue >= SIM_MAX_QUEUES)
        return 0;
    pthread_mutex_lock(&link->ring_lock);
    if (!wait_for_room(link)) {
        pthread_mutex_unlock(&link->ring_lock);
        return 0;
    }
    uint64_t ticket = ++link->ticket, before = link->last[queue], wall_ns = link_clock();
    uint64_t model_ns = link_host_time(link, wall_ns, &timed);
    link->page->ring[link->head % SIM_RING] = (struct sim_slot){
        .ticket = ticket, .stamp_ns = wall_ns, .blocks = command->blocks, .bytes = command->bytes, .wait_ticket = command->ticket,
        .kind = (uint16_t)command->kind, .host_timed = timed, .queue = queue, .name = command->name_id,
        .threads_per_block = command->threads_per_block, .shared_bytes = command->shared_bytes, .event = command->event,
        .model_ns = model_ns,
    };
    link->last[queue] = ticket;
    uint64_t head = ++link->head;
    atomic_store_explicit(&link->page->head, head, memory_order_release);
    pthread_mutex_unlock(&link->ring_lock);
    atomic_thread_fence(memory_order_seq_cst);
    /* While the queue has something left to do, the device process wakes up for that and finds this command too. */
    if (atomic_load_explicit(&link->node->sleeping, memory_order_relaxed)
        && (atomic_load_explicit(&link->done->queues[queue].ticket, memory_order_relaxed) >= before
            || head - atomic_load_explicit(&link->done->tail, memory_order_relaxed) >= SIM_RING / 2))
        link_doorbell(link);
    return ticket;
}

void sim_computed(struct sim_link *link, uint32_t queue, uint64_t ticket)
{
    if (atomic_load_explicit(&link->dead, memory_order_relaxed) || queue >= SIM_MAX_QUEUES)
        return;
    _Atomic uint64_t *word = &link->page->computed[queue];
    uint64_t old = atomic_load_explicit(word, memory_order_relaxed);
    while (old < ticket && !atomic_compare_exchange_weak(word, &old, ticket))
        ;
    atomic_thread_fence(memory_order_seq_cst);
    uint64_t held = atomic_load_explicit(&link->done->queues[queue].held, memory_order_relaxed);
    if (held && held <= ticket && atomic_load_explicit(&link->node->sleeping, memory_order_relaxed))
        link_doorbell(link);
}

static struct sim_done read_done(const struct sim_done_slot *slot)
{
    struct sim_done done;
    uint32_t seq;
    do {
        seq = atomic_load_explicit(&slot->seq, memory_order_acquire);
        done.ticket = atomic_load_explicit(&slot->ticket, memory_order_relaxed);
        done.model_ns = atomic_load_explicit(&slot->model_ns, memory_order_relaxed);
        atomic_thread_fence(memory_order_acquire);
    } while ((seq & 1) || seq != atomic_load_explicit(&slot->seq, memory_order_relaxed));
    return done;
}

/* Says what this thread is about to wait for: its place in the list, SIM_WAITS when there was none. */
static uint32_t waits_add(struct sim_link *link, uint32_t slot, uint64_t ticket)
{
    struct sim_wait_record *waits = link->page->waits;
    uint32_t i = 0;
    for (uint32_t nobody = 0; i < SIM_WAITS; i++, nobody = 0)
        if (atomic_compare_exchange_strong(&waits[i].slot, &nobody, SIM_WAIT_UNKNOWN)) {
            atomic_store(&waits[i].ticket, ticket);
            atomic_store(&waits[i].slot, 1 + slot);
            break;
        }
    if (i == SIM_WAITS)
        atomic_fetch_add(&link->page->more_waiters, 1);
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load(&link->node->sleeping) && atomic_load(&link->node->standing))
        link_doorbell(link);
    return i;
}

static void waits_remove(struct sim_link *link, uint32_t i)
{
    if (i == SIM_WAITS)
        atomic_fetch_sub(&link->page->more_waiters, 1);
    else
        atomic_store(&link->page->waits[i].slot, 0);
}

/* Sleeps until the slot (a queue, or SIM_MAX_QUEUES + an event; NOT_SAID: that nobody says is waited for) has come to `ticket`. */
static int wait_slot(struct sim_link *link, const struct sim_done_slot *slot, _Atomic uint32_t *waiters, uint32_t id, uint64_t ticket)
{
    int result = 0;
    link_host_enter(link);
    if (atomic_load_explicit(&slot->ticket, memory_order_acquire) < ticket) {
        uint32_t place = id == NOT_SAID ? 0 : waits_add(link, id, ticket);
        atomic_fetch_add(waiters, 1);
        atomic_thread_fence(memory_order_seq_cst);
        for (;;) {
            uint32_t seq = atomic_load_explicit(&slot->seq, memory_order_acquire);
            if (atomic_load_explicit(&slot->ticket, memory_order_acquire) >= ticket)
                break;
            sleep_on(&slot->seq, seq);
            if (atomic_load_explicit(&slot->ticket, memory_order_acquire) >= ticket)
                break;
            if (!link_alive(link)) {
                result = -EPIPE;
                break;
            }
        }
        atomic_fetch_sub(waiters, 1);
        if (id != NOT_SAID)
            waits_remove(link, place);
    }
    link_host_leave(link, result ? 0 : read_done(slot).model_ns);
    return result;
}

bool sim_reached(const struct sim_link *link, uint32_t queue, uint64_t ticket)
{
    return queue < SIM_MAX_QUEUES && link->done && atomic_load_explicit(&link->done->queues[queue].ticket, memory_order_acquire) >= ticket;
}

static int wait_queue(struct sim_link *link, uint32_t queue, uint64_t ticket, bool said)
{
    if (atomic_load_explicit(&link->dead, memory_order_relaxed) || !link->done)
        return -EPIPE;
    if (queue >= SIM_MAX_QUEUES)
        return -EINVAL;
    return wait_slot(link, &link->done->queues[queue], &link->page->queue_waiters[queue], said ? queue : NOT_SAID, ticket);
}

int sim_wait(struct sim_link *link, uint32_t queue, uint64_t ticket)
{
    return wait_queue(link, queue, ticket, true);
}

int sim_watch(struct sim_link *link, uint32_t queue, uint64_t ticket)
{
    return wait_queue(link, queue, ticket, false);
}

struct sim_done sim_queue_done(const struct sim_link *link, uint32_t queue)
{
    return queue < SIM_MAX_QUEUES && link->done ? read_done(&link->done->queues[queue]) : (struct sim_done){ 0, 0 };
}

struct sim_done sim_event_done(const struct sim_link *link, uint32_t event)
{
    return event < SIM_MAX_EVENTS && link->done ? read_done(&link->done->events[event]) : (struct sim_done){ 0, 0 };
}

int sim_event_wait(struct sim_link *link, uint32_t event, uint64_t ticket)
{
    if (atomic_load_explicit(&link->dead, memory_order_relaxed) || !link->done)
        return -EPIPE;
    if (event >= SIM_MAX_EVENTS)
        return -EINVAL;
    return wait_slot(link, &link->done->events[event], &link->page->event_waiters[event], SIM_MAX_QUEUES + event, ticket);
}
