/* device_main.c: the device process of one simulated node: start, main loop, end.
 *
 * It sleeps until the next thing of the schedule is due, a client rings or writes to its socket, or the log wants out. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/un.h>
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
#define TAG_LISTENER 1u
#define TAG_TIMER 2u
#define TAG_SIGNAL 3u

static struct node node = { .listener = -1, .epoll = -1, .timer = -1, .page_fd = -1 };
static struct profile profile;
static int report_fd = -1;

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

/* Tells whoever started this process one line: "ok", "taken", or what is wrong. */
static void report(const char *line)
{
    if (report_fd >= 0) {
        ssize_t written = write(report_fd, line, strlen(line));
        (void)written;
        close(report_fd);
        report_fd = -1;
    } else if (strcmp(line, "ok") && strcmp(line, "taken"))
        fprintf(stderr, "gpud-sim-device: %s\n", line);
}

/* A name for the device that is the same for all processes of this user and node. */
static void make_uuid(uint8_t uuid[16], const char *name, uint32_t index)
{
    uint64_t hash[2] = { 0xcbf29ce484222325u, 0x84222325cbf29ce4u };
    for (int half = 0; half < 2; half++) {
        for (const char *c = name; *c; c++)
            hash[half] = (hash[half] ^ (unsigned char)*c) * 0x100000001b3u;
        hash[half] = (hash[half] ^ (index + 1)) * 0x100000001b3u;
        hash[half] = (hash[half] ^ geteuid()) * 0x100000001b3u;
        hash[half] ^= hash[half] >> 29;
        hash[half] *= 0xbf58476d1ce4e5b9u;
    }
    memcpy(uuid, hash, 16);
    uuid[6] = (uuid[6] & 0x0f) | 0x80;
    uuid[8] = (uuid[8] & 0x3f) | 0x80;
}

static int open_page(void)
{
    node.page_fd = memory_file("gpud-sim-node", sizeof *node.page);
    if (node.page_fd < 0)
        return node.page_fd;
    void *at = mmap(NULL, sizeof *node.page, PROT_READ | PROT_WRITE, MAP_SHARED, node.page_fd, 0);
    if (at == MAP_FAILED || fcntl(node.page_fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL))
        return -errno;
    node.page = at;
    node.page->magic = SIM_PAGE_MAGIC;
    node.page->version = SIM_PAGE_VERSION;
    node.page->device_count = node.device_count;
    node.page->pid = (uint32_t)getpid();
    node.page->time_scale = profile.info.time_scale;
    node.page->epoch_ns = (int64_t)device_clock();
    for (uint32_t i = 0; i < node.device_count; i++) {
        struct sim_device_info *info = &node.page->devices[i];
        *info = profile.info;
        make_uuid(info->uuid, node.name, i);
        info->pci_bus = i + 1;
    }
    return 0;
}

/* Binds the node's address: whoever succeeds is the device process. 0, 1 (another one is), or a negative errno. */
static int claim(void)
{
    struct sockaddr_un address;
    socklen_t size = sim_address(&address, node.name);
    node.listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (node.listener < 0)
        return -errno;
    if (bind(node.listener, (struct sockaddr *)&address, size))
        return errno == EADDRINUSE ? 1 : -errno;
    return 0;
}

static int open_node(char *error, size_t error_size)
{
    struct rlimit limit;
    if (!getrlimit(RLIMIT_NOFILE, &limit)) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    if (!getrlimit(RLIMIT_FSIZE, &limit)) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_FSIZE, &limit);
        if (limit.rlim_max < profile.info.total_bytes) {
            snprintf(error, error_size, "the limit on file sizes (ulimit -f) is %llu bytes, and the simulated device's memory is a file of"
                     " %llu; raise the limit or use a smaller profile", (unsigned long long)limit.rlim_max,
                     (unsigned long long)profile.info.total_bytes);
            return -1;
        }
    }
    int result = open_page();
    struct sched_profile timing[SIM_MAX_DEVICES];
    for (uint32_t i = 0; i < node.device_count && !result; i++) {
        timing[i] = profile.timing;
        result = memory_open(&node.memory[i], profile.info.total_bytes, profile.info.reserved_bytes);
    }
    if (result) {
        snprintf(error, error_size, "cannot make the memory of the simulated devices: %s", strerror(-result));
        return -1;
    }
    struct sched_hooks hooks = rings_hooks;
    hooks.arg = &node;
    node.schedule = sched_new(timing, node.device_count, &hooks);
    if (!node.schedule || node_name(&node, "?") < 0) {
        snprintf(error, error_size, "no memory");
        return -1;
    }
    if (node.log_path && !(node.log = log_open(node.log_path, error, error_size)))
        return -1;
    log_header(&node);
    return 0;
}

static void watch(int fd, uint64_t tag)
{
    struct epoll_event event = { .events = EPOLLIN, .data.u64 = tag };
    epoll_ctl(node.epoll, EPOLL_CTL_ADD, fd, &event);
}

static void arm(uint64_t clock_ns)
{
    static uint64_t armed = UINT64_MAX;
    if (clock_ns == armed && clock_ns == UINT64_MAX)
        return;
    struct itimerspec at = { .it_value = { 0, 0 } };
    if (clock_ns != UINT64_MAX) {
        at.it_value.tv_sec = (time_t)(clock_ns / 1000000000u);
        at.it_value.tv_nsec = (long)(clock_ns % 1000000000u);
    }
    timerfd_settime(node.timer, TFD_TIMER_ABSTIME, &at, NULL);
    armed = clock_ns;
}

/* Lets happen what is due; when it must be done again. UINT64_MAX: only when somebody comes. */
static uint64_t turn(void)
{
    rings_take(&node);
    uint64_t model = device_model(&node, device_clock());
    sched_advance(node.schedule, model);
    if (sched_holding(node.schedule))
        sched_recheck(node.schedule, device_model(&node, device_clock()));
    clients_bury(&node);
    uint64_t clock_ns = device_clock(), next = UINT64_MAX, due = sched_next(node.schedule);
    if (due != SCHED_NEVER)
        next = device_wall(&node, due);
    uint64_t flush = log_flush(&node, clock_ns);
    next = flush < next ? flush : next;
    if (!node.attached) {
        uint64_t end = node.alone_since_ns + (node.served ? LINGER_NS : UNSERVED_NS);
        next = end < next ? end : next;
    }
    return next;
}

static bool over(void)
{
    return !node.attached && device_clock() >= node.alone_since_ns + (node.served ? LINGER_NS : UNSERVED_NS);
}

/* True: a signal asks for the end. */
static bool dispatch(const struct epoll_event *events, int count)
{
    bool end = false;
    for (int i = 0; i < count; i++) {
        uint64_t tag = events[i].data.u64;
        struct client *client = (struct client *)(uintptr_t)(tag & ~7ull);
        if (tag == TAG_LISTENER)
            clients_accept(&node);
        else if (tag == TAG_SIGNAL)
            end = true;
        else if (tag == TAG_TIMER || (tag & 7) == 2)
            continue;                   /* time has come, or a client rang: the next turn looks */
        else if ((tag & 7) == 1)
            client_doom(client, "its process ended");
        else
            client_readable(client);
    }
    return end;
}

static void serve(void)
{
    struct epoll_event events[64];
    for (bool end = false; !end && !over();) {
        uint64_t next = turn();
        int timeout = -1;
        /* Say that we sleep, then look once more: whoever came before did not ring. */
        atomic_store_explicit(&node.page->sleeping, 1, memory_order_seq_cst);
        atomic_thread_fence(memory_order_seq_cst);
        if (rings_pending(&node) || rings_computed(&node) || next <= device_clock())
            timeout = 0;
        else
            arm(next);
        int count = epoll_wait(node.epoll, events, 64, timeout);
        atomic_store_explicit(&node.page->sleeping, 0, memory_order_seq_cst);
        end = dispatch(events, count > 0 ? count : 0);
    }
}

/* Leaves the starter's session, directory, descriptors and signals behind. The starter's child is gone at once, so that
 * nobody who waits for children ever sees this process. */
static void detach(void)
{
    pid_t child = fork();
    if (child)
        _exit(child < 0);
    setsid();
    if (chdir("/"))
        report("cannot change to /");
    umask(077);
    int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3 && null >= 0; fd++)
        dup2(null, fd);
    int keep = report_fd;
    if (keep >= 0 && keep != 3 && dup2(keep, 3) == 3)
        report_fd = 3;
    close_range(report_fd >= 0 ? 4 : 3, ~0u, 0);
}

static int signals(void)
{
    sigset_t set;
    for (int number = 1; number < 32; number++)
        signal(number, SIG_DFL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_SETMASK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void usage(void)
{
    fputs("usage: gpud-sim-device --node NAME --profiles DIRECTORY [--profile NAME|FILE.toml] [--devices N] [--time-scale X]\n"
          "                       [--log FILE] [--report-fd N] [--foreground]\n"
          "The device process of a simulated node. Programs start it themselves when GPUD_SIM_NODE has none.\n", stderr);
    exit(2);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        { "node", required_argument, NULL, 'n' }, { "profiles", required_argument, NULL, 'd' },
        { "profile", required_argument, NULL, 'p' }, { "devices", required_argument, NULL, 'c' },
        { "time-scale", required_argument, NULL, 's' }, { "log", required_argument, NULL, 'l' },
        { "report-fd", required_argument, NULL, 'r' }, { "foreground", no_argument, NULL, 'f' }, { NULL, 0, NULL, 0 } };
    const char *name = SIM_DEFAULT_PROFILE, *directory = NULL;
    unsigned long devices = 0;
    double scale = 0;
    bool foreground = false;
    static char error[SIM_TEXT];
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;)
        switch (option) {
        case 'n': node.name = optarg; break;
        case 'd': directory = optarg; break;
        case 'p': name = optarg; break;
        case 'c': devices = strtoul(optarg, NULL, 10); break;
        case 's': scale = strtod(optarg, NULL); break;
        case 'l': node.log_path = optarg; break;
        case 'r': report_fd = atoi(optarg); break;
        case 'f': foreground = true; break;
        default: usage();
        }
    if (!node.name || !directory || optind != argc || !sim_node_name_ok(node.name) || devices > SIM_MAX_DEVICES || scale < 0)
        usage();
    if (profile_read(&profile, directory, name, error, sizeof error)) {
        report(error);
        return 1;
    }
    node.profile = &profile;
    node.device_count = devices ? (uint32_t)devices : profile.devices;
    profile.info.time_scale = scale > 0 ? scale : profile.info.time_scale;
    if (!foreground)
        detach();
    int signal_fd = signals();
    prctl(PR_SET_TIMERSLACK, 1ul, 0ul, 0ul, 0ul);
    int claimed = claim();
    if (claimed) {
        snprintf(error, sizeof error, "cannot listen for node %s: %s", node.name, strerror(claimed < 0 ? -claimed : EADDRINUSE));
        report(claimed > 0 && report_fd >= 0 ? "taken" : error);
        return claimed < 0;
    }
    node.epoll = epoll_create1(EPOLL_CLOEXEC);
    node.timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (open_node(error, sizeof error) || node.epoll < 0 || node.timer < 0 || listen(node.listener, 4096)) {
        report(error[0] ? error : strerror(errno));
        return 1;
    }
    watch(node.listener, TAG_LISTENER);
    watch(node.timer, TAG_TIMER);
    watch(signal_fd, TAG_SIGNAL);
    node.alone_since_ns = device_clock();
    report("ok");
    serve();
    clients_close(&node);
    log_close(&node);                   /* before the address is free: the next device process may use the same file */
    close(node.listener);
    sched_free(node.schedule);
    for (uint32_t i = 0; i < node.device_count; i++)
        memory_close(&node.memory[i]);
    free(node.names);
    return 0;
}
