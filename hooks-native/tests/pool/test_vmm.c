/* test_vmm.c: memory that the program makes by handles: it leaves the device and comes back as the pool's does, wherever it is mapped. */
#include <unistd.h>

#include "alloc.h"
#include "vmm_program.h"

static CUmemGenericAllocationHandle make(uint64_t bytes)
{
    CUmemGenericAllocationHandle handle = 0;
    CHECK(make_handle(&handle, bytes) == CUDA_SUCCESS && gpud_virtual(handle), "a handle of ours");
    return handle;
}

static CUdeviceptr map(CUmemGenericAllocationHandle handle, CUdeviceptr at, uint64_t bytes)
{
    CHECK(gpud_vmm_map(at, bytes, 0, handle, 0) == CUDA_SUCCESS && rights(at, bytes, 0, 3) == CUDA_SUCCESS, "mapped");
    return at;
}

/* Segments side by side, as PyTorch's expandable ones. */
static void test_segments(void)
{
    enum { COUNT = 5 };
    CUmemGenericAllocationHandle handle[COUNT];
    CUdeviceptr at = reserve_addresses(COUNT * 20 * MIB);
    for (int i = 0; i < COUNT; i++) {
        handle[i] = make(20 * MIB);
        CHECK(gpud_vmm_map(at + i * 20 * MIB, 20 * MIB, 0, handle[i], 0) == CUDA_SUCCESS, "mapped");
    }
    CHECK(rights(at, COUNT * 20 * MIB, 0, 3) == CUDA_SUCCESS && rights(at, COUNT * 20 * MIB, 1, 1) == CUDA_SUCCESS, "rights, over all");
    for (int i = 0; i < COUNT; i++)
        *word_at(at + i * 20 * MIB) = 100 + i;
    uint64_t creates = vmm_live.creates, moved;
    CHECK(gpud_pool_largest(SLOT) == 64 * MIB, "as much may leave at once");
    CHECK(gpud_swap_out(SLOT, 30 * MIB, 0, &moved) == GPUD_SWAP_DONE && moved == 40 * MIB, "what lacks, in whole handles");
    CHECK(!vmm_is_mapped(at) && !vmm_is_mapped(at + 20 * MIB) && vmm_is_mapped(at + 40 * MIB), "the coldest");
    CHECK(vmm_live.handle_bytes == 60 * MIB, "%llu bytes left", (unsigned long long)vmm_live.handle_bytes);
    CHECK(in() == 40 * MIB && vmm_live.creates == creates + 2, "back");
    for (int i = 0; i < COUNT; i++) {
        CHECK(*word_at(at + i * 20 * MIB) == 100u + i, "contents of %d", i);
        CHECK(vmm_rights(at + i * 20 * MIB, 0) == 3 && vmm_rights(at + i * 20 * MIB, 1) == 1, "rights of %d, the peer's too", i);
    }
    for (int i = 0; i < COUNT; i++)
        CHECK(gpud_vmm_release(handle[i]) == CUDA_SUCCESS, "released while mapped");
    CHECK(gpud_vmm_release(handle[0]) == CUDA_ERROR_INVALID_VALUE, "once");
    CHECK(out() == 100 * MIB && in() == 100 * MIB && *word_at(at + 80 * MIB) == 104, "its mapping keeps it");
    CHECK(gpud_vmm_unmap(at, 30 * MIB) == CUDA_ERROR_INVALID_VALUE, "not a part of a mapping");
    CHECK(gpud_vmm_unmap(at + 20 * MIB, 60 * MIB) == CUDA_SUCCESS && vmm_live.handle_bytes == 40 * MIB, "some of them");
    CHECK(out() == 40 * MIB, "out");
    CHECK(gpud_vmm_unmap(at, 100 * MIB) == CUDA_ERROR_INVALID_VALUE, "a hole");
    CHECK(gpud_vmm_unmap(at, 20 * MIB) == CUDA_SUCCESS && gpud_vmm_unmap(at + 80 * MIB, 20 * MIB) == CUDA_SUCCESS, "while away");
    CHECK(gpud_host_used == 0 && gpud_pool_lacks(SLOT) == 0, "the slots are given back");
}

/* One memory at two addresses, then at none, then at a third: what was written stays. */
static void test_elsewhere(void)
{
    CUmemGenericAllocationHandle handle = make(4 * MIB);
    CUdeviceptr one = reserve_addresses(4 * MIB), two = reserve_addresses(4 * MIB), three = reserve_addresses(4 * MIB);
    map(handle, one, 4 * MIB);
    map(handle, two, 2 * MIB);
    *word_at(one + 8) = 7;
    CHECK(*word_at(two + 8) == 7, "one memory");
    CHECK(out() == 4 * MIB && vmm_live.mapped_bytes == 0 && in() == 4 * MIB, "once");
    *word_at(two + 8) = 8;
    CHECK(*word_at(one + 8) == 8, "one memory still");
    CHECK(gpud_vmm_unmap(one, 4 * MIB) == CUDA_SUCCESS && gpud_vmm_unmap(two, 2 * MIB) == CUDA_SUCCESS, "nowhere");
    CHECK(out() == 4 * MIB, "it leaves all the same");
    CHECK(gpud_vmm_map(three, 4 * MIB, 0, handle, 0) == CUDA_SUCCESS && rights(three, 4 * MIB, 0, 1) == CUDA_SUCCESS, "mapped while away");
    CHECK(!vmm_is_mapped(three) && in() == 4 * MIB && *word_at(three + 8) == 8, "contents");
    CHECK(vmm_rights(three, 0) == 1, "read only");
    CHECK(gpud_vmm_release(handle) == CUDA_SUCCESS && gpud_vmm_unmap(three, 4 * MIB) == CUDA_SUCCESS && vmm_live.handles == 0, "gone");
}

/* Without the device: promised; backed at the next turn. */
static void test_lazy(void)
{
    CUdeviceptr at = reserve_addresses(8 * MIB);
    gpud_store(&vmm_control(SLOT)->gate, GPUD_GATE_GRANT);
    vmm_capacity = 0;
    CUmemGenericAllocationHandle handle = make(8 * MIB);
    CHECK(vmm_live.handles == 0 && gpud_pool_counts(SLOT).lazy == 8 * MIB, "no memory of the device");
    map(handle, at, 8 * MIB);
    CHECK(rights(at, 8 * MIB, 1, 2) == CUDA_ERROR_INVALID_VALUE && rights(at, 8 * MIB, 2, 3) == CUDA_ERROR_INVALID_DEVICE, "no such rights");
    CUmemAllocationProp fabric = of_device;
    fabric.requestedHandleTypes = 8;
    CHECK(gpud_vmm_create(&handle, UNIT, &fabric) == CUDA_ERROR_OUT_OF_MEMORY, "what not every driver makes is not promised unasked");
    vmm_capacity = 1024 * MIB;
    CHECK(gpud_vmm_create(&handle, 100 * MIB, &fabric) == CUDA_SUCCESS && vmm_live.handles == 0, "asked, it is");
    CHECK(gpud_pool_largest(SLOT) == 100 * MIB, "and may leave as a whole");
    CHECK(gpud_vmm_release(handle) == CUDA_SUCCESS, "never there");
    CHECK(in() == 8 * MIB && vmm_is_mapped(at), "memory");
    gpud_store(&vmm_control(SLOT)->gate, 0);
    CHECK(gpud_vmm_unmap(at, 8 * MIB) == CUDA_SUCCESS && vmm_live.handles == 1, "the handle keeps it");
    CHECK(gpud_vmm_retain(&handle, at) == CUDA_ERROR_INVALID_VALUE, "it is not there");
}

/* An export pins, brought in first; the others leave. */
static void test_export(void)
{
    CUmemGenericAllocationHandle handle = make(4 * MIB), other = make(2 * MIB), again = 0;
    CUdeviceptr at = map(handle, reserve_addresses(4 * MIB), 4 * MIB);
    int fd = -1;
    *word_at(at) = 5;
    CHECK(out() >= 6 * MIB, "both out");
    CHECK(gpud_vmm_export(&fd, handle, 1, 0) == CUDA_ERROR_OUT_OF_MEMORY, "what is not there cannot be given");
    in();
    CHECK(gpud_vmm_export(&fd, handle, 8, 0) == CUDA_ERROR_INVALID_VALUE && gpud_pool_counts(SLOT).pinned == 0, "refused: nothing is pinned");
    CHECK(gpud_vmm_export(&fd, handle, 1, 0) == CUDA_SUCCESS && gpud_pool_counts(SLOT).pinned == 4 * MIB, "pinned");
    CHECK(gpud_load(&gpud_activity()->device[SLOT].pins[GPUD_PIN_OUTSIDE]) == 4 * MIB, "and its page says why");
    CHECK(out() >= 2 * MIB && vmm_is_mapped(at) && *word_at(at) == 5, "stays");
    CHECK(gpud_vmm_retain(&again, at + 3) == CUDA_SUCCESS && again == handle, "the same handle");
    in();
    CHECK(gpud_vmm_release(handle) == CUDA_SUCCESS && gpud_vmm_release(again) == CUDA_SUCCESS && gpud_vmm_release(other) == CUDA_SUCCESS &&
          gpud_vmm_unmap(at, 4 * MIB) == CUDA_SUCCESS && gpud_pool_counts(SLOT).pinned == 0, "gone");
    at = map(handle = make(2 * MIB), reserve_addresses(2 * MIB), 2 * MIB);
    const struct gpud_pin pin = gpud_pins(at + 5, 10);
    gpud_pinned(&pin, CUDA_SUCCESS);
    CHECK(gpud_pool_counts(SLOT).pinned == 2 * MIB && (out(), vmm_is_mapped(at)), "and what is reached by address");
    in();
    CHECK(gpud_vmm_release(handle) == CUDA_SUCCESS && gpud_vmm_unmap(at, 2 * MIB) == CUDA_SUCCESS, "gone");
}

/* Counted by the ledger as memory that can leave, until the last of it is gone. */
static void test_counts(void)
{
    struct gpud_activity_device *device = &gpud_activity()->device[SLOT];
    uint64_t before = gpud_load_total(&gpud_presence_at(SLOT)->reserved_bytes);
    vmm_control(SLOT)->memory_limit = UINT64_MAX;
    const struct gpud_charge charge = gpud_reserves_on(CU_MEM_LOCATION_TYPE_DEVICE, 0, 4 * MIB);
    CUmemGenericAllocationHandle handle = make(4 * MIB);
    CHECK(!gpud_reserved(&charge, gpud_handle_made(handle), 4 * MIB, CUDA_SUCCESS), "settled");
    CHECK(gpud_load_total(&gpud_presence_at(SLOT)->reserved_bytes) == before + 4 * MIB, "charged");
    CHECK(gpud_load(&device->used_bytes) == 4 * MIB && gpud_load(&device->pins[GPUD_PIN_HANDLE]) == 0, "counted, and not as pinned");
    struct gpud_freeing freeing = gpud_handle_frees(handle);
    gpud_handle_is_freed(&freeing, gpud_vmm_release(handle));
    CHECK(gpud_load_total(&gpud_presence_at(SLOT)->reserved_bytes) == before, "given back");
    const struct gpud_charge early = gpud_reserves_on(CU_MEM_LOCATION_TYPE_DEVICE, 0, 4 * MIB);
    gpud_reserved(&early, gpud_handle_made(77), 4 * MIB, CUDA_SUCCESS);
    CHECK(gpud_load(&device->pins[GPUD_PIN_HANDLE]) == 4 * MIB, "the driver's own are pinned");
    freeing = gpud_handle_frees(77);
    gpud_handle_is_freed(&freeing, CUDA_SUCCESS);
}

/* What is not ours is the driver's. */
static void test_takes(void)
{
    CUmemAllocationProp prop = of_device;
    CHECK(gpud_vmm_takes(2 * MIB, &prop, 0) && !gpud_vmm_takes(2 * MIB, &prop, 1) && !gpud_vmm_takes(MIB, &prop, 0) &&
          !gpud_vmm_takes(0, &prop, 0) && !gpud_vmm_takes(2 * MIB, NULL, 0), "sizes, flags");
    prop.location.type = 3;
    CHECK(!gpud_vmm_takes(2 * MIB, &prop, 0), "host memory");
    prop = of_device, prop.location.id = 7;
    CHECK(!gpud_vmm_takes(2 * MIB, &prop, 0), "a device that is not managed");
    prop = of_device, prop.allocFlags.usage = 1;
    CHECK(!gpud_vmm_takes(2 * MIB, &prop, 0), "tiles");
    prop = of_device, prop.requestedHandleTypes = 2;
    CHECK(!gpud_vmm_takes(2 * MIB, &prop, 0), "Windows");
    gpud_captures = 1;
    CHECK(!gpud_vmm_takes(2 * MIB, &of_device, 0), "in a capture");
    gpud_captures = 0;
    vmm_control(SLOT)->memory_flags = 0;
    CHECK(!gpud_vmm_takes(2 * MIB, &of_device, 0), "nothing is swapped");
    vmm_control(SLOT)->memory_flags = GPUD_MEMORY_SWAP;
}

/* A handle of the driver's beside ours: nothing of the two may lie over each other, and a range of both is taken apart. */
static void test_mixed(void)
{
    CUmemGenericAllocationHandle mine = make(2 * MIB), theirs = 0;
    CUdeviceptr at = reserve_addresses(8 * MIB);
    map(mine, at, 2 * MIB);
    CHECK(real.cuMemCreate(&theirs, 2 * MIB, &of_device, 0) == CUDA_SUCCESS && !gpud_vmm_maps(at + 2 * MIB, 2 * MIB, theirs) &&
          real.cuMemMap(at + 2 * MIB, 2 * MIB, 0, theirs, 0) == CUDA_SUCCESS, "the driver's own");
    gpud_vmm_driver_mapped(at + 2 * MIB, 2 * MIB, theirs);
    out();
    CHECK(gpud_vmm_maps(at, 2 * MIB, theirs) && gpud_vmm_map(at, 2 * MIB, 0, theirs, 0) == CUDA_ERROR_INVALID_VALUE, "over ours, while away");
    CHECK(gpud_vmm_map(at + 2 * MIB, 2 * MIB, 0, mine, 0) == CUDA_ERROR_INVALID_VALUE, "ours over it");
    CHECK(gpud_vmm_map(at + 6 * MIB, 4 * MIB, 0, mine, 0) == CUDA_ERROR_INVALID_VALUE, "beyond what is reserved");
    CHECK(rights(at, 4 * MIB, 0, 3) == CUDA_SUCCESS && vmm_rights(at + 2 * MIB, 0) == 3, "rights of both");
    in();
    CHECK(vmm_rights(at, 0) == 3, "and of ours");
    CHECK(gpud_vmm_unmap(at, 4 * MIB) == CUDA_SUCCESS && !vmm_is_mapped(at) && !vmm_is_mapped(at + 2 * MIB), "both");
    CHECK(gpud_vmm_release(mine) == CUDA_SUCCESS && real.cuMemRelease(theirs) == CUDA_SUCCESS && vmm_live.mapped_bytes == 0, "gone");
}

/* Released, unmapped and mapped elsewhere in the middle of a swap. */
static CUmemGenericAllocationHandle middle;
static CUdeviceptr middle_at, middle_to;
static void change(void)
{
    if (middle_at == 0)
        return;
    CHECK(gpud_vmm_unmap(middle_at, 64 * MIB) == CUDA_SUCCESS, "unmapped in the middle");
    if (middle_to != 0)
        CHECK(gpud_vmm_map(middle_to, 64 * MIB, 0, middle, 0) == CUDA_SUCCESS && rights(middle_to, 64 * MIB, 0, 3) == CUDA_SUCCESS, "and mapped");
    else
        CHECK(gpud_vmm_release(middle) == CUDA_SUCCESS, "released");
    middle_at = 0;
}

static void test_middle(void)
{
    CUdeviceptr one = reserve_addresses(64 * MIB), two = reserve_addresses(64 * MIB);
    vmm_at_wait = change;
    for (int way = 0; way < 2; way++) {
        middle = make(64 * MIB);
        map(middle, one, 64 * MIB);
        *word_at(one + MIB) = 9;
        middle_at = one, middle_to = two;
        if (way == 0)
            out();
        else
            middle_at = 0, out(), middle_at = one;
        in();
        CHECK(*word_at(two + MIB) == 9, "contents are elsewhere");
        middle_at = two, middle_to = 0;
        out();
        in();
        CHECK(vmm_live.handles == 0 && gpud_host_used == 0, "released in the middle: nothing is left");
    }
    vmm_at_wait = NULL;
}

/* It goes with no context, and is copied in any that is there. */
static void test_context(void)
{
    CUmemGenericAllocationHandle handle = make(2 * MIB);
    CUdeviceptr at = map(handle, reserve_addresses(2 * MIB), 2 * MIB);
    CUcontext context = vmm_context(0, 0);
    *word_at(at) = 3;
    CHECK(out() == 2 * MIB, "out");
    vmm_end_context(false);
    gpud_pool_context_gone(UINT32_MAX, context);
    vmm_context(0, 1);
    CHECK(in() == 2 * MIB && *word_at(at) == 3, "by way of another context");
    CHECK(out() == 2 * MIB, "out");
    context = vmm_context(0, 1);
    vmm_end_context(false);
    gpud_pool_context_gone(UINT32_MAX, context);
    gpud_store(&vmm_control(SLOT)->gate, GPUD_GATE_GRANT);
    CUmemGenericAllocationHandle lazy = make(4 * MIB);
    gpud_store(&vmm_control(SLOT)->gate, 0);
    uint64_t moved;
    CHECK(gpud_swap_in(SLOT, UINT64_MAX, 0, &moved) == GPUD_SWAP_DONE && moved == 4 * MIB && gpud_pool_lacks(SLOT) == 2 * MIB,
          "without any context, what has no contents");
    CHECK(gpud_vmm_release(lazy) == CUDA_SUCCESS, "gone");
    vmm_context(0, 0);
    CHECK(in() == 2 * MIB && *word_at(at) == 3, "and the rest in the next one");
    CHECK(gpud_vmm_release(handle) == CUDA_SUCCESS && gpud_vmm_unmap(at, 2 * MIB) == CUDA_SUCCESS, "gone");
}

/* One that the host has no room for is in nobody's way. */
static void test_host_full(void)
{
    CUmemGenericAllocationHandle large = make(300 * MIB), small = make(4 * MIB);
    uint64_t moved;
    CHECK(gpud_swap_out(SLOT, 4 * MIB, 0, &moved) == GPUD_SWAP_DONE && moved == 4 * MIB, "the next one leaves: %llu", (unsigned long long)moved);
    CHECK(gpud_swap_out(SLOT, 4 * MIB, 0, &moved) == GPUD_SWAP_NO_HOST && moved == 0, "and the reason why no more does");
    CHECK(in() == 4 * MIB && gpud_vmm_release(large) == CUDA_SUCCESS && gpud_vmm_release(small) == CUDA_SUCCESS, "gone");
}

/* Addresses that are given back may be another thread's at once: of another size. */
static void *reserves(void *at)
{
    gpud_vmm_reserved((uintptr_t)at, 8 * MIB);
    return NULL;
}

static void test_addresses(void)
{
    CUdeviceptr at = reserve_addresses(8 * MIB);
    CUmemGenericAllocationHandle handle;
    pthread_t other;
    CHECK(!gpud_vmm_unreserves(at, 8 * MIB), "nothing is there");
    gpud_vmm_unreserved(at, CUDA_SUCCESS);
    gpud_vmm_reserved(at, 2 * MIB);
    CHECK(!gpud_vmm_unreserves(at, 2 * MIB), "the driver has given them back, and to another one");
    pthread_create(&other, NULL, reserves, (void *)(uintptr_t)at);
    usleep(10000);
    gpud_vmm_unreserved(at, CUDA_SUCCESS);
    pthread_join(other, NULL);
    gpud_store(&vmm_control(SLOT)->gate, GPUD_GATE_GRANT);
    map(handle = make(4 * MIB), at + 4 * MIB, 4 * MIB);
    gpud_store(&vmm_control(SLOT)->gate, 0);
    CHECK(gpud_vmm_unreserves(at, 8 * MIB), "in use");
    gpud_vmm_unreserved(at, CUDA_ERROR_INVALID_VALUE);
    CHECK(gpud_vmm_unmap(at + 4 * MIB, 4 * MIB) == CUDA_SUCCESS && gpud_vmm_release(handle) == CUDA_SUCCESS, "gone");
}

/* While the driver is asked about memory that is on the device, that does not leave. */
static CUresult range_of(CUdeviceptr *base, size_t *bytes, CUdeviceptr at)
{
    bool held = pthread_mutex_trylock(&gpud_pool_lock) != 0;
    if (!held)
        pthread_mutex_unlock(&gpud_pool_lock);
    *base = at, *bytes = held;
    return CUDA_SUCCESS;
}

static void test_questions(void)
{
    CUmemGenericAllocationHandle handle = make(4 * MIB);
    CUdeviceptr at = map(handle, reserve_addresses(4 * MIB), 4 * MIB), base = 0;
    size_t bytes = 0;
    real.cuMemGetAddressRange_v2 = range_of;
    CHECK(gpud_vmm_range(&base, &bytes, at + 8) == CUDA_SUCCESS && base == at + 8 && bytes == 1, "it stays while the driver answers");
    out();
    CHECK(gpud_vmm_range(&base, &bytes, at + 8) == CUDA_SUCCESS && base == at && bytes == 4 * MIB, "away");
    CHECK(gpud_vmm_release(handle) == CUDA_SUCCESS && gpud_vmm_unmap(at, 4 * MIB) == CUDA_SUCCESS, "gone");
    CHECK(gpud_vmm_range(&base, &bytes, at) == CUDA_SUCCESS && base == at && bytes == 1, "not ours any more");
}

/* The driver knows which of its memory is reached past it. */
static CUresult sync_memops_of(void *data, int attribute, CUdeviceptr at)
{
    (void)at;
    *(unsigned char *)data = attribute == 6;    /* CU_POINTER_ATTRIBUTE_SYNC_MEMOPS */
    return CUDA_SUCCESS;
}

/* What the device has no memory for is not tried by pieces: that would take all that is left of it. What it has is made of them. */
static void test_pieces(void)
{
    CUmemGenericAllocationHandle most = make(700 * MIB), handle = 0;
    uint64_t creates = vmm_live.creates;
    CHECK(make_handle(&handle, 600 * MIB) == CUDA_ERROR_OUT_OF_MEMORY && vmm_live.creates == creates, "refused at once");
    vmm_fail(2, CUDA_ERROR_OUT_OF_MEMORY, false);
    CHECK(make_handle(&handle, 128 * MIB) == CUDA_SUCCESS && vmm_failed() && vmm_live.creates == creates + 64, "in pieces");
    vmm_fail(0, CUDA_SUCCESS, false);
    CUdeviceptr at = map(handle, reserve_addresses(128 * MIB), 128 * MIB);
    *word_at(at + 127 * MIB) = 4;
    CUdeviceptr base = 0;
    size_t bytes = 0;
    CHECK(gpud_vmm_range(&base, &bytes, at + 3 * MIB) == CUDA_SUCCESS && base == at && bytes == 128 * MIB, "one mapping for the program");
    unsigned char set = 0;
    real.cuPointerGetAttribute = sync_memops_of;
    CHECK(gpud_vmm_attribute(&set, 6, at + 3 * MIB) == CUDA_SUCCESS && set == 1, "which the driver knows to be set");
    real.cuPointerGetAttribute = NULL;
    CHECK(gpud_vmm_release(most) == CUDA_SUCCESS && out() == 128 * MIB && in() == 128 * MIB && *word_at(at + 127 * MIB) == 4, "and back");
    CHECK(gpud_vmm_release(handle) == CUDA_SUCCESS && gpud_vmm_unmap(at, 128 * MIB) == CUDA_SUCCESS, "gone");
}

int main(void)
{
    vmm_start(1024 * MIB);
    vmm_host(200 * MIB);
    gpud_slots_start();
    test_takes();
    test_segments();
    test_elsewhere();
    test_export();
    test_counts();
    test_mixed();
    test_middle();
    test_context();
    test_host_full();
    test_addresses();
    test_questions();
    test_pieces();
    test_lazy();
    CHECK(vmm_live.handles == 1 && gpud_chunk_lost == 0 && vmm_violations == 0, "%llu handles left", (unsigned long long)vmm_live.handles);
    return check_summary("pool vmm");
}
