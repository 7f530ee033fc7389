/* test_alloc.c: bytes and allocations per device, by address. */
#include "fake.h"

#define MANY 20000

static uint64_t bytes(uint32_t device)
{
    return gpud_load(&gpud_activity()->device[device].used_bytes);
}

static uint64_t count(uint32_t device)
{
    return gpud_load(&gpud_activity()->device[device].allocations);
}

static uint64_t address_of(uint64_t thread, uint64_t i)
{
    return 0x7f0000000000 + thread * 0x100000000 + i * 512;
}

static void *many(void *thread)
{
    fake_context((int)((uintptr_t)thread & 1));
    for (uint64_t i = 0; i < MANY; i++) {
        gpud_allocated(address_of((uintptr_t)thread, i), 512);
        if (i % 3 == 0)
            gpud_freed(address_of((uintptr_t)thread, i / 2));
    }
    for (uint64_t i = 0; i < MANY; i++)
        gpud_freed(address_of((uintptr_t)thread, i));
    return NULL;
}

int main(void)
{
    pthread_t threads[4];

    gpud_start();
    fake_context(0);
    gpud_allocated(0x1000, 100);        /* before the attach */
    CHECK(bytes(0) == 0, "nothing is published yet");
    local_attach(2);
    gpud_alloc_publish();
    CHECK(bytes(0) == 100 && count(0) == 1, "published by the attach: %llu", (unsigned long long)bytes(0));
    fake_context(1);
    gpud_allocated(0x2000, 200);
    gpud_freed(0x1000);                 /* on another device than the current one */
    CHECK(bytes(0) == 0 && count(0) == 0 && bytes(1) == 200 && count(1) == 1, "each device for itself");
    gpud_freed(0x1000);
    gpud_freed(0x3000);
    gpud_freed(0);
    CHECK(bytes(0) == 0 && bytes(1) == 200, "what is unknown is ignored");
    gpud_allocated(0x2000, 50);         /* the driver gave the address out again: the old one is gone */
    CHECK(bytes(1) == 50 && count(1) == 1, "%llu bytes", (unsigned long long)bytes(1));
    fake_context(6);
    gpud_allocated(0x4000, 7);
    CHECK(bytes(0) == 0 && bytes(1) == 50, "a device that is not managed counts nowhere");
    gpud_freed(0x4000);
    for (uintptr_t i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, many, (void *)i);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    CHECK(bytes(0) == 0 && count(0) == 0 && bytes(1) == 50 && count(1) == 1, "%llu and %llu bytes are left",
          (unsigned long long)bytes(0), (unsigned long long)bytes(1));
    gpud_freed(0x2000);
    CHECK(bytes(1) == 0 && gpud_load(&gpud_activity()->errors) == 0, "all is given back");
    return check_summary("alloc");
}
