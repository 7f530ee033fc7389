/* test_managed.c: managed memory: one address for host and device, what is advised and answered, what prefetching takes. */
#include <string.h>

#include "driver_memory.h"

static const CUmemLocation device0 = {LOCATION_DEVICE, 0}, cpu = {LOCATION_HOST, 0};

static int attribute(int which, CUdeviceptr at, size_t bytes)
{
    int value = -99;
    OK(cuMemRangeGetAttribute(&value, sizeof value, which, at, bytes));
    return value;
}

static void test_one_address(CUmodule module)
{
    CUdeviceptr at, plain = zeroes(64);
    size_t before = left();
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAllocManaged(&at, 0, CU_MEM_ATTACH_GLOBAL));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAllocManaged(&at, 64, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAllocManaged(&at, 64, CU_MEM_ATTACH_SINGLE));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAllocManaged(NULL, 64, CU_MEM_ATTACH_GLOBAL));
    OK(cuMemAllocManaged(&at, 3 * MIB, CU_MEM_ATTACH_GLOBAL));
    unsigned *host = (unsigned *)(uintptr_t)at;
    host[0] = 20;
    times(module, "times", at, 2, 2, NULL);
    OK(cuCtxSynchronize());
    CHECK(host[0] == 42, "%u", host[0]);
    CHECK(attribute_of(at + 5, P_MANAGED) == 1 && attribute_of(plain, P_MANAGED) == 0, "managed or not");
    CHECK(attribute_of(at, P_HOST_POINTER) == at && attribute_of(at, P_TYPE) == CU_MEMORYTYPE_DEVICE, "both address it");
    CHECK(attribute_of(at, P_IPC) == 0, "it is not shared by handles");
    CUipcMemHandle handle;
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle(&handle, at));
    OK(cuStreamAttachMemAsync(NULL, at, 0, CU_MEM_ATTACH_GLOBAL));
    OK(cuStreamAttachMemAsync(NULL, at, 3 * MIB, CU_MEM_ATTACH_SINGLE));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamAttachMemAsync(NULL, at, 64, CU_MEM_ATTACH_GLOBAL));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamAttachMemAsync(NULL, at, 0, 8));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamAttachMemAsync(NULL, plain, 0, CU_MEM_ATTACH_GLOBAL));
    OK(cuMemFree_v2(at));
    CHECK(left() == before, "%zd bytes are lost", (ssize_t)(before - left()));
    OK(cuMemFree_v2(plain));
}

static void test_advice(void)
{
    CUdeviceptr at, plain = zeroes(64);
    const size_t part = MIB, all = 4 * MIB;
    OK(cuMemAllocManaged(&at, all, CU_MEM_ATTACH_GLOBAL));
    CHECK(attribute(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, at, all) == 0, "nothing was advised");
    CHECK(attribute(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, at, all) == CU_DEVICE_INVALID, "nowhere");
    CHECK(attribute(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, at, all) == CU_DEVICE_INVALID, "never");
    CHECK(attribute(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE, at, all) == LOCATION_NONE, "no type");
    OK(cuMemAdvise_v2(at + part, part, CU_MEM_ADVISE_SET_READ_MOSTLY, (CUmemLocation){9, 9}));   /* the location is ignored */
    CHECK(attribute(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, at + part, part) == 1, "the part");
    CHECK(attribute(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, at + part, part + 1) == 0, "a byte more is a page more");
    CHECK(attribute(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, at + part + 5000, 10) == 1, "within the part");
    OK(cuMemAdvise_v2(at + part + 4096, 1, CU_MEM_ADVISE_UNSET_READ_MOSTLY, cpu));
    CHECK(attribute(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, at + part, part) == 0, "a page less");
    CHECK(attribute(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, at + part + 8192, part - 8192) == 1, "behind that page");
    OK(cuMemAdvise_v2(at, all, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device0));
    CHECK(attribute(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, at, all) == 0, "the device");
    CHECK(attribute(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE, at, all) == LOCATION_DEVICE, "a device");
    OK(cuMemAdvise(at, part, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, CU_DEVICE_CPU));
    CHECK(attribute(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, at, part) == CU_DEVICE_CPU, "the host");
    CHECK(attribute(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, at, all) == CU_DEVICE_INVALID, "not one for all");
    OK(cuMemAdvise(at, part, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, 0));
    CHECK(attribute(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, at, part) == CU_DEVICE_INVALID, "none any more");
    int by[3] = {7, 7, 7};
    OK(cuMemAdvise_v2(at, all, CU_MEM_ADVISE_SET_ACCESSED_BY, device0));
    OK(cuMemAdvise_v2(at, part, CU_MEM_ADVISE_SET_ACCESSED_BY, cpu));
    OK(cuMemRangeGetAttribute(by, sizeof by, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, at, all));
    CHECK(by[0] == 0 && by[1] == CU_DEVICE_INVALID && by[2] == CU_DEVICE_INVALID, "%d %d %d", by[0], by[1], by[2]);
    OK(cuMemRangeGetAttribute(by, sizeof by, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, at, part));
    CHECK(by[0] == CU_DEVICE_CPU && by[1] == 0 && by[2] == CU_DEVICE_INVALID, "%d %d %d", by[0], by[1], by[2]);
    OK(cuMemAdvise(at, all, CU_MEM_ADVISE_UNSET_ACCESSED_BY, 0));
    int read_mostly, preferred;
    void *data[] = {&read_mostly, &preferred, by};
    size_t sizes[] = {4, 4, 4};
    int which[] = {CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY};
    OK(cuMemRangeGetAttributes(data, sizes, which, 3, at + 2 * part, part));
    CHECK(!read_mostly && !preferred && by[0] == CU_DEVICE_INVALID, "%d %d %d", read_mostly, preferred, by[0]);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemRangeGetAttribute(by, 8, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, at, all));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemRangeGetAttribute(by, 5, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, at, all));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemRangeGetAttribute(by, 4, 77, at, all));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemRangeGetAttribute(by, 4, 1, at, all + 1));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemRangeGetAttribute(by, 4, 1, plain, 64));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAdvise_v2(at, all, 0, device0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAdvise_v2(at, all, 7, device0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAdvise_v2(at, 0, 1, device0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAdvise_v2(plain, 64, 1, device0));
    EXPECT(CUDA_ERROR_INVALID_DEVICE, cuMemAdvise_v2(at, all, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, (CUmemLocation){LOCATION_DEVICE, 6}));
    OK(cuMemFree_v2(at));
    OK(cuMemFree_v2(plain));
}

/* Milliseconds of the model that a prefetch takes. */
static double prefetch(CUdeviceptr at, size_t bytes, CUmemLocation to)
{
    CUevent before, after;
    float ms = 0;
    OK(cuEventCreate(&before, 0));
    OK(cuEventCreate(&after, 0));
    OK(cuEventRecord(before, NULL));
    OK(cuMemPrefetchAsync_v2(at, bytes, to, 0, NULL));
    OK(cuEventRecord(after, NULL));
    OK(cuEventSynchronize(after));
    OK(cuEventElapsedTime_v2(&ms, before, after));
    OK(cuEventDestroy_v2(before));
    OK(cuEventDestroy_v2(after));
    return (double)ms;
}

static void test_prefetch(void)
{
    CUdeviceptr at;
    OK(cuMemAllocManaged(&at, 25 * MIB, CU_MEM_ATTACH_GLOBAL));
    double there = prefetch(at, 25 * MIB, device0), again = prefetch(at, 25 * MIB, device0), half, back;
    double copy = 25 * 1048576 / 25e6 + 0.008;          /* at the 25 GB/s of test.toml */
    CHECK(there > copy * 0.99 && there < copy * 1.01, "%.4f ms, not %.4f", there, copy);
    CHECK(again < 0.001, "what is there already takes %.4f ms", again);
    CHECK(attribute(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, at, 25 * MIB) == 0, "to the device");
    back = prefetch(at, 5 * MIB, cpu);
    CHECK(back > copy / 5 * 0.9 && back < copy / 5 * 1.1, "%.4f ms", back);
    CHECK(attribute(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, at, 25 * MIB) == CU_DEVICE_INVALID, "some here, some there");
    CHECK(attribute(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE, at, 5 * MIB) == LOCATION_HOST, "the host");
    half = prefetch(at, 25 * MIB, device0);
    CHECK(half < copy / 4, "only what is not there is copied: %.4f ms", half);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPrefetchAsync_v2(at, 26 * MIB, device0, 0, NULL));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPrefetchAsync_v2(at, MIB, device0, 1, NULL));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPrefetchAsync_v2(at, MIB, (CUmemLocation){0, 0}, 0, NULL));
    EXPECT(CUDA_ERROR_INVALID_DEVICE, cuMemPrefetchAsync_v2(at, MIB, (CUmemLocation){LOCATION_DEVICE, 3}, 0, NULL));
    OK(cuMemFree_v2(at));
}

int main(void)
{
    start();
    CUmodule module = load();
    size_t before = left();
    test_one_address(module);
    test_advice();
    test_prefetch();
    CHECK(left() == before, "%zd bytes are lost", (ssize_t)(before - left()));
    return check_summary("managed memory");
}
