/* alloc_entry.c: what the entries that take and free device memory call, around the driver's own. */
#include "alloc.h"
#include "pool.h"
#include "quota.h"
#include "quota_wait.h"
#include "state.h"

/* The device of the calling thread's context. */
static uint32_t current(CUcontext *context)
{
    struct gpud_thread *thread = &gpud_thread;

    gpud_bind(thread);
    *context = thread->context;
    return thread->ordinal;
}

/* Below the limit, at once or after a wait. */
static bool take(uint32_t ordinal, uint64_t bytes)
{
    while (!gpud_quota_take(ordinal, bytes)) {
        if (!gpud_quota_wait(ordinal, bytes)) {
            gpud_quota_waited();
            return false;
        }
    }
    return true;
}

struct gpud_charge gpud_reserves(uint64_t bytes)
{
    struct gpud_charge charge = { .bytes = bytes };

    charge.ordinal = current(&charge.context);
    charge.refused = !take(charge.ordinal, bytes);
    return charge;
}

struct gpud_charge gpud_reserves_managed(uint64_t bytes)
{
    struct gpud_charge charge = gpud_reserves(bytes);

    charge.managed = true;
    return charge;
}

struct gpud_charge gpud_reserves_on(int type, int ordinal, uint64_t bytes)
{
    struct gpud_charge charge = { .bytes = bytes, .ordinal = UINT32_MAX };

    if (type != CU_MEM_LOCATION_TYPE_DEVICE)
        return charge;
    charge.ordinal = (uint32_t)ordinal;
    charge.refused = !take(charge.ordinal, bytes);
    return charge;
}

/* The ordered half: what the pool holds now is what is charged; no other pool has changed by it. */
static void settle_ordered(const struct gpud_charge *charge, uint64_t address, uint64_t bytes, CUresult result)
{
    struct gpud_held held = { .bytes = bytes, .ordinal = charge->ordinal, .pin = GPUD_PINS };

    gpud_pool_look(charge->pool, charge->ordinal, charge->bytes);
    if (result == CUDA_SUCCESS)
        gpud_ledger_put(address, &held);
}

/* Why memory with this key in the ledger cannot leave the device. */
static uint32_t pin_of(const struct gpud_charge *charge, uint64_t key)
{
    if (charge->managed)
        return GPUD_PIN_MANAGED;
    if (key & GPUD_HANDLE_KEYS)
        return gpud_handle_moves(key) ? GPUD_PINS : GPUD_PIN_HANDLE;
    if (key & GPUD_ARRAY_KEYS)
        return GPUD_PIN_ARRAY;
    if (gpud_pool_owns(key))
        return GPUD_PINS;
    return gpud_load(&gpud_captures) != 0 ? GPUD_PIN_CAPTURE : GPUD_PIN_EARLY;
}

static void settle(const struct gpud_charge *charge, uint64_t address, uint64_t bytes, CUresult result)
{
    struct gpud_held held = { .bytes = bytes, .charged = bytes, .context = charge->context, .ordinal = charge->ordinal };

    if (charge->ordered) {
        settle_ordered(charge, address, bytes, result);
        return;
    }
    if (result != CUDA_SUCCESS) {
        gpud_quota_give(charge->ordinal, charge->bytes);
        return;
    }
    held.pin = pin_of(charge, address);
    gpud_quota_add(charge->ordinal, bytes - charge->bytes);
    if (!gpud_ledger_put(address, &held))
        gpud_quota_give(charge->ordinal, bytes);
}

bool gpud_reserved(const struct gpud_charge *charge, uint64_t address, uint64_t bytes, CUresult result)
{
    if (charge->ordinal >= GPUD_MAX_DEVICES)
        return false;
    settle(charge, address, bytes, result);
    /* Once: an attempt that fails in mid-way keeps something in no use itself. */
    gpud_thread.gave_idle = result == CUDA_ERROR_OUT_OF_MEMORY && !gpud_thread.gave_idle && gpud_pool_give_idle(charge->ordinal);
    if (gpud_thread.gave_idle)
        return true;
    if (result == CUDA_ERROR_OUT_OF_MEMORY && gpud_quota_wait(charge->ordinal, charge->bytes != 0 ? charge->bytes : bytes))
        return true;
    gpud_quota_waited();
    return false;
}

struct gpud_charge gpud_reserves_ordered(uint64_t bytes, CUmemoryPool pool, CUstream stream, int per_thread)
{
    struct gpud_charge charge = { .bytes = 0, .ordered = true };
    uint64_t used;

    charge.ordinal = current(&charge.context);
    if (gpud_is_capturing(gpud_stream_named(stream, per_thread))) {    /* becomes a node: the graph holds it, once launched */
        gpud_graph_memory(charge.ordinal);
        charge.ordinal = UINT32_MAX;
        return charge;
    }
    uint32_t home = pool != NULL ? gpud_pool_ordinal(pool) : UINT32_MAX;
    if (home == GPUD_POOL_ELSEWHERE) {
        charge.ordinal = UINT32_MAX;
        return charge;
    }
    if (home < GPUD_MAX_DEVICES)
        charge.ordinal = home;
    else
        gpud_pool_known(pool = pool != NULL ? pool : gpud_pool_current(charge.ordinal), charge.ordinal);
    charge.pool = pool;
    if (gpud_quota_limit(charge.ordinal, &used) == UINT64_MAX)
        return charge;
    do {
        charge.bytes = gpud_pool_growth(pool, bytes);
        if (charge.bytes == UINT64_MAX)
            charge.bytes = bytes;
        charge.refused = !gpud_quota_take(charge.ordinal, charge.bytes);
    } while (charge.refused && gpud_quota_wait(charge.ordinal, charge.bytes));
    if (charge.refused)
        gpud_quota_waited();
    return charge;
}

struct gpud_charge gpud_fits(uint64_t bytes)
{
    struct gpud_charge charge = { .bytes = 0 };

    charge.ordinal = current(&charge.context);
    charge.refused = !take(charge.ordinal, bytes);
    if (!charge.refused) {
        gpud_quota_waited();
        gpud_quota_give(charge.ordinal, bytes);
        gpud_graph_memory(charge.ordinal);
    }
    return charge;
}

struct gpud_freeing gpud_frees(uint64_t address)
{
    struct gpud_freeing freeing = { .address = address };
    struct gpud_held held;

    if (gpud_ledger_take(address, &held))
        freeing = (struct gpud_freeing){ .address = address, .bytes = held.bytes, .charged = held.charged, .context = held.context,
                                         .ordinal = held.ordinal, .pin = held.pin, .known = true };
    return freeing;
}

void gpud_is_freed(const struct gpud_freeing *freeing, CUresult result)
{
    struct gpud_held held = { freeing->bytes, freeing->charged, freeing->context, freeing->ordinal, freeing->pin };

    if (!freeing->known)
        return;
    /* Where the driver refused, it still has it: unless another thread has got the address meanwhile, which then is what counts. */
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_DEINITIALIZED && gpud_ledger_put(freeing->address, &held))
        return;
    gpud_quota_give(freeing->ordinal, freeing->charged);
    if (freeing->charged < freeing->bytes)
        gpud_pools_stale();
}

void gpud_pool_made(CUmemoryPool pool, const CUmemPoolProps *props)
{
    gpud_pool_known(pool, props->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? (uint32_t)props->location.id : GPUD_POOL_ELSEWHERE);
}

uint32_t gpud_pool_ended(CUmemoryPool pool)
{
    uint32_t home = gpud_pool_ordinal(pool);

    gpud_pool_gone(pool);
    return home;
}

void gpud_pool_stays(CUmemoryPool pool, uint32_t home)
{
    gpud_pool_known(pool, home);
    gpud_pools_look(home, 0, true);
}

void gpud_pool_changed(void)
{
    gpud_pools_look(UINT32_MAX, 0, true);
}
