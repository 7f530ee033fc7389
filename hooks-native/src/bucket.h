/* bucket.h: a rate with a memory of what it has not used: launches, thread blocks or bytes. Pure. */
#ifndef GPUD_BUCKET_H
#define GPUD_BUCKET_H

#include <stdbool.h>
#include <stdint.h>
#include "level.h"

/* Rates of launches and blocks are per 1000 s, so in one nanosecond `rate` 10^12ths of a unit come: levels are exact. */
#define GPUD_BUCKET_UNIT ((gpud_wide)1000000000000)
#define GPUD_UNLIMITED UINT64_MAX

struct gpud_bucket {
    gpud_wide level;        /* in GPUD_BUCKET_UNITths; below zero: taken in advance */
    uint64_t at_ns;         /* when; 0: full, nobody has taken anything yet */
};

/* What a control page allows of one thing. */
struct gpud_allowance {
    uint64_t rate;          /* units per 1000 s, or GPUD_UNLIMITED */
    bool per_second;        /* the rate is per second */
    uint64_t burst_ns;      /* what comes in this time is kept, and one unit in any case */
};

/* Brings the level to `now`. */
void gpud_bucket_fill(struct gpud_bucket *bucket, const struct gpud_allowance *allowance, uint64_t now);
/* When `units` may be taken (more than the bucket holds: when it is full); `now` or earlier: at once; GPUD_NEVER: never at this
 * rate. The bucket is filled up to `now`. */
uint64_t gpud_bucket_due(const struct gpud_bucket *bucket, const struct gpud_allowance *allowance, uint64_t units, uint64_t now);
void gpud_bucket_take(struct gpud_bucket *bucket, uint64_t units);
void gpud_bucket_give(struct gpud_bucket *bucket, uint64_t units);

#endif
