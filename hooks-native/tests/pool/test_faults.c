/* test_faults.c: everything that the pool does, with a fault at each driver call in turn, each in a process of its own: nothing of the
 * program's data is lost, nothing leaks, and what failed works at the next try. */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include "fake_vmm.h"

#define SLOT 2
#define COUNT 7

static struct { CUdeviceptr at; size_t bytes; bool ordered; } have[COUNT];
static const size_t sizes[COUNT] = { 3 * MIB, 2 * MIB + 5, 700000, 1, MIB + 1, 512, 65536 };

static uint64_t value_of(int i, uint64_t offset)
{
    return (offset + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t)i << 56;
}

/* Some bytes of each page are the allocation's own. */
static void fill(int i)
{
    for (uint64_t offset = 0; offset + 8 <= have[i].bytes; offset += 4096) {
        uint64_t value = value_of(i, offset);
        memcpy((void *)(uintptr_t)(have[i].at + offset), &value, 8);
    }
    *(unsigned char *)(uintptr_t)(have[i].at + have[i].bytes - 1) = (unsigned char)(i + 100);
}

static void look(int i)
{
    bool same = *(unsigned char *)(uintptr_t)(have[i].at + have[i].bytes - 1) == (unsigned char)(i + 100);
    for (uint64_t offset = 0; offset + 9 <= have[i].bytes; offset += 4096) {
        uint64_t value = value_of(i, offset);
        same &= memcmp((void *)(uintptr_t)(have[i].at + offset), &value, 8) == 0;
    }
    CHECK(same, "allocation %d has lost its contents", i);
}

/* The counts are the driver's truth. */
static void balance(void)
{
    struct gpud_pool_counts counts = gpud_pool_counts(SLOT);
    CHECK(counts.resident + gpud_chunk_lost == vmm_live.handle_bytes, "%llu resident, the driver has %llu", (unsigned long long)counts.resident,
          (unsigned long long)vmm_live.handle_bytes);
    CHECK(gpud_chunk_lost != 0 || gpud_host_used == counts.host, "%llu of slots used for %llu", (unsigned long long)gpud_host_used,
          (unsigned long long)counts.host);
}

static void get(int i)
{
    CUdeviceptr at = 0;
    CUresult result = CUDA_ERROR_UNKNOWN;

    for (int tries = 0; tries < 3 && result != CUDA_SUCCESS; tries++) {
        if (i % 2 == 0 && gpud_pool_takes_ordered(sizes[i], NULL, vmm_stream(i % 3), 0))
            result = gpud_pool_alloc_ordered(&at, sizes[i], vmm_stream(i % 3), 0);
        else if (gpud_pool_takes(sizes[i]))
            result = gpud_pool_alloc(&at, sizes[i]);
        balance();
    }
    have[i].at = result == CUDA_SUCCESS ? at : 0;
    have[i].bytes = sizes[i];
    have[i].ordered = i % 2 == 0;
    CHECK(result == CUDA_SUCCESS, "allocation %d at the third try", i);
    if (have[i].at != 0)
        fill(i);
}

static void drop(int i)
{
    CUresult result = CUDA_ERROR_UNKNOWN;
    for (int tries = 0; tries < 3 && have[i].at != 0 && result != CUDA_SUCCESS; tries++) {
        result = have[i].ordered ? gpud_pool_free_ordered(have[i].at, vmm_stream(i % 3), 0) : gpud_pool_free(have[i].at);
        balance();
    }
    CHECK(have[i].at == 0 || result == CUDA_SUCCESS, "free %d at the third try: %d", i, result);
    have[i].at = 0;
}

static void cycle(uint64_t bytes)
{
    uint64_t moved;
    for (int tries = 0; tries < 3; tries++) {
        enum gpud_swap_result out = gpud_swap_out(SLOT, bytes, 0, &moved);
        balance();
        if (out == GPUD_SWAP_DONE || out == GPUD_SWAP_LITTLE)
            break;
    }
    for (int tries = 0; tries < 3 && gpud_pool_lacks(SLOT) != 0; tries++) {
        gpud_swap_in(SLOT, UINT64_MAX, 0, &moved);
        balance();
    }
    CHECK(gpud_pool_lacks(SLOT) == 0, "not all came back in");
    for (int i = 0; i < COUNT && gpud_pool_lacks(SLOT) == 0; i++) {
        if (have[i].at != 0)
            look(i);
    }
}

/* One life of a program. The fault, if any, is single, so a third try at the latest works. */
static void story(void)
{
    for (int i = 0; i < COUNT; i++)
        get(i);
    cycle(UINT64_MAX);
    drop(2);
    drop(1);
    cycle(3 * MIB);     /* a part */
    get(1);
    get(2);
    uint64_t moved;
    gpud_swap_out(SLOT, UINT64_MAX, 0, &moved);
    drop(4);
    drop(0);        /* while out */
    cycle(0);
    for (int i = 0; i < COUNT; i++)
        drop(i);
    /* A fault in the last frees may leave something for the next pass. */
    gpud_swap_out(SLOT, UINT64_MAX, 0, &moved);
    gpud_swap_out(SLOT, UINT64_MAX, 0, &moved);
    CHECK(gpud_chunk_lost == 0, "%llu bytes lost", (unsigned long long)gpud_chunk_lost);
    CHECK(vmm_live.handles == 0 && vmm_live.mapped_bytes == 0 && vmm_live.reservations == 0, "%llu handles, %llu mapped, %llu reservations left",
          (unsigned long long)vmm_live.handles, (unsigned long long)vmm_live.mapped_bytes, (unsigned long long)vmm_live.reservations);
    CHECK(gpud_host_used == 0, "host slots leak");
    CHECK(vmm_violations == 0, "wrong uses");
}

/* A driver that answers errors for ever: nothing to be gained, but nothing may be touched wrongly either. */
static void dead_story(void)
{
    CUdeviceptr at;
    uint64_t moved;
    for (int i = 0; i < 3; i++) {
        if (gpud_pool_takes(sizes[i]) && gpud_pool_alloc(&at, sizes[i]) == CUDA_SUCCESS)
            have[i].at = at;
    }
    gpud_swap_out(SLOT, UINT64_MAX, 0, &moved);
    gpud_swap_in(SLOT, UINT64_MAX, 0, &moved);
    for (int i = 0; i < 3; i++) {
        if (have[i].at != 0)
            gpud_pool_free(have[i].at);
    }
    CHECK(vmm_violations == 0, "wrong uses");
}

/* 0: all right, and the fault came; 1: wrong; 2: the story has fewer calls. */
static int child(uint64_t n, CUresult code, bool on)
{
    pid_t pid = fork();
    if (pid == 0) {
        alarm(300);
        vmm_start(256 * MIB);
        vmm_host(96 * MIB);
        vmm_fail(n, code, on);
        if (on)
            dead_story();
        else
            story();
        _exit(check_failures != 0 ? 1 : vmm_failed() ? 0 : 2);
    }
    int status;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(void)
{
    static const struct { CUresult code; bool on; } kinds[] = { { CUDA_ERROR_UNKNOWN, false }, { CUDA_ERROR_OUT_OF_MEMORY, false },
                                                                { CUDA_ERROR_UNKNOWN, true } };
    for (int kind = 0; kind < 3; kind++) {
        uint64_t n = 1;
        for (int outcome = 0; outcome != 2 && n < 2000 && check_failures < 3; n += kind == 1 ? 3 : 1) {
            /* Want of memory is met by the same code as other errors but at a few places. */
            outcome = child(n, kinds[kind].code, kinds[kind].on);
            CHECK(outcome != 1, "with a fault (%d%s) at call %llu", kinds[kind].code, kinds[kind].on ? ", for ever" : "", (unsigned long long)n);
        }
        CHECK((n > 30 && n < 2000) || check_failures != 0, "only %llu calls", (unsigned long long)n);
        printf("%d: %llu fail points\n", kind, (unsigned long long)n - 2);
    }
    return check_summary("pool faults");
}
