/* link.c: a client's link to the device process: opening, requests, and what becomes of it at fork(). */
#define _GNU_SOURCE
#include "link_state.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "start.h"

#define FDS (4 + SIM_MAX_DEVICES)

static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sim_link *the_link;

bool link_alive(struct sim_link *link)
{
    struct pollfd socket = { .fd = link->socket, .events = 0 };
    if (atomic_load(&link->dead))
        return false;
    if (poll(&socket, 1, 0) == 1 && (socket.revents & (POLLHUP | POLLERR | POLLNVAL)))
        atomic_store(&link->dead, true);
    return !atomic_load(&link->dead);
}

/* Out of the way of programs that close or count low descriptors. */
static int move_up(int fd)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur < 256)
        return fd;
    int base = (int)(limit.rlim_cur > 4096 ? 4096 : limit.rlim_cur) - 64;
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, base);
    if (moved < 0)
        return fd;
    close(fd);
    return moved;
}

static void release(struct sim_link *link)
{
    if (link->socket >= 0)
        close(link->socket);
    if (link->doorbell >= 0)
        close(link->doorbell);
    for (int i = 0; i < SIM_MAX_DEVICES; i++)
        if (link->memory_fd[i] >= 0)
            close(link->memory_fd[i]);
    if (link->node)
        munmap((void *)(uintptr_t)link->node, sizeof *link->node);
    if (link->done)
        munmap((void *)(uintptr_t)link->done, sizeof *link->done);
    if (link->page)
        munmap(link->page, sizeof *link->page);
    link->socket = link->doorbell = -1;
    link->node = NULL;
    link->done = NULL;
    link->page = NULL;
    for (int i = 0; i < SIM_MAX_DEVICES; i++)
        link->memory_fd[i] = -1;
}

/* The child has no part in its parent's link: it would keep it open after the parent's death, and write into its ring. The
 * struct stays, dead, for whoever still points to it. */
static void forked_child(void)
{
    pthread_mutex_init(&open_lock, NULL);
    if (!the_link)
        return;
    atomic_store(&the_link->dead, true);
    release(the_link);
    the_link = NULL;
}

/* The hello and its answer: descriptors into `fds`. How many, or a negative errno and a sentence. */
static int greet(int socket, const struct sim_hello *hello, int fds[FDS], char *error, size_t error_size)
{
    struct sim_request request = { .magic = SIM_PROTO_MAGIC, .type = SIM_HELLO, .text_bytes = sizeof *hello };
    struct sim_reply reply;
    memcpy(request.text, hello, sizeof *hello);
    union { struct cmsghdr header; char room[CMSG_SPACE(sizeof(int) * FDS)]; } control;
    struct iovec part = { .iov_base = &reply, .iov_len = sizeof reply };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control };
    struct timeval patience = { .tv_sec = 10 }, none = { .tv_sec = 0 };
    setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    ssize_t n = send(socket, &request, SIM_REQUEST_HEAD + sizeof *hello, MSG_NOSIGNAL);
    do
        n = n < 0 ? n : recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN) {
        snprintf(error, error_size, "the device process does not answer for 10 s");
        return -ETIMEDOUT;
    }
    if (n < (ssize_t)SIM_REPLY_HEAD)
        return -ECONNRESET;             /* it was just ending: try again */
    setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof none);
    int count = 0;
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
        count = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        memcpy(fds, CMSG_DATA(c), sizeof(int) * (size_t)count);
    }
    if (reply.result || (message.msg_flags & MSG_CTRUNC) || count < 5) {
        for (int i = 0; i < count; i++)
            close(fds[i]);
        if (reply.result)
            snprintf(error, error_size, "%.*s", (int)(reply.text_bytes < SIM_TEXT ? reply.text_bytes : 0), reply.text);
        else
            snprintf(error, error_size, "this process has no file descriptors left for the simulated device (ulimit -n)");
        return reply.result ? reply.result : -EMFILE;
    }
    return count;
}

/* A page of the device process: NULL when it cannot be mapped or is not of the size we know. Closes the descriptor. */
static void *map_page(int fd, size_t bytes, int protection)
{
    off_t size = lseek(fd, 0, SEEK_END);
    void *at = size == (off_t)bytes ? mmap(NULL, bytes, protection, MAP_SHARED, fd, 0) : MAP_FAILED;
    close(fd);
    if (at == MAP_FAILED)
        return NULL;
    madvise(at, bytes, MADV_DONTDUMP);
    return at;
}

static int build(struct sim_link *link, int socket, const int fds[FDS], int count, char *error, size_t error_size)
{
    link->socket = move_up(socket);
    link->doorbell = move_up(fds[3]);
    for (int i = 4; i < count; i++)
        link->memory_fd[i - 4] = move_up(fds[i]);
    link->page = map_page(fds[0], sizeof *link->page, PROT_READ | PROT_WRITE);
    link->done = map_page(fds[1], sizeof *link->done, PROT_READ);
    link->node = map_page(fds[2], sizeof *link->node, PROT_READ);
    pthread_mutex_init(&link->ask_lock, NULL);
    pthread_mutex_init(&link->ring_lock, NULL);
    if (link->page && link->done && link->node && link->node->magic == SIM_PAGE_MAGIC && link->node->version == SIM_PAGE_VERSION
        && link->node->device_count == (uint32_t)count - 4)
        return 0;
    snprintf(error, error_size, "cannot map the pages of the device process (no address space left, or another version of gpud)");
    return -ENOMEM;
}

static int open_link(char *error, size_t error_size)
{
    struct sim_hello hello;
    int fds[FDS], socket, count = -ECONNRESET;
    for (int tries = 0; tries < 200 && count == -ECONNRESET; tries++) {
        socket = link_connect(&hello, error, error_size);
        if (socket < 0)
            return socket;
        count = greet(socket, &hello, fds, error, error_size);
        if (count < 0)
            close(socket);
        if (count == -ECONNRESET)
            poll(NULL, 0, 5);
    }
    if (count == -ECONNRESET)
        snprintf(error, error_size, "the device process closes every connection");
    if (count < 0)
        return count;
    struct sim_link *link = calloc(1, sizeof *link);
    if (!link) {
        for (int i = 0; i < count; i++)
            close(fds[i]);
        close(socket);
        return -ENOMEM;
    }
    for (int i = 0; i < SIM_MAX_DEVICES; i++)
        link->memory_fd[i] = -1;
    int result = build(link, socket, fds, count, error, error_size);
    if (result) {
        release(link);
        free(link);
        return result;
    }
    the_link = link;
    return 0;
}

int sim_link_open(struct sim_link **link, char *error, size_t error_size)
{
    static _Atomic bool watching;
    int result = 0;
    if (error_size)
        error[0] = 0;
    if (!atomic_exchange(&watching, true))
        pthread_atfork(NULL, NULL, forked_child);
    pthread_mutex_lock(&open_lock);
    if (!the_link)
        result = open_link(error, error_size);
    else if (!link_alive(the_link)) {
        snprintf(error, error_size, "the device process is gone; what this process had on its devices is lost");
        result = -EPIPE;
    }
    *link = result ? NULL : the_link;
    pthread_mutex_unlock(&open_lock);
    return result;
}

void sim_link_close(struct sim_link *link)
{
    if (!link)
        return;
    pthread_mutex_lock(&open_lock);
    if (the_link == link)
        the_link = NULL;
    pthread_mutex_unlock(&open_lock);
    release(link);
    for (int i = 0; i < LINK_NAMES; i++)
        while (link->names[i]) {
            struct link_name *name = link->names[i];
            link->names[i] = name->next;
            free(name);
        }
    free(link);
}

/* One request and its reply; ask_lock held. The reply's result, or −EPIPE. */
static int ask_locked(struct sim_link *link, struct sim_request *request, struct sim_reply *reply)
{
    request->magic = SIM_PROTO_MAGIC;
    if (atomic_load(&link->dead))
        return -EPIPE;
    ssize_t n;
    do
        n = send(link->socket, request, SIM_REQUEST_HEAD + request->text_bytes, MSG_NOSIGNAL);
    while (n < 0 && (errno == EINTR || errno == EAGAIN));
    do
        n = n < 0 ? n : recv(link->socket, reply, sizeof *reply, 0);
    while (n < 0 && errno == EINTR);
    if (n < (ssize_t)SIM_REPLY_HEAD) {
        atomic_store(&link->dead, true);
        return -EPIPE;
    }
    return reply->result;
}

static int ask(struct sim_link *link, struct sim_request *request, struct sim_reply *reply)
{
    pthread_mutex_lock(&link->ask_lock);
    int result = ask_locked(link, request, reply);
    pthread_mutex_unlock(&link->ask_lock);
    return result;
}

/* Requests and replies without text, which are most, need no room for it. */
#define SHORT(kind, ...) struct sim_request request; \
    struct sim_reply reply; \
    memcpy(&request, &(struct { uint32_t magic, type, device, id; int64_t a, b; uint32_t text_bytes, reserved; }) \
           { .type = kind, __VA_ARGS__ }, SIM_REQUEST_HEAD)

uint32_t sim_device_count(const struct sim_link *link)
{
    return link->node ? link->node->device_count : 0;
}

const struct sim_device_info *sim_device(const struct sim_link *link, uint32_t device)
{
    return link->node && device < link->node->device_count ? &link->node->devices[device] : NULL;
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
    SHORT(SIM_ALLOC, .device = device, .a = (int64_t)bytes, .b = (int64_t)align);
    int result = ask(link, &request, &reply);
    if (!result)
        *offset = (uint64_t)reply.a;
    return result;
}

int sim_memory_free(struct sim_link *link, uint32_t device, uint64_t offset)
{
    SHORT(SIM_FREE, .device = device, .a = (int64_t)offset);
    return ask(link, &request, &reply);
}

int sim_memory_info(struct sim_link *link, uint32_t device, uint64_t *free_bytes, uint64_t *total_bytes)
{
    SHORT(SIM_INFO, .device = device);
    int result = ask(link, &request, &reply);
    if (!result) {
        *free_bytes = (uint64_t)reply.a;
        *total_bytes = (uint64_t)reply.b;
    }
    return result;
}

int sim_context_create(struct sim_link *link, uint32_t device, uint32_t *context)
{
    SHORT(SIM_CONTEXT_NEW, .device = device);
    int result = ask(link, &request, &reply);
    if (!result)
        *context = reply.id;
    return result;
}

int sim_context_destroy(struct sim_link *link, uint32_t context)
{
    SHORT(SIM_CONTEXT_END, .id = context);
    return ask(link, &request, &reply);
}

int sim_queue_create(struct sim_link *link, uint32_t context, int priority, uint32_t *queue)
{
    SHORT(SIM_QUEUE_NEW, .id = context, .a = priority);
    int result = ask(link, &request, &reply);
    if (!result) {
        pthread_mutex_lock(&link->ring_lock);
        link->last[reply.id % SIM_MAX_QUEUES] = 0;
        pthread_mutex_unlock(&link->ring_lock);
        *queue = reply.id;
    }
    return result;
}

int sim_queue_destroy(struct sim_link *link, uint32_t queue)
{
    SHORT(SIM_QUEUE_END, .id = queue);
    return ask(link, &request, &reply);
}

int sim_event_create(struct sim_link *link, uint32_t device, uint32_t *event)
{
    SHORT(SIM_EVENT_NEW, .device = device);
    int result = ask(link, &request, &reply);
    if (!result)
        *event = reply.id;
    return result;
}

int sim_event_destroy(struct sim_link *link, uint32_t event)
{
    SHORT(SIM_EVENT_END, .id = event);
    return ask(link, &request, &reply);
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
        SHORT(SIM_NAME_NEW, .text_bytes = (uint32_t)n);
        memcpy(request.text, kernel_name, n);
        if (!ask_locked(link, &request, &reply)) {
            id = name->id = reply.id;
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
    SHORT(SIM_PROCESSES, .device = device);
    int result = ask(link, &request, &reply);
    if (!result) {
        uint32_t got = reply.text_bytes / (uint32_t)sizeof *list;
        memcpy(list, reply.text, sizeof *list * (got < room ? got : room));
        *count = got;
    }
    return result;
}

int sim_utilisation(struct sim_link *link, uint32_t device, uint32_t *gpu_percent, uint32_t *memory_percent)
{
    SHORT(SIM_UTILISATION, .device = device);
    int result = ask(link, &request, &reply);
    if (!result) {
        *gpu_percent = (uint32_t)reply.a;
        *memory_percent = (uint32_t)reply.b;
    }
    return result;
}
