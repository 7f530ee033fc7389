/* window_group.c: groups of launches, each with one event for the end of all, and how the driver is asked for it. */
#include "real.h"
#include "window_state.h"

#define EVENT_DISABLE_TIMING 2
#define CAPTURE_MODE_RELAXED 2
#define FEW 15                      /* of so many launches a group costs, with its event and one question, 133 calls per 1,000 */
#define SHORT_NS (100 * GPUD_MICROSECOND)   /* a group so short is over before anybody could have been late for it */
#define ON_TIME_NS (50 * GPUD_MICROSECOND)  /* whoever asks later than this after it meant to was kept by something else */
#define KEPT_NS (200 * GPUD_MICROSECOND)    /* … and later than this, for longer than a sleep overruns */
#define LARGE 16                    /* windows of so many launches, or more, have groups of FEW launches, or more */

/* An event costs calls, and nothing of a group is known to be finished before all of it is. So small windows have groups of a
 * quarter, so that they are used; larger ones of as many launches as keep the calls down, with some launches behind them, so that the
 * device has work while the end of a group is found out. */
uint32_t gpud_group_size(const struct gpud_window_limit *limit, uint64_t cost_ns)
{
    uint64_t holds = limit->launches != 0 ? limit->launches : UINT32_MAX;

    if (limit->ns != 0 && cost_ns != 0 && limit->ns / cost_ns < holds)
        holds = limit->ns / cost_ns;
    if (holds < LARGE)
        return holds < 8 ? 1 : (uint32_t)holds / 4;
    return holds / 2 < FEW ? FEW : (uint32_t)(holds / 2);
}

static uint32_t relaxed(uint32_t mode)
{
    CUstreamCaptureMode exchanged = (CUstreamCaptureMode)mode;
    if (real.cuThreadExchangeStreamCaptureMode != NULL)
        real.cuThreadExchangeStreamCaptureMode(&exchanged);
    return (uint32_t)exchanged;
}

/* How the driver is asked: nobody ends a context meanwhile, and no capture begins, or, where one is open already, it does no harm. */
struct asking {
    uint32_t device, calls, mode;
    bool captures;
};

static bool asking_begin(struct asking *asking, uint32_t device)
{
    *asking = (struct asking){ .device = device };
    gpud_add_total(&gpud_asking, 1);
    if (gpud_load_total(&gpud_ending) != 0 || gpud_load_total(&gpud_exiting)) {
        gpud_sub_total(&gpud_asking, 1);
        return false;
    }
    asking->captures = gpud_load_total(&gpud_captures) != 0;
    if (asking->captures)
        asking->mode = relaxed(CAPTURE_MODE_RELAXED);
    return true;
}

static void asking_end(const struct asking *asking)
{
    if (asking->captures)
        relaxed(asking->mode);
    gpud_sub_total(&gpud_asking, 1);
    gpud_add(&gpud_activity()->device[asking->device].calls, asking->calls + (asking->captures ? 2 : 0));
}

static bool is_of(const struct gpud_group *group, const struct gpud_allowed *by, CUstream stream)
{
    return group->stream == stream && group->context == by->context &&
           (stream != CU_STREAM_PER_THREAD || group->thread == by->thread);
}

/* A group with room for these launches: one without an event, a new one, or, where there is no room for that, one whose event is recorded
 * anew. NULL: none. */
static struct gpud_group *group_for(struct gpud_window *window, const struct gpud_allowed *by, CUstream stream)
{
    struct gpud_group *again = NULL;

    for (uint32_t i = 0; i < window->count; i++) {
        struct gpud_group *group = &window->groups[i];
        if (!is_of(group, by, stream))
            continue;
        if (group->recorded_ns == 0)
            return group;
        again = group;
    }
    if (window->count < GPUD_WINDOW_GROUPS) {
        struct gpud_group *group = &window->groups[window->count++];
        *group = (struct gpud_group){ .event = group->event, .event_context = group->event_context, .context = by->context,
                                      .stream = stream, .thread = by->thread, .began_ns = by->granted_ns };
        return group;
    }
    if (again != NULL) {
        again->recorded_ns = 0;
        window->open_launches += again->launches;
        window->open_ns += again->ns;
    }
    return again;
}

void gpud_group_add(uint32_t device, const struct gpud_allowed *by, CUstream stream, uint32_t launches, uint64_t ns, uint64_t now)
{
    struct gpud_window *window = &gpud_windows[device];
    struct gpud_group *group = group_for(window, by, stream);

    if (group == NULL) {
        gpud_add(&gpud_activity()->errors, 1);      /* not counted: it cannot be seen to finish */
        return;
    }
    group->launches += launches;
    group->ns += ns;
    group->closed_ns = now;
    window->launches += launches;
    window->ns += ns;
    window->open_launches += launches;
    window->open_ns += ns;
}

void gpud_group_remove(struct gpud_window *window, uint32_t index)
{
    struct gpud_group removed = window->groups[index];

    window->launches -= removed.launches;
    window->ns -= removed.ns;
    if (removed.recorded_ns == 0) {
        window->open_launches -= removed.launches;
        window->open_ns -= removed.ns;
    }
    window->count--;
    for (uint32_t i = index; i < window->count; i++)
        window->groups[i] = window->groups[i + 1];
    window->groups[window->count].event = removed.event;       /* its event stays for another group */
    window->groups[window->count].event_context = removed.event_context;
}

/* An event of the group's context, which is current. */
static bool event_for(struct gpud_group *group, struct asking *asking)
{
    if (group->event != NULL && group->event_context == group->context)
        return true;
    asking->calls += group->event != NULL ? 2 : 1;
    if (group->event != NULL)
        real.cuEventDestroy_v2(group->event);
    group->event = NULL;
    group->event_context = group->context;
    if (real.cuEventCreate != NULL && real.cuEventCreate(&group->event, EVENT_DISABLE_TIMING) == CUDA_SUCCESS)
        return true;
    group->event = NULL;
    return false;
}

/* Is this context the calling thread's current one, without asking? */
static bool is_current(CUcontext context)
{
    const struct gpud_thread *thread = &gpud_thread;
    return thread->context == context && thread->bound == (gpud_load(&gpud_word) & ~(uint64_t)GPUD_WORD_REASONS);
}

enum gpud_recorded gpud_group_record(uint32_t device, struct gpud_group *group, bool own)
{
    struct gpud_window *window = &gpud_windows[device];
    bool push = !is_current(group->context);
    enum gpud_recorded recorded = GPUD_RECORD_LATER;
    struct asking asking;
    CUcontext popped;

    /* Only its own thread can name its default stream. */
    if ((group->stream == CU_STREAM_PER_THREAD && group->thread != gpud_thread.id) ||
        (push && own && gpud_thread.context != group->context) || !asking_begin(&asking, device))
        return GPUD_RECORD_LATER;
    asking.calls += push ? 2 : 0;
    if (push && real.cuCtxPushCurrent_v2(group->context) != CUDA_SUCCESS) {
        recorded = GPUD_RECORD_NEVER;
        push = false;
    } else if (!asking.captures || !gpud_is_capturing(group->stream)) {
        asking.calls++;
        bool done = event_for(group, &asking) && real.cuEventRecord(group->event, group->stream) == CUDA_SUCCESS;
        recorded = done ? GPUD_RECORDED : GPUD_RECORD_NEVER;
    }
    if (push)
        real.cuCtxPopCurrent_v2(&popped);
    asking_end(&asking);
    if (recorded == GPUD_RECORDED) {
        group->recorded_ns = gpud_now();
        window->open_launches -= group->launches;
        window->open_ns -= group->ns;
    }
    return recorded;
}

void gpud_group_record_open(uint32_t device, bool own)
{
    struct gpud_window *window = &gpud_windows[device];

    for (uint32_t i = window->count; i-- > 0;) {
        if (window->groups[i].recorded_ns != 0 || gpud_group_record(device, &window->groups[i], own) != GPUD_RECORD_NEVER)
            continue;
        gpud_add(&gpud_activity()->errors, 1);      /* not counted: it cannot be seen to finish */
        gpud_group_remove(window, i);
    }
}

/* Was the stream of this group, at `index`, found unfinished already? */
static bool waits_behind(const struct gpud_window *window, uint32_t index)
{
    const struct gpud_group *group = &window->groups[index];

    for (uint32_t i = 0; i < index; i++) {
        const struct gpud_group *older = &window->groups[i];
        if (older->recorded_ns != 0 && older->stream == group->stream && older->context == group->context &&
            (group->stream != CU_STREAM_PER_THREAD || older->thread == group->thread))
            return true;
    }
    return false;
}

/* Is everything finished, though a thread was held no longer than it was meant to be? Asked now and then, and only of the newest group,
 * or, where that has no event yet, of its stream. */
static void check_dry(struct gpud_window *window, struct asking *asking, uint64_t took_ns, uint64_t waited_ns, uint64_t now)
{
    if (waited_ns == 0 || now > waited_ns + ON_TIME_NS || took_ns < SHORT_NS || window->count == 0 ||
        !gpud_aim_wants_check(window, now))
        return;
    const struct gpud_group *newest = &window->groups[window->count - 1];
    bool named = newest->stream != CU_STREAM_PER_THREAD || newest->thread == gpud_thread.id;
    if (newest->recorded_ns == 0 && (!named || asking->captures || !is_current(newest->context)))
        return;
    asking->calls++;
    CUresult result = newest->recorded_ns != 0 ? real.cuEventQuery(newest->event) : real.cuStreamQuery(newest->stream);
    gpud_aim_checked(window, result != CUDA_ERROR_NOT_READY, now);
}

void gpud_group_ask(uint32_t device, uint64_t now)
{
    struct gpud_window *window = &gpud_windows[device];
    const struct gpud_group *head = gpud_aim_head(window);
    uint64_t waited_ns = window->waited_ns;
    bool late = waited_ns != 0 && now > waited_ns + KEPT_NS, more = false;
    bool small = gpud_group_size(&window->limit, window->cost_ns) < FEW;
    struct asking asking;

    if (head == NULL || !asking_begin(&asking, device))
        return;
    for (uint32_t i = 0; i < window->count; i++) {
        struct gpud_group *group = &window->groups[i];
        if (group->recorded_ns == 0 || waits_behind(window, i))
            continue;
        asking.calls++;
        CUresult result = real.cuEventQuery(group->event);
        if (result == CUDA_ERROR_NOT_READY) {
            if (group == head && (late || !more)) {
                window->unfinished_ns = now;
                window->asked++;
            }
            if (more)
                break;
            continue;
        }
        if (result == CUDA_ERROR_DEINITIALIZED)
            gpud_store_total(&gpud_exiting, 1);
        /* Finished, or failed: then nothing of it runs any more either. */
        uint64_t took_ns = now - group->began_ns;
        bool first = window->unfinished_ns == 0;
        if (group == head && !more)
            gpud_aim_finished(window, head, now);
        else if (group == head)
            gpud_aim_passed(window, head, now);
        gpud_group_remove(window, i);
        /* What is believed to be still running is waited for, while the device may have nothing to do. Whoever was kept from asking in
         * time asks on; so does who found it finished at once where groups are small, and a question more costs little beside them. */
        if (!late && !(small && first)) {
            if (!more)
                check_dry(window, &asking, took_ns, waited_ns, now);
            break;
        }
        more = true;
        head = gpud_aim_head(window);
        i--;
    }
    asking_end(&asking);
}
