/* compute.c: one thread a process computes all work in the order of submission and reports it. It never waits for the device,
 * except where a host function is due, so it can only be ahead of the modelled time or late (an overrun, which the device
 * process counts). */
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "compute.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER;
static struct work *head, **tail = &head;
static bool asleep, started;

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

/* Host functions run here once the work before them is done; what comes after them in any stream waits. */
static void run_call(struct work *work) {
    struct call_work *call = &work->call;
    if (call->after)
        sim_wait(sim.link, work->queue, call->after);
    int error = work->ctx->error;
    if (call->callback)
        call->callback(call->stream, error, call->data);
    else if (!error)
        call->fn(call->data);
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

static void run(struct work *work) {
    if (work->kind == WORK_CALL) {
        run_call(work);
    } else if (!work->ctx->error) {
        CUresult result = fault_guarded(compute, work);
        if (result)
            ctx_fail(work->ctx, result);
    }
    sim_computed(sim.link, work->queue, work->ticket);
    work_free(work);
}

static void *compute_main(void *unused) {
    (void)unused;
    pthread_setname_np(pthread_self(), "gpud-sim-run");
    fault_thread_start();
    for (;;) {
        pthread_mutex_lock(&lock);
        while (!head) {
            asleep = true;
            pthread_cond_wait(&filled, &lock);
        }
        asleep = false;
        struct work *work = head;
        head = NULL;
        tail = &head;
        pthread_mutex_unlock(&lock);
        while (work) {
            struct work *next = work->next;
            run(work);
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

void compute_push(struct work *work) {
    work->next = NULL;
    pthread_mutex_lock(&lock);
    *tail = work;
    tail = &work->next;
    if (asleep) {
        asleep = false;
        pthread_cond_signal(&filled);
    }
    pthread_mutex_unlock(&lock);
}
