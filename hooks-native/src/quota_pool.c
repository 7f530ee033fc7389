/* quota_pool.c: the driver's memory pools, and the memory of its graphs: what they hold, as the driver says. */
#include "quota.h"

#include "real.h"
#include "state.h"

#define MOST_POOLS 64           /* beyond: their memory is not charged, and counted as an error */
#define POOL_RESERVED 5         /* CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, _USED_MEM_CURRENT */
#define POOL_USED 7
#define GRAPH_RESERVED 2        /* CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT */
#define MODE_RELAXED 2

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct known {
    CUmemoryPool pool;          /* NULL: the memory of the ordinal's graphs */
    uint32_t ordinal;
    uint32_t used;
    uint64_t held;              /* charged so far */
} pools[MOST_POOLS];
static uint32_t count;
static uint32_t stale;

/* Asked with the thread's captures left alone: the question would invalidate one. */
static bool ask(const struct known *of, int attribute, uint64_t *answer)
{
    CUstreamCaptureMode mode = MODE_RELAXED;
    cuuint64_t value = 0;
    CUresult result = CUDA_ERROR_NOT_FOUND;

    if (real.cuThreadExchangeStreamCaptureMode != NULL)
        real.cuThreadExchangeStreamCaptureMode(&mode);
    if (of->pool != NULL && real.cuMemPoolGetAttribute != NULL)
        result = real.cuMemPoolGetAttribute(of->pool, attribute, &value);
    else if (of->pool == NULL && real.cuDeviceGetGraphMemAttribute != NULL)
        result = real.cuDeviceGetGraphMemAttribute((CUdevice)of->ordinal, GRAPH_RESERVED, &value);
    if (real.cuThreadExchangeStreamCaptureMode != NULL)
        real.cuThreadExchangeStreamCaptureMode(&mode);
    *answer = value;
    return result == CUDA_SUCCESS;
}

/* None of it can leave the device. In a page that is new the keeper's next look says so. Lock held. */
static void publish(uint32_t ordinal)
{
    uint32_t device = ordinal < GPUD_MAX_DEVICES && gpud_load_acquire(&gpud_managed) ? gpud_load(&gpud_slot_of[ordinal]) : GPUD_UNMANAGED;
    uint64_t of_pools = 0, of_graphs = 0;

    if (device >= GPUD_MAX_DEVICES)
        return;
    for (uint32_t i = 0; i < count; i++) {
        if (pools[i].used && pools[i].ordinal == ordinal)
            *(pools[i].pool != NULL ? &of_pools : &of_graphs) += pools[i].held;
    }
    gpud_store(&gpud_activity()->device[device].pins[GPUD_PIN_POOL], of_pools);
    gpud_store(&gpud_activity()->device[device].pins[GPUD_PIN_GRAPH], of_graphs);
}

/* It holds so much now. Lock held. */
static void hold(struct known *of, uint64_t now)
{
    gpud_quota_add(of->ordinal, now - of->held);
    of->held = now;
    publish(of->ordinal);
}

/* Lock held. */
static void know(CUmemoryPool pool, uint32_t ordinal)
{
    struct known *free_one = NULL;

    for (uint32_t i = 0; i < count; i++) {
        if (pools[i].used && pools[i].pool == pool && (pool != NULL || pools[i].ordinal == ordinal))
            return;
        if (!pools[i].used)
            free_one = &pools[i];
    }
    if (free_one == NULL && count == MOST_POOLS) {
        gpud_add(&gpud_activity()->errors, 1);
        return;
    }
    if (free_one == NULL)
        free_one = &pools[count++];
    *free_one = (struct known){ .pool = pool, .ordinal = ordinal, .used = 1 };
}

void gpud_pool_known(CUmemoryPool pool, uint32_t ordinal)
{
    if (pool == NULL || ordinal > GPUD_POOL_ELSEWHERE)
        return;
    pthread_mutex_lock(&lock);
    know(pool, ordinal);
    pthread_mutex_unlock(&lock);
}

void gpud_graph_memory(uint32_t ordinal)
{
    if (ordinal >= GPUD_MAX_DEVICES)
        return;
    pthread_mutex_lock(&lock);
    know(NULL, ordinal);
    pthread_mutex_unlock(&lock);
    gpud_pools_stale();
}

void gpud_pool_gone(CUmemoryPool pool)
{
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < count; i++) {
        if (!pools[i].used || pool == NULL || pools[i].pool != pool)
            continue;
        hold(&pools[i], 0);
        pools[i].used = 0;
    }
    pthread_mutex_unlock(&lock);
}

uint32_t gpud_pool_ordinal(CUmemoryPool pool)
{
    uint32_t ordinal = UINT32_MAX;

    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < count; i++) {
        if (pools[i].used && pool != NULL && pools[i].pool == pool)
            ordinal = pools[i].ordinal;
    }
    pthread_mutex_unlock(&lock);
    return ordinal;
}

CUmemoryPool gpud_pool_current(uint32_t ordinal)
{
    CUmemoryPool pool = NULL;

    if (real.cuDeviceGetMemPool == NULL || real.cuDeviceGetMemPool(&pool, (CUdevice)ordinal) != CUDA_SUCCESS)
        return NULL;
    return pool;
}

uint64_t gpud_pool_growth(CUmemoryPool pool, uint64_t bytes)
{
    struct known asked = { .pool = pool };
    uint64_t reserved, used;

    if (pool == NULL || !ask(&asked, POOL_RESERVED, &reserved) || !ask(&asked, POOL_USED, &used))
        return UINT64_MAX;
    uint64_t room = reserved > used ? reserved - used : 0;
    return bytes > room ? bytes - room : 0;
}

/* Charges what it holds now. Lock held. */
static void look(struct known *of)
{
    uint64_t now;

    if (!of->used || of->ordinal == GPUD_POOL_ELSEWHERE || !ask(of, POOL_RESERVED, &now))
        return;
    hold(of, now);
}

void gpud_pools_look(uint32_t ordinal, uint64_t taken, bool wait)
{
    if (wait)
        pthread_mutex_lock(&lock);
    else if (pthread_mutex_trylock(&lock) != 0)
        return;
    gpud_store(&stale, 0);
    for (uint32_t i = 0; i < count; i++) {
        if (ordinal == UINT32_MAX || pools[i].ordinal == ordinal)
            look(&pools[i]);
    }
    if (ordinal < GPUD_MAX_DEVICES)
        gpud_quota_give(ordinal, taken);
    pthread_mutex_unlock(&lock);
}

void gpud_pool_look(CUmemoryPool pool, uint32_t ordinal, uint64_t taken)
{
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < count && pool != NULL; i++) {
        if (pools[i].pool == pool)
            look(&pools[i]);
    }
    gpud_quota_give(ordinal, taken);
    pthread_mutex_unlock(&lock);
}

void gpud_pools_stale(void)
{
    if (!gpud_load(&stale))
        gpud_store(&stale, 1);
}

bool gpud_pools_are_stale(void)
{
    return gpud_load(&stale) != 0;
}

void gpud_pools_forget(void)
{
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    count = stale = 0;
}
