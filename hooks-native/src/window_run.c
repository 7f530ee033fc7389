/* window_run.c: is the sum of what is charged right, where a window limits what is in flight? The ends of groups are seen anyway. While
 * launches wait behind each group that ends, the device is never without work, so from the end of one group to that of another it took what
 * the groups in between took; if nobody else was at work, that is what they should have been charged with, and are then charged with.
 * No driver call more. (Where nothing limits it, sample_stretch.c does the same by events of its own.) */
#include "sample_state.h"
#include "window_state.h"

#define LONG_NS (3 * GPUD_MILLISECOND)      /* a run is long enough, */
#define EXACT 20                            /* … if its ends are known so many times as exactly */
#define MARGIN_NS (100 * GPUD_MICROSECOND)
#define MARGIN 3                            /* what waits behind a group against how late its end may have been seen */

static struct run {
    bool open;
    uint64_t from_ns, charged_ns, launches;
    uint64_t unsure, beside;
    uint32_t attachment;
    struct gpud_others others;
} runs[GPUD_MAX_DEVICES];

static void begin(uint32_t device, struct run *run, uint64_t end_ns, uint64_t now)
{
    *run = (struct run){ .open = true, .from_ns = end_ns, .unsure = gpud_cost_unsure(), .beside = gpud_sample_beside(device),
                         .attachment = gpud_load_acquire(&gpud_attachment), .others = gpud_others_look(device, now) };
}

static void settle(uint32_t device, const struct run *run, uint64_t took_ns, uint64_t now)
{
    struct gpud_others after = gpud_others_look(device, now);

    if (after.active != 0 || run->others.active != 0 || after.trace != run->others.trace || run->unsure != gpud_cost_unsure() ||
        run->beside != gpud_sample_beside(device) || run->attachment != gpud_load_acquire(&gpud_attachment))
        return;
    gpud_add(&gpud_presence()->device[device].spent_ns, took_ns - run->charged_ns);
    gpud_cost_correct(device, run->launches, run->charged_ns, took_ns);
}

void gpud_run_ended(uint32_t device, const struct gpud_group *group, uint64_t end_ns, uint64_t late_ns, uint64_t now)
{
    const struct gpud_window *window = &gpud_windows[device];
    struct run *run = &runs[device];
    uint64_t behind_ns = window->ns - group->ns;
    bool goes_on = group->ns > 0 && window->count > 1 && behind_ns > MARGIN * late_ns + MARGIN_NS;

    if (run->open) {
        uint64_t took_ns = end_ns > run->from_ns ? end_ns - run->from_ns : 0;
        run->charged_ns += group->ns;
        run->launches += group->launches;
        if (goes_on && took_ns < LONG_NS)
            return;
        run->open = took_ns < EXACT * late_ns && goes_on;
        if (run->open)
            return;
        if (took_ns >= LONG_NS && took_ns >= EXACT * late_ns)
            settle(device, run, took_ns, now);
    }
    if (goes_on)
        begin(device, run, end_ns, now);
}

void gpud_run_other(uint32_t device, const struct gpud_group *group)
{
    runs[device].charged_ns += group->ns;
    runs[device].launches += group->launches;
}

void gpud_run_break(uint32_t device)
{
    runs[device].open = false;
}
