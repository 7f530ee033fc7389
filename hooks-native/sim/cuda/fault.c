/* fault.c: a kernel that reads or writes outside its memory must become CUDA_ERROR_ILLEGAL_ADDRESS, as on the hardware, not the
 * end of the program. The compute thread notes where to go on, the signal handler goes there; faults of other threads
 * go to whoever handled them before. */
#undef _FORTIFY_SOURCE                  /* its longjmp refuses to leave a kernel that runs on a stack of its own */
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "work.h"

static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
enum { SIGNALS = sizeof signals / sizeof *signals };
static struct sigaction previous[SIGNALS];

static sigjmp_buf resume;
static pthread_t compute_thread;
static volatile sig_atomic_t guarded;
static void *volatile fault_address;
static __thread int chaining __attribute__((tls_model("initial-exec")));

/* Hands a signal that is not ours to the handler that was there before. */
static void chain(int number, siginfo_t *info, void *context) {
    const struct sigaction *old = &previous[0];
    for (int i = 0; i < SIGNALS; i++)
        if (signals[i] == number)
            old = &previous[i];
    if (old->sa_flags & SA_SIGINFO) {
        old->sa_sigaction(number, info, context);
        return;
    }
    if (old->sa_handler != SIG_DFL && old->sa_handler != SIG_IGN) {
        old->sa_handler(number);
        return;
    }
    struct sigaction fallback = {.sa_handler = SIG_DFL};        /* the instruction faults again, and ends the process */
    sigaction(number, &fallback, NULL);
    if (info->si_code <= 0)
        raise(number);
}

static void handler(int number, siginfo_t *info, void *context) {
    if (guarded && pthread_equal(pthread_self(), compute_thread)) {
        guarded = 0;
        fault_address = info->si_addr;
        siglongjmp(resume, number);
    }
    if (chaining++) {                   /* the handler before us hands over to us in turn: nobody wants it */
        struct sigaction fallback = {.sa_handler = SIG_DFL};
        sigaction(number, &fallback, NULL);
        return;
    }
    chain(number, info, context);
    chaining = 0;
}

/* Puts our handlers in front, again if the program has set its own meanwhile. */
static void arm(void) {
    for (int i = 0; i < SIGNALS; i++) {
        struct sigaction now;
        if (sigaction(signals[i], NULL, &now) || ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == handler))
            continue;
        previous[i] = now;
        struct sigaction mine = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
        sigemptyset(&mine.sa_mask);
        sigaction(signals[i], &mine, NULL);
    }
}

void fault_thread_start(void) {
    compute_thread = pthread_self();
    size_t size = 64u << 10;
    stack_t stack = {.ss_sp = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), .ss_size = size};
    if (stack.ss_sp != MAP_FAILED)
        sigaltstack(&stack, NULL);
}

/* What a signal within a kernel means in the words of the driver API. */
static CUresult meaning(int number) {
    if (number == SIGILL)
        return CUDA_ERROR_ILLEGAL_INSTRUCTION;
    return number == SIGFPE ? CUDA_ERROR_LAUNCH_FAILED : CUDA_ERROR_ILLEGAL_ADDRESS;
}

CUresult fault_guarded(CUresult (*compute)(const struct work *work), const struct work *work) {
    arm();
    int number = sigsetjmp(resume, 0);
    if (number) {
        bool kernel = work->kind == WORK_KERNEL;
        const char *what = kernel ? "kernel " : "a copy or memset", *name = kernel ? work->kernel.desc->name : "";
        if (fault_address)
            sim_say("%s%s: %s at address %p; the context is lost", what, name, strsignal(number), fault_address);
        else
            sim_say("%s%s: %s, at no address that could be one; the context is lost", what, name, strsignal(number));
        return meaning(number);
    }
    guarded = 1;
    CUresult result = compute(work);
    guarded = 0;
    return result;
}
