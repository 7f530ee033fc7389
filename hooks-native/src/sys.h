/* sys.h: the few system calls of the hook that libc does not wrap. */
#ifndef GPUD_SYS_H
#define GPUD_SYS_H

#include <errno.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define GPUD_MICROSECOND UINT64_C(1000)
#define GPUD_MILLISECOND UINT64_C(1000000)
#define GPUD_SECOND UINT64_C(1000000000)
#define GPUD_NEVER UINT64_MAX

/* CLOCK_MONOTONIC, nanoseconds. */
static inline uint64_t gpud_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * GPUD_SECOND + (uint64_t)t.tv_nsec;
}

static inline uint64_t gpud_sum_to(uint64_t a, uint64_t b)  /* a + b, not beyond GPUD_NEVER */
{
    return a > GPUD_NEVER - b ? GPUD_NEVER : a + b;
}

static inline struct timespec gpud_timespec(uint64_t ns)
{
    return (struct timespec){ .tv_sec = (time_t)(ns / GPUD_SECOND), .tv_nsec = (long)(ns % GPUD_SECOND) };
}

/* Sleeps while *word == seen, until `until_ns` at the latest. 0, or the errno of futex(2). `shared`: the word is in a page. */
static inline int gpud_futex_wait(const uint32_t *word, uint32_t seen, uint64_t until_ns, bool shared)
{
    struct timespec until = gpud_timespec(until_ns);
    int op = FUTEX_WAIT_BITSET | (shared ? 0 : FUTEX_PRIVATE_FLAG);
    int saved = errno;
    int failure = syscall(SYS_futex, word, op, seen, &until, NULL, FUTEX_BITSET_MATCH_ANY) == 0 ? 0 : errno;
    errno = saved;
    return failure;
}

static inline void gpud_futex_wake(const uint32_t *word, bool shared)
{
    int saved = errno;
    syscall(SYS_futex, word, FUTEX_WAKE | (shared ? 0 : FUTEX_PRIVATE_FLAG), INT32_MAX, NULL, NULL, 0);
    errno = saved;
}

/* Registers this process for gpud_barrier(); false where the kernel refuses. */
static inline bool gpud_barrier_register(void)
{
    return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

/* Every other thread of the process passes a full fence before this returns. */
static inline bool gpud_barrier(void)
{
    return syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
}

static inline void gpud_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
