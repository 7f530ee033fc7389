/* window_aim.c: when the oldest group is expected to be finished, so that it is asked about once, and not late.
 *
 * Where launches wait behind it, being a little late costs nothing: the device goes on with those. Then the first question comes a bit
 * after the expected end, and the expectation creeps down until, now and then, a question comes too soon: that says where the end is.
 * Where nothing waits behind it, the device idles from its end until it is seen: then asking begins before the end and goes on. */
#include "window_state.h"

#define EARLY_NS (80 * GPUD_MICROSECOND)        /* asking begins this long before the expected end */
#define ASK_ON_NS (150 * GPUD_MICROSECOND)      /* … and goes on without sleeping for this long after it */
#define EARLY_STEP_NS (20 * GPUD_MICROSECOND)
#define PRECISE_NS (100 * GPUD_MICROSECOND)     /* an end is known if seen unfinished this shortly before */
#define LONGEST_NAP_NS GPUD_MILLISECOND
#define SHORTEST_NAP_NS (20 * GPUD_MICROSECOND)
#define SLEEP_LATE_NS (80 * GPUD_MICROSECOND)   /* a sleep may end so late; what is to be asked about more exactly is waited for awake */
#define LATE_MOST_NS (150 * GPUD_MICROSECOND)
#define CHECK_MANY 63                           /* after so many groups it is asked whether all is finished, */
#define CHECK_FEW 10                            /* or after so many, if they took */
#define CHECK_NS (20 * GPUD_MILLISECOND)
#define DRY_FEW 5
#define CREEP 32                                /* questions in a row until the expectation has crept down by what they come late */

struct gpud_group *gpud_aim_head(struct gpud_window *window)
{
    for (uint32_t i = 0; i < window->count; i++) {
        if (window->groups[i].recorded_ns != 0)
            return &window->groups[i];
    }
    return NULL;
}

/* What a group is expected to take, but for a factor that is learned. */
static double weight(const struct gpud_group *group)
{
    return group->ns > 0 ? (double)group->ns : 1000.0 * group->launches;
}

/* When the oldest group began to run, as far as can be told from here. */
static uint64_t began(const struct gpud_window *window, const struct gpud_group *head)
{
    return head->began_ns > window->finished_ns ? head->began_ns : window->finished_ns;
}

/* How late the first question may come: most of what waits behind the group, and not more than a part of the group itself. */
static uint64_t lateness(const struct gpud_window *window, const struct gpud_group *head)
{
    double behind = 0;

    for (uint32_t i = 0; i < window->count; i++) {
        if (&window->groups[i] != head)
            behind += weight(&window->groups[i]);
    }
    double most = behind * window->expected * 3 / 4, part = weight(head) * window->expected / 8;
    part = part < SHORTEST_NAP_NS ? SHORTEST_NAP_NS : part > LATE_MOST_NS ? LATE_MOST_NS : part;
    return (uint64_t)(most < part ? most : part);
}

uint64_t gpud_aim(struct gpud_window *window, uint64_t now)
{
    const struct gpud_group *head = gpud_aim_head(window);

    if (head == NULL)
        return now + SHORTEST_NAP_NS;   /* another thread's launch is just being made */
    uint64_t start = began(window, head), end = start + (uint64_t)(window->expected * weight(head));
    uint64_t running = now > start ? now - start : 0, late = lateness(window, head);
    uint64_t nap = running / 64;
    nap = nap < SHORTEST_NAP_NS ? SHORTEST_NAP_NS : nap > LONGEST_NAP_NS ? LONGEST_NAP_NS : nap;
    if (late == 0 || !(window->expected > 0)) {
        if (now + EARLY_NS < end)
            return end - EARLY_NS;
        if (window->unfinished_ns == 0 || (window->expected > 0 && now < end + ASK_ON_NS))
            return now;
        if (head->launches > 1 && nap < running / 4)    /* a group has many launches for its questions, but not that many */
            nap = running / 4 < LONGEST_NAP_NS ? running / 4 : LONGEST_NAP_NS;
        return window->unfinished_ns + nap;
    }
    if (window->unfinished_ns == 0)
        return end + late;
    uint64_t step = (late / 2 > SHORTEST_NAP_NS ? late / 2 : SHORTEST_NAP_NS) << (window->asked < 8 ? window->asked - 1 : 7);
    return window->unfinished_ns + step;
}

uint64_t gpud_aim_wake(struct gpud_window *window, uint64_t now)
{
    const struct gpud_group *head = gpud_aim_head(window);
    uint64_t aim = gpud_aim(window, now);

    if (head == NULL || lateness(window, head) == 0 || lateness(window, head) > 2 * SLEEP_LATE_NS)
        return aim;
    return aim > now + SLEEP_LATE_NS ? aim - SLEEP_LATE_NS : now;
}

/* All that is known is that it took no longer: that shortens the expectation, faster if it repeats, for an end expected too late
 * leaves the device idle, and one expected too early only costs questions. */
static void learn_shorter(struct gpud_window *window, double took, double of)
{
    double step = (double)(EARLY_STEP_NS << (window->early < 6 ? window->early++ : 6)) / of;
    double most = took < window->expected ? took : window->expected;

    window->expected = most > step ? most - step : 1 / of;
}

void gpud_aim_finished(struct gpud_window *window, const struct gpud_group *head, uint64_t now)
{
    uint64_t start = began(window, head), unfinished = window->unfinished_ns > start ? window->unfinished_ns : 0;
    uint64_t took = now > start ? now - start : 1, since = unfinished != 0 ? now - unfinished : took;
    uint64_t end = start + (uint64_t)(window->expected * weight(head)), late = lateness(window, head);
    double of = weight(head), ratio = (double)took / of;

    window->finished_ns = now;
    window->unfinished_ns = window->waited_ns = window->asked = 0;
    window->late = (double)late / of;
    if (!(window->expected > 0)) {
        window->expected = ratio;
    } else if (since <= (took / 16 > PRECISE_NS ? took / 16 : PRECISE_NS)) {
        window->early = 0;
        if (late > 0) {     /* the expectation had crept down to this */
            window->expected = ((double)took - (double)since / 2) / of;
            window->finished_ns = now - since / 2;
        } else {
            window->expected += (ratio - window->expected) / 4;
        }
    } else if (late == 0) {
        if (unfinished == 0 || unfinished < end)
            learn_shorter(window, ratio, of);
    } else if (unfinished == 0) {
        /* As expected: it ended when it should have, a little sooner. */
        window->finished_ns = end < now ? end : now;
        window->expected -= (double)late / CREEP / of;
        if (ratio < window->expected || !(window->expected > 0))
            window->expected = ratio;
    } else if (unfinished > end) {
        window->expected += (((double)took - (double)since / 2) / of - window->expected) / 4;
        window->finished_ns = now - since / 2;
    }
}

void gpud_aim_passed(struct gpud_window *window, const struct gpud_group *head, uint64_t now)
{
    uint64_t end = began(window, head) + (uint64_t)(window->expected * weight(head));

    window->finished_ns = end < now ? end : now;
    window->unfinished_ns = window->waited_ns = window->asked = 0;
}

bool gpud_aim_wants_check(struct gpud_window *window, uint64_t now)
{
    uint32_t after = now >= window->checked_ns + CHECK_NS && window->check_after > CHECK_FEW ? CHECK_FEW : window->check_after;
    return ++window->checks > after;
}

void gpud_aim_checked(struct gpud_window *window, bool dry, uint64_t now)
{
    window->checks = 0;
    window->checked_ns = now;
    window->check_after = window->check_after < CHECK_MANY ? window->check_after * 2 + 1 : CHECK_MANY;
    window->dry = dry ? window->dry + 1 : 0;
    if (window->dry < DRY_FEW)      /* little waits behind a group: it happens */
        return;
    window->check_after = 0;
    window->expected -= window->late * (double)(UINT64_C(1) << (window->dry < 32 ? window->dry - DRY_FEW : 31));
    window->expected = window->expected > 0 ? window->expected : 0;     /* 0: it is learned anew */
}
