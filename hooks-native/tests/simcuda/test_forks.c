/* test_forks.c: a program forks while another thread initialises the driver, or is in the middle of a call. The child gets an answer at once: it may
 * use a driver of its own if none had been begun before, and else it is told that there is none. */
#include <pthread.h>
#include <time.h>

#include "two.h"

enum { SUBJECTS = 40, CHILDREN = 6 };
enum { HAS_OWN = 1, HAS_NONE = 2, WRONG = 4 };

static void *use(void *unused)
{
    CUcontext ctx;
    CUdeviceptr at;
    (void)unused;
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&ctx, 0) || cuCtxSetCurrent(ctx))
        _exit(WRONG);
    for (;;)
        if (!cuMemAlloc_v2(&at, 1 << 20))
            cuMemFree_v2(at);
    return NULL;
}

static int child(void)
{
    CUcontext ctx;
    CUdeviceptr at;
    alarm(60);                          /* a child that hangs */
    CUresult result = cuInit(0);
    if (!result)
        return cuDevicePrimaryCtxRetain(&ctx, 0) || cuCtxSetCurrent(ctx) || cuMemAlloc_v2(&at, 64) ? WRONG : HAS_OWN;
    return result == CUDA_ERROR_NOT_INITIALIZED && cuMemAlloc_v2(&at, 64) == CUDA_ERROR_NOT_INITIALIZED ? HAS_NONE : WRONG;
}

static int subject(unsigned seed)
{
    pthread_t thread;
    int seen = 0, status;
    pthread_create(&thread, NULL, use, NULL);
    for (int i = 0; i < CHILDREN; i++) {
        usleep((unsigned)rand_r(&seed) % 4000);         /* the instant of the fork: the subject of the test */
        pid_t pid = fork();
        if (!pid)
            _exit(child());
        waitpid(pid, &status, 0);
        seen |= WIFEXITED(status) ? WEXITSTATUS(status) : WRONG;
    }
    return seen;
}

int main(int argc, char **argv)
{
    unsigned seed = argc > 1 ? (unsigned)atoi(argv[1]) : (unsigned)time(NULL);
    int seen = 0, status;
    printf("seed %u\n", seed);
    fflush(stdout);
    /* Rules of the node, so that each call asks the device process. */
    setenv("GPUD_SIM_FAULTS", "all cuMemAlloc, cuMemFree: stall 0ms at 999999999", 1);
    for (int i = 0; i < SUBJECTS; i++) {
        unsigned own = (unsigned)rand_r(&seed);
        pid_t pid = fork();
        if (!pid)
            _exit(subject(own));
        waitpid(pid, &status, 0);
        CHECK(WIFEXITED(status) && !(WEXITSTATUS(status) & WRONG), "%x", (unsigned)status);
        seen |= WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    }
    CHECK(seen & HAS_OWN && seen & HAS_NONE, "forks at other moments than before and after: %d", seen);
    return check_summary("forks");
}
