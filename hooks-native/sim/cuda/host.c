/* host.c: page-locked host memory. It is kept in a list sorted by address, so that copies know it from pageable memory. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "capture.h"

struct locked { char *start; size_t bytes, mapped; unsigned flags; bool registered; };

static struct locked *list;
static size_t count, room;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The first entry that ends behind `address`; lock held. */
static size_t place_of(const char *address) {
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (list[middle].start + list[middle].bytes <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool host_find(const void *address, void **start, size_t *bytes, unsigned *flags) {
    pthread_mutex_lock(&lock);
    size_t at = place_of(address);
    bool found = at < count && (const char *)address >= list[at].start;
    if (found) {
        *start = list[at].start;
        *bytes = list[at].bytes;
        *flags = list[at].flags;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

/* Adds a range; an overlap is an error. */
static CUresult add(struct locked entry) {
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&lock);
    size_t at = place_of(entry.start);
    if (at < count && entry.start + entry.bytes > list[at].start)
        result = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    if (!result && count == room) {
        size_t bigger = room ? room * 2 : 64;
        struct locked *grown = realloc(list, bigger * sizeof *list);
        if (grown) {
            list = grown;
            room = bigger;
        } else {
            result = CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    if (!result) {
        memmove(list + at + 1, list + at, (count - at) * sizeof *list);
        list[at] = entry;
        count++;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

/* Takes the range that starts at `start` off the list. */
static CUresult take(void *start, bool registered, struct locked *out) {
    CUresult result = registered ? CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED : CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    size_t at = place_of(start);
    if (at < count && list[at].start == start && list[at].registered == registered) {
        *out = list[at];
        memmove(list + at, list + at + 1, (--count - at) * sizeof *list);
        result = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

static CUresult allocate(void **out, size_t bytes, unsigned flags) {
    struct ctx *ctx;
    CUresult result = capture_allows(&ctx);
    if (result)
        return result;
    if (!out || !bytes || flags & ~(unsigned)CU_MEMHOSTALLOC_ALL)
        return CUDA_ERROR_INVALID_VALUE;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (bytes > SIZE_MAX - page)
        return CUDA_ERROR_OUT_OF_MEMORY;
    size_t mapped = (bytes + page - 1) / page * page;
    void *start = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    result = add((struct locked){start, bytes, mapped, flags | 2, false});     /* always mapped to the device */
    if (result)
        munmap(start, mapped);
    else
        *out = start;
    return result;
}

ENTRY(cuMemAllocHost_v2, void **out, size_t bytes) { return allocate(out, bytes, 0); }
ENTRY(cuMemHostAlloc, void **out, size_t bytes, unsigned flags) { return allocate(out, bytes, flags); }

ENTRY(cuMemFreeHost, void *start) {
    struct ctx *ctx;
    struct locked entry;
    CUresult result = sim_current(&ctx);
    if (result || !start)
        return result;
    result = take(start, false, &entry);
    if (result)
        return result;
    result = ctx_synchronise(ctx);      /* copies may still use it */
    munmap(entry.start, entry.mapped);
    return result;
}

static CUresult enlist(void *start, size_t bytes, unsigned flags) {
    struct ctx *ctx;
    CUresult result = capture_allows(&ctx);
    if (result)
        return result;
    if (!start || !bytes || flags & ~(unsigned)CU_MEMHOSTREGISTER_ALL || (uintptr_t)start > UINTPTR_MAX - bytes)
        return CUDA_ERROR_INVALID_VALUE;
    /* Is there memory at all? msync() asks the kernel without touching it. */
    size_t page = (size_t)sysconf(_SC_PAGESIZE), into = (uintptr_t)start % page;
    if (msync((char *)start - into, bytes + into, MS_ASYNC))
        return CUDA_ERROR_INVALID_VALUE;
    return add((struct locked){start, bytes, bytes, flags, true});
}

ENTRY(cuMemHostRegister, void *start, size_t bytes, unsigned flags) { return enlist(start, bytes, flags); }
ENTRY(cuMemHostRegister_v2, void *start, size_t bytes, unsigned flags) { return enlist(start, bytes, flags); }

ENTRY(cuMemHostUnregister, void *start) {
    struct ctx *ctx;
    struct locked entry;
    CUresult result = sim_current(&ctx);
    if (result)
        return result;
    result = take(start, true, &entry);
    return result ? result : ctx_synchronise(ctx);
}

ENTRY(cuMemHostGetDevicePointer_v2, CUdeviceptr *out, void *address, unsigned flags) {
    struct ctx *ctx;
    void *start;
    size_t bytes;
    unsigned kept;
    CUresult result = sim_current(&ctx);
    if (result)
        return result;
    if (!out || flags || !host_find(address, &start, &bytes, &kept))
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUdeviceptr)(uintptr_t)address;
    return CUDA_SUCCESS;
}

ENTRY(cuMemHostGetFlags, unsigned *out, void *address) {
    struct ctx *ctx;
    void *start;
    size_t bytes;
    CUresult result = sim_current(&ctx);
    if (result)
        return result;
    return out && host_find(address, &start, &bytes, out) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
