/* test_ordered.c: stream-ordered allocations: who may have what was freed, when, and what the pool says of itself. */
#include "fake_vmm.h"

enum { INTERNAL = 3, RESERVED_NOW = 5, RESERVED_HIGH, USED_NOW, USED_HIGH };

static CUmemoryPool pool(int device) { return (CUmemoryPool)(uintptr_t)(0x100 + device); }

static CUdeviceptr get(size_t bytes, int stream)
{
    CUdeviceptr at = 0;
    CHECK(gpud_pool_takes_ordered(bytes, pool(0), vmm_stream(stream), 0) &&
          gpud_pool_alloc_ordered(&at, bytes, vmm_stream(stream), 0) == CUDA_SUCCESS, "%zu bytes", bytes);
    return at;
}

static void drop(CUdeviceptr at, int stream)
{
    CHECK(gpud_pool_free_ordered(at, vmm_stream(stream), 0) == CUDA_SUCCESS, "free");
}

static uint64_t figure(int which)
{
    cuuint64_t value = 0;
    gpud_pool_of_pool(pool(0), which, &value);
    return value;
}

static void test_reuse(size_t bytes)
{
    CUdeviceptr at = get(bytes, 1);
    vmm_stream(1)->number = -1;             /* busy: its events are not there yet */
    drop(at, 1);
    CHECK(!gpud_pool_owns(at) && gpud_pool_free(at) == CUDA_ERROR_INVALID_VALUE, "freed is freed");
    CHECK(get(bytes, 1) == at, "the same stream has it at once");
    drop(at, 1);
    int off = 0, on = 1;
    gpud_pool_of_pool_set(pool(0), INTERNAL, &off);
    CUdeviceptr other = get(bytes, 2);
    CHECK(other != at, "another stream not before the free");
    gpud_pool_of_pool_set(pool(0), INTERNAL, &on);
    drop(other, 2);
    vmm_stream(2)->number = -1;
    uint64_t calls = vmm_calls;
    CUdeviceptr third = get(bytes, 3);
    CHECK((third == at || third == other) && vmm_calls > calls, "or behind an event");
    drop(third, 3);
    vmm_stream(1)->number = vmm_stream(2)->number = 0;
    CUdeviceptr a = get(bytes, 4), b = get(bytes, 4);
    CHECK((a == at || a == other) && (b == at || b == other) && a != b, "both, once the streams have come so far");
    drop(a, 4);
    CHECK(gpud_pool_free(b) == CUDA_SUCCESS, "by the plain call");
}

/* Whoever waits for a stream keeps nobody else from the pool. */
static uint32_t waits, locked;
static void others_go_on(void)
{
    waits++;
    if (pthread_mutex_trylock(&gpud_pool_lock) == 0)
        pthread_mutex_unlock(&gpud_pool_lock);
    else
        locked++;
}

static void test_waits_alone(void)
{
    vmm_capacity = 64 * MIB;
    vmm_at_wait = others_go_on;
    CUdeviceptr at = get(64 * MIB, 5);
    vmm_stream(5)->number = -1;
    drop(at, 5);
    at = get(60 * MIB, 6);
    CHECK(at != 0 && waits == 1 && locked == 0, "for want of memory it waits, and holds nobody: %u of %u", locked, waits);
    drop(at, 6);
    gpud_pool_trimmed(pool(0), 0);
    for (int n = 1; n < 40; n++) {      /* one of the calls that a free makes is that for an event, and is refused; one puts it behind */
        at = get(3 * MIB, 6);
        vmm_fail((uint64_t)n, CUDA_ERROR_UNKNOWN, false);
        drop(at, 6);
        CHECK(!gpud_pool_owns(at), "freed");
        vmm_fail(1, CUDA_SUCCESS, false);
    }
    CHECK(waits > 1 && locked == 0, "where no event can be had it waits, and holds nobody: %u of %u", locked, waits);
    vmm_at_wait = NULL;
    vmm_capacity = 1024 * MIB;
}

int main(void)
{
    uint64_t moved;
    vmm_start(1024 * MIB);
    test_waits_alone();
    CHECK(!gpud_pool_takes_ordered(100, pool(1), vmm_stream(1), 0), "another pool is the driver's");
    test_reuse(3 * MIB);
    test_reuse(1000);
    CHECK(figure(USED_NOW) == 0 && figure(USED_HIGH) >= 6 * MIB, "%llu in use", (unsigned long long)figure(USED_NOW));
    CUdeviceptr at = get(3 * MIB, 1), linear = 0;
    CHECK(figure(USED_NOW) == 3 * MIB && figure(RESERVED_NOW) >= 3 * MIB && figure(1) == 0, "figures");
    CUmemoryPool of = NULL;
    CHECK(gpud_pool_attribute(&of, 17, at) == CUDA_SUCCESS && of == pool(0) && gpud_pool_attribute(&of, 1, at) == CUDA_ERROR_INVALID_VALUE, "of the pool");
    gpud_pool_of_pool_set(pool(0), USED_HIGH, &(cuuint64_t){ 0 });
    CHECK(figure(USED_HIGH) == 3 * MIB, "the high mark is set back");
    CHECK(gpud_pool_takes(100) && gpud_pool_alloc(&linear, 100) == CUDA_SUCCESS, "linear");
    drop(linear, 1);                        /* legal */
    drop(at, 1);
    vmm_stream(1)->number = -1;
    gpud_pool_stream_gone(vmm_stream(1));
    vmm_stream(1)->number = 0;
    gpud_pool_trimmed(pool(0), 0);
    CHECK(vmm_live.handles == 0, "trimmed to nothing: %llu handles", (unsigned long long)vmm_live.handles);
    /* Out of memory, until a stream has come to its free. */
    vmm_capacity = 64 * MIB;
    at = get(64 * MIB, 5);
    vmm_stream(5)->number = -1;
    drop(at, 5);
    at = get(60 * MIB, 6);
    CHECK(at != 0, "waits rather than fails");
    vmm_stream(5)->number = 0;
    drop(at, 6);
    gpud_swap_out(2, UINT64_MAX, 0, &moved);
    CHECK(vmm_live.handles == 0 && vmm_live.reservations == 0 && vmm_violations == 0, "something is left");
    return check_summary("pool ordered");
}
