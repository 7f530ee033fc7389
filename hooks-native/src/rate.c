/* rate.c: launches, thread blocks and bytes that this client may still submit on a device. Slow paths only. */
#include "budget.h"

struct rates {
    pthread_mutex_t lock;
    struct gpud_bucket launches, blocks, bytes;
};
static struct rates rates[GPUD_MAX_DEVICES] = { [0 ... GPUD_MAX_DEVICES - 1] = { .lock = PTHREAD_MUTEX_INITIALIZER } };

void gpud_rate_read(uint32_t device, struct gpud_own *own)
{
    struct rates *it = &rates[device];

    pthread_mutex_lock(&it->lock);
    own->launches_left = it->launches;
    own->blocks_left = it->blocks;
    own->bytes_left = it->bytes;
    pthread_mutex_unlock(&it->lock);
}

/* Whole units in the bucket. */
static uint64_t whole(const struct gpud_bucket *bucket, const struct gpud_allowance *allowance)
{
    if (allowance->rate == GPUD_UNLIMITED)
        return UINT64_MAX;
    gpud_wide units = bucket->level / GPUD_BUCKET_UNIT;
    return bucket->level <= 0 ? 0 : units > (gpud_wide)(UINT64_MAX / 2) ? UINT64_MAX / 2 : (uint64_t)units;
}

uint32_t gpud_rate_draw(uint32_t device, uint64_t blocks, uint32_t more, uint32_t threads, uint64_t *more_blocks, bool *limited,
                        uint64_t now)
{
    const struct gpud_control_device *knobs = &gpud_control()->device[device];
    struct gpud_allowance launch_allowance = gpud_launch_allowance(knobs), block_allowance = gpud_block_allowance(knobs);
    struct rates *it = &rates[device];

    pthread_mutex_lock(&it->lock);
    gpud_bucket_fill(&it->launches, &launch_allowance, now);
    gpud_bucket_fill(&it->blocks, &block_allowance, now);
    gpud_bucket_take(&it->launches, 1);
    gpud_bucket_take(&it->blocks, blocks);
    uint64_t launches_left = whole(&it->launches, &launch_allowance), blocks_left = whole(&it->blocks, &block_allowance);
    if (launches_left != UINT64_MAX && launches_left / threads < more)
        more = (uint32_t)(launches_left / threads);
    *limited = blocks_left != UINT64_MAX;
    *more_blocks = more == 0 || !*limited ? 0 : blocks_left / threads;
    gpud_bucket_take(&it->launches, more);
    gpud_bucket_take(&it->blocks, *more_blocks);
    pthread_mutex_unlock(&it->lock);
    return more;
}

void gpud_rate_give(uint32_t device, uint32_t launches, uint64_t blocks)
{
    struct rates *it = &rates[device];

    pthread_mutex_lock(&it->lock);
    gpud_bucket_give(&it->launches, launches);
    gpud_bucket_give(&it->blocks, blocks);
    pthread_mutex_unlock(&it->lock);
}

void gpud_rate_copy(uint32_t device, uint64_t bytes, uint64_t now)
{
    struct gpud_allowance allowance = gpud_copy_allowance(&gpud_control()->device[device]);
    struct rates *it = &rates[device];

    pthread_mutex_lock(&it->lock);
    gpud_bucket_fill(&it->bytes, &allowance, now);
    gpud_bucket_take(&it->bytes, bytes);
    pthread_mutex_unlock(&it->lock);
}

void gpud_rate_copy_back(uint32_t device, uint64_t bytes)
{
    struct rates *it = &rates[device];

    pthread_mutex_lock(&it->lock);
    gpud_bucket_give(&it->bytes, bytes);
    pthread_mutex_unlock(&it->lock);
}

void gpud_rate_fork(void)
{
    for (uint32_t device = 0; device < GPUD_MAX_DEVICES; device++)
        rates[device] = (struct rates){ .lock = PTHREAD_MUTEX_INITIALIZER };
}
