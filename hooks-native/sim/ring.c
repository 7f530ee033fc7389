/* ring.c: the device process's side of the shared pages: commands in, completions out.
 *
 * All that a client can write is read once into memory of our own and checked there; what is wrong ends that client. */
#define _GNU_SOURCE
#include "ring.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "device.h"
#include "log.h"

#define ROUND_NS 5000000u               /* commands are taken for so long before what is due is looked at again */

static void wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void publish(struct sim_done_slot *slot, _Atomic uint32_t *waiters, uint64_t ticket, uint64_t model_ns)
{
    uint32_t seq = atomic_load_explicit(&slot->seq, memory_order_relaxed);
    atomic_store_explicit(&slot->seq, seq + 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&slot->ticket, ticket, memory_order_relaxed);
    atomic_store_explicit(&slot->model_ns, model_ns, memory_order_relaxed);
    atomic_store_explicit(&slot->seq, seq + 2, memory_order_release);
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(waiters, memory_order_relaxed))
        wake(&slot->seq);
}

static bool on_computed(void *arg, void *queue_user, uint64_t ticket)
{
    const struct device_queue *queue = queue_user;
    (void)arg;
    return atomic_load_explicit(&queue->client->page->computed[queue->id], memory_order_acquire) >= ticket;
}

static uint64_t on_took(void *arg, void *queue_user, uint64_t ticket)
{
    const struct device_queue *queue = queue_user;
    (void)arg, (void)ticket;
    uint64_t took = atomic_load_explicit(&queue->client->page->took[queue->id], memory_order_relaxed);
    return took < SCHED_NEVER / 4 ? took : SCHED_NEVER / 4;
}

static void on_held(void *arg, void *queue_user, uint64_t ticket)
{
    struct device_queue *queue = queue_user;
    (void)arg;
    atomic_store_explicit(&queue->client->done->queues[queue->id].held, ticket, memory_order_seq_cst);
}

static void on_done(void *arg, void *queue_user, uint64_t ticket, uint64_t model_ns)
{
    struct device_queue *queue = queue_user;
    struct client *client = queue->client;
    (void)arg;
    client->outstanding--;
    struct sim_done_slot *slot = &client->done->queues[queue->id];
    if (atomic_load_explicit(&slot->held, memory_order_relaxed))
        atomic_store_explicit(&slot->held, 0, memory_order_relaxed);
    publish(slot, &client->page->queue_waiters[queue->id], ticket, model_ns);
}

static void on_recorded(void *arg, void *event_user, uint64_t number, uint64_t model_ns)
{
    struct node_event *shared = event_user;
    (void)arg;
    if (number < shared->reached)
        return;                         /* a later record was reached first, in another queue */
    shared->reached = number;
    shared->reached_ns = model_ns;
    for (struct device_event *event = shared->openers; event; event = event->next)
        publish(&event->client->done->events[event->id], &event->client->page->event_waiters[event->id], number, model_ns);
}

/* The number of a record of an interprocess event that is just being submitted: all who have it open see it. 0: a plain event. */
static uint64_t number_record(struct node_event *shared)
{
    if (!shared->number)
        return 0;
    shared->newest++;
    for (struct device_event *event = shared->openers; event; event = event->next)
        atomic_store_explicit(&event->client->done->events[event->id].held, shared->newest, memory_order_release);
    return shared->newest;
}

static void on_finished(void *arg, const struct sched_report *report)
{
    log_report(arg, report);
}

static void on_switched(void *arg, uint32_t device, uint32_t from, uint32_t to, uint64_t start_ns, uint64_t end_ns)
{
    log_switch(arg, device, from, to, start_ns, end_ns);
}

static void on_queue_gone(void *arg, void *queue_user)
{
    (void)arg;
    requests_queue_free(queue_user);
}

const struct sched_hooks rings_hooks = {
    .computed = on_computed, .held = on_held, .done = on_done, .recorded = on_recorded, .finished = on_finished,
    .queue_gone = on_queue_gone, .took = on_took, .switched = on_switched,
};

void ring_queue_reset(struct client *client, uint32_t id, bool everything)
{
    publish(&client->done->queues[id], &client->page->queue_waiters[id], everything ? UINT64_MAX : client->last_ticket, 0);
}

void ring_event_reset(struct client *client, uint32_t id)
{
    const struct node_event *shared = client->events[id]->shared;
    struct sim_done_slot *slot = &client->done->events[id];
    atomic_store_explicit(&slot->held, shared->newest, memory_order_relaxed);
    publish(slot, &client->page->event_waiters[id], shared->reached, shared->reached_ns);
}

/* Commands that the ring holds now and that may be taken. */
static uint64_t available(struct client *client)
{
    if (client->doomed || !client->attached || client->outstanding >= DEVICE_MAX_OUTSTANDING)
        return 0;
    uint64_t head = atomic_load_explicit(&client->page->head, memory_order_acquire);
    if (head - client->tail > SIM_RING) {
        client_doom(client, "its ring claims %llu commands, and has room for %u", (unsigned long long)(head - client->tail), SIM_RING);
        return 0;
    }
    return head - client->tail;
}

bool ring_untaken(const struct client *client)
{
    return client->outstanding < DEVICE_MAX_OUTSTANDING
           && atomic_load_explicit(&client->page->head, memory_order_acquire) != client->tail;
}

bool rings_pending(struct node *node)
{
    for (struct client *client = node->clients; client; client = client->next)
        if (available(client) || client->doomed)
            return true;
    return false;
}

bool rings_computed(struct node *node)
{
    return sched_holding(node->schedule) && sched_held_computed(node->schedule);
}

/* The next command of the ring, copied and checked. False: there is none, or the client is doomed. */
static bool fetch(struct client *client, uint64_t clock_ns)
{
    if (client->doomed || client->tail == client->head || client->outstanding >= DEVICE_MAX_OUTSTANDING)
        return false;
    struct sim_slot *slot = &client->next_slot;
    memcpy(slot, &client->page->ring[client->tail % SIM_RING], sizeof *slot);
    client->tail++;
    if (slot->kind < SIM_KERNEL || slot->kind > SIM_WAIT || slot->queue >= SIM_MAX_QUEUES || slot->ticket <= client->last_ticket
        || slot->name > client->name_count || slot->event >= SIM_MAX_EVENTS || slot->bytes > 1ull << 50) {
        client_doom(client, "bad command in its ring: kind %u, queue %u, name %u, event %u", slot->kind, slot->queue, slot->name,
                    slot->event);
        return false;
    }
    slot->stamp_ns = slot->stamp_ns > clock_ns ? clock_ns : slot->stamp_ns;
    slot->model_ns = pace_stamp(client, slot->model_ns, clock_ns);
    client->last_ticket = slot->ticket;
    return true;
}

static void submit(struct client *client)
{
    struct node *node = client->node;
    const struct sim_slot *slot = &client->next_slot;
    struct device_queue *queue = client->queues[slot->queue];
    if (!queue || queue->closed || queue->stopped) {    /* gone, or ended by a fault: nobody shall wait for it for ever */
        if (!queue || !queue->stopped)
            publish(&client->done->queues[slot->queue], &client->page->queue_waiters[slot->queue], slot->ticket, 0);
        if (slot->kind == SIM_RECORD && client->events[slot->event]) {
            struct node_event *shared = client->events[slot->event]->shared;
            uint64_t number = number_record(shared);
            on_recorded(node, shared, number ? number : slot->ticket, device_model(node, slot->stamp_ns));
        }
        return;
    }
    struct sched_work work = {
        .kind = slot->kind, .ticket = slot->ticket, .submit_ns = slot->model_ns, .stamp_ns = slot->stamp_ns, .exact = !slot->host_timed,
        .blocks = slot->blocks,
        .threads_per_block = slot->threads_per_block, .shared_bytes = slot->shared_bytes, .bytes = slot->bytes,
        .wait_ticket = slot->wait_ticket,
    };
    if (slot->kind == SIM_KERNEL) {
        work.name = slot->name ? client->names[slot->name - 1] : 0;
        struct name *name = &node->names[work.name];
        work.duration_ns = profile_duration(name->kernel, name->launches++);
    }
    if ((slot->kind == SIM_RECORD || slot->kind == SIM_WAIT) && client->events[slot->event]) {
        struct node_event *shared = client->events[slot->event]->shared;
        work.event = shared->event;
        if (slot->kind == SIM_RECORD)
            work.number = number_record(shared);
    }
    client->outstanding++;
    if (!sched_submit(node->schedule, queue->queue, &work))
        client_doom(client, "no memory for its commands");
}

static void publish_tail(struct client *client)
{
    if (atomic_load_explicit(&client->done->tail, memory_order_relaxed) == client->tail)
        return;
    atomic_store_explicit(&client->done->tail, client->tail, memory_order_release);
    atomic_fetch_add_explicit(&client->done->room_seq, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&client->page->room_waiters, memory_order_relaxed))
        wake(&client->done->room_seq);
}

void rings_take(struct node *node)
{
    for (struct client *client = node->clients; client; client = client->next)
        client->head = client->tail + available(client);
    uint64_t clock_ns = device_clock();     /* after the heads: no stamp is later */
    for (struct client *client = node->clients; client; client = client->next)
        client->has_next = fetch(client, clock_ns);
    bool more = true;
    for (uint32_t taken = 1; ; taken++) {
        struct client *first = NULL;
        for (struct client *client = node->clients; client; client = client->next)
            if (client->has_next && !client->doomed && (!first || client->next_slot.model_ns < first->next_slot.model_ns))
                first = client;
        if (!first)
            break;
        submit(first);
        /* What was fetched is submitted, so a long round ends by fetching no more. */
        more = more && (taken % 256 || device_clock() < clock_ns + ROUND_NS);
        first->has_next = more && fetch(first, clock_ns);
    }
    for (struct client *client = node->clients; client; client = client->next)
        if (client->attached)
            publish_tail(client);
}
