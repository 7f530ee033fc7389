/* compute_wait.c: what waits for modelled time, apart from the computing thread: host functions of the program (which run when the
 * work before them is done), waits for records of other processes, and faults that become the program's when they are due.
 * Threads are made when all others wait, and end after a while without work. Host functions run one at a time, as with the real
 * driver, in the order in which they become due. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "compute.h"

#define IDLE_S 5

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER;
static struct work *first, **last = &first;
static int idle;                        /* threads without work, less those that are being woken */

static pthread_mutex_t calls = PTHREAD_MUTEX_INITIALIZER;
__thread bool sim_calling;

static void call(struct work *work) {
    struct call_work *c = &work->call;
    sim_call_begin(sim.link, work->queue, c->after);
    pthread_mutex_lock(&calls);
    sim_calling = true;
    int error = ctx_error(work->ctx);
    if (c->callback)
        c->callback(c->stream, error, c->data);
    else if (!error)
        c->fn(c->data);
    sim_calling = false;
    pthread_mutex_unlock(&calls);
    sim_call_end(sim.link, work->queue, work->ticket);
}

void wait_run(struct work *work) {
    switch (work->kind) {
    case WORK_CALL:
        call(work);
        compute_over(work);
        break;
    case WORK_WAIT:
        sim_event_wait(sim.link, work->wait.event, work->wait.ticket);
        sim_event_destroy(sim.link, work->wait.event);
        compute_over(work);
        break;
    default:
        sim_watch(sim.link, work->queue, work->ticket);
        ctx_fault_due(work->ctx, work->wait.on);
        work_free(work);
    }
}

static void *wait_main(void *unused) {
    (void)unused;
    pthread_setname_np(pthread_self(), "gpud-sim-wait");
    pthread_mutex_lock(&lock);
    for (;;) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += IDLE_S;
        int late = 0;
        while (!first && late != ETIMEDOUT)
            late = pthread_cond_timedwait(&filled, &lock, &until);
        if (!first)
            break;
        struct work *work = first;
        first = work->next_over;
        if (!first)
            last = &first;
        pthread_mutex_unlock(&lock);
        wait_run(work);
        pthread_mutex_lock(&lock);
        idle++;
    }
    idle--;
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* One more thread, with the program's signals blocked. */
static bool spawn(void) {
    sigset_t all, old;
    pthread_attr_t attributes;
    pthread_t thread;
    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    int failed = pthread_create(&thread, &attributes, wait_main, NULL);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attributes);
    if (failed)
        sim_say("cannot start a thread that waits for the device: %s", strerror(failed));
    return !failed;
}

bool wait_start(struct work *work) {
    bool good = true;
    pthread_mutex_lock(&lock);
    if (idle)
        idle--;
    else
        good = spawn();
    if (good) {
        work->next_over = NULL;
        *last = work;
        last = &work->next_over;
        pthread_cond_signal(&filled);
    }
    pthread_mutex_unlock(&lock);
    return good;
}
