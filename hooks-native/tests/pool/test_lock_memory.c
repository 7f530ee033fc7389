/* test_lock_memory.c: the device lock and memory that is not on the device: whoever opens the gate, a policy without turns, a daemon that
 * lets the program go, no launch and no copy passes before the memory is back. The keeper's steps are made here, one by one. */
#define _GNU_SOURCE
#include "fake_vmm.h"
#include "gate.h"
#include "launch.h"
#include "lock.h"
#include "session.h"

#define SLOT 2
#define BYTES (64 * MIB)

static CUdeviceptr at;
static uint32_t began, passed, wrong;
static int through_copy;

/* What the program does next: a launch, or a copy, that reads the memory. */
static void *uses(void *unused)
{
    vmm_context(0, 0);
    gpud_add_total(&began, 1);
    if (through_copy) {
        uint64_t counted = gpud_copies(4096, vmm_stream(0), 0);
        gpud_add(&wrong, !vmm_is_mapped(at) || *(unsigned char *)(uintptr_t)at != 7);
        gpud_copied(counted, CUDA_SUCCESS);
    } else {
        struct gpud_pass pass = gpud_enter(vmm_stream(0), 0, NULL, 1);
        gpud_add(&wrong, !vmm_is_mapped(at) || *(unsigned char *)(uintptr_t)at != 7);
        gpud_leave(&pass, vmm_stream(0), 0, CUDA_SUCCESS);
    }
    gpud_add_total(&passed, 1);
    return unused;
}

static pthread_t use(int copy)
{
    pthread_t thread;

    through_copy = copy;
    began = passed = 0;
    pthread_create(&thread, NULL, uses, NULL);
    while (gpud_load_total(&began) == 0)
        gpud_relax();
    return thread;
}

/* It has been asked to pass and has not: the thread is past its question and waits. Not before: nobody could tell it from one that is slow. */
static void stays_out(const char *when)
{
    struct timespec nap = { .tv_nsec = 20000000 };
    nanosleep(&nap, NULL);
    CHECK(gpud_load_total(&passed) == 0, "%s: it has passed", when);
}

static uint64_t step(void)
{
    return gpud_lock_step(SLOT, gpud_now());
}

static void set(uint32_t gate, uint64_t epoch)
{
    gpud_store_release(&vmm_control(SLOT)->grant_epoch, epoch);
    gpud_store_release(&vmm_control(SLOT)->gate, gate);
    gpud_add_total(&vmm_control(SLOT)->wake, 1);
    gpud_futex_wake(&vmm_control(SLOT)->wake, true);
}

static void granted(uint64_t epoch)
{
    struct gpud_lock_device *lock = &gpud_lock_devices[SLOT];

    set(GPUD_GATE_GRANT, epoch);
    lock->epoch = epoch;
    lock->bytes = UINT64_MAX;
    lock->retry_ns = 0;
    gpud_lock_state(SLOT, GPUD_LOCK_COMES_IN);
}

/* Has the device, fills its memory, loses the device, and all of it leaves. */
static void goes_out(uint64_t epoch)
{
    granted(epoch);
    step();
    CHECK(gpud_lock_devices[SLOT].state == GPUD_LOCK_HAS && gpud_lock_held(SLOT), "has it");
    if (at == 0) {
        CHECK(gpud_pool_takes(BYTES) && gpud_pool_alloc(&at, BYTES) == CUDA_SUCCESS, "memory");
        memset((void *)(uintptr_t)at, 7, BYTES);
    }
    CHECK(vmm_is_mapped(at), "it is there");
    set(GPUD_GATE_GRANT, 0);
    step();
    step();
    CHECK(gpud_lock_devices[SLOT].state == GPUD_LOCK_NONE && gpud_lock_devices[SLOT].owes_back, "has left");
    gpud_lock_devices[SLOT].swap = (struct gpud_msg_memory){ .slot = SLOT, .bytes = UINT64_MAX };
    gpud_lock_swap(SLOT, gpud_now());
    CHECK(gpud_lock_devices[SLOT].swap.code == 1 && gpud_lock_devices[SLOT].swap.bytes >= BYTES && !vmm_is_mapped(at), "it is out");
}

static void comes_back(pthread_t thread, const char *when)
{
    while (gpud_load_total(&passed) == 0 && gpud_load(&gpud_closed) != 0)
        step();
    pthread_join(thread, NULL);
    CHECK(wrong == 0 && vmm_is_mapped(at) && gpud_load(&gpud_closed) == 0, "%s: it has passed without its memory", when);
}

static void a_turn(int copy)
{
    goes_out(10);
    pthread_t thread = use(copy);
    stays_out("no turn");
    granted(11);
    step();
    pthread_join(thread, NULL);
    CHECK(wrong == 0 && passed == 1, "by its turn");
}

static void no_turns_any_more(int copy)
{
    goes_out(20);
    pthread_t thread = use(copy);
    set(0, 0);
    stays_out("the gate is open");
    comes_back(thread, "no turns");
}

/* DETACH: from now on launches do not even look at the gate. */
static void let_go(int copy)
{
    goes_out(30);
    pthread_t thread = use(copy);
    gpud_session_let_go();
    stays_out("let go");
    comes_back(thread, "let go");
    CHECK(gpud_lock_devices[SLOT].state == GPUD_LOCK_NONE, "nothing of the lock is left");
    gpud_store_release(&gpud_managed, 1);
    gpud_word_raise(0, 0);
}

/* … and there is no room: it waits for it, and what is in the host slots stays whole. */
static void let_go_without_room(int copy)
{
    goes_out(40);
    pthread_t thread = use(copy);
    uint64_t room = vmm_capacity;
    vmm_capacity = 0;
    gpud_session_let_go();
    gpud_lock_devices[SLOT].retry_ns = gpud_now() + 3600 * GPUD_SECOND;      /* as after a try that has failed */
    CHECK(step() == gpud_lock_devices[SLOT].retry_ns, "tries again later");
    stays_out("no room");
    CHECK(gpud_pool_lacks(SLOT) == BYTES, "still out");
    vmm_capacity = room;
    gpud_lock_devices[SLOT].retry_ns = 0;
    comes_back(thread, "room");
    gpud_store_release(&gpud_managed, 1);
    gpud_word_raise(0, 0);
}

/* Granted, and the grant is gone before all is in: it stays closed, and is open when the next one is in. */
static void lost_while_coming_in(int copy)
{
    goes_out(50);
    pthread_t thread = use(copy);
    granted(51);
    set(GPUD_GATE_GRANT, 0);
    step();
    step();
    CHECK(gpud_lock_devices[SLOT].state == GPUD_LOCK_NONE && gpud_pool_lacks(SLOT) == BYTES, "nothing came in");
    stays_out("lost");
    granted(52);
    step();
    pthread_join(thread, NULL);
    CHECK(wrong == 0 && passed == 1, "by its next turn");
}

/* Allocated while it has not the device: addresses without memory. What opens the gate then opens nothing before there is some. */
static void allocated_while_away(int copy)
{
    CUdeviceptr before = at;

    set(GPUD_GATE_GRANT, 0);
    step();
    step();
    CHECK(gpud_lock_devices[SLOT].state == GPUD_LOCK_NONE && gpud_load(&gpud_closed) == 0, "away, nothing lacks");
    CHECK(gpud_pool_alloc(&at, BYTES) == CUDA_SUCCESS && !vmm_is_mapped(at) && gpud_load(&gpud_closed) == 1u << SLOT, "closed from now on");
    set(0, 0);
    pthread_t thread = use(copy);
    stays_out("the gate is open");
    while (gpud_load(&gpud_closed) != 0)
        step();
    pthread_join(thread, NULL);
    CHECK(vmm_is_mapped(at), "memory");
    wrong = 0;          /* it has no contents yet */
    CHECK(gpud_pool_free(at) == CUDA_SUCCESS, "free");
    at = before;
}

/* Each wait of the mover lasts as long as a part of a swap may: the daemon is listened to in between. */
static uint32_t slow_waits;
static void slow(void)
{
    uint64_t until = gpud_now() + 250 * GPUD_MILLISECOND;

    slow_waits++;
    while (gpud_now() < until)
        nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
}

static void in_parts(void)
{
    struct gpud_lock_device *lock = &gpud_lock_devices[SLOT];
    CUdeviceptr more[3];
    uint32_t parts = 0, longest = 0, before;

    granted(60);
    step();
    for (int i = 0; i < 3; i++) {
        CHECK(gpud_pool_alloc(&more[i], BYTES) == CUDA_SUCCESS, "memory");
        memset((void *)(uintptr_t)more[i], i, BYTES);
    }
    set(GPUD_GATE_GRANT, 0);
    step();
    step();
    lock->swap = (struct gpud_msg_memory){ .slot = SLOT, .bytes = 4 * BYTES };
    lock->swapped = 0;
    vmm_at_wait = slow;
    for (bool done = false; !done && parts < 100; parts++) {
        before = slow_waits;
        done = gpud_lock_swap(SLOT, gpud_now());
        longest = slow_waits - before > longest ? slow_waits - before : longest;
    }
    CHECK(parts > 1 && longest <= 3 && lock->swap.code == 1 && lock->swap.bytes == 4 * BYTES, "out in %u parts of up to %u waits", parts, longest);
    granted(61);
    for (parts = 0, longest = 0; parts < 100 && lock->state == GPUD_LOCK_COMES_IN; parts++) {
        before = slow_waits;
        step();
        longest = slow_waits - before > longest ? slow_waits - before : longest;
        CHECK(!(lock->flags & GPUD_LOCK_SHORT), "nothing is short");
    }
    vmm_at_wait = NULL;
    CHECK(parts > 1 && longest <= 3 && lock->state == GPUD_LOCK_HAS && vmm_is_mapped(more[2]), "in in %u parts of up to %u waits", parts, longest);
    for (int i = 0; i < 3; i++)
        CHECK(*(unsigned char *)(uintptr_t)more[i] == i && gpud_pool_free(more[i]) == CUDA_SUCCESS, "contents");
}

static uint64_t idle(void)
{
    return gpud_pool_counts(SLOT).idle;
}

/* Has the device, and has freed memory: it is kept for the next allocation. */
static void keeps_some(uint64_t epoch)
{
    CUdeviceptr more[2];

    granted(epoch);
    step();
    for (int i = 0; i < 2; i++)
        CHECK(gpud_pool_alloc(&more[i], BYTES) == CUDA_SUCCESS, "memory");
    for (int i = 0; i < 2; i++)
        CHECK(gpud_pool_free(more[i]) == CUDA_SUCCESS, "free");
    CHECK(idle() >= BYTES && gpud_pool_resident(SLOT) == BYTES + idle(), "kept: %lu", (unsigned long)idle());
}

/* What is kept in no use never stands beside what lacks memory: the daemon would take both together for what it needs. */
static void kept_and_lacking(void)
{
    CUdeviceptr more;

    keeps_some(70);
    set(GPUD_GATE_GRANT, 0);
    step();
    step();
    CHECK(gpud_pool_alloc(&more, 3 * BYTES) == CUDA_SUCCESS && gpud_pool_lacks(SLOT) == 3 * BYTES, "addresses without memory");
    CHECK(idle() == 0 && gpud_pool_resident(SLOT) == BYTES, "%lu bytes count as on the device", (unsigned long)gpud_pool_resident(SLOT));
    granted(71);
    gpud_lock_devices[SLOT].bytes = 4 * BYTES;
    step();
    CHECK(gpud_lock_devices[SLOT].state == GPUD_LOCK_HAS && gpud_pool_lacks(SLOT) == 0, "all of it is in");
    CHECK(gpud_pool_free(more) == CUDA_SUCCESS, "free");
}

/* Memory is not swapped any more: nobody would ask for what is kept. What is freed later is not kept at all. */
static void kept_and_not_swapped(void)
{
    uint32_t flags = gpud_load(&vmm_control(SLOT)->memory_flags);
    CUdeviceptr more;

    keeps_some(72);
    CHECK(gpud_pool_alloc(&more, 3 * BYTES) == CUDA_SUCCESS, "memory");
    gpud_pool_free(more);
    keeps_some(73);
    gpud_store(&vmm_control(SLOT)->memory_flags, 0);
    step();
    CHECK(idle() == 0, "kept with nobody to ask for it");
    gpud_store(&vmm_control(SLOT)->memory_flags, flags);
    CHECK(gpud_pool_alloc(&more, BYTES) == CUDA_SUCCESS, "memory");
    gpud_store(&vmm_control(SLOT)->memory_flags, 0);
    CHECK(gpud_pool_free(more) == CUDA_SUCCESS && idle() == 0 && gpud_pool_resident(SLOT) == BYTES, "freed, and not kept");
    gpud_store(&vmm_control(SLOT)->memory_flags, flags);
    keeps_some(74);
    set(0, 0);
    CHECK(gpud_pool_give_idle(gpud_thread.ordinal) && idle() == 0 && !gpud_pool_give_idle(gpud_thread.ordinal), "given back once, when asked");
}

/* Each attempt leaves something in no use behind, and finds no room: who asks is not sent round for ever, past the daemon's line. */
static void kept_by_the_attempt(void)
{
    struct gpud_charge charge = { .ordinal = gpud_thread.ordinal };
    bool again[4];

    keeps_some(75);
    for (int i = 0; i < 4; i++) {
        CUdeviceptr more;
        CHECK(gpud_pool_alloc(&more, BYTES) == CUDA_SUCCESS && gpud_pool_free(more) == CUDA_SUCCESS && idle() >= BYTES, "kept");
        again[i] = gpud_reserved(&charge, 0, BYTES, CUDA_ERROR_OUT_OF_MEMORY);
    }
    CHECK(again[0] && !again[1] && again[2] && !again[3], "%d %d %d %d", again[0], again[1], again[2], again[3]);
}

/* It says that it finds no memory only where the daemon has said that there is room for all it lacks. */
static void finds_none(void)
{
    struct gpud_lock_device *lock = &gpud_lock_devices[SLOT];
    uint64_t room = vmm_capacity;

    goes_out(80);
    granted(81);
    lock->owes_in = false;
    lock->bytes = BYTES - 1;
    step();
    CHECK(lock->state == GPUD_LOCK_COMES_IN && !lock->owes_in && !(lock->flags & GPUD_LOCK_SHORT), "it waits for what it has not been promised");
    lock->bytes = BYTES;
    lock->retry_ns = 0;
    vmm_capacity = 0;
    step();
    CHECK(lock->state == GPUD_LOCK_COMES_IN && lock->owes_in && (lock->flags & GPUD_LOCK_SHORT), "it was promised, and there is none");
    lock->retry_ns = 0;
    vmm_capacity = room;
    step();
    CHECK(lock->state == GPUD_LOCK_HAS && lock->owes_in && lock->flags == 0 && vmm_is_mapped(at), "all is in");
}

int main(void)
{
    vmm_start(320 * MIB);
    vmm_host(256 * MIB);
    gpud_slots_start();
    for (int copy = 0; copy < 2; copy++) {
        a_turn(copy);
        no_turns_any_more(copy);
        let_go(copy);
        let_go_without_room(copy);
        lost_while_coming_in(copy);
        allocated_while_away(copy);
    }
    finds_none();
    in_parts();
    kept_and_lacking();
    kept_and_not_swapped();
    kept_by_the_attempt();
    CHECK(vmm_violations == 0, "the driver was used wrongly");
    return check_summary("lock_memory");
}
