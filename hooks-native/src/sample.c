/* sample.c: when to sample, and the pair of events around a launch. */
#include "sample_state.h"

#include "real.h"

#define RETRY 16                        /* launches until the next try where no sample could be taken */
#define YOUNG_FREE 2048                 /* pairs of young functions that cost nothing to think about; then one in YOUNG_SHARE launches */
#define YOUNG_SHARE 8
#define TURNS 8
#define EARLY 4                         /* stretches */
#define EARLY_PAUSE 64                  /* launches */
#define DELAY_SHARE 4                   /* of young pairs, one in so many is asked for its delay */
#define QUIET_NS GPUD_SECOND            /* after an error of the driver; doubled with each further one */
#define QUIET_MOST 6

struct gpud_sampler gpud_samplers[GPUD_MAX_DEVICES] = { [0 ... GPUD_MAX_DEVICES - 1] = { .left = RETRY } };

uint32_t gpud_sample_countdown(uint32_t device, uint32_t used)
{
    struct gpud_sampler *sampler = &gpud_samplers[device];

    if (used > INT32_MAX / 2)
        used = INT32_MAX / 2;
    if (used > 0)
        gpud_add(&sampler->launches, used);
    int32_t before = gpud_load(&sampler->left), left;
    do {
        left = before > 0 ? before - (int32_t)used : 0;     /* it need not go below zero, and must not go round */
    } while (left != before && !__atomic_compare_exchange_n(&sampler->left, &before, left, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    uint32_t own = gpud_stretch_left(device);
    return left <= 0 ? 0 : (uint32_t)left < own ? (uint32_t)left : own;
}

void gpud_sample_trouble(uint32_t device, CUresult result, uint64_t now)
{
    struct gpud_sampler *sampler = &gpud_samplers[device];
    uint32_t errors = gpud_add(&sampler->errors, 1);

    gpud_store(&sampler->quiet_until_ns, now + (QUIET_NS << (errors < QUIET_MOST ? errors : QUIET_MOST)));
    gpud_add(&gpud_activity()->errors, 1);
    if (result == CUDA_ERROR_DEINITIALIZED)
        gpud_store_total(&gpud_exiting, 1);
}

void gpud_sample_next(struct gpud_sampler *sampler, uint64_t next_ns)
{
    uint64_t before = gpud_load(&sampler->next_ns);
    while (next_ns < before &&
           !__atomic_compare_exchange_n(&sampler->next_ns, &before, next_ns, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

bool gpud_sample_event(uint32_t device, CUevent *event, unsigned int flags)
{
    if (*event != NULL)
        return true;
    gpud_count_calls(device, 1);
    if (real.cuEventCreate != NULL && real.cuEventCreate(event, flags) == CUDA_SUCCESS)
        return true;
    *event = NULL;
    return false;
}

bool gpud_sample_at_work(uint32_t device, CUstream stream)
{
    gpud_count_calls(device, 1);
    return real.cuStreamQuery != NULL && real.cuStreamQuery(stream) == CUDA_ERROR_NOT_READY;
}

/* A free place, if it can be one whose events are of this context. It is OPEN, and the caller's. */
static struct gpud_pending *claim(struct gpud_sampler *sampler, CUcontext context)
{
    for (int fit = 0; fit < 3; fit++) {
        for (uint32_t i = 0; i < GPUD_SAMPLE_POOL; i++) {
            struct gpud_pending *pending = &sampler->pending[i];
            CUcontext of = gpud_load(&pending->context);
            if (fit == 2 || of == (fit == 0 ? context : NULL)) {
                if (gpud_load(&pending->state) == GPUD_PENDING_FREE &&
                    gpud_state_change(&pending->state, GPUD_PENDING_FREE, GPUD_PENDING_OPEN))
                    return pending;
            }
        }
    }
    return NULL;
}

static bool events_of(struct gpud_pending *pending, CUcontext context)
{
    if (pending->context != context) {
        CUevent old[2] = { pending->begin, pending->end };
        for (int i = 0; i < 2; i++) {
            if (old[i] != NULL)
                real.cuEventDestroy_v2(old[i]);
        }
        gpud_count_calls(pending->device, 2);
        pending->begin = pending->end = NULL;
        gpud_store(&pending->context, context);
    }
    return gpud_sample_event(pending->device, &pending->begin, 0) && gpud_sample_event(pending->device, &pending->end, 0);
}

static void release(struct gpud_pending *pending)
{
    gpud_store_release(&pending->state, GPUD_PENDING_FREE);
}

/* The first event, before the launch. Asking is allowed. */
static bool open_pair(struct gpud_sample *sample, uint32_t device, CUstream stream, const void *function, uint64_t blocks, bool delay,
                      uint64_t now)
{
    struct gpud_pending *pending = claim(&gpud_samplers[device], gpud_thread.context);

    if (pending == NULL)
        return false;
    pending->device = device;
    pending->stream = stream;
    pending->blocks = blocks;
    gpud_store(&pending->worth, 1);
    gpud_store_release(&pending->function, function);
    pending->delay = delay;
    pending->anchored = false;
    if (!events_of(pending, gpud_thread.context)) {
        gpud_sample_trouble(device, CUDA_ERROR_OUT_OF_MEMORY, now);
        release(pending);
        return false;
    }
    pending->behind = gpud_sample_at_work(device, stream);
    if (delay)
        gpud_anchor_record(device, pending, stream, now);
    pending->others = gpud_others_look(device, now);
    pending->launched_ns = gpud_now();
    gpud_count_calls(device, 1);
    CUresult result = real.cuEventRecord(pending->begin, stream);
    if (result != CUDA_SUCCESS) {
        gpud_sample_trouble(device, result, now);
        release(pending);
        return false;
    }
    sample->pending = pending;
    return true;
}

/* Something is due, and the calling thread is the one that does it. */
static bool take_due(struct gpud_sampler *sampler)
{
    int32_t before = gpud_load(&sampler->left);
    uint32_t random = gpud_load(&sampler->random) * 1664525 + 1013904223;
    int32_t pause = GPUD_SAMPLE_PAUSE / 2 + (int32_t)(random >> 16) % GPUD_SAMPLE_PAUSE;

    gpud_store(&sampler->random, random);
    return before <= 0 && __atomic_compare_exchange_n(&sampler->left, &before, pause, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* At first the sum of charges is to be known to be right, or how far it is off: by some stretches soon. */
static bool is_early(struct gpud_sampler *sampler)
{
    return gpud_load(&sampler->stretches) < EARLY && gpud_load(&sampler->turn) < 4 * EARLY;
}

/* Would one more pair of a young function be too many? */
static bool take_young(struct gpud_sampler *sampler, const void *function, uint64_t blocks)
{
    uint64_t count = gpud_load(&sampler->young);

    if (count >= YOUNG_FREE + gpud_load(&sampler->launches) / YOUNG_SHARE || !gpud_cost_take_sample(function, blocks))
        return false;
    gpud_add(&sampler->young, 1);
    return true;
}

bool gpud_sample_begin(struct gpud_sample *sample, uint32_t device, CUstream stream, const void *function, uint64_t blocks,
                       uint64_t charged_ns)
{
    struct gpud_sampler *sampler = &gpud_samplers[device];
    uint64_t now = gpud_now();
    bool due = take_due(sampler);

    sample->pending = NULL;
    if (now < gpud_load(&sampler->quiet_until_ns) || real.cuEventElapsedTime == NULL || !gpud_may_ask())
        return false;
    gpud_stretch_end(device, stream, charged_ns, now);
    bool pair = false, delay = false;
    if (due) {
        /* Where costs vary, stretches say more: they see many launches. Else pairs do, which tell functions apart. */
        uint32_t turn = gpud_add(&sampler->turn, 1) % TURNS;
        pair = delay = gpud_cost_varies(device) ? turn == 1 : turn % 4 != 0;
        if (is_early(sampler)) {
            pair = delay = false;
            gpud_store(&sampler->left, EARLY_PAUSE);
        }
        if (!pair)
            gpud_stretch_begin(device, stream, charged_ns, now);
    }
    if (!pair && take_young(sampler, function, blocks)) {
        pair = true;
        delay = gpud_load(&sampler->young) % DELAY_SHARE == 0;
    }
    if (pair && !open_pair(sample, device, stream, function, blocks, delay, now))
        gpud_store(&sampler->left, RETRY);
    gpud_asked();
    return sample->pending != NULL;
}

/* The second event, after the launch. Asking is allowed. */
static bool close_pair(struct gpud_pending *pending, CUstream stream)
{
    gpud_count_calls(pending->device, pending->behind ? 2 : 1);
    CUresult result = real.cuEventRecord(pending->end, stream);
    pending->busy = false;
    if (result == CUDA_SUCCESS && pending->behind) {
        CUresult reached = real.cuEventQuery(pending->begin);
        pending->busy = reached == CUDA_ERROR_NOT_READY;
        result = pending->busy ? CUDA_SUCCESS : reached;
    }
    if (result == CUDA_SUCCESS)
        return true;
    gpud_sample_trouble(pending->device, result, pending->launched_ns);
    return false;
}

void gpud_sample_end(struct gpud_sample *sample, CUstream stream, CUresult result)
{
    struct gpud_pending *pending = sample->pending;
    bool closed = false;

    if (pending == NULL)
        return;
    sample->pending = NULL;
    uint64_t now = gpud_now();
    pending->host_ns = now > pending->launched_ns ? now - pending->launched_ns : 0;
    /* Lost: its context is gone. A capture that has begun since may even be of this stream. */
    if (result == CUDA_SUCCESS && gpud_may_ask()) {
        closed = gpud_load_acquire(&pending->state) == GPUD_PENDING_OPEN && close_pair(pending, stream);
        gpud_asked();
    }
    if (!closed) {
        release(pending);
        return;
    }
    struct gpud_sampler *sampler = &gpud_samplers[pending->device];
    uint64_t next_ns = pending->launched_ns + (pending->busy ? gpud_load(&sampler->latency_ns) : 0);

    pending->next_ns = next_ns;
    if (!gpud_state_change(&pending->state, GPUD_PENDING_OPEN, GPUD_PENDING_WAITING)) {
        release(pending);
        return;
    }
    gpud_sample_next(sampler, next_ns);     /* it is anybody's by now */
}
