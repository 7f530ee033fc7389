/* test_share.c: memory that two processes have: physical memory and pools by descriptor, allocations by 64 bytes; what it costs, and
 * how long it lives. */
#include "two.h"

static void map(CUmemGenericAllocationHandle handle, size_t bytes, CUdeviceptr *at)
{
    OK(cuMemAddressReserve(at, bytes, 0, 0, 0));
    OK(cuMemMap(*at, bytes, 0, handle, 0));
    OK(grant(*at, bytes, 0, ACCESS_READWRITE));
}

static void unmap(CUdeviceptr at, size_t bytes)
{
    OK(cuMemUnmap(at, bytes));
    OK(cuMemAddressFree(at, bytes));
}

/* Physical memory: made here, used there, and there for as long as somebody has it. */
static void give_physical(int socket)
{
    start();
    await(socket);                      /* the other one's context is there too */
    CUmodule module = load();
    CUmemAllocationProp prop = on_device(0);
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at;
    int fd = -1;
    size_t before = left();
    OK(cuMemCreate(&handle, 2 * UNIT, &prop, 0));
    map(handle, 2 * UNIT, &at);
    put_word(at + UNIT, 20);
    OK(cuMemExportToShareableHandle(&fd, handle, HANDLE_FD, 0));
    CHECK(before - left() == 2 * UNIT, "%zu bytes", before - left());
    tell(socket, &before, sizeof before, fd);
    close(fd);
    await(socket);                      /* it has doubled the number */
    CHECK(word(at + UNIT) == 40, "%u", word(at + UNIT));
    CHECK(before - left() == 2 * UNIT, "an importer costs nothing: %zu", before - left());
    times(module, "times", at + UNIT, 1, 2, NULL);
    OK(cuCtxSynchronize());
    OK(cuMemRelease(handle));
    unmap(at, 2 * UNIT);
    CHECK(before - left() == 2 * UNIT, "the importer keeps it: %zu", before - left());
    nudge(socket);
}

static void take_physical(int socket)
{
    start();
    CUmodule module = load();
    CUmemGenericAllocationHandle handle, again;
    CUmemAllocationProp prop;
    CUdeviceptr at;
    size_t before;
    nudge(socket);
    int fd = hear(socket, &before, sizeof before);
    OK(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd, HANDLE_FD));
    OK(cuMemImportFromShareableHandle(&again, (void *)(intptr_t)fd, HANDLE_FD));
    OK(cuMemRelease(again));
    close(fd);
    OK(cuMemGetAllocationPropertiesFromHandle(&prop, handle));
    CHECK(prop.location.type == LOCATION_DEVICE && prop.requestedHandleTypes == HANDLE_FD, "properties");
    map(handle, 2 * UNIT, &at);
    OK(cuMemRelease(handle));           /* mapped is enough */
    CHECK(word(at + UNIT) == 20, "%u", word(at + UNIT));
    times(module, "times", at + UNIT, 2, 0, NULL);
    OK(cuCtxSynchronize());
    nudge(socket);
    await(socket);
    char end;
    CHECK(recv(socket, &end, 1, 0) == 0, "it has not ended");
    CHECK(word(at + UNIT) == 42, "outlived its maker: %u", word(at + UNIT));
    unmap(at, 2 * UNIT);
    all_back(before + 32 * MIB + UNIT); /* and the context and the module's variables of the other one */
}

/* Allocations by handle: small ones that share their 2 MiB, large ones; opened twice, closed twice, freed, gone. */
static void give_handles(int socket)
{
    start();
    CUdeviceptr small[3], large, back, other;
    CUipcMemHandle handle, second;
    CUmemoryPool pool;
    for (int i = 0; i < 3; i++)
        small[i] = zeroes(1000);
    large = zeroes(5 * MIB);
    put_word(small[1] + 996, 11);
    put_word(large + 5 * MIB - 4, 12);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle(&handle, small[1] + 512));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle(NULL, small[1]));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle(&handle, 0x1000));
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    OK(cuMemAllocFromPoolAsync(&other, 100, pool, NULL));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle(&handle, other));        /* of a pool */
    OK(cuMemFreeAsync(other, NULL));
    OK(cuIpcGetMemHandle(&handle, small[1]));
    OK(cuIpcGetMemHandle(&second, small[1]));
    CHECK(!memcmp(&handle, &second, sizeof handle), "two handles of one allocation differ");
    EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuIpcOpenMemHandle_v2(&back, handle, 1));        /* one's own */
    CHECK(attribute_of(small[1], P_IPC) == 1, "it can be shared");
    tell(socket, &handle, sizeof handle, -1);
    OK(cuIpcGetMemHandle(&handle, large));
    tell(socket, &handle, sizeof handle, -1);
    await(socket);
    CHECK(word(small[1]) == 21 && word(large) == 22, "%u %u", word(small[1]), word(large));
    size_t before = left();
    OK(cuMemFree_v2(large));
    CHECK(left() == before, "the other one still has it open");
    nudge(socket);
    await(socket);                      /* closed it */
    all_back(before + 6 * MIB);
    large = zeroes(5 * MIB);
    OK(cuIpcGetMemHandle(&second, large));
    CHECK(memcmp(&handle, &second, sizeof handle), "new memory has the old handle");
    nudge(socket);
    await(socket);
    CHECK(word(small[0]) == 0 && word(small[2]) == 0, "its neighbours");
}

static void take_handles(int socket)
{
    CUcontext ctx = start(), another, gone;
    CUipcMemHandle small, large, bad;
    CUdeviceptr a, b, c, base;
    size_t size;
    hear(socket, &small, sizeof small);
    hear(socket, &large, sizeof large);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuIpcOpenMemHandle_v2(&a, small, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuIpcOpenMemHandle_v2(NULL, small, 1));
    memset(&bad, 0, sizeof bad);
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuIpcOpenMemHandle_v2(&a, bad, 1));
    for (size_t i = 0; i < sizeof bad; i++) {   /* no byte of it can be changed and lead elsewhere, or crash */
        bad = small;
        bad.reserved[i] ^= 0x40;
        CUresult result = cuIpcOpenMemHandle_v2(&a, bad, 1);
        bool length = i >= 48 && i < 56, name = i >= 56, place = i >= 40 && i < 48;
        CHECK(result || length || name || place, "byte %zu", i);
        if (!result)
            OK(cuIpcCloseMemHandle(a));
    }
    OK(cuIpcOpenMemHandle_v2(&a, small, 1));
    OK(cuIpcOpenMemHandle_v2(&c, small, 1));
    CHECK(a == c, "opened twice: %llx %llx", a, c);
    OK(cuIpcOpenMemHandle_v2(&b, large, 1));
    CHECK(word(a + 996) == 11 && word(b + 5 * MIB - 4) == 12, "content");
    OK(cuMemGetAddressRange_v2(&base, &size, a + 500));
    CHECK(base == a && size == 1000, "%zu bytes", size);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2(a + 997, &size, 4));       /* past the end */
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(a));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle(&bad, a));               /* not ours to give */
    CHECK(attribute_of(a, P_TYPE) == CU_MEMORYTYPE_DEVICE && attribute_of(a, P_CONTEXT) == (unsigned long long)(uintptr_t)ctx, "ours by opening");
    OK(cuCtxCreate_v2(&another, 0, 0));
    EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuIpcOpenMemHandle_v2(&c, small, 1));    /* one context of a process only */
    OK(cuCtxPopCurrent_v2(&gone));
    OK(cuCtxDestroy_v2(another));
    put_word(a, 21);
    put_word(b, 22);
    nudge(socket);
    await(socket);                      /* freed there */
    CHECK(word(b) == 22, "%u", word(b));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuIpcCloseMemHandle(b + 512));
    OK(cuIpcCloseMemHandle(b));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuIpcCloseMemHandle(b));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2(b, &size, 4));
    nudge(socket);
    await(socket);
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuIpcOpenMemHandle_v2(&b, large, 1));     /* it is gone */
    OK(cuIpcCloseMemHandle(a));
    CHECK(word(a) == 21, "closed once of two");
    OK(cuIpcCloseMemHandle(a));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuIpcCloseMemHandle(a));
    nudge(socket);
}

/* A pool by descriptor and its allocations by 64 bytes. */
static void give_pool(int socket)
{
    start();
    CUmemPoolProps props = {.allocType = ALLOCATION_PINNED, .handleTypes = HANDLE_FD, .location = {LOCATION_DEVICE, 0}};
    CUmemoryPool pool, plain;
    CUmemPoolPtrExportData data;
    CUdeviceptr at, small;
    CUstream stream;
    int fd = -1;
    OK(cuStreamCreate(&stream, 1));
    OK(cuMemPoolCreate(&pool, &props));
    OK(cuDeviceGetDefaultMemPool(&plain, 0));
    OK(cuMemAllocFromPoolAsync(&at, 3 * MIB, pool, stream));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportPointer(&data, at));        /* the pool first */
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportToShareableHandle(&fd, plain, HANDLE_FD, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportToShareableHandle(&fd, pool, HANDLE_FD, 1));
    EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuMemPoolExportToShareableHandle(&fd, pool, HANDLE_FABRIC, 0));
    OK(cuMemPoolExportToShareableHandle(&fd, pool, HANDLE_FD, 0));
    CHECK(attribute_of(at, P_HANDLES) == HANDLE_FD, "how it can be shared");
    OK(cuMemAllocFromPoolAsync(&small, 100, pool, stream));
    OK(cuStreamSynchronize(stream));
    put_word(at + 3 * MIB - 4, 31);
    put_word(small, 32);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportPointer(&data, at + 4));
    OK(cuMemPoolExportPointer(&data, at));
    tell(socket, &data, sizeof data, fd);
    OK(cuMemPoolExportPointer(&data, small));
    tell(socket, &data, sizeof data, -1);
    close(fd);
    await(socket);
    CHECK(word(at) == 41, "%u", word(at));
    size_t before = left();
    OK(cuMemFreeAsync(at, stream));
    OK(cuMemFreeAsync(small, stream));
    OK(cuStreamSynchronize(stream));
    all_back(before + 6 * MIB);         /* 4 of the large one, 2 of the small one */
    OK(cuMemPoolDestroy(pool));
    nudge(socket);
}

static void take_pool(int socket)
{
    start();
    CUmemPoolPtrExportData data, bad;
    CUmemoryPool pool, second, plain;
    CUdeviceptr at, small, none;
    cuuint64_t used;
    CUstream stream;
    OK(cuStreamCreate(&stream, 1));
    int fd = hear(socket, &data, sizeof data);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)0, HANDLE_FD, 0));
    CUmemGenericAllocationHandle handle;
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd, HANDLE_FD));  /* it is a pool's */
    OK(cuMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)fd, HANDLE_FD, 0));
    OK(cuMemPoolImportFromShareableHandle(&second, (void *)(intptr_t)fd, HANDLE_FD, 0));
    OK(cuMemPoolDestroy(second));
    close(fd);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAllocFromPoolAsync(&none, 100, pool, stream));         /* it makes nothing itself */
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuDeviceSetMemPool(0, pool));
    bad = data, bad.reserved[0] ^= 1;
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPoolImportPointer(&at, pool, &bad));
    OK(cuDeviceGetDefaultMemPool(&plain, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPoolImportPointer(&at, plain, &data));
    OK(cuMemPoolImportPointer(&at, pool, &data));
    hear(socket, &data, sizeof data);
    OK(cuMemPoolImportPointer(&small, pool, &data));
    CHECK(word(at + 3 * MIB - 4) == 31 && word(small) == 32, "content");
    OK(cuMemPoolGetAttribute(pool, POOL_USED_CURRENT, &used));
    CHECK(used >= 3 * MIB && used < 4 * MIB, "%llu bytes are used", (unsigned long long)used);
    CHECK(attribute_of(at, P_POOL) == (unsigned long long)(uintptr_t)pool, "its pool");
    put_word(at, 41);
    OK(cuMemFreeAsync(at, stream));     /* both ways to free */
    OK(cuStreamSynchronize(stream));
    OK(cuMemFree_v2(small));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2(small, &used, 4));
    OK(cuMemPoolGetAttribute(pool, POOL_RESERVED_CURRENT, &used));
    CHECK(used == 0, "%llu bytes are held", (unsigned long long)used);
    nudge(socket);
    await(socket);
    OK(cuMemPoolDestroy(pool));
}

/* A descriptor alone keeps memory, and the node, alive: its maker ends, and who takes it comes later. */
static void give_and_end(int socket)
{
    start();
    CUmemAllocationProp prop = on_device(0);
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at;
    int fd = -1;
    OK(cuMemCreate(&handle, UNIT, &prop, 0));
    map(handle, UNIT, &at);
    put_word(at, 77);
    OK(cuMemExportToShareableHandle(&fd, handle, HANDLE_FD, 0));
    tell(socket, "", 1, fd);
    raise(SIGKILL);
}

static void take_after(int socket)
{
    char c;
    int fd = hear(socket, &c, 1);
    CHECK(recv(socket, &c, 1, 0) <= 0, "it lives");
    usleep(700000);                     /* longer than a node without clients lives */
    start();
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at;
    size_t taken = left();
    OK(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd, HANDLE_FD));
    close(fd);
    map(handle, UNIT, &at);
    CHECK(word(at) == 77, "%u", word(at));
    OK(cuMemRelease(handle));
    unmap(at, UNIT);
    all_back(taken + UNIT);
}

int main(void)
{
    both("physical memory", give_physical, take_physical, false);
    both("handles", give_handles, take_handles, false);
    both("pools", give_pool, take_pool, false);
    both("descriptor alone", give_and_end, take_after, true);
    return check_summary("sharing");
}
