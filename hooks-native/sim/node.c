/* node.c: the simulated node: its page, its devices, and the loop that lets happen what is due.
 *
 * It sleeps until the next thing of the schedule is due, a client rings or writes to its socket, or the log wants out. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "device.h"
#include "log.h"
#include "start.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#define LINGER_NS 300000000ull          /* after the last client */
#define UNSERVED_NS 10000000000ull      /* when nobody ever comes */
#define HOLD_NS 1e9                     /* wall: how long a program that does not compute keeps others from a copy engine, or MPS's device */
#define TAG_LISTENER 1u
#define TAG_TIMER 2u
#define TAG_SIGNAL 3u

uint64_t device_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t device_model(const struct node *n, uint64_t clock_ns)
{
    return sim_model_of(n->page, clock_ns);
}

uint64_t device_wall(const struct node *n, uint64_t model_ns)
{
    double wall = (double)model_ns * n->page->time_scale;
    return wall > 9e18 ? UINT64_MAX : (uint64_t)n->page->epoch_ns + (uint64_t)wall + 1;
}

/* A name for the device that is the same for all processes of this user and node. */
static void make_uuid(uint8_t uuid[16], const char *name, uint32_t index, uint32_t instance)
{
    uint64_t hash[2] = { 0xcbf29ce484222325u, 0x84222325cbf29ce4u };
    for (int half = 0; half < 2; half++) {
        for (const char *c = name; *c; c++)
            hash[half] = (hash[half] ^ (unsigned char)*c) * 0x100000001b3u;
        hash[half] = (hash[half] ^ (index + 1)) * 0x100000001b3u;
        hash[half] = (hash[half] ^ geteuid()) * 0x100000001b3u;
        if (instance)
            hash[half] = (hash[half] ^ instance) * 0x100000001b3u;
        hash[half] ^= hash[half] >> 29;
        hash[half] *= 0xbf58476d1ce4e5b9u;
    }
    memcpy(uuid, hash, 16);
    uuid[6] = (uuid[6] & 0x0f) | 0x80;
    uuid[8] = (uuid[8] & 0x3f) | 0x80;
}

static int open_page(struct node *node)
{
    node->page_fd = memory_file("gpud-sim-node", sizeof *node->page);
    if (node->page_fd < 0)
        return node->page_fd;
    void *at = mmap(NULL, sizeof *node->page, PROT_READ | PROT_WRITE, MAP_SHARED, node->page_fd, 0);
    if (at == MAP_FAILED || fcntl(node->page_fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL))
        return -errno;
    node->page = at;
    node->page->magic = SIM_PAGE_MAGIC;
    node->page->version = SIM_PAGE_VERSION;
    node->page->device_count = node->device_count;
    node->page->pid = (uint32_t)getpid();
    node->page->time_scale = node->profile->info.time_scale;
    node->page->epoch_ns = node->start_ns = (int64_t)device_clock();
    snprintf(node->page->faults, sizeof node->page->faults, "%s", node->faults);
    node->page->whole_count = node->whole_count;
    for (uint32_t i = 0; i < node->whole_count; i++) {
        struct sim_device_info *info = &node->page->wholes[i];
        *info = node->profile->info;
        make_uuid(info->uuid, node->name, i, 0);
        info->pci_bus = i + 1;
        info->parent = i;
    }
    for (uint32_t i = 0; i < node->device_count; i++) {
        struct sim_device_info *info = &node->page->devices[i];
        profile_unit(node->profile, i, info, &node->timing[i]);
        node->timing[i].hold_ns = (uint64_t)(HOLD_NS / node->page->time_scale);
        make_uuid(info->uuid, node->name, info->parent, info->mig_slices ? info->mig_index + 1 : 0);
        info->pci_bus = info->parent + 1;
    }
    return 0;
}

int node_claim(struct node *node)
{
    struct sockaddr_un address;
    socklen_t size = sim_address(&address, node->name);
    node->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (node->listener < 0)
        return -errno;
    if (bind(node->listener, (struct sockaddr *)&address, size))
        return errno == EADDRINUSE ? 1 : -errno;
    return 0;
}

int node_open(struct node *node, int signal_fd, char *error, size_t error_size)
{
    const struct profile *profile = node->profile;
    struct rlimit limit;
    if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_max < profile->info.total_bytes) {
        snprintf(error, error_size, "the limit on file sizes (ulimit -f) is %llu bytes, and the simulated device's memory is a file of"
                 " %llu; raise the limit or use a smaller profile", (unsigned long long)limit.rlim_max,
                 (unsigned long long)profile->info.total_bytes);
        return -1;
    }
    int result = open_page(node);
    for (uint32_t i = 0; i < node->device_count && !result; i++)
        result = memory_open(&node->memory[i], node->page->devices[i].total_bytes, node->page->devices[i].reserved_bytes);
    if (result) {
        snprintf(error, error_size, "cannot make the memory of the simulated devices: %s%s", strerror(-result),
                 result == -EMFILE ? "; raise the limit (ulimit -n) to 64 or more" : "");
        return -1;
    }
    struct sched_hooks hooks = rings_hooks;
    hooks.arg = node;
    node->schedule = sched_new(node->timing, node->device_count, &hooks);
    if (!node->schedule || node_name(node, "?") < 0) {
        snprintf(error, error_size, "no memory");
        return -1;
    }
    if (node->log_path && !(node->log = log_open(node->log_path, error, error_size)))
        return -1;
    log_header(node);
    node->epoll = epoll_create1(EPOLL_CLOEXEC);
    node->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    accept_spare(node);
    if (node->epoll < 0 || node->timer < 0 || signal_fd < 0 || node->spare < 0 || device_watch(node, node->listener, EPOLLIN, TAG_LISTENER)
        || device_watch(node, node->timer, EPOLLIN, TAG_TIMER) || device_watch(node, signal_fd, EPOLLIN, TAG_SIGNAL)
        || listen(node->listener, 4096)) {
        snprintf(error, error_size, "cannot serve node %s: %s%s", node->name, strerror(errno),
                 errno == EMFILE ? "; raise the limit (ulimit -n) to 64 or more" : "");
        return -1;
    }
    node->alone_since_ns = device_clock();
    return 0;
}

static void arm(struct node *node, uint64_t clock_ns)
{
    static uint64_t armed = UINT64_MAX;
    if (clock_ns == armed && clock_ns == UINT64_MAX)
        return;
    struct itimerspec at = { .it_value = { 0, 0 } };
    if (clock_ns != UINT64_MAX) {
        at.it_value.tv_sec = (time_t)(clock_ns / 1000000000u);
        at.it_value.tv_nsec = (long)(clock_ns % 1000000000u);
    }
    timerfd_settime(node->timer, TFD_TIMER_ABSTIME, &at, NULL);
    armed = clock_ns;
}

/* Lets happen what is due; when it must be done again. UINT64_MAX: only when somebody comes. */
static uint64_t turn(struct node *node)
{
    rings_take(node);
    pace_advance(node, device_clock());
    clients_bury(node);
    uint64_t clock_ns = device_clock(), next = pace_next(node, clock_ns);
    uint64_t flush = log_flush(node, clock_ns);
    next = flush < next ? flush : next;
    if (!node->attached && !node->exports) {
        uint64_t end = node->alone_since_ns + (node->served ? LINGER_NS : UNSERVED_NS);
        next = end < next ? end : next;
    }
    return next;
}

static bool over(const struct node *node)
{
    return !node->attached && !node->exports && device_clock() >= node->alone_since_ns + (node->served ? LINGER_NS : UNSERVED_NS);
}

/* True: a signal asks for the end. */
static bool dispatch(struct node *node, const struct epoll_event *events, int count)
{
    bool end = false;
    for (int i = 0; i < count; i++) {
        uint64_t tag = events[i].data.u64;
        struct client *client = (struct client *)(uintptr_t)(tag & ~7ull);
        if (tag == TAG_LISTENER)
            clients_accept(node);
        else if (tag == TAG_SIGNAL)
            end = true;
        else if (tag == TAG_TIMER || (tag & 7) == 2)
            continue;                   /* time has come, or a client rang: the next turn looks */
        else if ((tag & 7) == DEVICE_TAG_EXPORT)
            export_closed((struct export *)(uintptr_t)(tag & ~7ull));
        else if ((tag & 7) == 1)
            client_doom(client, "its process ended");
        else
            client_readable(client);
    }
    return end;
}

void node_serve(struct node *node)
{
    struct epoll_event events[64];
    for (bool end = false; !end && !over(node);) {
        uint64_t next = turn(node);
        int timeout = -1;
        /* Say that we sleep, then look once more: whoever came before did not ring. */
        atomic_store_explicit(&node->page->standing, node->stands, memory_order_relaxed);
        atomic_store_explicit(&node->page->sleeping, 1, memory_order_seq_cst);
        atomic_thread_fence(memory_order_seq_cst);
        if (rings_pending(node) || rings_computed(node) || pace_changed(node) || next <= device_clock())
            timeout = 0;
        else
            arm(node, next);
        int count = epoll_wait(node->epoll, events, 64, timeout);
        atomic_store_explicit(&node->page->sleeping, 0, memory_order_seq_cst);
        end = dispatch(node, events, count > 0 ? count : 0);
    }
}

void node_close(struct node *node)
{
    clients_close(node);
    exports_close(node);
    log_close(node);                    /* before the address is free: the next device process may use the same file */
    close(node->listener);
    sched_free(node->schedule);
    for (uint32_t i = 0; i < node->device_count; i++)
        memory_close(&node->memory[i]);
    free(node->names);
}
