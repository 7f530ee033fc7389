/* turns loop COUNT | turns hold COUNT HOLD_US REST_US | turns bare-loop COUNT | turns bare-hold COUNT HOLD_US REST_US FILE INDEX: turns by gpud.h.
 *
 * loop  COUNT times acquire and release, nobody else there; prints the nanoseconds of each pair.
 * hold  waits for a line on stdin, then COUNT turns of HOLD_US each, and REST_US after each; prints `BEGIN END` of each, CLOCK_MONOTONIC ns.
 * bare  the contrast, without gpud: loop with a mutex in shared memory; hold with a semaphore for each of two processes in FILE, which
 *       hand over to each other. Nothing that excludes processes by waking them can be much faster on this machine.
 * Says `ready PID` first, with a context on the device. */
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "driver.h"
#include "gpud.h"

static int bare, me;
static pthread_mutex_t *mutex;
static sem_t *turn;     /* of each of the two */

static void *shared(int fd, size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);
    if (at == MAP_FAILED) {
        perror("turns");
        exit(1);
    }
    return at;
}

static void make_mutex(void)
{
    pthread_mutexattr_t kind;
    mutex = shared(-1, sizeof *mutex);
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(mutex, &kind);
}

static void take(void)
{
    if (bare && turn)
        while (sem_wait(&turn[me]))
            ;
    else if (bare)
        pthread_mutex_lock(mutex);
    else {
        int code = gpud_acquire(0, 60000000000ull);
        if (code != GPUD_OK) {
            fprintf(stderr, "turns: %s\n", gpud_error_text(code));
            exit(1);
        }
    }
}

static void give(void)
{
    if (bare && turn)
        sem_post(&turn[!me]);
    else if (bare)
        pthread_mutex_unlock(mutex);
    else if (gpud_release(0) != GPUD_OK)
        exit(1);
}

static void loop(long count)
{
    for (long i = 0; i < count; i++) {
        long long begin = clock_ns(CLOCK_MONOTONIC);
        take();
        give();
        printf("%lld\n", clock_ns(CLOCK_MONOTONIC) - begin);
    }
}

static void hold(long count, long long hold_ns, long long rest_ns)
{
    long long (*times)[2] = calloc((size_t)count, sizeof *times);
    for (long i = 0; times && i < count; i++) {
        take();
        times[i][0] = clock_ns(CLOCK_MONOTONIC);
        sleep_until(times[i][0] + hold_ns);
        times[i][1] = clock_ns(CLOCK_MONOTONIC);
        give();
        if (rest_ns)
            sleep_until(times[i][1] + rest_ns);
    }
    for (long i = 0; times && i < count; i++)
        printf("%lld %lld\n", times[i][0], times[i][1]);
}

int main(int argc, char **argv)
{
    const char *what = argc > 2 ? argv[1] : "";
    bare = !strncmp(what, "bare-", 5);
    what += 5 * bare;
    int loops = !strcmp(what, "loop") && argc == 3, holds = !strcmp(what, "hold") && argc == (bare ? 7 : 5);
    if (!loops && !holds) {
        fprintf(stderr, "usage: turns [bare-]loop COUNT, turns hold COUNT HOLD_US REST_US\n"
                        "       turns bare-hold COUNT HOLD_US REST_US FILE INDEX\n");
        return 2;
    }
    if (bare && loops)
        make_mutex();
    if (bare && holds) {
        int fd = open(argv[5], O_RDWR);
        me = atoi(argv[6]) != 0;
        if (fd < 0 || ftruncate(fd, 4096)) {
            perror(argv[5]);
            return 1;
        }
        turn = shared(fd, 4096);
        if (me == 0) {
            sem_init(&turn[0], 1, 1);
            sem_init(&turn[1], 1, 0);
        }
    }
    if (!bare) {
        void *context;
        CALL(cuInit, 0u);
        CALL(cuCtxCreate_v2, &context, 0u, 0);
    }
    printf("ready %d\n", (int)getpid());
    fflush(stdout);
    if (holds && getchar() == EOF)
        return 1;
    if (loops)
        loop(atol(argv[2]));
    else
        hold(atol(argv[2]), atol(argv[3]) * 1000ll, atol(argv[4]) * 1000ll);
    return 0;
}
