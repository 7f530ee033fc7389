/* test_second.c: the hook beside another interposer, in both orders of LD_PRELOAD: everybody is called once, nobody for ever. Linked
 * with the driver. */
#define _GNU_SOURCE
#include "ways.h"

typedef CUresult launch_fn(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
                           unsigned int, CUstream, void **, void **);
extern launch_fn cuLaunchKernel;
#define LAUNCH(f) f(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL)

int main(void)
{
    struct ways ways = open_ways();
    uint64_t *second = dlsym(RTLD_DEFAULT, "second_launches");
    uint64_t *looked_up = dlsym(RTLD_DEFAULT, "second_look_ups");

    if (!ways.hook || !second) {
        fprintf(stderr, "the hook and the second interposer are not both preloaded\n");
        return 1;
    }
    uint64_t before = *looked_up;
    for (unsigned int i = 1; i <= 3; i++) {
        CHECK(LAUNCH(cuLaunchKernel) == 0, "launch");
        CHECK(*second == i, "the second interposer was called %d times, not %u", (int)*second, i);
        CHECK(ways.hook->entered == i, "the gate was entered %d times, not %u", (int)ways.hook->entered, i);
        CHECK(ways.driver.calls("cuLaunchKernel") == i, "the driver was called %d times, not %u",
              (int)ways.driver.calls("cuLaunchKernel"), i);
    }
    launch_fn *launch = (launch_fn *)dlsym(ways.handle, "cuLaunchKernel");
    CHECK(LAUNCH(launch) == 0 && ways.hook->entered == 4 && ways.driver.calls("cuLaunchKernel") == 4, "by its handle: %d, %d",
          (int)ways.hook->entered, (int)ways.driver.calls("cuLaunchKernel"));
    CHECK(*second == 3, "who asks the driver's handle passes the second interposer by, hook or not");
    if (getenv("SECOND_DLSYM"))
        CHECK(*looked_up > before, "the second interposer's dlsym was never asked");
    /* RTLD_NEXT from the program: the first after it. (A dlsym in C, as the second interposer's, loses the caller by itself.) */
    void *next = dlsym(RTLD_NEXT, "cuLaunchKernel");
    if (!getenv("SECOND_DLSYM"))
        CHECK(next == (void *)cuLaunchKernel, "RTLD_NEXT gives %p, not %p", next, (void *)cuLaunchKernel);
    void *next_malloc = dlsym(RTLD_NEXT, "malloc");
    CHECK(next_malloc != NULL, "RTLD_NEXT of malloc");
    return check_summary("second interposer");
}
