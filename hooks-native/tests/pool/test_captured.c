/* test_captured.c: the device lock and memory while a stream capture is open. Memory comes in, or who captures and launches beside it would wait
 * for as long as it captures; none leaves, since what is captured may name it. The keeper's steps are made here, one by one. */
#define _GNU_SOURCE
#include "fake_vmm.h"
#include "lock.h"

#define SLOT 2
#define BYTES (64 * MIB)

static struct gpud_lock_device *const lock = &gpud_lock_devices[SLOT];

static void granted(uint64_t epoch)
{
    gpud_store_release(&vmm_control(SLOT)->grant_epoch, epoch);
    gpud_store_release(&vmm_control(SLOT)->gate, GPUD_GATE_GRANT);
    lock->epoch = epoch;
    lock->bytes = UINT64_MAX;
    lock->retry_ns = 0;
    gpud_lock_state(SLOT, GPUD_LOCK_COMES_IN);
    gpud_lock_step(SLOT, gpud_now());
}

static void is_taken_back(void)
{
    gpud_store_release(&vmm_control(SLOT)->grant_epoch, 0);
    gpud_lock_step(SLOT, gpud_now());
    gpud_lock_step(SLOT, gpud_now());
}

static uint32_t swap_out(void)
{
    lock->swap = (struct gpud_msg_memory){ .slot = SLOT, .bytes = UINT64_MAX };
    lock->swapped = 0;
    while (!gpud_lock_swap(SLOT, gpud_now()))
        ;
    return lock->swap.code;
}

int main(void)
{
    CUdeviceptr at;
    uint64_t moved;

    vmm_start(256 * MIB);
    vmm_host(256 * MIB);
    gpud_slots_start();
    granted(10);
    CHECK(gpud_pool_takes(BYTES) && gpud_pool_alloc(&at, BYTES) == CUDA_SUCCESS, "memory");
    memset((void *)(uintptr_t)at, 7, BYTES);
    is_taken_back();
    CHECK(swap_out() == 1 && !vmm_is_mapped(at), "it is out");

    gpud_capture_began(vmm_stream(1));
    granted(11);
    CHECK(lock->state == GPUD_LOCK_HAS && gpud_lock_held(SLOT) && gpud_load(&gpud_closed) == 0, "in, with a capture open: %u", lock->state);
    CHECK(vmm_is_mapped(at) && *(unsigned char *)(uintptr_t)at == 7, "with its memory");
    is_taken_back();
    CHECK(lock->state == GPUD_LOCK_LEAVES, "it is not given back while a capture is open");
    CHECK(gpud_swap_out(SLOT, UINT64_MAX, 0, &moved) == GPUD_SWAP_NOT_NOW && moved == 0 && vmm_is_mapped(at), "and nothing leaves");
    gpud_capture_ended(vmm_stream(1));
    is_taken_back();
    CHECK(lock->state == GPUD_LOCK_NONE && swap_out() == 1 && !vmm_is_mapped(at), "after it all does");

    real.cuThreadExchangeStreamCaptureMode = NULL;      /* before 10.1: the calls that bring it in would end the capture */
    gpud_capture_began(vmm_stream(1));
    granted(12);
    CHECK(lock->state == GPUD_LOCK_COMES_IN && !vmm_is_mapped(at), "an old driver is not asked");
    gpud_capture_ended(vmm_stream(1));
    granted(12);
    CHECK(lock->state == GPUD_LOCK_HAS && vmm_is_mapped(at), "and is, afterwards");
    CHECK(vmm_violations == 0, "the driver was used wrongly");
    return check_summary("pool captured");
}
