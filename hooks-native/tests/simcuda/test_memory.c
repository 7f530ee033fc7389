/* test_memory.c: devices, contexts, memory and copies, in good order and with every kind of bad input. */
#include <string.h>

#include "driver.h"

static void test_before_init(void)
{
    CUdeviceptr at;
    CUcontext ctx;
    int n;
    EXPECT(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGetCount(&n));
    EXPECT(CUDA_ERROR_NOT_INITIALIZED, cuCtxGetCurrent(&ctx));
    EXPECT(CUDA_ERROR_NOT_INITIALIZED, cuMemAlloc_v2(&at, 1));
    EXPECT(CUDA_ERROR_NOT_INITIALIZED, cuCtxSynchronize());
    EXPECT(CUDA_ERROR_NOT_INITIALIZED, cuStreamSynchronize(NULL));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuInit(1));
    OK(cuDriverGetVersion(&n));
    CHECK(n == 13000, "version %d", n);
}

static void test_device(void)
{
    CUdevice device;
    int n = 0;
    char name[64], bus[16];
    size_t total;
    CUuuid uuid, none = {{0}};
    OK(cuDeviceGetCount(&n));
    CHECK(n == 1, "%d devices", n);
    EXPECT(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet(&device, 1));
    EXPECT(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet(&device, -1));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuDeviceGet(NULL, 0));
    OK(cuDeviceGetName(name, sizeof name, 0));
    CHECK(!strcmp(name, "gpud test device"), "%s", name);
    OK(cuDeviceGetName(name, 5, 0));
    CHECK(!strcmp(name, "gpud"), "%s", name);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuDeviceGetName(name, 0, 0));
    OK(cuDeviceGetUuid_v2(&uuid, 0));
    CHECK(memcmp(&uuid, &none, sizeof uuid), "the UUID is all zeroes");
    OK(cuDeviceTotalMem_v2(&total, 0));
    CHECK(total == (size_t)1 << 30, "%zu bytes", total);
    OK(cuDeviceGetPCIBusId(bus, sizeof bus, 0));
    OK(cuDeviceGetByPCIBusId(&device, bus));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuDeviceGetByPCIBusId(&device, "what"));
    const struct { int attribute, value; } known[] = {{1, 1024}, {10, 32}, {16, 108}, {75, 8}, {76, 0}, {115, 1}, {8, 49152}, {97, 166912}, {106, 32}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        OK(cuDeviceGetAttribute(&n, known[i].attribute, 0));
        CHECK(n == known[i].value, "attribute %d is %d", known[i].attribute, n);
    }
    for (int i = 1; i <= 147; i++)
        OK(cuDeviceGetAttribute(&n, i, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuDeviceGetAttribute(&n, 0, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuDeviceGetAttribute(&n, 100000, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuDeviceGetAttribute(NULL, 1, 0));
    EXPECT(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetAttribute(&n, 1, 7));
}

static void test_contexts(CUcontext primary)
{
    CUcontext a, b, out;
    CUdevice device;
    unsigned version, flags;
    int active, least, greatest;
    size_t limit;
    OK(cuCtxCreate_v2(&a, 0, 0));
    OK(cuCtxCreate_v4(&b, NULL, 0, 0));
    OK(cuCtxGetCurrent(&out));
    CHECK(out == b, "the newest context is not current");
    OK(cuCtxPopCurrent_v2(&out));
    CHECK(out == b, "popped another one");
    OK(cuCtxPushCurrent_v2(b));
    OK(cuCtxGetDevice(&device));
    OK(cuCtxGetApiVersion(b, &version));
    OK(cuCtxGetLimit(&limit, 0));
    EXPECT(CUDA_ERROR_UNSUPPORTED_LIMIT, cuCtxGetLimit(&limit, 99));
    OK(cuCtxGetStreamPriorityRange(&least, &greatest));
    CHECK(least == 0 && greatest < 0, "%d … %d", least, greatest);
    OK(cuCtxDestroy_v2(b));
    OK(cuCtxGetCurrent(&out));
    CHECK(out == a, "destroying the current context uncovers the one below");
    EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuCtxDestroy_v2(b));
    EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuCtxPushCurrent_v2(b));
    EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuCtxPushCurrent_v2((CUcontext)0x1234));
    EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuCtxDestroy_v2(NULL));
    EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuCtxDestroy_v2(primary));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuCtxCreate_v2(&b, 0x1000, 0));
    EXPECT(CUDA_ERROR_INVALID_DEVICE, cuCtxCreate_v2(&b, 0, 3));
    OK(cuCtxDestroy_v2(a));
    OK(cuCtxGetCurrent(&out));
    CHECK(out == primary, "the primary context is not current again");
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    CHECK(active == 1, "the primary context is not active");
    /* Contexts take memory of the device until there is none. */
    CUcontext many[64];
    int made = 0;
    while (made < 64 && cuCtxCreate_v2(&many[made], 0, 0) == CUDA_SUCCESS)
        made++;
    CHECK(made > 20 && made < 64, "%d contexts of 32 MiB fit in 1 GiB", made);
    while (made--)
        OK(cuCtxDestroy_v2(many[made]));
}

static void test_allocation(void)
{
    CUdeviceptr a, b, base;
    size_t left, before, total, size, pitch;
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAlloc_v2(&a, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAlloc_v2(NULL, 16));
    EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&a, (size_t)2 << 30));
    EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&a, SIZE_MAX));
    OK(cuMemGetInfo_v2(&before, &total));
    OK(cuMemAlloc_v2(&a, 1));
    OK(cuMemAlloc_v2(&b, 1000));
    CHECK(a % 512 == 0 && b % 512 == 0 && a != b, "%llx %llx", a, b);
    OK(cuMemGetInfo_v2(&left, &total));
    CHECK(before - left == (size_t)2 << 20, "two small allocations took %zu bytes", before - left);
    OK(cuMemGetAddressRange_v2(&base, &size, b + 999));
    CHECK(base == b && size == 1000, "%llx %zu", base, size);
    EXPECT(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange_v2(&base, &size, b + 1000));
    OK(cuMemFree_v2(a));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(a));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(b + 512));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(0x1000));
    OK(cuMemFree_v2(0));
    OK(cuMemFree_v2(b));
    OK(cuMemGetInfo_v2(&left, NULL));
    CHECK(left == before, "%zu bytes are lost", before - left);
    OK(cuMemAllocPitch_v2(&a, &pitch, 1000, 10, 4));
    CHECK(pitch >= 1000 && pitch % 512 == 0, "%zu", pitch);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAllocPitch_v2(&b, &pitch, 1000, 10, 3));
    OK(cuMemFree_v2(a));
    /* All of it, and a little more. */
    CUdeviceptr all[512];
    int count = 0;
    while (count < 512 && cuMemAlloc_v2(&all[count], 32 << 20) == CUDA_SUCCESS)
        count++;
    CHECK(count == (int)(before >> 25), "%d allocations of 32 MiB of %zu MiB", count, before >> 20);
    while (count--)
        OK(cuMemFree_v2(all[count]));
    OK(cuMemGetInfo_v2(&left, NULL));
    CHECK(left == before, "%zu bytes are lost", before - left);
}

/* Random sizes, freed in random order: no two overlap, contents stay, nothing is lost. */
static void test_allocation_storm(void)
{
    enum { N = 400 };
    struct { CUdeviceptr at; size_t size; } live[N] = {{0, 0}};
    size_t before, after;
    unsigned seed = 12345;
    OK(cuMemGetInfo_v2(&before, NULL));
    for (int i = 0; i < 4000; i++) {
        int k = rand_r(&seed) % N;
        if (live[k].at) {
            unsigned char first, last;
            OK(cuMemcpyDtoH_v2(&first, live[k].at, 1));
            OK(cuMemcpyDtoH_v2(&last, live[k].at + live[k].size - 1, 1));
            CHECK(first == (unsigned char)k && last == (unsigned char)k, "allocation %d holds %d and %d", k, first, last);
            OK(cuMemFree_v2(live[k].at));
            live[k].at = 0;
        } else {
            live[k].size = 1 + (size_t)rand_r(&seed) % (i % 7 ? 5000 : 900000);
            OK(cuMemAlloc_v2(&live[k].at, live[k].size));
            OK(cuMemsetD8_v2(live[k].at, (unsigned char)k, live[k].size));
        }
    }
    for (int k = 0; k < N; k++)
        OK(cuMemFree_v2(live[k].at));
    OK(cuMemGetInfo_v2(&after, NULL));
    CHECK(before == after, "%zd bytes are lost", (ssize_t)(before - after));
}

static void test_copies(void)
{
    unsigned char from[4096], to[4096];
    CUdeviceptr a = zeroes(4096), b = zeroes(4096);
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (unsigned char)(i * 7);
    OK(cuMemcpyHtoD_v2(a, from, sizeof from));
    OK(cuMemcpyDtoD_v2(b, a, sizeof from));
    OK(cuMemcpyDtoH_v2(to, b, sizeof to));
    CHECK(!memcmp(from, to, sizeof to), "there and back");
    OK(cuMemcpy(a, (CUdeviceptr)(uintptr_t)(from + 16), 100));
    OK(cuMemcpy((CUdeviceptr)(uintptr_t)to, a, 100));
    CHECK(!memcmp(from + 16, to, 100), "unified copies");
    OK(cuMemcpyHtoD_v2(a, from, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2(a, from, 4097));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2(b + 4096, from, 1));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2(0, from, 1));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2(a, NULL, 1));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH_v2(to, (CUdeviceptr)(uintptr_t)from, 1));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuMemcpyHtoDAsync_v2(a, from, 1, (CUstream)0x77));
    /* Pageable memory of an asynchronous copy may change once the call is over. */
    CUstream stream;
    OK(cuStreamCreate(&stream, 1));
    OK(cuMemcpyHtoDAsync_v2(a, from, sizeof from, stream));
    memset(from, 9, sizeof from);
    OK(cuMemcpyDtoHAsync_v2(to, a, sizeof to, stream));        /* into pageable memory: done when it returns */
    CHECK(to[1] == 7 && to[100] == (unsigned char)700, "%d %d", to[1], to[100]);
    OK(cuStreamDestroy_v2(stream));
    /* A block of rows. */
    CUDA_MEMCPY2D plan = {.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = from, .srcPitch = 64, .srcXInBytes = 8, .srcY = 1,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = b, .dstPitch = 128, .WidthInBytes = 32, .Height = 10};
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (unsigned char)(i / 64);
    OK(cuMemsetD8_v2(b, 0xee, 4096));
    OK(cuMemcpy2D_v2(&plan));
    OK(cuMemcpyDtoH_v2(to, b, sizeof to));
    for (int y = 0; y < 10; y++)
        CHECK(to[y * 128] == y + 1 && to[y * 128 + 31] == y + 1 && to[y * 128 + 32] == 0xee, "row %d", y);
    plan.dstPitch = 16;
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpy2D_v2(&plan));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpy2D_v2(NULL));
    plan.dstPitch = 128;
    plan.Height = 100;
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpy2D_v2(&plan));
    plan.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuMemcpy2D_v2(&plan));
    OK(cuMemsetD32_v2(a, 0x01020304, 1024));
    OK(cuMemsetD2D16_v2(a, 256, 0xabcd, 4, 3));
    OK(cuMemcpyDtoH_v2(to, a, sizeof to));
    CHECK(to[0] == 0xcd && to[7] == 0xab && to[8] == 4 && to[256] == 0xcd && to[768] == 4, "memset");
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemsetD32_v2(a, 0, 1025));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemsetD32_v2(a + 1, 0, 1));
    OK(cuMemFree_v2(a));
    OK(cuMemFree_v2(b));
}

static void test_host_memory(void)
{
    void *p = NULL, *q = malloc(10000);
    CUdeviceptr at, d = zeroes(4096);
    unsigned type;
    int ordinal;
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemHostAlloc(&p, 0, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemHostAlloc(&p, 100, 0x80));
    OK(cuMemHostAlloc(&p, 4096, 0));
    OK(cuMemHostGetDevicePointer_v2(&at, p, 0));
    CHECK(at == (CUdeviceptr)(uintptr_t)p, "one address for both");
    OK(cuPointerGetAttribute(&type, 2, at));
    CHECK(type == CU_MEMORYTYPE_HOST, "type %u", type);
    OK(cuPointerGetAttribute(&type, 2, d + 100));
    CHECK(type == CU_MEMORYTYPE_DEVICE, "type %u", type);
    OK(cuPointerGetAttribute(&ordinal, 9, d));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttribute(&type, 2, (CUdeviceptr)(uintptr_t)q));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttribute(&type, 4, d));
    OK(cuMemHostRegister_v2(q, 10000, 0));
    EXPECT(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister_v2((char *)q + 100, 10, 0));
    OK(cuMemHostGetDevicePointer_v2(&at, (char *)q + 9999, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(q));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemHostRegister_v2((void *)0x1000, 4096, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemHostRegister_v2(NULL, 4096, 0));
    OK(cuMemHostUnregister(q));
    EXPECT(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(q));
    OK(cuMemFreeHost(p));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(p));
    OK(cuMemFree_v2(d));
    free(q);
}

int main(void)
{
    test_before_init();
    CUcontext primary = start();
    test_device();
    test_contexts(primary);
    test_allocation();
    test_allocation_storm();
    test_copies();
    test_host_memory();
    CUcontext none;
    OK(cuCtxSetCurrent(NULL));
    CUdeviceptr at;
    EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuMemAlloc_v2(&at, 100));
    EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuCtxPopCurrent_v2(&none));
    OK(cuDevicePrimaryCtxRelease_v2(0));
    EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuDevicePrimaryCtxRelease_v2(0));
    return check_summary("memory");
}
