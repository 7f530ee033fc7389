/* test_quota.c: a tenant's limit: reserved before the driver is asked, given back where it fails, exact among processes at once. */
#include "alloc.h"
#include "fake.h"
#include "quota.h"

#define MIB (UINT64_C(1) << 20)
#define RACERS 4

static uint64_t reserved(void)
{
    return gpud_load(&gpud_presence_at(0)->reserved_bytes);
}

static void limit(uint64_t bytes)
{
    gpud_store(&local_control()->device[0].memory_limit, bytes);
}

/* What the entry does around a driver that answers `result`; the code that the program gets. */
static CUresult allocate(uint64_t at, uint64_t bytes, CUresult result)
{
    struct gpud_charge charge = gpud_reserves(bytes);
    if (charge.refused)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CHECK(reserved() >= bytes, "reserved before the driver is asked");
    gpud_reserved(&charge, result == CUDA_SUCCESS ? at : 0, bytes, result);
    return result;
}

static void release(uint64_t at, CUresult result)
{
    struct gpud_freeing freeing = gpud_frees(at);
    gpud_is_freed(&freeing, result);
}

static void alone(void)
{
    size_t left = 90 * MIB, total = 100 * MIB;

    limit(UINT64_MAX);
    CHECK(allocate(0x1000, 500 * MIB, CUDA_SUCCESS) == CUDA_SUCCESS && reserved() == 500 * MIB, "unlimited is counted all the same");
    gpud_limit_info(&left, &total);
    CHECK(left == 90 * MIB && total == 100 * MIB, "unlimited: answers stay");
    release(0x1000, CUDA_SUCCESS);
    limit(10 * MIB);
    CHECK(allocate(0x1000, 4 * MIB, CUDA_SUCCESS) == CUDA_SUCCESS, "fits");
    CHECK(allocate(0x2000, 6 * MIB + 1, CUDA_SUCCESS) == CUDA_ERROR_OUT_OF_MEMORY && reserved() == 4 * MIB, "a byte too much");
    CHECK(allocate(0x2000, UINT64_MAX, CUDA_SUCCESS) == CUDA_ERROR_OUT_OF_MEMORY && reserved() == 4 * MIB, "far too much");
    CHECK(allocate(0x2000, 6 * MIB, 719) == 719 && reserved() == 4 * MIB, "the driver failed: given back");
    CHECK(allocate(0x2000, 6 * MIB, CUDA_SUCCESS) == CUDA_SUCCESS && reserved() == 10 * MIB, "exactly full");
    gpud_limit_info(&left, &total);
    CHECK(left == 0 && total == 10 * MIB, "%zu of %zu", left, total);
    gpud_limit_info(NULL, NULL);
    gpud_limit_total(NULL, 0);
    total = 100 * MIB;
    gpud_limit_total(&total, 0);
    CHECK(total == 10 * MIB, "total is the limit");
    release(0x9000, CUDA_SUCCESS);
    CHECK(reserved() == 10 * MIB, "unknown: the driver's own affair");
    release(0x2000, 719);
    CHECK(reserved() == 10 * MIB, "the driver refused to free: still held");
    limit(5 * MIB);
    CHECK(allocate(0x3000, 1, CUDA_SUCCESS) == CUDA_ERROR_OUT_OF_MEMORY, "lowered: it may only free");
    release(0x2000, CUDA_SUCCESS);
    CHECK(reserved() == 4 * MIB && allocate(0x3000, MIB, CUDA_SUCCESS) == CUDA_SUCCESS, "and has room again");
    gpud_store(&local_control()->device[0].overhead_bytes, MIB);
    gpud_store(&local_control()->device[0].others_reserved, MIB);
    limit(7 * MIB);
    CHECK(allocate(0x4000, 1, CUDA_SUCCESS) == CUDA_ERROR_OUT_OF_MEMORY, "overhead and those beyond the table count");
    gpud_store(&local_control()->device[0].overhead_bytes, 0);
    gpud_store(&local_control()->device[0].others_reserved, 0);
    gpud_ledger_context_gone(UINT32_MAX, fake_context(0));
    CHECK(reserved() == 0, "went with the context: %llu", (unsigned long long)reserved());
    struct gpud_charge host = gpud_reserves_on(2, 0, 100 * MIB), there = gpud_reserves_on(1, 0, 8 * MIB);
    CHECK(!host.refused && there.refused, "a handle counts where it lies");
    CUmemoryPool of_host = (CUmemoryPool)(uintptr_t)0x5000;
    CUmemPoolProps props = { .location = { .type = 2, .id = 0 } };
    gpud_pool_made(of_host, &props);
    struct gpud_charge pooled = gpud_reserves_ordered(100 * MIB, of_host, NULL, 0);
    gpud_reserved(&pooled, 0x6000, 100 * MIB, CUDA_SUCCESS);
    CHECK(!pooled.refused && reserved() == 0, "a pool of the host's memory counts nowhere");
    gpud_pool_ended(of_host);
    CHECK(gpud_pool_ordinal(of_host) == UINT32_MAX, "forgotten");
}

/* Threads of one process: never more than the limit, and all that was given back is there again. */
static uint64_t holding;
static void *take_and_give(void *unused)
{
    (void)unused;
    for (int i = 0; i < 3000; i++) {
        if (!gpud_quota_take(0, 3 * MIB))
            continue;
        CHECK(gpud_add_total(&holding, 1) + 1 <= 3, "three of 3 MiB fit into 10");
        gpud_sub_total(&holding, 1);
        gpud_quota_give(0, 3 * MIB);
    }
    return NULL;
}

static void at_once(void)
{
    pthread_t threads[RACERS];

    limit(10 * MIB);
    for (int i = 0; i < RACERS; i++)
        pthread_create(&threads[i], NULL, take_and_give, NULL);
    for (int i = 0; i < RACERS; i++)
        pthread_join(threads[i], NULL);
    CHECK(reserved() == 0, "all is given back");
}

static void with_a_sibling(void)
{
    struct gpud_presence_page *sibling = local_peer(3, 1);

    local_control()->device[0].peers[0].flags = GPUD_PEER_OWN;
    local_publish();
    limit(10 * MIB);
    gpud_store_total(&sibling->device[gpud_presence_index(&sibling->header, 0)].reserved_bytes, 7 * MIB);
    CHECK(allocate(0x1000, 4 * MIB, CUDA_SUCCESS) == CUDA_ERROR_OUT_OF_MEMORY && reserved() == 0, "the tenant is over its limit");
    CHECK(allocate(0x1000, 3 * MIB, CUDA_SUCCESS) == CUDA_SUCCESS, "exactly full, as a tenant");
    gpud_store_total(&sibling->device[gpud_presence_index(&sibling->header, 0)].reserved_bytes, 0);
    CHECK(allocate(0x2000, 7 * MIB, CUDA_SUCCESS) == CUDA_SUCCESS, "the sibling freed");
    local_control()->device[0].peers[0].flags = 0;
    gpud_store_total(&sibling->device[gpud_presence_index(&sibling->header, 0)].reserved_bytes, 100 * MIB);
    release(0x2000, CUDA_SUCCESS);
    CHECK(allocate(0x2000, 7 * MIB, CUDA_SUCCESS) == CUDA_SUCCESS, "another tenant's memory is not ours");
}

int main(void)
{
    gpud_start();
    fake_context(0);
    local_attach(2);
    alone();
    at_once();
    with_a_sibling();
    gpud_alloc_forget();
    CHECK(gpud_quota_take(0, 10 * MIB), "a child has none of the parent's memory");
    return check_summary("quota");
}
