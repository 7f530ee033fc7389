/* test_peer.c: three devices in one process: what each may do with the others' memory, and that kernels are held to it. */
#include "driver_memory.h"

enum { DEVICES = 3 };

static CUcontext primary[DEVICES];
static CUmodule modules[DEVICES];

static void on(int device) { OK(cuCtxSetCurrent(primary[device])); }

/* A word of this device's memory with this in it. */
static CUdeviceptr cell(int device, unsigned value)
{
    CUdeviceptr at = 0;
    on(device);
    OK(cuMemAlloc_v2(&at, 64));
    put_word(at, value);
    return at;
}

/* In a fresh context of `device`: data[0] = data[0] * 2 + 1. What came of it; the context ends. `peer`: enabled first. */
static CUresult kernel_in(int device, CUdeviceptr data, CUcontext peer)
{
    CUcontext ctx, gone;
    CUmodule module;
    unsigned factor = 2, add = 1;
    void *params[] = {&data, &factor, &add};
    OK(cuCtxCreate_v2(&ctx, 0, device));
    if (peer)
        OK(cuCtxEnablePeerAccess(peer, 0));
    module = load();
    OK(cuLaunchKernel(function(module, "times"), 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    CUresult result = cuCtxSynchronize();
    OK(cuCtxPopCurrent_v2(&gone));
    OK(cuCtxDestroy_v2(ctx));
    return result;
}

static void test_rules(void)
{
    CUcontext ctx, gone;
    int value;
    OK(cuDeviceCanAccessPeer(&value, 0, 1));
    CHECK(value == 1, "%d", value);
    OK(cuDeviceCanAccessPeer(&value, 2, 2));
    CHECK(value == 0, "a device is no peer of itself");
    EXPECT(CUDA_ERROR_INVALID_DEVICE, cuDeviceCanAccessPeer(&value, 0, 3));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuDeviceCanAccessPeer(NULL, 0, 1));
    OK(cuDeviceGetP2PAttribute(&value, 2, 0, 1));
    CHECK(value == 1, "access is supported");
    EXPECT(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetP2PAttribute(&value, 2, 1, 1));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuDeviceGetP2PAttribute(&value, 9, 0, 1));
    on(0);
    EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuCtxEnablePeerAccess(primary[0], 0));
    EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuCtxEnablePeerAccess(NULL, 0));
    EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuCtxEnablePeerAccess((CUcontext)0x1234, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuCtxEnablePeerAccess(primary[1], 1));
    EXPECT(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, cuCtxDisablePeerAccess(primary[1]));
    EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuCtxDisablePeerAccess(NULL));
    OK(cuCtxEnablePeerAccess(primary[1], 0));
    EXPECT(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, cuCtxEnablePeerAccess(primary[1], 0));
    on(1);
    EXPECT(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, cuCtxDisablePeerAccess(primary[0]));     /* one way only */
    on(0);
    OK(cuCtxDisablePeerAccess(primary[1]));
    EXPECT(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, cuCtxDisablePeerAccess(primary[1]));
    OK(cuCtxCreate_v2(&ctx, 0, 0));
    EXPECT(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, cuCtxEnablePeerAccess(primary[0], 0));   /* of the same device */
    OK(cuCtxEnablePeerAccess(primary[1], 0));
    OK(cuCtxPopCurrent_v2(&gone));
    on(1);
    OK(cuCtxEnablePeerAccess(ctx, 0));
    OK(cuCtxDestroy_v2(ctx));
    EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuCtxDisablePeerAccess(ctx));
    OK(cuCtxCreate_v2(&gone, 0, 0));                                                    /* perhaps at the same place */
    OK(cuCtxPopCurrent_v2(&ctx));
    EXPECT(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, cuCtxDisablePeerAccess(gone));
    OK(cuCtxDestroy_v2(gone));
}

static void test_kernels(void)
{
    CUdeviceptr there = cell(1, 10), here = cell(0, 20), managed;
    EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, kernel_in(0, there, NULL));
    EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, kernel_in(1, here, NULL));
    on(1);
    CHECK(word(there) == 10, "it was written: %u", word(there));
    EXPECT(CUDA_SUCCESS, kernel_in(0, there, primary[1]));
    CHECK(word(there) == 21, "%u", word(there));
    EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, kernel_in(0, there, primary[2]));         /* another peer's */
    EXPECT(CUDA_SUCCESS, kernel_in(0, here, primary[2]));
    OK(cuMemAllocManaged(&managed, 64, CU_MEM_ATTACH_GLOBAL));
    put_word(managed, 1);
    EXPECT(CUDA_SUCCESS, kernel_in(2, managed, NULL));                           /* managed memory is everybody's */
    CHECK(*(unsigned *)(uintptr_t)managed == 3, "%u", *(unsigned *)(uintptr_t)managed);
    OK(cuMemFree_v2(managed));

    /* Many kernels and copies by turns: what one device may not touch is there again for the other. */
    unsigned a = 41, b = 21;
    for (int i = 0; i < 200; i++) {
        on(0);
        times(modules[0], "times", here, 3, 1, NULL);
        a = a * 3 + 1;
        on(1);
        times(modules[1], "times", there, 5, 2, NULL);
        b = b * 5 + 2;
        if (i % 9 == 0) {
            OK(cuMemcpyPeer(there, primary[1], here, primary[0], 4));
            OK(cuCtxSynchronize());
            on(0);
            OK(cuCtxSynchronize());
            OK(cuMemcpyPeer(there, primary[1], here, primary[0], 4));
            OK(cuCtxSynchronize());
            b = a;
        }
        if (i % 50 == 0) {              /* variables are written while another device's kernels run */
            CUmodule more = load();
            CUdeviceptr at;
            size_t bytes;
            OK(cuModuleGetGlobal_v2(&at, &bytes, more, "base"));
            CHECK(word(at) == 1000, "%u", word(at));
            OK(cuModuleUnload(more));
        }
    }
    CHECK(word(here) == a && word(there) == b, "%u (%u) %u (%u)", word(here), a, word(there), b);
    OK(cuMemFree_v2(there));
    OK(cuMemFree_v2(here));
}

/* Pools and mapped memory say for themselves which devices may use them. */
static void test_pools_and_mappings(void)
{
    CUmemoryPool pool;
    CUdeviceptr at, mapped;
    CUmemAccessDesc give = {{LOCATION_DEVICE, 0}, ACCESS_READWRITE}, read = {{LOCATION_DEVICE, 0}, ACCESS_READ}, take = {{LOCATION_DEVICE, 0}, ACCESS_NONE};
    CUmemLocation zero = {LOCATION_DEVICE, 0};
    int flags;
    on(1);
    OK(cuDeviceGetDefaultMemPool(&pool, 1));
    OK(cuMemAllocFromPoolAsync(&at, 64, pool, NULL));
    put_word(at, 1);
    EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, kernel_in(0, at, primary[1]));            /* peer access is not for pools */
    OK(cuMemPoolSetAccess(pool, &give, 1));
    OK(cuMemPoolGetAccess(&flags, pool, &zero));
    CHECK(flags == ACCESS_READWRITE, "%d", flags);
    EXPECT(CUDA_SUCCESS, kernel_in(0, at, NULL));
    EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, kernel_in(2, at, NULL));
    OK(cuMemPoolSetAccess(pool, &read, 1));
    EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, kernel_in(0, at, NULL));
    OK(cuMemPoolSetAccess(pool, &take, 1));
    EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, kernel_in(0, at, NULL));
    CHECK(word(at) == 3, "%u", word(at));
    OK(cuMemFreeAsync(at, NULL));

    CUmemAllocationProp prop = on_device(1);
    CUmemGenericAllocationHandle handle;
    OK(cuMemAddressReserve(&mapped, UNIT, 0, 0, 0));
    OK(cuMemCreate(&handle, UNIT, &prop, 0));
    OK(cuMemMap(mapped, UNIT, 0, handle, 0));
    CUmemAccessDesc both[] = {{{LOCATION_DEVICE, 1}, ACCESS_READWRITE}, {{LOCATION_DEVICE, 2}, ACCESS_READWRITE}};
    OK(cuMemSetAccess(mapped, UNIT, both, 2));
    put_word(mapped, 5);
    EXPECT(CUDA_SUCCESS, kernel_in(2, mapped, NULL));
    EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, kernel_in(0, mapped, primary[1]));
    both[1].flags = ACCESS_READ;
    OK(cuMemSetAccess(mapped, UNIT, both, 2));
    EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, kernel_in(2, mapped, NULL));
    EXPECT(CUDA_SUCCESS, kernel_in(1, mapped, NULL));
    CHECK(word(mapped) == 23, "%u", word(mapped));
    OK(cuMemUnmap(mapped, UNIT));
    OK(cuMemRelease(handle));
    OK(cuMemAddressFree(mapped, UNIT));
}

static void test_copies(void)
{
    enum { BYTES = 25000000 };
    CUdeviceptr here, there, near;
    CUevent before, after;
    float across = 0, within = 0;
    on(0);
    OK(cuMemAlloc_v2(&here, BYTES));
    OK(cuMemAlloc_v2(&near, BYTES));
    OK(cuMemsetD32_v2(here, 77, BYTES / 4));
    OK(cuEventCreate(&before, 0));
    OK(cuEventCreate(&after, 0));
    on(2);
    OK(cuMemAlloc_v2(&there, BYTES));
    on(0);
    OK(cuCtxSynchronize());
    OK(cuEventRecord(before, NULL));
    OK(cuMemcpyDtoDAsync_v2(there, here, BYTES, NULL));     /* by its addresses */
    OK(cuEventRecord(after, NULL));
    OK(cuEventSynchronize(after));
    OK(cuEventElapsedTime_v2(&across, before, after));
    OK(cuEventRecord(before, NULL));
    OK(cuMemcpyDtoDAsync_v2(near, here, BYTES, NULL));
    OK(cuEventRecord(after, NULL));
    OK(cuEventSynchronize(after));
    OK(cuEventElapsedTime_v2(&within, before, after));
    CHECK(across > 0.99f && across < 1.05f, "25 MB over a bus of 25 GB/s: %.3f ms", (double)across);
    CHECK(within < 0.2f, "25 MB within the device: %.3f ms", (double)within);
    on(2);
    CHECK(word(there + BYTES - 4) == 77, "%u", word(there + BYTES - 4));
    CUDA_MEMCPY3D_PEER shaped = {.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = there, .srcContext = primary[2], .srcPitch = 100,
                                 .dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = near, .dstContext = primary[0], .dstPitch = 200,
                                 .dstXInBytes = 8, .WidthInBytes = 40, .Height = 10, .Depth = 1};
    on(0);
    OK(cuMemsetD8_v2(near, 0, 4096));
    OK(cuMemcpy3DPeer(&shaped));
    CHECK(word(near + 8) == 77 && word(near + 9 * 200 + 8 + 36) == 77 && word(near + 9 * 200 + 48) == 0, "a block from one to the other");
    shaped.srcContext = NULL;
    EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuMemcpy3DPeer(&shaped));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpy3DPeer(NULL));
    EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuMemcpyPeer(there, primary[2], here, (CUcontext)0x99, 4));
    OK(cuMemFree_v2(here));
    OK(cuMemFree_v2(near));
    OK(cuMemFree_v2(there));
    OK(cuEventDestroy_v2(before));
    OK(cuEventDestroy_v2(after));
}

static void test_pointers(void)
{
    CUdeviceptr there = cell(2, 1);
    on(0);
    CHECK(attribute_of(there, P_ORDINAL) == 2 && attribute_of(there, P_CONTEXT) == (unsigned long long)(uintptr_t)primary[2], "whose it is");
    CHECK(attribute_of(there, P_ACCESS) == ACCESS_NONE, "no access");
    OK(cuCtxEnablePeerAccess(primary[2], 0));
    CHECK(attribute_of(there, P_ACCESS) == ACCESS_READWRITE, "access");
    OK(cuCtxDisablePeerAccess(primary[2]));
    int kind[] = {P_TYPE, P_ORDINAL, P_MANAGED, P_START};
    unsigned type;
    int ordinal;
    unsigned char managed;
    CUdeviceptr start_of;
    void *data[] = {&type, &ordinal, &managed, &start_of};
    OK(cuPointerGetAttributes(4, kind, data, there + 3));
    CHECK(type == CU_MEMORYTYPE_DEVICE && ordinal == 2 && !managed && start_of == there, "all at once");
    OK(cuPointerGetAttributes(4, kind, data, 0x1000));                           /* of no memory: nothing, but no error */
    CHECK(type == 0 && ordinal == -2 && !managed && start_of == 0, "of nothing");
    unsigned set = 1;
    OK(cuPointerSetAttribute(&set, P_SYNC, there));
    CHECK(attribute_of(there, P_SYNC) == 1, "not set");
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuPointerSetAttribute(&set, P_TYPE, there));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuPointerSetAttribute(&set, P_SYNC, 0x1000));
    OK(cuMemFree_v2(there));
}

int main(void)
{
    OK(cuInit(0));
    for (int i = 0; i < DEVICES; i++) {
        OK(cuDevicePrimaryCtxRetain(&primary[i], i));
        on(i);
        modules[i] = load();
    }
    size_t before[DEVICES];
    for (int i = 0; i < DEVICES; i++) {
        on(i);
        before[i] = left();
    }
    test_rules();
    test_kernels();
    test_pools_and_mappings();
    test_copies();
    test_pointers();
    for (int i = 0; i < DEVICES; i++) {
        on(i);
        OK(cuCtxSynchronize());
        CHECK(left() == before[i], "device %d: %zd bytes are lost", i, (ssize_t)(before[i] - left()));
    }
    return check_summary("peers");
}
