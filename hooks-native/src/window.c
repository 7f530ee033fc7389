/* window.c: how many launches are submitted and unfinished, and when the next one is expected to finish.
 *
 * An event is recorded after each launch that the window counts. The launching threads themselves ask for it, and only when
 * the window is full: first shortly before the moment at which the launches so far suggest that it is done. */
#include "real.h"
#include "state.h"

#define RING 256                            /* launches in flight at most, whatever max_inflight says */
#define EVENT_DISABLE_TIMING 2
#define CAPTURE_MODE_RELAXED 2
#define AIM_EARLY_NS (80 * GPUD_MICROSECOND)    /* asking begins this long before the expected end */
#define ASK_ON_NS (150 * GPUD_MICROSECOND)      /* … and goes on without sleeping for this long after it */
#define EARLY_STEP_NS (20 * GPUD_MICROSECOND)
#define PRECISE_NS (100 * GPUD_MICROSECOND)     /* an end is known if seen unfinished this shortly before */
#define LONGEST_NAP_NS GPUD_MILLISECOND
#define SHORTEST_NAP_NS (20 * GPUD_MICROSECOND)

struct pending {
    CUevent event;          /* kept for the next launch when this one is finished */
    CUcontext context;      /* of the event */
    uint64_t launched_ns;
};

static struct window {
    pthread_mutex_t lock;
    uint32_t count;         /* ring[0 … count) are in flight, oldest first */
    uint32_t reserved;      /* let through, not launched yet */
    uint32_t early;         /* finished before the first question, times in a row */
    uint64_t unfinished_ns; /* when the oldest launch was last seen unfinished; 0: not yet asked */
    uint64_t expected_ns;   /* how long a launch takes; 0: not known */
    uint64_t finished_ns;   /* when a launch was last seen finished */
    struct pending ring[RING];
} windows[GPUD_MAX_DEVICES] = { [0 ... GPUD_MAX_DEVICES - 1] = { .lock = PTHREAD_MUTEX_INITIALIZER } };

static CUstreamCaptureMode relaxed(CUstreamCaptureMode mode)
{
    if (real.cuThreadExchangeStreamCaptureMode != NULL)
        real.cuThreadExchangeStreamCaptureMode(&mode);
    return mode;
}

static void publish(uint32_t device)
{
    gpud_store(&gpud_presence()->device[device].inflight, windows[device].count + windows[device].reserved);
}

/* When the oldest launch in flight began to run, as far as can be told from here. */
static uint64_t began(const struct window *window)
{
    uint64_t launched = window->ring[0].launched_ns;
    return launched > window->finished_ns ? launched : window->finished_ns;
}

/* Learns from the oldest launch, seen finished at `now`. Between two questions close to each other its end is known. Else all
 * that is known is that it took no longer: that shortens the expectation, faster if it repeats, for an end expected too late
 * leaves the device idle, and one expected too early only costs questions. Where the program itself came late, nothing is. */
static void learn(struct window *window, uint64_t now)
{
    uint64_t start = began(window), took = now - start;
    uint64_t before = window->unfinished_ns > start ? window->unfinished_ns - start : 0;

    if (window->expected_ns == 0) {
        window->expected_ns = took;
    } else if (took - before <= (took / 16 > PRECISE_NS ? took / 16 : PRECISE_NS)) {
        window->early = 0;
        if (took > window->expected_ns)
            window->expected_ns += (took - window->expected_ns) / 4;
        else
            window->expected_ns -= (window->expected_ns - took) / 4;
    } else if (before < window->expected_ns) {
        uint64_t step = EARLY_STEP_NS << (window->early < 6 ? window->early++ : 6);
        uint64_t most = took < window->expected_ns ? took : window->expected_ns;
        window->expected_ns = most > step ? most - step : 1;
    }
}

/* Takes finished launches out, wherever they are: streams overtake each other. */
static void reap(struct window *window, uint64_t now)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < window->count; i++) {
        struct pending pending = window->ring[i];
        if (real.cuEventQuery(pending.event) == CUDA_ERROR_NOT_READY) {
            if (i == 0)
                window->unfinished_ns = now;
            window->ring[i] = window->ring[kept];
            window->ring[kept++] = pending;
            continue;
        }
        /* Finished, or failed: then nothing of it runs any more either. */
        if (i == 0) {
            learn(window, now);
            window->unfinished_ns = 0;
        }
        window->finished_ns = now;
    }
    window->count = kept;
}

uint32_t gpud_window_poll(uint32_t device, uint32_t limit, bool ask)
{
    struct window *window = &windows[device];

    pthread_mutex_lock(&window->lock);
    uint32_t full = limit < RING ? limit : RING;
    if (ask && window->count > 0 && window->count + window->reserved >= full && !gpud_load_total(&gpud_ending)) {
        CUstreamCaptureMode before = relaxed(CAPTURE_MODE_RELAXED);
        reap(window, gpud_now());
        relaxed(before);
        publish(device);
    }
    uint32_t inflight = window->count + window->reserved;
    pthread_mutex_unlock(&window->lock);
    return limit > RING && inflight >= RING ? limit : inflight;
}

bool gpud_window_take(uint32_t device, uint32_t limit, bool force)
{
    struct window *window = &windows[device];

    pthread_mutex_lock(&window->lock);
    bool room = force || window->count + window->reserved < (limit < RING ? limit : RING);
    if (room) {
        window->reserved++;
        publish(device);
    }
    pthread_mutex_unlock(&window->lock);
    return room;
}

uint64_t gpud_window_aim(uint32_t device, uint64_t now)
{
    struct window *window = &windows[device];
    uint64_t aim = now + SHORTEST_NAP_NS;   /* another thread's launch is just being made */

    pthread_mutex_lock(&window->lock);
    if (window->count > 0) {
        uint64_t start = began(window), end = start + window->expected_ns;
        uint64_t running = now > start ? now - start : 0;
        uint64_t nap = running / 64;
        nap = nap < SHORTEST_NAP_NS ? SHORTEST_NAP_NS : nap > LONGEST_NAP_NS ? LONGEST_NAP_NS : nap;
        if (now + AIM_EARLY_NS < end)
            aim = end - AIM_EARLY_NS;
        else
            aim = window->expected_ns != 0 && now < end + ASK_ON_NS ? now : now + nap;
    }
    pthread_mutex_unlock(&window->lock);
    return aim;
}

/* An event of the calling thread's context at ring[index]; false if there is none to be had. */
static bool event_at(struct window *window, uint32_t index, CUcontext context)
{
    struct pending *pending = &window->ring[index];

    if (pending->event != NULL && pending->context == context)
        return true;
    if (pending->event != NULL && !gpud_load_total(&gpud_ending))      /* else it may be going by itself */
        real.cuEventDestroy_v2(pending->event);
    pending->event = NULL;
    pending->context = context;
    return real.cuEventCreate != NULL && real.cuEventCreate(&pending->event, EVENT_DISABLE_TIMING) == CUDA_SUCCESS;
}

void gpud_window_launched(uint32_t device, CUstream stream, CUresult result)
{
    struct window *window = &windows[device];

    pthread_mutex_lock(&window->lock);
    if (window->reserved > 0)
        window->reserved--;
    if (result == CUDA_SUCCESS && window->count < RING) {
        CUstreamCaptureMode before = relaxed(CAPTURE_MODE_RELAXED);
        uint32_t index = window->count;
        if (event_at(window, index, gpud_thread.context) && real.cuEventRecord(window->ring[index].event, stream) == CUDA_SUCCESS) {
            window->ring[index].launched_ns = gpud_now();
            window->count++;
        } else {
            gpud_add(&gpud_activity()->errors, 1);      /* not counted: it cannot be seen to finish */
        }
        relaxed(before);
    }
    publish(device);
    pthread_mutex_unlock(&window->lock);
}

void gpud_window_settle(void)
{
    for (uint32_t device = 0; device < GPUD_MAX_DEVICES; device++) {
        pthread_mutex_lock(&windows[device].lock);
        pthread_mutex_unlock(&windows[device].lock);
    }
}

/* Events of a context that went away are forgotten, not destroyed: they went with it. What others have in flight stays. */
void gpud_window_context_gone(uint32_t device, CUcontext context)
{
    struct window *window = &windows[device];
    uint32_t kept = 0;

    pthread_mutex_lock(&window->lock);
    for (uint32_t i = 0; i < RING; i++) {
        struct pending pending = window->ring[i];
        if (context == NULL || pending.context == context) {
            window->ring[i].event = NULL;
        } else if (i < window->count) {
            window->ring[i] = window->ring[kept];
            window->ring[kept++] = pending;
        }
    }
    if (kept != window->count) {
        window->count = kept;
        window->unfinished_ns = 0;
        publish(device);
    }
    pthread_mutex_unlock(&window->lock);
}

void gpud_window_forget(void)
{
    for (uint32_t device = 0; device < GPUD_MAX_DEVICES; device++)
        windows[device] = (struct window){ .lock = PTHREAD_MUTEX_INITIALIZER };
}
