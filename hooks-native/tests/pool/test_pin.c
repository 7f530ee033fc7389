/* test_pin.c: memory of the pool's that somebody outside has: it stays where it is, is nobody else's, and counts for as long as it is held. */
#include "alloc.h"
#include "fake_vmm.h"

#define SLOT 2

static CUdeviceptr get(size_t bytes)
{
    CUdeviceptr at = 0;
    CHECK(gpud_pool_takes(bytes) && gpud_pool_alloc(&at, bytes) == CUDA_SUCCESS, "%zu bytes", bytes);
    return at;
}

static uint64_t out(void)
{
    uint64_t moved = 0;
    gpud_swap_out(SLOT, UINT64_MAX, 0, &moved);
    return moved;
}

static void in(void)
{
    uint64_t moved;
    CHECK(gpud_swap_in(SLOT, UINT64_MAX, 0, &moved) == GPUD_SWAP_DONE, "in");
}

static uint64_t reserved(void)
{
    return gpud_load_total(&gpud_presence_at(SLOT)->reserved_bytes);
}

/* As the entry does it, with a driver that answers `result`. */
static void pinned(CUdeviceptr at, size_t bytes, CUresult result)
{
    const struct gpud_pin pin = gpud_pins(at, bytes);
    gpud_pinned(&pin, result);
}

static void test_stays(void)
{
    CUdeviceptr at = get(6 * MIB);
    pinned(at + 3 * MIB, 4096, CUDA_SUCCESS);
    CHECK(gpud_pool_counts(SLOT).pinned == 2 * MIB && gpud_pool_counts(SLOT).resident == 4 * MIB, "one chunk of three");
    CHECK(gpud_load(&gpud_activity()->device[SLOT].pins[GPUD_PIN_OUTSIDE]) == 2 * MIB, "and its page says why");
    CHECK(out() == 4 * MIB && vmm_is_mapped(at + 3 * MIB) && !vmm_is_mapped(at), "the others leave");
    pinned(at, 2 * MIB, CUDA_SUCCESS);
    CHECK(gpud_pool_counts(SLOT).pinned == 2 * MIB, "what has no memory just now is nobody's yet");
    in();
    pinned(at, 6 * MIB, CUDA_ERROR_NOT_SUPPORTED);
    CHECK(gpud_pool_counts(SLOT).pinned == 2 * MIB, "what the driver has refused leaves as before");
    CHECK(out() == 4 * MIB, "leaves");
    in();
    uint64_t before = vmm_live.handle_bytes;
    CHECK(gpud_pool_free(at) == CUDA_SUCCESS && vmm_live.handle_bytes <= before - 2 * MIB, "freed: its memory goes to the driver");
    uint64_t creates = vmm_live.creates;
    at = get(6 * MIB);
    CHECK(vmm_live.creates > creates, "and is not recycled");
    CHECK(gpud_pool_free(at) == CUDA_SUCCESS, "free");
}

static void test_small(void)
{
    CUdeviceptr one = get(1000), two = get(1000);
    CHECK(one / (2 * MIB) == two / (2 * MIB), "together");
    pinned(one, 1, CUDA_SUCCESS);
    CUdeviceptr three = get(1000);
    CHECK(one / (2 * MIB) != three / (2 * MIB), "nobody else is put beside it");
    out();
    CHECK(vmm_is_mapped(two) && !vmm_is_mapped(three), "all of its chunk stays");
    in();
    CHECK(gpud_pool_free(one) == CUDA_SUCCESS && gpud_pool_free(two) == CUDA_SUCCESS && gpud_pool_free(three) == CUDA_SUCCESS, "free");
}

static void test_ordered(void)
{
    CUdeviceptr at = 0, other = 0;
    CHECK(gpud_pool_takes_ordered(3 * MIB, NULL, vmm_stream(1), 0) && gpud_pool_alloc_ordered(&at, 3 * MIB, vmm_stream(1), 0) == CUDA_SUCCESS, "get");
    pinned(at, 3 * MIB, CUDA_SUCCESS);
    vmm_stream(1)->number = -1;
    CHECK(gpud_pool_free_ordered(at, vmm_stream(1), 0) == CUDA_SUCCESS, "free");
    CHECK(gpud_pool_alloc_ordered(&other, 3 * MIB, vmm_stream(1), 0) == CUDA_SUCCESS && other != at, "not even its own stream has it again");
    vmm_stream(1)->number = 0;
    CHECK(gpud_pool_free(other) == CUDA_SUCCESS, "free");
}

/* A handle of it lasts longer than the allocation. */
static void test_counts(void)
{
    CUdeviceptr at = get(3 * MIB);
    struct gpud_freeing freeing;
    uint64_t before = reserved();
    gpud_handle_retained(77, at);
    gpud_handle_retained(77, at + 1);
    pinned(at, 1, CUDA_SUCCESS);
    CHECK(reserved() == before, "not twice while the pool has it");
    CHECK(gpud_pool_free(at) == CUDA_SUCCESS && reserved() == before + 2 * MIB, "its handle has the chunk");
    freeing = gpud_handle_frees(77);
    gpud_handle_is_freed(&freeing, CUDA_SUCCESS);
    CHECK(reserved() == before + 2 * MIB, "it was given out twice");
    freeing = gpud_handle_frees(77);
    gpud_handle_is_freed(&freeing, CUDA_SUCCESS);
    CHECK(reserved() == before, "nobody has it any more");
    at = get(3 * MIB);
    gpud_handle_retained(78, at);
    freeing = gpud_handle_frees(78);
    gpud_handle_is_freed(&freeing, CUDA_SUCCESS);
    CHECK(gpud_pool_free(at) == CUDA_SUCCESS && reserved() == before, "the handle first");
}

int main(void)
{
    vmm_start(1024 * MIB);
    vmm_host(64 * MIB);
    gpud_slots_start();
    test_stays();
    test_small();
    test_ordered();
    test_counts();
    out();
    out();
    CHECK(vmm_live.handles == 0 && vmm_live.reservations == 0 && gpud_pool_counts(SLOT).pinned == 0 && vmm_violations == 0, "%llu handles left",
          (unsigned long long)vmm_live.handles);
    return check_summary("pool pin");
}
