/* other.c: a library with a function that happens to be called cuLaunch. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

#define EXPORT __attribute__((visibility("default")))
EXPORT int other_launch(int x);
EXPORT int cuLaunch(int x) __attribute__((alias("other_launch")));
EXPORT int other_finds(void);

EXPORT int other_launch(int x)
{
    return 2 * x + 1;
}

/* What this library sees globally and in itself: its own, but no driver's. */
EXPORT int other_finds(void)
{
    void *own = dlsym(RTLD_DEFAULT, "cuLaunch");
    void *drivers = dlsym(RTLD_DEFAULT, "cuGraphLaunch");
    return (own != (void *)other_launch) + 2 * (drivers != NULL);
}
