/* test_without_cuda.c: a process that never touches CUDA: nothing starts, nothing is loaded, no driver appears. Run with the hook
 * preloaded and without it: both must look the same. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "counting_gate.h"

static int threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    int count = 0;

    while (tasks && readdir(tasks))
        count++;
    closedir(tasks);
    return count - 2;
}

static int mapped(const char *what)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[1024];
    int found = 0;

    while (maps && fgets(line, sizeof line, maps))
        found |= strstr(line, what) != NULL;
    fclose(maps);
    return found;
}

static void fails_as_always(void *handle, const char *name, const char *where)
{
    dlerror();
    CHECK(!dlsym(handle, name), "%s found by %s", name, where);
    const char *error = dlerror();
    CHECK(error && strstr(error, "undefined symbol") && strstr(error, name), "dlerror after %s by %s: %s", name, where,
          error ? error : "nothing");
    CHECK(!dlerror(), "dlerror twice");
}

int main(int argc, char **argv)
{
    const char *other = argc > 1 ? argv[1] : NULL;
    struct counting *hook = dlsym(RTLD_DEFAULT, "counting");

    CHECK(hook || !getenv("LD_PRELOAD"), "the hook is not preloaded");
    fails_as_always(RTLD_DEFAULT, "cuInit", "RTLD_DEFAULT");
    fails_as_always(RTLD_DEFAULT, "cuNoSuchThing", "RTLD_DEFAULT");
    fails_as_always(RTLD_DEFAULT, "no_such_thing", "RTLD_DEFAULT");
    fails_as_always(RTLD_NEXT, "cuNoSuchThing", "RTLD_NEXT");
    fails_as_always(dlopen(NULL, RTLD_LAZY), "cuGraphLaunch", "the program's handle");
    /* Another interposer's function is there, driver or not, before us or after us. */
    if (dlsym(RTLD_DEFAULT, "second_launches")) {
        void *found = dlsym(RTLD_DEFAULT, "cuLaunchKernel");
        Dl_info info;
        CHECK(found && dladdr(found, &info), "the second interposer's cuLaunchKernel");
        if (argc > 2 && found)
            CHECK(strstr(info.dli_fname, argv[2]), "cuLaunchKernel is from %s, not %s", info.dli_fname, argv[2]);
    } else {
        fails_as_always(RTLD_DEFAULT, "cuLaunchKernel", "RTLD_DEFAULT");
    }
    void *malloc_here = dlsym(RTLD_DEFAULT, "malloc");
    CHECK(malloc_here && malloc_here == dlsym(RTLD_NEXT, "malloc"), "malloc");
    CHECK(dlvsym(RTLD_DEFAULT, "dlsym",
#ifdef __x86_64__
                 "GLIBC_2.2.5"
#else
                 "GLIBC_2.17"
#endif
                 ), "dlsym by its version");

    /* A library that has functions of such names, and nothing to do with CUDA. */
    if (other) {
        void *handle = dlopen(other, RTLD_NOW);
        CHECK(handle, "%s: %s", other, dlerror());
        int (*theirs)(int) = handle ? (int (*)(int))dlsym(handle, "cuLaunch") : NULL;
        int (*expected)(int) = handle ? (int (*)(int))dlsym(handle, "other_launch") : NULL;
        CHECK(theirs && theirs == expected && theirs(20) == 41, "another library's cuLaunch");
        fails_as_always(handle, "cuLaunchKernel", "another library's handle");
        int (*found)(void) = handle ? (int (*)(void))dlsym(handle, "other_finds") : NULL;
        CHECK(found && found() == 0, "another library finds by RTLD_DEFAULT");
    }

    CHECK(threads() == 1, "%d threads", threads());
    CHECK(!mapped("libcuda"), "a driver has been loaded");
    if (hook)
        CHECK(hook->started == 0 && hook->entered == 0, "something has started");
    return check_summary(hook ? "without CUDA, with the hook" : "without CUDA, without the hook");
}
