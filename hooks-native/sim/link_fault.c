/* link_fault.c: faults on demand that concern the whole node: rules for all its processes, devices that fall off the bus. */
#include <errno.h>
#include <stdio.h>

#include "link_state.h"

const char *sim_faults(const struct sim_link *link)
{
    return link->node ? link->node->faults : "";
}

uint64_t sim_fault_use(struct sim_link *link, uint32_t rule)
{
    LINK_ASK(SIM_FAULT_USE, .id = rule);
    return link_ask(link, &question) ? 0 : (uint64_t)question.in.a;
}

void sim_fault_happened(struct sim_link *link, const char *call, const char *what)
{
    char text[160];
    int n = snprintf(text, sizeof text, "%s%c%s", call, 0, what);
    LINK_ASK(SIM_FAULT_HAPPENED, .text_bytes = n < (int)sizeof text ? (uint32_t)n : (uint32_t)sizeof text - 1);
    question.text = text;
    link_ask(link, &question);
}

int sim_lose(struct sim_link *link, uint32_t device)
{
    LINK_ASK(SIM_LOSE, .device = device);
    return link_ask(link, &question);
}

bool sim_lost(const struct sim_link *link, uint32_t device)
{
    return link->node && atomic_load_explicit(&link->node->lost, memory_order_acquire) >> device & 1;
}

int sim_usage(struct sim_link *link, uint32_t device, struct sim_usage *usage)
{
    LINK_ASK(SIM_USAGE, .device = device);
    question.answer = usage;
    question.room = sizeof *usage;
    int result = link_ask(link, &question);
    return !result && question.in.text_bytes != sizeof *usage ? -EPIPE : result;
}

int sim_context_stop(struct sim_link *link, uint32_t context)
{
    LINK_ASK(SIM_CONTEXT_STOP, .id = context);
    return link_ask(link, &question);
}
