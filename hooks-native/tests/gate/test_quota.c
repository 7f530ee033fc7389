/* test_quota.c: a tenant's limit: reserved before the driver is asked, given back where it fails, exact among processes at once. */
#include <string.h>

#include "alloc.h"
#include "fake.h"
#include "quota.h"

#define MIB (UINT64_C(1) << 20)
#define RACERS 4

static uint64_t reserved(void)
{
    return gpud_load(&gpud_presence_at(0)->reserved_bytes);
}

static uint64_t pinned(int why)
{
    return gpud_load(&gpud_activity()->device[0].pins[why]);
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

/* Pools that the driver has: each holds what a test says, and how often it was asked is counted. */
#define POOLS 20
static uint64_t pool_holds[POOLS];
static uint32_t asked[POOLS];
static CUmemoryPool pool(int i)
{
    return (CUmemoryPool)(uintptr_t)(0x7000 + i);
}

static CUresult pool_attribute(CUmemoryPool of, int attribute, void *value)
{
    int i = (int)((uintptr_t)of - 0x7000);
    asked[i]++;
    *(cuuint64_t *)value = attribute == 5 ? pool_holds[i] : 0;
    return CUDA_SUCCESS;
}

static void allocate_ordered(int i, uint64_t bytes, uint64_t grows)
{
    struct gpud_charge charge = gpud_reserves_ordered(bytes, pool(i), NULL, 0);
    CHECK(!charge.refused, "fits");
    pool_holds[i] += grows;
    gpud_reserved(&charge, 0x100000 + (uint64_t)i, bytes, CUDA_SUCCESS);
}

/* An allocation asks the driver about its own pool, however many there are. */
static void of_pools(void)
{
    CUmemPoolProps props = { .location = { .type = 1, .id = 0 } };

    real.cuMemPoolGetAttribute = pool_attribute;
    for (int i = 0; i < POOLS; i++)
        gpud_pool_made(pool(i), &props);
    for (int limited = 0; limited < 2; limited++) {
        limit(limited ? 100 * MIB : UINT64_MAX);
        memset(asked, 0, sizeof asked);
        uint64_t before = reserved();
        allocate_ordered(7, 3 * MIB, 32 * MIB);
        CHECK(reserved() == before + 32 * MIB, "what the pool holds is charged: %llu", (unsigned long long)reserved());
        for (int i = 0; i < POOLS; i++)
            CHECK(asked[i] == (i != 7 ? 0 : limited ? 3 : 1), "pool %d was asked %u times", i, asked[i]);
    }
    pool_holds[3] = 5 * MIB;
    gpud_pools_look(0, 0, true);
    CHECK(reserved() == 69 * MIB && pinned(GPUD_PIN_POOL) == 69 * MIB && pinned(GPUD_PIN_GRAPH) == 0, "a look at all of them");
    for (int i = 0; i < POOLS; i++)
        gpud_pool_ended(pool(i));
    CHECK(reserved() == 0 && pinned(GPUD_PIN_POOL) == 0, "gone");
    real.cuMemPoolGetAttribute = NULL;
}

/* Each byte that cannot leave the device has a reason, and is out of it when it is freed. */
static void why_it_stays(void)
{
    static const struct { uint64_t key; int why; bool managed, captures; } kinds[] = {
        { 0x1000, GPUD_PIN_EARLY, false, false }, { 0x2000, GPUD_PIN_CAPTURE, false, true }, { 0x3000 | GPUD_ARRAY_KEYS, GPUD_PIN_ARRAY, false, true },
        { 0x4000, GPUD_PIN_MANAGED, true, true }, { 5 | GPUD_HANDLE_KEYS, GPUD_PIN_HANDLE, false, false } };

    limit(UINT64_MAX);
    for (unsigned i = 0; i < 5; i++) {
        gpud_captures = kinds[i].captures;
        struct gpud_charge charge = kinds[i].managed ? gpud_reserves_managed(MIB) : gpud_reserves(MIB);
        gpud_reserved(&charge, kinds[i].key, (i + 1) * MIB, CUDA_SUCCESS);
        gpud_captures = 0;
    }
    for (unsigned i = 0; i < 5; i++)
        CHECK(pinned(kinds[i].why) == (i + 1) * MIB, "%u: %llu bytes", i, (unsigned long long)pinned(kinds[i].why));
    for (unsigned i = 0; i < 5; i++) {
        release(kinds[i].key, 719);
        CHECK(pinned(kinds[i].why) == (i + 1) * MIB, "%u: the driver refused to free", i);
        release(kinds[i].key, CUDA_SUCCESS);
        CHECK(pinned(kinds[i].why) == 0, "%u: %llu bytes left", i, (unsigned long long)pinned(kinds[i].why));
    }
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
    why_it_stays();
    of_pools();
    at_once();
    with_a_sibling();
    gpud_alloc_forget();
    CHECK(gpud_quota_take(0, 10 * MIB), "a child has none of the parent's memory");
    return check_summary("quota");
}
