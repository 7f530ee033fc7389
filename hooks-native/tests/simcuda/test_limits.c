/* test_limits.c: a program at the limits that its shell has set: calls answer errors, none ends it, and nothing is lost. */
#include <fcntl.h>
#include <sys/resource.h>

#include "two.h"

static void limit(int what, rlim_t value)
{
    struct rlimit now;
    getrlimit(what, &now);
    now.rlim_cur = value;
    CHECK(!setrlimit(what, &now), "setrlimit: %s", strerror(errno));
}

static void test_sizes_of_files(void)
{
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp host = {.type = ALLOCATION_PINNED, .location = {LOCATION_HOST, 0}};
    CUmodule module;
    CUdeviceptr at = zeroes(64 << 20);
    limit(RLIMIT_FSIZE, 0);
    EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemCreate(&handle, UNIT, &host, 0));
    EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuModuleLoadData(&module, ".version 8.0\n.target sm_80\n.address_size 64\n"));   /* its globals are written into a file */
    put_word(at + (60 << 20), 42);      /* what is mapped has no limit */
    CHECK(word(at + (60 << 20)) == 42, "%u", word(at + (60 << 20)));
    limit(RLIMIT_FSIZE, RLIM_INFINITY);
    OK(cuMemCreate(&handle, UNIT, &host, 0));
    OK(cuMemRelease(handle));
    OK(cuMemFree_v2(at));
}

static void test_descriptors(void)
{
    CUmemGenericAllocationHandle handle, hosted;
    CUmemAllocationProp prop = on_device(0), host = {.type = ALLOCATION_PINNED, .location = {LOCATION_HOST, 0}};
    int fd = -1, fds[64], count = 0;
    OK(cuMemCreate(&handle, UNIT, &prop, 0));
    limit(RLIMIT_NOFILE, 32);
    while (count < 64 && (fds[count] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
        count++;
    CHECK(cuMemExportToShareableHandle(&fd, handle, HANDLE_FD, 0) != CUDA_SUCCESS && fd == -1, "a descriptor from nowhere: %d", fd);
    CHECK(cuMemCreate(&hosted, UNIT, &host, 0) != CUDA_SUCCESS, "a file from nowhere");
    while (count)
        close(fds[--count]);
    OK(cuMemExportToShareableHandle(&fd, handle, HANDLE_FD, 0));
    close(fd);
    OK(cuMemRelease(handle));
}

int main(void)
{
    start();
    load();                             /* is compiled now */
    size_t before = left();
    test_sizes_of_files();
    test_descriptors();
    all_back(before);
    return check_summary("limits");
}
