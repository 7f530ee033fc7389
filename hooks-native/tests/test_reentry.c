/* test_reentry.c: come back through our symbols: a driver that calls itself through the global symbol, a driver that looks entries up
 * while it is asked for some, look-ups that give other pointers than the exports, a fork in the middle, and first calls of
 * many threads at once. Linked with the driver; run with the hook preloaded, once per way: the argument. */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ways.h"

typedef CUresult launch_fn(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
                           unsigned int, CUstream, void **, void **);
extern launch_fn cuLaunchKernel;
extern CUresult cuGraphLaunch(CUgraphExec, CUstream);

#define LAUNCH(f) f(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL)
#define THREADS 8
#define LAUNCHES 1000

static struct ways ways;
static pthread_barrier_t barrier;

static void *thread(void *unused)
{
    (void)unused;
    pthread_barrier_wait(&barrier);
    /* Half by look-up, which may be what finds the driver, half by symbol. */
    launch_fn *launch = (uintptr_t)unused % 2 ? (launch_fn *)dlsym(ways.handle, "cuLaunchKernel") : cuLaunchKernel;
    CUresult bad = 0;
    for (int i = 0; i < LAUNCHES; i++)
        bad |= LAUNCH(launch);
    return (void *)(uintptr_t)bad;
}

static void many_threads(void)
{
    pthread_t threads[THREADS];

    pthread_barrier_init(&barrier, NULL, THREADS);
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, thread, (void *)i) == 0, "thread");
    for (int i = 0; i < THREADS; i++) {
        void *bad;
        pthread_join(threads[i], &bad);
        CHECK(!bad, "a launch failed");
    }
    CHECK(ways.hook->entered == THREADS * LAUNCHES, "%d entered", (int)ways.hook->entered);
    CHECK(ways.hook->left == THREADS * LAUNCHES, "%d left", (int)ways.hook->left);
    CHECK(ways.driver.calls("cuLaunchKernel") == THREADS * LAUNCHES, "the driver saw %d",
          (int)ways.driver.calls("cuLaunchKernel"));
}

static void reenter(void)
{
    CHECK(LAUNCH(cuLaunchKernel) == 0, "launch");
    CHECK(ways.driver.calls("cuGraphLaunch") == 1, "the driver did not come back");
    CHECK(ways.hook->entered == 1 && ways.hook->left == 1, "%d entered, %d left", (int)ways.hook->entered,
          (int)ways.hook->left);
    CHECK(cuGraphLaunch(NULL, NULL) == 0 && ways.hook->entered == 2, "afterwards");
}

static void alias(void)
{
    proc_v2 *v2 = (proc_v2 *)dlsym(ways.handle, "cuGetProcAddress_v2");
    launch_fn *launch = (launch_fn *)by_v2(v2, "cuLaunchKernel", 12000);

    CHECK(launch && LAUNCH(launch) == 0, "launch");
    CHECK(ways.hook->entered == 1, "%d entered", (int)ways.hook->entered);
    CHECK(ways.driver.calls("cuLaunchKernel") == 1, "the driver saw %d", (int)ways.driver.calls("cuLaunchKernel"));
}

static void in_child(void)
{
    launch_fn *launch = (launch_fn *)dlsym(ways.handle, "cuLaunchKernel");

    LAUNCH(launch);
    pid_t child = fork();
    if (child == 0) {
        uint64_t before = ways.hook->entered;
        LAUNCH(launch);
        LAUNCH(cuLaunchKernel);
        LAUNCH(((launch_fn *)dlsym(ways.handle, "cuLaunchKernel")));
        _exit(ways.hook->entered == before + 3 && ways.driver.calls("cuLaunchKernel") == 4 ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child's status is %d", status);
    CHECK(LAUNCH(launch) == 0 && ways.hook->entered == 2, "the parent goes on");
}

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "";

    ways = open_ways();
    if (!ways.hook) {
        fprintf(stderr, "the hook with the counting gate is not preloaded\n");
        return 1;
    }
    if (!strcmp(way, "reenter"))
        reenter();
    else if (!strcmp(way, "alias"))
        alias();
    else if (!strcmp(way, "fork"))
        in_child();
    else if (!strcmp(way, "threads"))
        many_threads();
    else
        CHECK(0, "unknown way \"%s\"", way);
    return check_summary(way);
}
