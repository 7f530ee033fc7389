/* test_disabled.c: GPUD_DISABLE=1 is a hard bypass. Linked with the driver; run with the hook preloaded. With an argument, the value is
 * not 1: the hook must work. */
#include "ways.h"

extern CUresult cuLaunchKernel(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
                               unsigned int, CUstream, void **, void **);
extern CUresult cuInit(unsigned int);

int main(int argc, char **argv)
{
    struct ways ways = open_ways();
    uint64_t expected = argc > 1;

    (void)argv;
    CHECK(ways.hook, "the hook is not preloaded");
    CHECK(cuInit(0) == 0, "cuInit");
    CHECK(cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) == 0, "launch");
    ways.driver.answer("cuLaunchKernel", CUDA_ERROR_LAUNCH_FAILED);
    CHECK(cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) == CUDA_ERROR_LAUNCH_FAILED, "failing launch");
    CHECK(ways.driver.calls("cuLaunchKernel") == 2, "the driver saw %d launches", (int)ways.driver.calls("cuLaunchKernel"));
    CHECK(ways.hook->started == expected && ways.hook->entered == 2 * expected && ways.hook->initialised == expected,
          "started %d, entered %d", (int)ways.hook->started, (int)ways.hook->entered);
    int own = dlsym(ways.handle, "cuLaunchKernel") == ways.driver.entry("cuLaunchKernel");
    CHECK(own == !expected, "dlsym gives %s entry", own ? "the driver's" : "our");
    proc_v2 *v2 = (proc_v2 *)dlsym(ways.handle, "cuGetProcAddress_v2");
    own = by_v2(v2, "cuLaunchKernel", 4000) == ways.driver.entry("cuLaunchKernel");
    CHECK(own == !expected, "cuGetProcAddress gives %s entry", own ? "the driver's" : "our");
    return check_summary("GPUD_DISABLE");
}
