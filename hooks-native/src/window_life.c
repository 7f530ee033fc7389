/* window_life.c: threads that sleep on what they were granted, and threads, streams, contexts and processes that end. */
#define _GNU_SOURCE
#include "window_state.h"

#define ASLEEP_NS (500 * GPUD_MICROSECOND)      /* a thread that has launched nothing for so long */
#define REVOKE_EACH_NS GPUD_MILLISECOND         /* all threads of the client take a look then: not more often */

/* Launches of a grant that have been made and have returned. The rest is one that is just being made, or none. */
static uint32_t made(const struct gpud_allowed *allowed)
{
    if (allowed->slot == NULL || allowed->attachment != gpud_load_acquire(&gpud_attachment))
        return 0;
    uint64_t count = gpud_load_acquire(&allowed->slot->left) - allowed->left;
    return count < allowed->launches + (uint64_t)allowed->taken ? (uint32_t)count : allowed->launches + allowed->taken;
}

void gpud_window_settle_grant(uint32_t device, struct gpud_allowed *allowed, uint32_t keep, uint64_t now)
{
    struct gpud_window *window = &gpud_windows[device];
    uint32_t moved = made(allowed) - allowed->taken;
    uint64_t each = allowed->launches > 0 ? allowed->ns / allowed->launches : 0;

    if (moved > 0 && allowed->context != NULL)
        gpud_group_add(device, allowed, allowed->stream, moved, each * moved, now);
    allowed->taken += moved;
    window->granted -= allowed->launches - keep;
    window->granted_ns -= allowed->ns - each * keep;
    allowed->launches = keep;
    allowed->ns = each * keep;
}

static bool is_asleep(struct gpud_allowed *allowed, uint64_t now)
{
    if (allowed->thread == 0 || allowed->thread == gpud_thread.id || allowed->slot == NULL || allowed->launches == 0 ||
        allowed->attachment != gpud_load_acquire(&gpud_attachment))
        return false;
    uint64_t entered = gpud_load(&allowed->slot->entered);
    if (entered != allowed->seen) {
        allowed->seen = entered;
        allowed->seen_ns = now;
    }
    return now >= allowed->seen_ns + ASLEEP_NS && entered - allowed->left < allowed->launches + (uint64_t)allowed->taken;
}

void gpud_window_revoke(uint32_t device, uint64_t now)
{
    struct gpud_window *window = &gpud_windows[device];
    bool any = false;

    for (uint32_t i = 0; i < window->allowed_count; i++)
        any |= is_asleep(&window->allowed[i], now);
    if (!any || now < window->revoked_ns + REVOKE_EACH_NS)
        return;
    window->revoked_ns = now;
    /* From here on each launch takes a look, and closes its grant, or its mark is seen here. */
    gpud_word_raise(0, 0);
    gpud_barrier();
    for (uint32_t i = 0; i < window->allowed_count; i++) {
        struct gpud_allowed *allowed = &window->allowed[i];
        if (!is_asleep(allowed, now))
            continue;
        uint64_t left = gpud_load_acquire(&allowed->slot->left), entered = gpud_load(&allowed->slot->entered);
        gpud_window_settle_grant(device, allowed, entered != left ? 1 : 0, now);
    }
}

void gpud_window_idle(uint32_t device, uint64_t proven_ns)
{
    struct gpud_window *window = &gpud_windows[device];

    if (pthread_mutex_trylock(&window->lock) != 0)
        return;             /* whoever has it will find out by asking */
    for (uint32_t i = window->count; i-- > 0;) {
        if (window->groups[i].closed_ns < proven_ns)
            gpud_group_remove(window, i);
    }
    window->unfinished_ns = window->waited_ns = 0;
    gpud_window_publish(device);
    pthread_mutex_unlock(&window->lock);
}

void gpud_window_thread_gone(uint32_t id)
{
    for (uint32_t device = 0; device < GPUD_MAX_DEVICES; device++) {
        struct gpud_window *window = &gpud_windows[device];
        pthread_mutex_lock(&window->lock);
        for (uint32_t i = 0; i < window->allowed_count; i++) {
            struct gpud_allowed *allowed = &window->allowed[i];
            if (allowed->thread != id || id == 0)
                continue;
            gpud_window_settle_grant(device, allowed, 0, gpud_now());
            allowed->thread = 0;
            gpud_window_publish(device);
        }
        pthread_mutex_unlock(&window->lock);
    }
}

void gpud_window_stream_gone(CUstream stream)
{
    for (uint32_t device = 0; device < GPUD_MAX_DEVICES; device++) {
        struct gpud_window *window = &gpud_windows[device];
        pthread_mutex_lock(&window->lock);
        for (uint32_t i = 0; i < window->allowed_count; i++) {
            if (window->allowed[i].thread != 0 && window->allowed[i].stream == stream)
                gpud_window_settle_grant(device, &window->allowed[i], 0, gpud_now());
        }
        for (uint32_t i = window->count; i-- > 0;) {
            struct gpud_group *group = &window->groups[i];
            if (group->stream != stream || group->recorded_ns != 0 || gpud_group_record(device, group, false) == GPUD_RECORDED)
                continue;
            gpud_add(&gpud_activity()->errors, 1);      /* it cannot be seen to finish any more */
            gpud_group_remove(window, i);
        }
        gpud_window_publish(device);
        pthread_mutex_unlock(&window->lock);
    }
}

void gpud_window_settle(void)
{
    for (uint32_t device = 0; device < GPUD_MAX_DEVICES; device++) {
        pthread_mutex_lock(&gpud_windows[device].lock);
        pthread_mutex_unlock(&gpud_windows[device].lock);
    }
}

/* Events of a context that went away are forgotten, not destroyed: they went with it. What others have in flight stays. */
void gpud_window_context_gone(uint32_t device, CUcontext context)
{
    struct gpud_window *window = &gpud_windows[device];

    pthread_mutex_lock(&window->lock);
    for (uint32_t i = 0; i < GPUD_WINDOW_GROUPS; i++) {
        if (context == NULL || window->groups[i].event_context == context) {
            window->groups[i].event = NULL;
            window->groups[i].event_context = NULL;
        }
    }
    bool found = false;
    for (uint32_t i = window->count; i-- > 0;) {
        if (context != NULL && window->groups[i].context != context)
            continue;
        gpud_group_remove(window, i);
        found = true;
    }
    for (uint32_t i = 0; i < window->allowed_count; i++) {
        struct gpud_allowed *allowed = &window->allowed[i];
        if (allowed->thread == 0 || (context != NULL && allowed->context != context))
            continue;
        allowed->context = NULL;    /* its launches have ended with it; none may be recorded */
        gpud_window_settle_grant(device, allowed, 0, 0);
        found = true;
    }
    if (found) {
        window->unfinished_ns = window->waited_ns = 0;
        gpud_window_publish(device);
    }
    pthread_mutex_unlock(&window->lock);
}

void gpud_window_forget(void)
{
    for (uint32_t device = 0; device < GPUD_MAX_DEVICES; device++)
        gpud_windows[device] = (struct gpud_window){ .lock = GPUD_WINDOW_LOCK };
}
