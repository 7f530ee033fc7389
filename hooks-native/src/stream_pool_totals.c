/* stream_pool_totals.c: what the driver's default pool is asked about itself, and told: our share of the answer. */
#include "pool.h"
#include "presence.h"
#include "real.h"
#include "state.h"
#include "stream_pool.h"
#include "swap.h"

enum { REUSE_EVENT = 1, REUSE_OPPORTUNISTIC, REUSE_INTERNAL, RELEASE_THRESHOLD, RESERVED_NOW, RESERVED_HIGH, USED_NOW, USED_HIGH };

struct gpud_totals gpud_ordered_totals[GPUD_POOL_DEVICES];

void gpud_ordered_count(uint32_t ordinal, int64_t bytes)
{
    struct gpud_totals *of = &gpud_ordered_totals[ordinal];
    of->used += (uint64_t)bytes;
    of->used_high = of->used > of->used_high ? of->used : of->used_high;
    of->reserved_high = of->used + of->waiting > of->reserved_high ? of->used + of->waiting : of->reserved_high;
}

/* The default pool of which device? GPUD_POOL_DEVICES: of none. */
static uint32_t ordinal_of(CUmemoryPool pool)
{
    for (uint32_t ordinal = 0; pool != NULL && ordinal < GPUD_POOL_DEVICES; ordinal++) {
        if (gpud_ordered_totals[ordinal].pool == pool)
            return ordinal;
    }
    return GPUD_POOL_DEVICES;
}

CUmemoryPool gpud_pool_default(uint32_t ordinal)
{
    return gpud_load(&gpud_ordered_totals[ordinal].pool);
}

bool gpud_pool_takes_ordered(size_t bytes, CUmemoryPool pool, CUstream stream, int per_thread)
{
    if (!gpud_pool_takes(bytes) || real.cuDeviceGetDefaultMemPool == NULL || real.cuDeviceGetMemPool == NULL ||
        gpud_is_capturing(gpud_stream_named(stream, per_thread)))
        return false;
    CUdevice ordinal = (CUdevice)gpud_thread.ordinal;
    CUmemoryPool own = gpud_load(&gpud_ordered_totals[ordinal].pool);
    if (own == NULL && real.cuDeviceGetDefaultMemPool(&own, ordinal) == CUDA_SUCCESS)
        gpud_store(&gpud_ordered_totals[ordinal].pool, own);
    if (pool == NULL && real.cuDeviceGetMemPool(&pool, ordinal) != CUDA_SUCCESS)
        return false;
    return pool != NULL && pool == own;
}

void gpud_pool_of_pool(CUmemoryPool pool, int attribute, void *value)
{
    uint32_t ordinal = ordinal_of(pool);

    if (ordinal == GPUD_POOL_DEVICES || attribute < RESERVED_NOW || attribute > USED_HIGH)
        return;
    const struct gpud_totals *of = &gpud_ordered_totals[ordinal];
    pthread_mutex_lock(&gpud_pool_lock);
    *(cuuint64_t *)value += attribute == RESERVED_NOW    ? of->used + of->waiting
                            : attribute == RESERVED_HIGH ? of->reserved_high
                            : attribute == USED_NOW      ? of->used
                                                         : of->used_high;
    pthread_mutex_unlock(&gpud_pool_lock);
}

void gpud_pool_of_pool_set(CUmemoryPool pool, int attribute, const void *value)
{
    uint32_t ordinal = ordinal_of(pool);

    if (ordinal == GPUD_POOL_DEVICES)
        return;
    struct gpud_totals *of = &gpud_ordered_totals[ordinal];
    pthread_mutex_lock(&gpud_pool_lock);
    if (attribute == RESERVED_HIGH)
        of->reserved_high = of->used + of->waiting;
    else if (attribute == USED_HIGH)
        of->used_high = of->used;
    else if (attribute == REUSE_OPPORTUNISTIC)
        of->no_opportunistic = *(const int *)value == 0;
    else if (attribute == REUSE_INTERNAL)
        of->no_internal = *(const int *)value == 0;
    pthread_mutex_unlock(&gpud_pool_lock);
}

void gpud_pool_trimmed(CUmemoryPool pool, size_t keep)
{
    uint32_t ordinal = ordinal_of(pool);

    if (ordinal == GPUD_POOL_DEVICES)
        return;
    pthread_mutex_lock(&gpud_pool_lock);
    gpud_ordered_reclaim(ordinal, false);
    uint64_t idle = gpud_span_idle[ordinal] + gpud_chunk_spare[ordinal];
    if (idle > keep)
        gpud_span_trim(ordinal, idle - keep);
    gpud_pool_publish(gpud_load(&gpud_slot_of[ordinal]));
    pthread_mutex_unlock(&gpud_pool_lock);
}
