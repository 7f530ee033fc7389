/* test_vmm_busy.c: threads make handles, map, move and release them, and use the memory, while the keeper swaps out and in. Who uses memory does so
 * with the gate open, here a lock; who maps does not ask. */
#define _GNU_SOURCE
#include "beside_swaps.h"
#include "vmm_program.h"

#define ROUNDS 200

/* One handle, at one or two of four places of 4 MiB each; `here`: bit per place. */
struct mine {
    CUmemGenericAllocationHandle handle;
    CUdeviceptr range;
    uint64_t value;
    uint32_t here;
    bool released;
};

static void expect(CUresult result)
{
    gpud_add(&wrong, result != CUDA_SUCCESS);
}

static void place(struct mine *mine, int i)
{
    expect(gpud_vmm_map(mine->range + i * 4 * MIB, 4 * MIB, 0, mine->handle, 0));
    expect(rights(mine->range + i * 4 * MIB, 4 * MIB, 0, 3));
    mine->here |= 1u << i;
}

static void displace(struct mine *mine, int i)
{
    expect(gpud_vmm_unmap(mine->range + i * 4 * MIB, 4 * MIB));
    mine->here &= ~(1u << i);
}

static void change(struct mine *mine, uint64_t seed)
{
    int i = seed >> 60 & 3;

    if (mine->handle == 0) {
        expect(make_handle(&mine->handle, 4 * MIB));
        mine->value = 0;
        mine->released = false;
    }
    if (mine->released && mine->here != 0 && seed >> 59 & 1) {
        CUmemGenericAllocationHandle again = 0;
        expect(gpud_vmm_retain(&again, mine->range + (uint64_t)__builtin_ctz(mine->here) * 4 * MIB + 7));
        gpud_add(&wrong, again != mine->handle);
        mine->released = false;
    } else if (!mine->released && mine->here != 0 && seed >> 58 & 1) {
        expect(gpud_vmm_release(mine->handle));
        mine->released = true;
    } else if (mine->here & 1u << i) {
        displace(mine, i);
        if (mine->here == 0 && mine->released)
            mine->handle = 0;
    } else if (!mine->released) {
        place(mine, i);
    }
}

static void use(struct mine *mine, uint64_t seed)
{
    for (int i = 0; i < 4; i++) {
        if (!(mine->here & 1u << i))
            continue;
        volatile uint64_t *word = word_at(mine->range + i * 4 * MIB + 3 * MIB);
        gpud_add(&wrong, *word != mine->value);
        *word = mine->value = seed + (uint64_t)i;
    }
}

static void *work(void *number)
{
    uint64_t seed = 7 + (uintptr_t)number * 1000003;
    struct mine mine[2] = { { .range = reserve_addresses(16 * MIB) }, { .range = reserve_addresses(16 * MIB) } };

    vmm_context(0, 0);
    for (int round = 0; round < ROUNDS || gpud_load_total(&swaps) < SWAPS; round++) {
        seed = seed * 6364136223846793005 + 1442695040888963407;
        change(&mine[round % 2], seed);
        pthread_rwlock_rdlock(&gate);
        use(&mine[round % 2], seed);
        pthread_rwlock_unlock(&gate);
    }
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < 4; i++) {
            if (mine[k].here & 1u << i)
                displace(&mine[k], i);
        }
        if (mine[k].handle != 0 && !mine[k].released)
            expect(gpud_vmm_release(mine[k].handle));
    }
    gpud_add_total(&ended, 1);
    return NULL;
}

int main(void)
{
    work_beside_swaps(SLOT, work);
    CHECK(vmm_live.handles == 0 && vmm_live.mapped_bytes == 0 && gpud_host_used == 0 && vmm_violations == 0, "%llu handles, %llu bytes mapped",
          (unsigned long long)vmm_live.handles, (unsigned long long)vmm_live.mapped_bytes);
    return check_summary("pool vmm busy");
}
