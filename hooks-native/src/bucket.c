/* bucket.c: see bucket.h. Rates and times are bounded so that no product leaves 128 bits: 2^60 units × 2^10 × 2^56 ns. */
#include "bucket.h"

#include "sys.h"

#define MOST_RATE (UINT64_C(1) << 60)
#define MOST_NS (UINT64_C(1) << 56)         /* two years */
#define MOST_UNITS (UINT64_C(1) << 60)
#define MOST_LEVEL ((gpud_wide)1 << 120)

static gpud_wide rate_of(const struct gpud_allowance *allowance)
{
    gpud_wide rate = allowance->rate < MOST_RATE ? allowance->rate : MOST_RATE;
    return allowance->per_second ? rate * 1000 : rate;
}

static gpud_wide most_of(const struct gpud_allowance *allowance)
{
    gpud_wide most = rate_of(allowance) * (gpud_wide)(allowance->burst_ns < MOST_NS ? allowance->burst_ns : MOST_NS);
    return most < GPUD_BUCKET_UNIT ? GPUD_BUCKET_UNIT : most > MOST_LEVEL ? MOST_LEVEL : most;
}

void gpud_bucket_fill(struct gpud_bucket *bucket, const struct gpud_allowance *allowance, uint64_t now)
{
    gpud_wide most = most_of(allowance);

    if (bucket->at_ns == 0) {
        bucket->level = most;
    } else if (now > bucket->at_ns) {
        uint64_t passed = now - bucket->at_ns;
        bucket->level += rate_of(allowance) * (gpud_wide)(passed < MOST_NS ? passed : MOST_NS);
    }
    if (bucket->level > most)
        bucket->level = most;
    if (now > bucket->at_ns)
        bucket->at_ns = now;
}

uint64_t gpud_bucket_due(const struct gpud_bucket *bucket, const struct gpud_allowance *allowance, uint64_t units, uint64_t now)
{
    gpud_wide needed = (gpud_wide)(units < MOST_UNITS ? units : MOST_UNITS) * GPUD_BUCKET_UNIT, most = most_of(allowance);
    gpud_wide missing = (needed < most ? needed : most) - bucket->level, rate = rate_of(allowance);

    if (rate == 0)
        return GPUD_NEVER;
    if (allowance->rate == GPUD_UNLIMITED || missing <= 0)
        return now;
    gpud_wide wait = (missing + rate - 1) / rate;
    return wait < (gpud_wide)(GPUD_NEVER - now) ? now + (uint64_t)wait : GPUD_NEVER;
}

void gpud_bucket_take(struct gpud_bucket *bucket, uint64_t units)
{
    bucket->level -= (gpud_wide)(units < MOST_UNITS ? units : MOST_UNITS) * GPUD_BUCKET_UNIT;
    if (bucket->level < -MOST_LEVEL)
        bucket->level = -MOST_LEVEL;
}

void gpud_bucket_give(struct gpud_bucket *bucket, uint64_t units)
{
    bucket->level += (gpud_wide)(units < MOST_UNITS ? units : MOST_UNITS) * GPUD_BUCKET_UNIT;
    if (bucket->level > MOST_LEVEL)
        bucket->level = MOST_LEVEL;
}
