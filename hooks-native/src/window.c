/* window.c: how much is submitted and unfinished, and who may submit how much more. */
#define _GNU_SOURCE
#include "window_state.h"

#define LAUNCHES_MOST 65536         /* granted at once where only GPU time is limited */

struct gpud_window gpud_windows[GPUD_MAX_DEVICES] = {
    [0 ... GPUD_MAX_DEVICES - 1] = { .lock = GPUD_WINDOW_LOCK }
};

void gpud_window_publish(uint32_t device)
{
    const struct gpud_window *window = &gpud_windows[device];
    gpud_store(&gpud_presence_at(device)->inflight, (uint64_t)window->launches + window->granted);
}

/* A launch passes while something fits, or while nothing at all is under way. */
static bool is_full(const struct gpud_window *window, const struct gpud_window_limit *limit, uint64_t cost_ns)
{
    uint32_t launches = window->launches + window->granted;
    uint64_t ns = window->ns + window->granted_ns;

    if (limit->launches != 0 && launches >= limit->launches)
        return true;
    return limit->ns != 0 && launches > 0 && ns + cost_ns > limit->ns;
}

static struct gpud_allowed *find(struct gpud_window *window, uint32_t thread)
{
    for (uint32_t i = 0; i < window->allowed_count; i++) {
        if (window->allowed[i].thread == thread)
            return &window->allowed[i];
    }
    return NULL;
}

/* A place for a grant, and how many other threads have one they may still use. */
static struct gpud_allowed *place(struct gpud_window *window, uint32_t *others)
{
    struct gpud_allowed *free = NULL;

    *others = 0;
    for (uint32_t i = 0; i < window->allowed_count; i++) {
        *others += window->allowed[i].thread != 0 && window->allowed[i].launches > 0;
        if (window->allowed[i].thread == 0 && free == NULL)
            free = &window->allowed[i];
    }
    if (free == NULL && window->allowed_count < GPUD_WINDOW_GRANTS)
        free = &window->allowed[window->allowed_count++];
    return free;
}

static uint64_t at_least(uint64_t value, uint64_t least)
{
    return value > least ? value : least;
}

static uint64_t at_most(uint64_t value, uint64_t most)
{
    return value < most ? value : most;
}

/* So many launches, and so much time, that the group they complete is as large as one should be, and other threads get something too. */
static void measure(const struct gpud_window *window, const struct gpud_window_limit *limit, uint64_t cost_ns, uint32_t others,
                    uint32_t *launches, uint64_t *ns)
{
    uint64_t most = LAUNCHES_MOST, size = gpud_group_size(limit, cost_ns);

    if (limit->launches != 0)
        most = limit->launches - (window->launches + window->granted);
    size = size > window->open_launches ? size - window->open_launches : 1;
    *launches = (uint32_t)at_most(most, at_least(size / (others + 1), 1));
    *ns = UINT64_MAX;
    if (limit->ns != 0) {
        uint64_t used = window->ns + window->granted_ns, room = used < limit->ns ? limit->ns - used : 0;
        *ns = at_least(at_most(room, limit->ns / (others + 1)), cost_ns);
    }
}

uint32_t gpud_window_grant(struct gpud_thread *thread, CUstream stream, const struct gpud_window_limit *limit, uint64_t cost_ns,
                           bool force, uint64_t *ns)
{
    uint32_t device = thread->device, launches = 0, others;
    struct gpud_window *window = &gpud_windows[device];
    bool shared = thread->flags & GPUD_PASS_SHARED;

    pthread_mutex_lock(&window->lock);
    struct gpud_allowed *before = find(window, thread->id), *allowed;
    if (before != NULL) {       /* it should have closed that */
        gpud_window_settle_grant(device, before, 0, gpud_now());
        before->thread = 0;
    }
    allowed = place(window, &others);
    if (allowed != NULL && (force || !is_full(window, limit, cost_ns))) {
        launches = 1;
        *ns = cost_ns;
        if (!force && !shared)
            measure(window, limit, cost_ns, others, &launches, ns);
        struct gpud_slot *slot = shared ? NULL : thread->slots[device];
        uint64_t left = slot != NULL ? gpud_load(&slot->left) : 0, now = gpud_now();
        uint64_t counted = *ns == UINT64_MAX ? cost_ns * launches : *ns;
        *allowed = (struct gpud_allowed){ .thread = thread->id, .launches = launches, .ns = counted, .attachment = thread->attachment,
                                          .slot = slot, .left = left, .seen = left, .seen_ns = now, .granted_ns = now,
                                          .context = thread->context, .stream = stream };
        window->limit = *limit;
        window->cost_ns = cost_ns;
        window->granted += launches;
        window->granted_ns += counted;
        gpud_window_publish(device);
    }
    pthread_mutex_unlock(&window->lock);
    return launches;
}

/* The group is worth an event now; or nobody else could record it later; or nothing more would fit before it has one. */
static bool is_due(const struct gpud_window *window, CUstream stream)
{
    const struct gpud_window_limit *limit = &window->limit;

    return window->open_launches >= gpud_group_size(limit, window->cost_ns) || stream == CU_STREAM_PER_THREAD ||
           (limit->ns != 0 && window->open_ns >= limit->ns - limit->ns / 8);
}

void gpud_window_close(struct gpud_thread *thread, uint32_t device, CUstream stream, uint32_t used, uint64_t used_ns)
{
    struct gpud_window *window = &gpud_windows[device];

    pthread_mutex_lock(&window->lock);
    struct gpud_allowed *allowed = find(window, thread->id);
    if (allowed != NULL) {
        window->granted -= allowed->launches;
        window->granted_ns -= allowed->ns;
        uint32_t rest = used > allowed->taken ? used - allowed->taken : 0;
        if (rest > 0 && allowed->context != NULL)
            gpud_group_add(device, allowed, stream, rest, used_ns / used * rest, gpud_now());
        allowed->thread = 0;
        if (rest > 0 && is_due(window, stream))
            gpud_group_record_open(device, true);
        gpud_window_publish(device);
    }
    pthread_mutex_unlock(&window->lock);
}

struct gpud_inflight gpud_window_look(uint32_t device, const struct gpud_window_limit *limit, uint64_t cost_ns, bool ask)
{
    struct gpud_window *window = &gpud_windows[device];

    pthread_mutex_lock(&window->lock);
    if (ask && is_full(window, limit, cost_ns)) {
        uint64_t now = gpud_now();
        gpud_window_revoke(device, now);
        if (gpud_aim_head(window) == NULL)
            gpud_group_record_open(device, false);
        /* Whoever asks for each launch anyway may ask at once; larger groups are asked about when it is worth it. */
        uint64_t aim = gpud_group_size(limit, cost_ns) == 1 ? now : gpud_aim(window, now);
        if (is_full(window, limit, cost_ns) && aim <= now)
            gpud_group_ask(device, now);
        else if (aim > now)
            window->waited_ns = aim;
        gpud_window_publish(device);
    }
    struct gpud_inflight inflight = { .launches = window->launches + window->granted, .ns = window->ns + window->granted_ns,
                                      .full = is_full(window, limit, cost_ns) };
    pthread_mutex_unlock(&window->lock);
    return inflight;
}

uint64_t gpud_window_aim(uint32_t device, uint64_t now)
{
    struct gpud_window *window = &gpud_windows[device];

    pthread_mutex_lock(&window->lock);
    uint64_t aim = gpud_aim_wake(window, now);
    pthread_mutex_unlock(&window->lock);
    return aim;
}
