/* link_host.c: where a thread of the program is on the model's clock.
 *
 * A thread that waits for the device is, when it goes on, at the model time at which that was done, however late it woke up.
 * What it then submits is submitted at that time, until the host's time gets in: it slept, or waited for something that is not
 * ours, or it computed for longer than calls take. Then it is where the clock is. How long it was ready to run and did not get
 * a processor is none of these, so a busy machine does not change the model's times. The kernel tells the one from the other: a
 * thread that slept has switched by its own will (ru_nvcsw), and its processor time stands while it waits for a processor.
 *
 * A thread that sleeps between commands works by a clock of its own (requests that arrive): for a while, what it submits first after a
 * synchronisation is where the clock is, also when it has not slept because it is late. */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/resource.h>
#include <time.h>

#include "link_state.h"
#include "start.h"

#define LOOK_NS 20000u                  /* how long a thread is taken for not having slept without asking the kernel */
#define FREE_NS 1000000u                /* of a processor, between two synchronisations: what is not counted as work, */
#define FREE_CALL_NS 10000u             /* and for each command */
#define REMEMBER_NS 2000000000u         /* how long a sleep is remembered */

struct host {
    uint64_t serial;                    /* of the link that this is about */
    uint64_t model_ns;                  /* here we are */
    uint64_t cpu_ns;                    /* of this thread, when it last synchronised or slept */
    uint64_t wall_ns;                   /* of the last look */
    long switches;                      /* by its own will, up to the last look */
    uint64_t commands;                  /* submitted since the last synchronisation or sleep */
    bool submitted;                     /* ever */
    bool synchronised;                  /* and nothing submitted since */
    uint64_t own_clock_ns;              /* wall: until then it works by a clock of its own */
    bool timed;
};

static _Thread_local struct host here;
static _Thread_local uint64_t own_cpu_ns;
static _Thread_local struct host call;  /* where the host function began that runs now */

static uint64_t clock_of(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t link_clock(void)
{
    return clock_of(CLOCK_MONOTONIC);
}

static long switches(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_THREAD, &usage) ? 0 : usage.ru_nvcsw;
}

/* From here on the thread is where it is now. */
static void settle(const struct sim_link *link, uint64_t model_ns, uint64_t wall_ns)
{
    here = (struct host){ .serial = link->serial, .model_ns = model_ns, .cpu_ns = clock_of(CLOCK_THREAD_CPUTIME_ID),
                          .wall_ns = wall_ns, .switches = switches(), .timed = here.timed, .submitted = here.submitted,
                          .own_clock_ns = here.own_clock_ns };
}

/* What the thread did since the last look. */
static void look(const struct sim_link *link, uint64_t wall_ns)
{
    bool known = here.serial == link->serial, slept = known && switches() != here.switches;
    if (!known) {
        here.own_clock_ns = 0;
        here.submitted = false;
    } else if (slept && here.submitted)
        here.own_clock_ns = wall_ns + REMEMBER_NS;
    here.wall_ns = wall_ns;
    if (known && !slept && clock_of(CLOCK_THREAD_CPUTIME_ID) - here.cpu_ns <= FREE_NS + FREE_CALL_NS * here.commands)
        return;
    uint64_t now = sim_model_of(link->node, wall_ns);
    here.timed = true;
    settle(link, known && here.model_ns > now ? here.model_ns : now, wall_ns);
}

uint64_t link_host_time(struct sim_link *link, uint64_t wall_ns, bool *timed)
{
    if (here.serial != link->serial || wall_ns - here.wall_ns >= LOOK_NS)
        look(link, wall_ns);
    here.commands++;
    here.submitted = true;
    if (here.synchronised && wall_ns < here.own_clock_ns) {
        uint64_t now = sim_model_of(link->node, wall_ns);
        here.model_ns = now > here.model_ns ? now : here.model_ns;
        here.timed = true;
    }
    *timed = here.timed;
    here.synchronised = here.timed = false;
    return here.model_ns;
}

void link_host_enter(struct sim_link *link)
{
    uint64_t wall_ns = link_clock();
    if (here.serial != link->serial || wall_ns - here.wall_ns >= LOOK_NS)
        look(link, wall_ns);
    own_cpu_ns = clock_of(CLOCK_THREAD_CPUTIME_ID);
}

void link_host_leave(struct sim_link *link, uint64_t model_ns)
{
    if (model_ns) {                     /* a synchronisation */
        settle(link, model_ns > here.model_ns ? model_ns : here.model_ns, link_clock());
        here.synchronised = true;
        return;
    }
    here.cpu_ns += clock_of(CLOCK_THREAD_CPUTIME_ID) - own_cpu_ns;
    here.switches = switches();
    here.wall_ns = link_clock();
}

void sim_passed(struct sim_link *link)
{
    uint64_t wall_ns = link_clock(), now = sim_model_of(link->node, wall_ns);
    here.timed = true;
    settle(link, here.serial == link->serial && here.model_ns > now ? here.model_ns : now, wall_ns);
}

void sim_own_begin(struct sim_link *link) { link_host_enter(link); }
void sim_own_end(struct sim_link *link) { link_host_leave(link, 0); }

void sim_lock(struct sim_link *link, pthread_mutex_t *mutex)
{
    if (!pthread_mutex_trylock(mutex))
        return;
    link_host_enter(link);
    pthread_mutex_lock(mutex);
    link_host_leave(link, 0);
}

void sim_saw(struct sim_link *link, uint64_t model_ns)
{
    if (atomic_load_explicit(&link->dead, memory_order_relaxed) || (here.serial == link->serial && model_ns <= here.model_ns))
        return;
    link_host_enter(link);
    link_host_leave(link, model_ns);
}

void sim_asked(struct sim_link *link)
{
    if (atomic_load_explicit(&link->dead, memory_order_relaxed))
        return;
    atomic_store_explicit(&link->page->asked, atomic_load_explicit(&link->page->head, memory_order_relaxed), memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load(&link->node->sleeping) && atomic_load(&link->node->standing))
        link_doorbell(link);
}

int sim_call_begin(struct sim_link *link, uint32_t queue, uint64_t ticket)
{
    int result = ticket ? sim_wait(link, queue, ticket) : 0;
    call = (struct host){ .cpu_ns = clock_of(CLOCK_THREAD_CPUTIME_ID), .wall_ns = link_clock(), .switches = switches() };
    return result;
}

void sim_call_end(struct sim_link *link, uint32_t queue, uint64_t ticket)
{
    uint64_t ran = clock_of(CLOCK_THREAD_CPUTIME_ID) - call.cpu_ns;
    if (switches() != call.switches)
        ran = link_clock() - call.wall_ns;
    else if (ran <= FREE_NS)
        ran = 0;
    if (atomic_load_explicit(&link->dead, memory_order_relaxed) || queue >= SIM_MAX_QUEUES)
        return;
    atomic_store(&link->page->took[queue], (uint64_t)((double)ran / link->node->time_scale));
    sim_computed(link, queue, ticket);
}
