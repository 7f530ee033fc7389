/* compute.c: one thread a process computes all work in the order of submission and reports it. It never waits for the device, so
 * it can only be ahead of the modelled time or late (an overrun, which the device process counts).
 *
 * Where computing itself must wait (a host function has to run first, or another process to come to a record), that one queue
 * steps aside: what follows in it is kept, and what follows in queues that wait for it, while all others go on. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "compute.h"
#include "view.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER, drained = PTHREAD_COND_INITIALIZER;
static _Atomic int draining;            /* threads that wait for that */
static struct work *head, **tail = &head;
static struct work *over;               /* what waited and need not any more */
static bool asleep, started;
static _Atomic int waiting;             /* works under way that their queue will step aside at */

static void run_copy(const struct copy_work *c) {
    for (size_t z = 0; z < c->depth; z++) {
        char *dst = c->dst + z * c->dst_plane;
        const char *src = c->src + z * c->src_plane;
        if (c->dst_pitch == c->width && c->src_pitch == c->width) {
            memmove(dst, src, c->width * c->height);
            continue;
        }
        for (size_t y = 0; y < c->height; y++)
            memmove(dst + y * c->dst_pitch, src + y * c->src_pitch, c->width);
    }
}

static void run_set(const struct set_work *s) {
    for (size_t y = 0; y < s->height; y++) {
        char *row = s->dst + y * s->pitch;
        if (s->size == 1) {
            memset(row, (int)s->value, s->width);
            continue;
        }
        for (size_t x = 0; x < s->width; x++)
            memcpy(row + x * s->size, &s->value, s->size);
    }
}

static CUresult run_kernel(const struct kernel_work *k) {
    switch (k->desc->run(&k->launch, k->params, 0, k->blocks)) {
    case GPUD_KERNEL_OK:
        return CUDA_SUCCESS;
    case GPUD_KERNEL_TRAP:
        sim_say("kernel %s: stopped by trap or a failed assertion; the context is lost", k->desc->name);
        return CUDA_ERROR_LAUNCH_FAILED;
    case GPUD_KERNEL_BARRIER:
        sim_say("kernel %s: threads of a block wait at different barriers for ever; the context is lost", k->desc->name);
        return CUDA_ERROR_LAUNCH_FAILED;
    default:
        sim_say("kernel %s: no host memory for the state of its threads; the context is lost", k->desc->name);
        return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    }
}

/* What touches memory that the program named: guarded against faults. */
static CUresult compute(const struct work *work) {
    if (work->kind == WORK_KERNEL)
        return run_kernel(&work->kernel);
    if (work->kind == WORK_COPY)
        run_copy(&work->copy);
    else
        run_set(&work->set);
    return CUDA_SUCCESS;
}

/* The work is done with. */
static void finish(struct work *work) {
    struct ctx *ctx = work->ctx;
    work_free(work);
    if (atomic_fetch_sub(&ctx->uncomputed, 1) != 1 || !draining)
        return;
    sim_lock(sim.link, &lock);
    pthread_cond_broadcast(&drained);
    pthread_mutex_unlock(&lock);
}

static void run(struct work *work) {
    if (!work->ctx->fault && !work->ctx->error) {
        view_for(work);
        CUresult result = fault_guarded(compute, work);
        if (result)
            ctx_fault(work->ctx, result, work->queue, work->ticket);
    }
    sim_computed(sim.link, work->queue, work->ticket);
    finish(work);
}

/* A queue that has stepped aside: its first work waits for something, the rest for that. */
struct aside { struct aside *next; uint32_t queue; struct work *first, **last; };
static struct aside *asides;            /* the computing thread's own */

static struct aside *aside_of(uint32_t queue) {
    struct aside *aside = asides;
    while (aside && aside->queue != queue)
        aside = aside->next;
    return aside;
}

/* Must the queue step aside at this work? If so, what it waits for is under way afterwards. */
static bool waits(struct work *work) {
    if (work->kind == WORK_CALL || (work->kind == WORK_WAIT && !work->wait.on)) {
        if (!wait_start(work))
            wait_run(work);             /* here, then; it tells us that it is over all the same */
        return true;
    }
    if (work->kind != WORK_WAIT)
        return false;
    const struct aside *on = aside_of(work->wait.on);
    return on && on->first->ticket < work->wait.ticket;
}

static void begin(struct work *work) {
    struct aside *aside = asides ? aside_of(work->queue) : NULL;
    if (!aside) {
        if (!waits(work)) {
            if (work->kind == WORK_WAIT)
                finish(work);
            else
                run(work);
            return;
        }
        while (!(aside = malloc(sizeof *aside)))
            sched_yield();              /* the program's work cannot be dropped */
        *aside = (struct aside){asides, work->queue, NULL, &aside->first};
        asides = aside;
    }
    work->next = NULL;
    *aside->last = work;
    aside->last = &work->next;
}

/* The first of a queue that has stepped aside is over: goes on behind it. */
static void go_on(struct aside *aside) {
    struct work *work = aside->first;
    do {
        aside->first = work->next;
        if (work->kind == WORK_CALL || work->kind == WORK_WAIT)
            finish(work);
        else
            run(work);
        work = aside->first;
    } while (work && !waits(work));
    if (work)
        return;
    struct aside **at = &asides;
    while (*at != aside)
        at = &(*at)->next;
    *at = aside->next;
    free(aside);
}

/* A wait is over; others may have waited for what comes behind it. */
static void end(struct work *work) {
    go_on(aside_of(work->queue));
    for (struct aside *aside = asides; aside;) {
        const struct work *first = aside->first;
        const struct aside *on = first->kind == WORK_WAIT && first->wait.on ? aside_of(first->wait.on) : aside;
        bool still = on && (on == aside || on->first->ticket < first->wait.ticket);
        if (!still)
            go_on(aside);
        aside = still ? aside->next : asides;
    }
}

static void *compute_main(void *unused) {
    (void)unused;
    pthread_setname_np(pthread_self(), "gpud-sim-run");
    fault_thread_start();
    for (;;) {
        sim_lock(sim.link, &lock);
        while (!head && !over) {
            asleep = true;
            pthread_cond_wait(&filled, &lock);
        }
        asleep = false;
        struct work *work = head, *ended = over;
        head = over = NULL;
        tail = &head;
        pthread_mutex_unlock(&lock);
        while (ended) {
            struct work *next = ended->next_over;
            end(ended);
            ended = next;
        }
        while (work) {
            struct work *next = work->next;
            begin(work);
            work = next;
        }
    }
    return NULL;
}

CUresult compute_start(void) {
    if (started)
        return CUDA_SUCCESS;
    sigset_t all, old;
    sigfillset(&all);
    sigdelset(&all, SIGSEGV);
    sigdelset(&all, SIGBUS);
    sigdelset(&all, SIGFPE);
    sigdelset(&all, SIGILL);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, 16u << 20);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    pthread_t thread;
    int failed = pthread_create(&thread, &attributes, compute_main, NULL);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attributes);
    if (failed) {
        sim_say("cannot start the computing thread: %s", strerror(failed));
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    started = true;
    return CUDA_SUCCESS;
}

static void wake(void) {
    if (!asleep)
        return;
    asleep = false;
    pthread_cond_signal(&filled);
}

void compute_push(struct work *work) {
    work->next = NULL;
    atomic_fetch_add(&work->ctx->uncomputed, 1);
    if (work->kind == WORK_CALL || (work->kind == WORK_WAIT && !work->wait.on))
        atomic_fetch_add(&waiting, 1);
    sim_lock(sim.link, &lock);
    *tail = work;
    tail = &work->next;
    wake();
    pthread_mutex_unlock(&lock);
}

void compute_over(struct work *work) {
    sim_lock(sim.link, &lock);
    work->next_over = over;
    over = work;
    wake();
    pthread_mutex_unlock(&lock);
    atomic_fetch_sub(&waiting, 1);      /* afterwards: who sees it comes behind what has waited */
}

void compute_drain(struct ctx *ctx) {
    sim_lock(sim.link, &lock);
    draining++;
    while (ctx->uncomputed)
        pthread_cond_wait(&drained, &lock);
    draining--;
    pthread_mutex_unlock(&lock);
}

bool compute_aside(void) { return atomic_load(&waiting) != 0; }

void compute_fault(struct ctx *ctx, uint32_t queue, uint64_t ticket) {
    struct work *work = work_new(WORK_FAULT);
    if (!work)
        return;                         /* the error is told all the same, though not early */
    work->ctx = ctx;
    work->queue = queue;
    work->ticket = ticket;
    work->wait.on = ctx->sim_context;
    if (!wait_start(work))
        work_free(work);
}
