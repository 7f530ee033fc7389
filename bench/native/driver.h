/* driver.h: what the load generators share: entries of whatever driver dlopen finds, and the clock. */
#ifndef BENCH_DRIVER_H
#define BENCH_DRIVER_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef int (*launch_fn)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);

/* Ends the program where the driver answers an error: a bench measures nothing then. */
#define CALL(name, ...)                                                                  \
    do {                                                                                 \
        int code_ = ((int (*)())driver_entry(#name))(__VA_ARGS__);                       \
        if (code_ != 0) {                                                                \
            fprintf(stderr, "load: %s answered %d\n", #name, code_);                     \
            exit(1);                                                                     \
        }                                                                                \
    } while (0)

/* CUmemAllocationProp and CUmemAccessDesc of cuda.h: pinned, of the first device; read and written. */
struct place { int type, id; };
struct properties { int type, handle_types; struct place place; void *win32; unsigned char flags[8]; };
struct access { struct place place; int flags; };
#define OF_DEVICE (&(const struct properties){.type = 1, .place = {1, 0}})
#define BOTH_WAYS (&(const struct access){.place = {1, 0}, .flags = 3})

static inline void *driver_entry(const char *name)
{
    static void *library;
    if (!library && !(library = dlopen("libcuda.so.1", RTLD_NOW))) {
        fprintf(stderr, "load: %s\n", dlerror());
        exit(1);
    }
    void *address = dlsym(library, name);
    if (!address) {
        fprintf(stderr, "load: the driver has no %s\n", name);
        exit(1);
    }
    return address;
}

static inline long long clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static inline void sleep_until(long long ns)
{
    struct timespec at = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL))
        ;
}

#endif
