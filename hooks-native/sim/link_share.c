/* link_share.c: memory and events that several processes have; see exports.c and events.c of the device process. */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "link_state.h"

int sim_memory_range(struct sim_link *link, uint32_t device, uint64_t offset, uint64_t *id, uint64_t *bytes)
{
    LINK_ASK(SIM_RANGE, .device = device, .a = (int64_t)offset);
    int result = link_ask(link, &question);
    if (!result) {
        *id = (uint64_t)question.in.a;
        *bytes = (uint64_t)question.in.b;
    }
    return result;
}

int sim_memory_open(struct sim_link *link, uint32_t device, uint64_t offset, uint64_t id, uint64_t *bytes)
{
    LINK_ASK(SIM_HOLD, .device = device, .a = (int64_t)offset, .b = (int64_t)id);
    int result = link_ask(link, &question);
    if (!result)
        *bytes = (uint64_t)question.in.b;
    return result;
}

/* The descriptor of an export that was made. */
static int exported(struct link_question *question, int result)
{
    if (!result && question->fd < 0)
        return -EMFILE;                 /* the reply came without: this process has no descriptors left */
    return result ? result : question->fd;
}

int sim_memory_export(struct sim_link *link, uint32_t device, uint64_t offset)
{
    LINK_ASK(SIM_EXPORT, .device = device, .a = (int64_t)offset);
    return exported(&question, link_ask(link, &question));
}

int sim_pool_export(struct sim_link *link, uint32_t device, uint64_t *number)
{
    LINK_ASK(SIM_EXPORT, .device = device, .id = 1, .b = (int64_t)*number);
    int fd = exported(&question, link_ask(link, &question));
    if (fd >= 0)
        *number = (uint64_t)question.in.a;
    return fd;
}

/* Asks for what a descriptor stands for. It is known by its inode number, which nobody else can have while it is open. */
static int import(struct sim_link *link, int fd, struct link_question *question)
{
    struct stat info;
    if (fstat(fd, &info) || !S_ISFIFO(info.st_mode))
        return -ENOENT;
    question->out.a = (int64_t)info.st_ino;
    return link_ask(link, question);
}

int sim_memory_import(struct sim_link *link, int fd, uint32_t *device, uint64_t *offset, uint64_t *bytes)
{
    LINK_ASK(SIM_IMPORT, .id = 0);
    int result = import(link, fd, &question);
    if (!result) {
        *device = question.in.id;
        *offset = (uint64_t)question.in.a;
        *bytes = (uint64_t)question.in.b;
    }
    return result;
}

int sim_pool_import(struct sim_link *link, int fd, uint32_t *device, uint64_t *number)
{
    LINK_ASK(SIM_IMPORT, .id = 1);
    int result = import(link, fd, &question);
    if (!result) {
        *device = question.in.id;
        *number = (uint64_t)question.in.a;
    }
    return result;
}

int sim_event_create_shared(struct sim_link *link, uint32_t device, uint32_t *event, uint64_t *number)
{
    LINK_ASK(SIM_EVENT_NEW, .device = device, .a = 1);
    int result = link_ask(link, &question);
    if (!result) {
        *event = question.in.id;
        *number = (uint64_t)question.in.a;
    }
    return result;
}

int sim_event_open(struct sim_link *link, uint64_t number, uint32_t *event)
{
    LINK_ASK(SIM_EVENT_OPEN, .a = (int64_t)number);
    int result = link_ask(link, &question);
    if (!result)
        *event = question.in.id;
    return result;
}

uint64_t sim_event_newest(const struct sim_link *link, uint32_t event)
{
    return event < SIM_MAX_EVENTS && link->done ? atomic_load_explicit(&link->done->events[event].held, memory_order_acquire) : 0;
}

int sim_event_recorded(struct sim_link *link, uint32_t event)
{
    LINK_ASK(SIM_EVENT_TAKEN, .id = event);
    return link_ask(link, &question);
}
