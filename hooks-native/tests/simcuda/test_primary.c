/* test_primary.c: the primary context: one for all who retain it, reset under them, and never destroyed by name. */
#include "driver_memory.h"

static int active(void)
{
    unsigned flags;
    int on = -1;
    OK(cuDevicePrimaryCtxGetState(0, &flags, &on));
    return on;
}

int main(void)
{
    CUcontext first = NULL, second = NULL, got;
    CUdeviceptr at;
    unsigned flags;
    int on;
    OK(cuInit(0));
    CHECK(active() == 0, "active before anybody retained it");
    EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuDevicePrimaryCtxRelease_v2(0));
    EXPECT(CUDA_ERROR_INVALID_DEVICE, cuDevicePrimaryCtxRetain(&first, 9));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuDevicePrimaryCtxRetain(NULL, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuDevicePrimaryCtxSetFlags_v2(0, 0x10000));
    OK(cuDevicePrimaryCtxSetFlags_v2(0, 4));
    OK(cuDevicePrimaryCtxRetain(&first, 0));
    OK(cuDevicePrimaryCtxRetain(&second, 0));
    CHECK(first == second && active() == 1, "one context for all");
    OK(cuCtxGetCurrent(&got));
    CHECK(got == NULL, "retaining makes it current");
    OK(cuCtxSetCurrent(first));
    OK(cuCtxGetFlags(&flags));
    CHECK(flags & 4, "the flags that were set before: %x", flags);
    OK(cuDevicePrimaryCtxSetFlags_v2(0, 2));             /* while it is active too */
    OK(cuDevicePrimaryCtxGetState(0, &flags, &on));
    CHECK(flags == 2, "%x", flags);
    EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuCtxDestroy_v2(first));
    size_t before = left();
    OK(cuMemAlloc_v2(&at, 8 * MIB));
    OK(cuDevicePrimaryCtxRelease_v2(0));
    CHECK(active() == 1, "released by one of two");
    /* Reset: all that it held is gone, it is not active, but it is still retained once. */
    OK(cuDevicePrimaryCtxReset_v2(0));
    CHECK(active() == 0, "active after a reset");
    OK(cuCtxGetCurrent(&got));
    CHECK(got == first, "a reset takes it off nobody's stack");
    EXPECT(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuMemAlloc_v2(&at, 64));
    EXPECT(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuCtxSynchronize());
    OK(cuDevicePrimaryCtxRetain(&second, 0));
    CHECK(second == first && active() == 1, "the same handle, active again");
    CHECK(left() == before, "%zd bytes outlived the reset", (ssize_t)(before - left()));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(at));
    OK(cuDevicePrimaryCtxRelease_v2(0));
    CHECK(active() == 1, "the retain from before the reset counts");
    OK(cuDevicePrimaryCtxReset_v2(0));
    OK(cuDevicePrimaryCtxRelease_v2(0));                 /* safe after a reset */
    EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuDevicePrimaryCtxRelease_v2(0));
    CHECK(active() == 0, "released by all");
    OK(cuDevicePrimaryCtxReset_v2(0));                   /* nothing to reset */
    /* The last release ends it, and what it held. */
    OK(cuDevicePrimaryCtxRetain(&second, 0));
    CHECK(second == first && left() == before, "as new");
    OK(cuMemAlloc_v2(&at, 8 * MIB));
    OK(cuDevicePrimaryCtxRelease_v2(0));
    EXPECT(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuMemAlloc_v2(&at, 64));
    OK(cuCtxPopCurrent_v2(&got));
    CHECK(got == first, "popped another one");
    EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuMemAlloc_v2(&at, 64));
    return check_summary("primary context");
}
