/* link_ask.c: what a client asks the device process for, one packet each way; and what it reads off the node's page. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "link_state.h"
#include "start.h"

#define ASK(kind, ...) LINK_ASK(kind, __VA_ARGS__)

/* The descriptor that came with a reply, or −1. */
static int received(struct msghdr *message)
{
    int fd = -1;
    struct cmsghdr *c = CMSG_FIRSTHDR(message);
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof fd))
        memcpy(&fd, CMSG_DATA(c), sizeof fd);
    return fd;
}

/* ask_lock held. The reply's result, or −EPIPE. */
static int ask_locked(struct sim_link *link, struct link_question *question)
{
    union { struct cmsghdr header; char room[CMSG_SPACE(sizeof(int))]; } control;
    struct iovec out[2] = { { &question->out, sizeof question->out }, { (void *)(uintptr_t)question->text, question->out.text_bytes } };
    struct iovec in[2] = { { &question->in, sizeof question->in }, { question->answer, question->room } };
    struct msghdr sent = { .msg_iov = out, .msg_iovlen = 2 };
    struct msghdr got = { .msg_iov = in, .msg_iovlen = 2, .msg_control = &control, .msg_controllen = sizeof control };
    ssize_t n;
    if (atomic_load(&link->dead))
        return -EPIPE;
    link_host_enter(link);
    do
        n = sendmsg(link->socket, &sent, MSG_NOSIGNAL);
    while (n < 0 && (errno == EINTR || errno == EAGAIN));
    do
        n = n < 0 ? n : recvmsg(link->socket, &got, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    link_host_leave(link, 0);
    if (n < (ssize_t)SIM_REPLY_HEAD) {
        atomic_store(&link->dead, true);
        return -EPIPE;
    }
    question->fd = received(&got);
    return question->in.result;
}

int link_ask(struct sim_link *link, struct link_question *question)
{
    pthread_mutex_lock(&link->ask_lock);
    int result = ask_locked(link, question);
    pthread_mutex_unlock(&link->ask_lock);
    return result;
}

uint32_t sim_device_count(const struct sim_link *link)
{
    return link->node ? link->node->device_count : 0;
}

const struct sim_device_info *sim_device(const struct sim_link *link, uint32_t device)
{
    return link->node && device < link->node->device_count ? &link->node->devices[device] : NULL;
}

uint32_t sim_whole_count(const struct sim_link *link)
{
    return link->node ? link->node->whole_count : 0;
}

const struct sim_device_info *sim_whole(const struct sim_link *link, uint32_t index)
{
    return link->node && index < link->node->whole_count ? &link->node->wholes[index] : NULL;
}

uint64_t sim_model_now(const struct sim_link *link, uint32_t device)
{
    struct timespec now;
    (void)device;                       /* all devices of a node have one clock */
    clock_gettime(CLOCK_MONOTONIC, &now);
    return link->node ? sim_model_of(link->node, (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec) : 0;
}

int sim_memory_fd(const struct sim_link *link, uint32_t device)
{
    return device < SIM_MAX_DEVICES && link->memory_fd[device] >= 0 ? link->memory_fd[device] : -ENODEV;
}

int sim_memory_alloc(struct sim_link *link, uint32_t device, uint64_t bytes, uint64_t align, uint64_t *offset)
{
    ASK(SIM_ALLOC, .device = device, .a = (int64_t)bytes, .b = (int64_t)align);
    int result = link_ask(link, &question);
    if (!result)
        *offset = (uint64_t)question.in.a;
    return result;
}

int sim_memory_free(struct sim_link *link, uint32_t device, uint64_t offset)
{
    ASK(SIM_FREE, .device = device, .a = (int64_t)offset);
    return link_ask(link, &question);
}

int sim_memory_info(struct sim_link *link, uint32_t device, uint64_t *free_bytes, uint64_t *total_bytes)
{
    ASK(SIM_INFO, .device = device);
    int result = link_ask(link, &question);
    if (!result) {
        *free_bytes = (uint64_t)question.in.a;
        *total_bytes = (uint64_t)question.in.b;
    }
    return result;
}

int sim_context_create(struct sim_link *link, uint32_t device, uint32_t *context)
{
    ASK(SIM_CONTEXT_NEW, .device = device);
    int result = link_ask(link, &question);
    if (!result)
        *context = question.in.id;
    return result;
}

int sim_context_destroy(struct sim_link *link, uint32_t context)
{
    ASK(SIM_CONTEXT_END, .id = context);
    return link_ask(link, &question);
}

int sim_queue_create(struct sim_link *link, uint32_t context, int priority, uint32_t *queue)
{
    ASK(SIM_QUEUE_NEW, .id = context, .a = priority);
    int result = link_ask(link, &question);
    if (!result) {
        pthread_mutex_lock(&link->ring_lock);
        link->last[question.in.id % SIM_MAX_QUEUES] = 0;
        pthread_mutex_unlock(&link->ring_lock);
        *queue = question.in.id;
    }
    return result;
}

int sim_queue_destroy(struct sim_link *link, uint32_t queue)
{
    ASK(SIM_QUEUE_END, .id = queue);
    return link_ask(link, &question);
}

int sim_event_create(struct sim_link *link, uint32_t device, uint32_t *event)
{
    ASK(SIM_EVENT_NEW, .device = device);
    int result = link_ask(link, &question);
    if (!result)
        *event = question.in.id;
    return result;
}

int sim_event_destroy(struct sim_link *link, uint32_t event)
{
    ASK(SIM_EVENT_END, .id = event);
    return link_ask(link, &question);
}

uint32_t sim_name(struct sim_link *link, const char *kernel_name)
{
    uint32_t hash = 2166136261u;
    size_t n = 0;
    for (; kernel_name[n] && n < SIM_TEXT - 1; n++)
        hash = (hash ^ (unsigned char)kernel_name[n]) * 16777619u;
    uint32_t id = 0;
    pthread_mutex_lock(&link->ask_lock);
    struct link_name **head = &link->names[hash % LINK_NAMES];
    for (struct link_name *name = *head; name && !id; name = name->next)
        if (!strncmp(name->text, kernel_name, n) && !name->text[n])
            id = name->id;
    struct link_name *name = id ? NULL : malloc(sizeof *name + n + 1);
    if (name) {
        ASK(SIM_NAME_NEW, .text_bytes = (uint32_t)n);
        question.text = kernel_name;
        if (!ask_locked(link, &question)) {
            id = name->id = question.in.id;
            memcpy(name->text, kernel_name, n);
            name->text[n] = 0;
            name->next = *head;
            *head = name;
        } else
            free(name);
    }
    pthread_mutex_unlock(&link->ask_lock);
    return id;
}

int sim_processes(struct sim_link *link, uint32_t device, struct sim_process *list, uint32_t room, uint32_t *count)
{
    ASK(SIM_PROCESSES, .device = device);
    question.answer = list;
    question.room = room * sizeof *list;
    int result = link_ask(link, &question);
    if (!result)
        *count = question.in.text_bytes / (uint32_t)sizeof *list;
    return result;
}

int sim_utilisation(struct sim_link *link, uint32_t device, uint32_t *gpu_percent, uint32_t *memory_percent)
{
    ASK(SIM_UTILISATION, .device = device);
    int result = link_ask(link, &question);
    if (!result) {
        *gpu_percent = (uint32_t)question.in.a;
        *memory_percent = (uint32_t)question.in.b;
    }
    return result;
}
