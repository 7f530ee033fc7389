/* test_handle.c: memory by handles stays counted while a handle or a mapping holds it. */
#include "fake.h"
#include "quota.h"

#define UNIT (UINT64_C(2) << 20)
#define AT UINT64_C(0x700000000000)
#define MANY 3000
#define THREADS 4

static uint64_t reserved(void)
{
    return gpud_load(&gpud_presence_at(0)->reserved_bytes);
}

/* As the entries do it, around a driver that says yes. */
static void create(uint64_t handle, uint64_t bytes)
{
    struct gpud_charge charge = gpud_reserves_on(1, 0, bytes);
    gpud_reserved(&charge, gpud_handle_made(handle), bytes, CUDA_SUCCESS);
}

static void release(uint64_t handle, CUresult result)
{
    struct gpud_freeing freeing = gpud_handle_frees(handle);
    gpud_handle_is_freed(&freeing, result);
}

static void mapped(void)
{
    create(1, 2 * UNIT);
    create(2, UNIT);
    CHECK(reserved() == 3 * UNIT, "made: %llu", (unsigned long long)reserved());
    gpud_handle_mapped(AT, 2 * UNIT, 1);
    gpud_handle_mapped(AT + 2 * UNIT, UNIT, 2);
    gpud_handle_mapped(AT + 3 * UNIT, UNIT, 99);        /* imported: another one's */
    release(1, CUDA_SUCCESS);
    CHECK(reserved() == 3 * UNIT, "released, but still mapped");
    release(1, CUDA_SUCCESS);
    CHECK(reserved() == 3 * UNIT, "released once more: the driver's own affair");
    create(1, 4 * UNIT);                                /* the driver gives the value again */
    CHECK(reserved() == 7 * UNIT, "another memory");
    gpud_handle_unmapped(AT, 4 * UNIT);                 /* all three at once */
    CHECK(reserved() == 5 * UNIT, "the one of no handle is gone: %llu", (unsigned long long)reserved());
    release(2, 719);
    CHECK(reserved() == 5 * UNIT, "the driver refused");
    release(2, CUDA_SUCCESS);
    release(1, CUDA_SUCCESS);
    CHECK(reserved() == 0, "all gone: %llu", (unsigned long long)reserved());
}

static void retained(void)
{
    create(1, UNIT);
    gpud_handle_mapped(AT, UNIT, 1);
    gpud_handle_retained(1, AT);
    release(1, CUDA_SUCCESS);
    gpud_handle_unmapped(AT, UNIT);
    CHECK(reserved() == UNIT, "one handle is left");
    gpud_handle_mapped(AT, UNIT, 1);
    release(1, CUDA_SUCCESS);
    gpud_handle_retained(7, AT + 4096);                 /* no handle, but mapped: the driver makes one, by any value */
    gpud_handle_unmapped(AT, UNIT);
    CHECK(reserved() == UNIT, "held by the new one");
    release(7, CUDA_SUCCESS);
    CHECK(reserved() == 0, "gone");
    gpud_handle_retained(8, AT);                        /* of what nobody here knows */
    release(8, CUDA_SUCCESS);
    CHECK(reserved() == 0, "nothing");
}

/* Mapped twice, and the driver reuses a value of which it has said nothing (its device was reset). */
static void odd(void)
{
    create(1, UNIT);
    gpud_handle_mapped(AT, UNIT, 1);
    gpud_handle_mapped(AT + 8 * UNIT, UNIT, 1);
    gpud_handle_unmapped(AT, UNIT);
    release(1, CUDA_SUCCESS);
    CHECK(reserved() == UNIT, "the second mapping holds it");
    gpud_handle_unmapped(AT + 8 * UNIT, UNIT);
    CHECK(reserved() == 0, "gone");
    create(1, UNIT);
    create(1, 2 * UNIT);
    CHECK(reserved() == 2 * UNIT, "the old one is gone: %llu", (unsigned long long)reserved());
    release(1, CUDA_SUCCESS);
    CHECK(reserved() == 0, "gone");
}

static void *churn(void *of)
{
    uint64_t base = ((uint64_t)(uintptr_t)of + 1) << 36;

    for (uint64_t i = 0; i < MANY; i++) {
        create(base + i, UNIT);
        gpud_handle_mapped(base + i * UNIT, UNIT, base + i);
        release(base + i, CUDA_SUCCESS);
        if (i % 2)
            gpud_handle_unmapped(base + (i - 1) * UNIT, 2 * UNIT);
    }
    return NULL;
}

static void at_once(void)
{
    pthread_t threads[THREADS];

    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, churn, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK(reserved() == 0 && gpud_load(&gpud_activity()->errors) == 0, "%llu are left", (unsigned long long)reserved());
}

int main(void)
{
    gpud_start();
    fake_context(0);
    local_attach(1);
    gpud_store(&local_control()->device[0].memory_limit, UINT64_MAX);
    mapped();
    retained();
    odd();
    at_once();
    create(1, UNIT);
    gpud_alloc_forget();
    release(1, CUDA_SUCCESS);
    CHECK(gpud_quota_take(0, UNIT), "a child has none of the parent's handles");
    return check_summary("handle");
}
