/* test_swap.c: what leaves and what comes back, in which order, how much, and what happens where it cannot. */
#include <fcntl.h>
#include <unistd.h>
#include "fake_vmm.h"

#define SLOT 2

static CUdeviceptr get(size_t bytes, unsigned char value)
{
    CUdeviceptr at = 0;
    CHECK(gpud_pool_takes(bytes) && gpud_pool_alloc(&at, bytes) == CUDA_SUCCESS, "%zu bytes", bytes);
    if (vmm_is_mapped(at))
        memset((void *)(uintptr_t)at, value, bytes);
    return at;
}

static bool holds(CUdeviceptr at, size_t bytes, unsigned char value)
{
    const unsigned char *byte = (const unsigned char *)(uintptr_t)at;
    for (size_t i = 0; i < bytes; i += 511) {
        if (byte[i] != value)
            return false;
    }
    return byte[bytes - 1] == value;
}

static uint64_t out(uint64_t bytes, enum gpud_swap_result wanted)
{
    uint64_t moved = 0;
    enum gpud_swap_result result = gpud_swap_out(SLOT, bytes, 0, &moved);
    CHECK(result == wanted, "out is %d, not %d", result, wanted);
    return moved;
}

static uint64_t in(enum gpud_swap_result wanted)
{
    uint64_t moved = 0;
    enum gpud_swap_result result = gpud_swap_in(SLOT, UINT64_MAX, 0, &moved);
    CHECK(result == wanted, "in is %d, not %d", result, wanted);
    return moved;
}

static void clear(CUdeviceptr *at, int count)
{
    for (int i = 0; i < count; i++)
        CHECK(gpud_pool_free(at[i]) == CUDA_SUCCESS, "free %d", i);
    out(UINT64_MAX, GPUD_SWAP_LITTLE);
    CHECK(vmm_live.handles == 0 && vmm_live.reservations == 0 && gpud_host_used == 0, "something is left");
}

/* Only what lacks, the coldest, unused memory first and without a copy. */
static void test_deficit(void)
{
    CUdeviceptr at[4];
    for (int i = 0; i < 4; i++)
        at[i] = get(64 * MIB, (unsigned char)(i + 1));
    CUdeviceptr idle = get(32 * MIB, 9);
    CHECK(gpud_pool_free(idle) == CUDA_SUCCESS && vmm_live.handle_bytes == 288 * MIB, "kept for the next");
    uint64_t copies = vmm_live.copies;
    CHECK(out(32 * MIB, GPUD_SWAP_DONE) == 32 * MIB && vmm_live.copies == copies, "the unused first");
    CHECK(out(10 * MIB, GPUD_SWAP_DONE) == 64 * MIB && vmm_live.copies == copies + 2, "one chunk in two pieces");
    CHECK(!vmm_is_mapped(at[0]) && vmm_is_mapped(at[1]) && vmm_is_mapped(at[3]), "the coldest");
    CHECK(out(128 * MIB, GPUD_SWAP_DONE) == 128 * MIB && vmm_is_mapped(at[3]) && !vmm_is_mapped(at[2]), "the next two");
    CHECK(gpud_swap_stats.most[0] >= 4, "%llu pieces under way", (unsigned long long)gpud_swap_stats.most[0]);
    struct gpud_pool_counts counts = gpud_pool_counts(SLOT);
    CHECK(counts.resident == 64 * MIB && counts.host == 192 * MIB && counts.lazy == 0 && gpud_pool_lacks(SLOT) == 192 * MIB, "counts");
    CHECK(gpud_load(&gpud_activity()->device[SLOT].host_bytes) == 192 * MIB, "published");
    uint64_t some;
    CHECK(gpud_swap_in(SLOT, 63 * MIB, 0, &some) == GPUD_SWAP_DONE && some == 0 && !vmm_is_mapped(at[2]), "never more than may");
    CHECK(gpud_swap_in(SLOT, 64 * MIB, 0, &some) == GPUD_SWAP_DONE && some == 64 * MIB && vmm_is_mapped(at[2]), "the youngest first");
    CHECK(in(GPUD_SWAP_DONE) == 128 * MIB && gpud_swap_stats.most[1] >= 4, "%llu pieces under way", (unsigned long long)gpud_swap_stats.most[1]);
    for (int i = 0; i < 4; i++)
        CHECK(holds(at[i], 64 * MIB, (unsigned char)(i + 1)), "contents of %d", i);
    clear(at, 4);
}

/* The time is up at once: each call moves something, and says that there is more. */
static void test_parts(void)
{
    CUdeviceptr at[4];
    uint64_t moved, sum = 0, calls = 1;
    for (int i = 0; i < 4; i++)
        at[i] = get(64 * MIB, (unsigned char)(i + 1));
    enum gpud_swap_result result;
    for (; (result = gpud_swap_out(SLOT, 256 * MIB - sum, 1, &moved)) == GPUD_SWAP_MORE && calls < 100; calls++, sum += moved)
        CHECK(moved == 64 * MIB, "one chunk each time");
    CHECK(result == GPUD_SWAP_DONE && sum + moved == 256 * MIB && calls == 4, "%llu calls, %d", (unsigned long long)calls, result);
    for (sum = 0, calls = 1; (result = gpud_swap_in(SLOT, UINT64_MAX, 1, &moved)) == GPUD_SWAP_MORE && calls < 100; calls++, sum += moved)
        CHECK(moved == 64 * MIB, "one chunk each time");
    CHECK(result == GPUD_SWAP_DONE && sum + moved == 256 * MIB && calls == 4, "%llu calls, %d", (unsigned long long)calls, result);
    for (int i = 0; i < 4; i++)
        CHECK(holds(at[i], 64 * MIB, (unsigned char)(i + 1)), "contents of %d", i);
    clear(at, 4);
}

/* The host tier is full: the rest stays, and all is as it was. Then somebody has more. */
static void test_full(void)
{
    CUdeviceptr at[6];
    for (int i = 0; i < 6; i++)
        at[i] = get(64 * MIB, (unsigned char)(i + 1));
    CHECK(out(UINT64_MAX, GPUD_SWAP_NO_HOST) == 320 * MIB, "as much as there is room for");
    CHECK(vmm_is_mapped(at[5]) && holds(at[5], 64 * MIB, 6), "the rest stays");
    uint64_t lack = gpud_host_lack(64 * MIB);
    vmm_host(lack);
    CHECK(out(64 * MIB, GPUD_SWAP_DONE) == 64 * MIB && lack == 64 * MIB, "it lacked %llu", (unsigned long long)lack);
    CHECK(in(GPUD_SWAP_DONE) == 384 * MIB, "in");
    for (int i = 0; i < 6; i++)
        CHECK(holds(at[i], 64 * MIB, (unsigned char)(i + 1)), "contents of %d", i);
    clear(at, 6);
}

/* No memory for what comes in: it stays in its slots, and comes when there is some. */
static void test_no_memory(void)
{
    CUdeviceptr at[4];
    for (int i = 0; i < 4; i++)
        at[i] = get(64 * MIB, (unsigned char)(i + 1));
    out(256 * MIB, GPUD_SWAP_DONE);
    vmm_capacity = 130 * MIB;
    CHECK(in(GPUD_SWAP_LITTLE) == 128 * MIB && gpud_pool_lacks(SLOT) == 128 * MIB, "half of it");
    CHECK(gpud_host_used == 128 * MIB, "the other half is in its slots");
    uint64_t moved, before = gpud_now();
    CHECK(gpud_swap_in(SLOT, UINT64_MAX, gpud_now() + 20 * GPUD_MILLISECOND, &moved) == GPUD_SWAP_LITTLE && moved == 0 &&
          gpud_now() - before >= 20 * GPUD_MILLISECOND, "it tries for a while");
    vmm_capacity = 1024 * MIB;
    CHECK(in(GPUD_SWAP_DONE) == 128 * MIB, "the rest");
    for (int i = 0; i < 4; i++)
        CHECK(holds(at[i], 64 * MIB, (unsigned char)(i + 1)), "contents of %d", i);
    clear(at, 4);
}

/* Without the device: addresses, backed at the next turn; coming in: memory as far as there is some. */
static void test_away(void)
{
    CUdeviceptr at[3] = { get(4 * MIB, 1) };
    gpud_store(&vmm_control(SLOT)->gate, GPUD_GATE_GRANT);
    at[1] = get(6 * MIB, 2);
    at[2] = get(1000, 3);
    CHECK(!vmm_is_mapped(at[1]) && !vmm_is_mapped(at[2]) && gpud_pool_counts(SLOT).lazy == 8 * MIB, "no memory");
    CHECK(gpud_pool_size(at[1]) == 6 * MIB && gpud_pool_size(at[2]) == 1000 && gpud_pool_size(at[2] + 1) == 0, "known nevertheless");
    CHECK(out(UINT64_MAX, GPUD_SWAP_LITTLE) == 4 * MIB, "nothing of it has contents to leave");
    CHECK(gpud_pool_free(at[1]) == CUDA_SUCCESS, "free while away");
    gpud_store(&gpud_presence_at(SLOT)->lock, GPUD_LOCK_COMES_IN);
    vmm_capacity = 0;
    at[1] = get(6 * MIB, 2);
    CHECK(gpud_pool_lacks(SLOT) == 12 * MIB, "no memory yet, but no error");
    vmm_capacity = 1024 * MIB;
    CHECK(in(GPUD_SWAP_DONE) == 12 * MIB && vmm_is_mapped(at[1]) && vmm_is_mapped(at[2]) && holds(at[0], 4 * MIB, 1), "all in");
    gpud_store(&gpud_presence_at(SLOT)->lock, GPUD_LOCK_HAS);
    vmm_capacity = 0;
    CUdeviceptr none;
    CHECK(gpud_pool_alloc(&none, 64 * MIB) == CUDA_ERROR_OUT_OF_MEMORY, "the owner is told at once");
    vmm_capacity = 1024 * MIB;
    gpud_store(&vmm_control(SLOT)->gate, 0);
    gpud_store(&gpud_presence_at(SLOT)->lock, GPUD_LOCK_NONE);
    clear(at, 3);
}

/* Freed, and its context destroyed, in the middle of a swap. */
static CUdeviceptr victim;
static void free_it(void)
{
    if (victim != 0)
        CHECK(gpud_pool_free(victim) == CUDA_SUCCESS, "free in the middle");
    victim = 0;
}
static void end_it(void)
{
    gpud_add_total(&gpud_ending, 1);
    vmm_at_wait = NULL;
}
static void test_middle(void)
{
    CUdeviceptr at[3];
    for (int i = 0; i < 3; i++)
        at[i] = get(64 * MIB, (unsigned char)(i + 1));
    victim = at[0];
    vmm_at_wait = free_it;
    out(UINT64_MAX, GPUD_SWAP_LITTLE);
    CHECK(gpud_host_used == 128 * MIB && vmm_live.handles == 0, "the freed one left nothing");
    victim = at[2];
    in(GPUD_SWAP_DONE);
    CHECK(holds(at[1], 64 * MIB, 2) && gpud_host_used == 0, "the one that is left");
    vmm_at_wait = end_it;
    at[2] = get(64 * MIB, 3);
    at[0] = get(64 * MIB, 1);
    uint64_t left = out(UINT64_MAX, GPUD_SWAP_NOT_NOW);
    CHECK(left < 192 * MIB, "it has not gone on: %llu", (unsigned long long)left);
    out(UINT64_MAX, GPUD_SWAP_NOT_NOW);
    gpud_sub_total(&gpud_ending, 1);
    in(GPUD_SWAP_DONE);
    CHECK(holds(at[0], 64 * MIB, 1) && holds(at[1], 64 * MIB, 2) && holds(at[2], 64 * MIB, 3), "contents");
    gpud_captures = 1;
    out(UINT64_MAX, GPUD_SWAP_NOT_NOW);
    CHECK(!gpud_pool_takes(100), "inside a capture the driver's own");
    gpud_captures = 0;
    clear(at, 3);
}

static void test_context(void)
{
    CUcontext first = vmm_context(0, 0), other = vmm_context(0, 1);
    CUdeviceptr at = get(40 * MIB, 1), small = get(100, 2);
    vmm_context(0, 0);
    CUdeviceptr stays = get(100, 3);
    CHECK(small / (2 * MIB) != stays / (2 * MIB), "contexts share no slab");
    out(34 * MIB, GPUD_SWAP_DONE);
    gpud_pool_context_gone(UINT32_MAX, other);
    CHECK(!gpud_pool_owns(at) && !gpud_pool_owns(small) && gpud_pool_owns(stays) && gpud_host_used <= 2 * MIB, "gone with its context");
    in(GPUD_SWAP_DONE);
    CHECK(holds(stays, 100, 3), "the other's stays");
    gpud_pool_context_gone(UINT32_MAX, first);
    CHECK(vmm_live.handles == 0 && vmm_live.reservations == 0, "nothing left");
}

static void test_refused(void)
{
    vmm_refuse_register = CUDA_ERROR_NOT_SUPPORTED;
    vmm_host(64 * MIB);
    CUdeviceptr at = get(4 * MIB, 5);
    out(4 * MIB, GPUD_SWAP_DONE);
    CHECK(gpud_host_unpinned == gpud_host_bytes, "%llu unpinned: the context of the others has gone", (unsigned long long)gpud_host_unpinned);
    in(GPUD_SWAP_DONE);
    CHECK(holds(at, 4 * MIB, 5), "unpinned copies are as good");
    clear(&at, 1);
    CHECK(gpud_host_add(open("/dev/null", 0), 2 * MIB) == -EINVAL && gpud_host_add(-1, 2 * MIB) < 0 && gpud_host_add(-1, 5) == -EINVAL,
          "what is no memory of that size is refused");
}

/* The context that our streams and page-locked slots are of ends and begins anew, while the program has no memory at all. */
static void test_reset(void)
{
    vmm_refuse_register = CUDA_SUCCESS;
    CUcontext context = vmm_context(0, 0);
    CHECK(gpud_pool_takes(4 * MIB), "it is alive");
    vmm_end_context(true);
    gpud_pool_context_gone(0, NULL);
    CHECK(!gpud_pool_takes(4 * MIB) && !gpud_pool_takes(4 * MIB), "memory for what has ended would never come in: the driver answers");
    CHECK(gpud_host_unpinned == 0, "nobody has been asked yet");
    CHECK(vmm_context(0, 0) == context, "the driver gives it the same value");
    CHECK(gpud_pool_takes(4 * MIB), "alive again");
    vmm_live.registered = 0;
    CUdeviceptr at = get(4 * MIB, 5);
    out(4 * MIB, GPUD_SWAP_DONE);
    CHECK(vmm_live.registered == gpud_host_bytes, "%llu of %llu bytes page-locked again", (unsigned long long)vmm_live.registered,
          (unsigned long long)gpud_host_bytes);
    in(GPUD_SWAP_DONE);
    CHECK(holds(at, 4 * MIB, 5), "contents");
    clear(&at, 1);
}

/* Slots that come bit by bit: one that lies in all of them keeps what is written into it. */
static void test_many_regions(void)
{
    uint64_t before = gpud_host_bytes, wrong = 0;
    uint32_t first;
    for (int i = 0; i < 300; i++)
        vmm_host(2 * MIB);
    CHECK(gpud_host_bytes == before + 600 * MIB && gpud_host_take(gpud_host_bytes, &first), "all of them");
    for (int look = 0; look < 2; look++) {
        uint32_t unit = first;
        for (uint64_t at = 0; at < gpud_host_bytes; at += 2 * MIB) {
            uint64_t *word = (uint64_t *)(void *)gpud_host_stretch(&unit, 2 * MIB).at;
            wrong += look && *word != at;
            *word = at;
        }
        CHECK(unit == UINT32_MAX && wrong == 0, "%llu wrong", (unsigned long long)wrong);
    }
    gpud_host_give(first);
}

/* Every call in a context that a kernel's error has broken answers so: nothing leaves, and the host's memory is not to blame. */
static void test_broken(void)
{
    CUdeviceptr at = get(6 * MIB, 7);
    uint64_t moved, unpinned = gpud_host_unpinned;

    vmm_host(8 * MIB);
    vmm_fail(2, CUDA_ERROR_ILLEGAL_ADDRESS, true);      /* making the context current is no work in it */
    enum gpud_swap_result result = gpud_swap_out(SLOT, 6 * MIB, 0, &moved);
    CHECK(result == GPUD_SWAP_BROKEN && moved == 0, "%d, %llu left", result, (unsigned long long)moved);
    CHECK(gpud_host_unpinned == unpinned, "not refused");
    vmm_fail(0, CUDA_SUCCESS, false);
    CHECK(out(6 * MIB, GPUD_SWAP_DONE) == 6 * MIB && in(GPUD_SWAP_DONE) == 6 * MIB && holds(at, 6 * MIB, 7), "as it was");
    clear(&at, 1);
}

/* A host copy that has changed never reaches the device, and nothing waits for it: the rest comes in, the program goes on. */
static void test_corrupt(void)
{
    CUdeviceptr at = get(6 * MIB, 7);
    out(6 * MIB, GPUD_SWAP_DONE);
    pthread_mutex_lock(&gpud_pool_lock);
    uint32_t unit = gpud_span_at(at)->chunk[1].host;
    pthread_mutex_unlock(&gpud_pool_lock);
    struct gpud_stretch stretch = gpud_host_stretch(&unit, MIB);
    stretch.at[123456] ^= 4;
    CHECK(in(GPUD_SWAP_DONE) == 4 * MIB && gpud_pool_lacks(SLOT) == 0, "nothing is tried again");
    CHECK(!vmm_is_mapped(at + 2 * MIB) && vmm_is_mapped(at) && vmm_is_mapped(at + 4 * MIB), "no data, but an error");
    CHECK(gpud_pool_counts(SLOT).lost == 2 * MIB && gpud_load(&gpud_activity()->errors) > 0, "and it is counted");
    CHECK(out(6 * MIB, GPUD_SWAP_LITTLE) == 4 * MIB && in(GPUD_SWAP_DONE) == 4 * MIB, "the rest goes on");
    CHECK(gpud_pool_free(at) == CUDA_SUCCESS, "free");
    out(UINT64_MAX, GPUD_SWAP_LITTLE);
    CHECK(gpud_pool_counts(SLOT).lost == 0 && vmm_live.handles == 0 && vmm_live.reservations == 0, "nothing else is left");
    CHECK(gpud_host_used == 2 * MIB, "but that slot, which nobody gets any more");
}

int main(void)
{
    vmm_start(1024 * MIB);
    vmm_host(200 * MIB);
    vmm_host(120 * MIB);
    test_deficit();
    test_parts();
    test_full();
    test_no_memory();
    test_away();
    test_middle();
    test_context();
    test_refused();
    test_reset();
    test_many_regions();
    test_broken();
    test_corrupt();
    CHECK(vmm_violations == 0 && gpud_chunk_lost == 0, "wrong uses");
    return check_summary("pool swap");
}
