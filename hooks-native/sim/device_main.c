/* device_main.c: the device process of one simulated node: what it is asked for, how it detaches, its verdict to the starter. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device.h"
#include "start.h"

static struct node node = { .listener = -1, .epoll = -1, .timer = -1, .page_fd = -1, .spare = -1, .faults = "" };
static struct profile profile;
static int report_fd = -1;

/* Tells whoever started this process one line: "ok", "taken", or what is wrong. */
static void report(const char *line)
{
    if (report_fd >= 0) {
        ssize_t written = write(report_fd, line, strlen(line) + 1);     /* with its zero: the end of file may be long in coming */
        (void)written;
        close(report_fd);
        report_fd = -1;
    } else if (strcmp(line, "ok") && strcmp(line, "taken"))
        fprintf(stderr, "gpud-sim-device: %s\n", line);
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
    int keep = report_fd;
    if (keep >= 0 && keep != 3 && dup2(keep, 3) == 3)
        report_fd = 3;
    close_range(report_fd >= 0 ? 4 : 3, ~0u, 0);        /* first: the starter may have had all that it may */
    int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; fd++)
        if (null < 0)
            close(fd);
        else
            dup2(null, fd);
    if (null > 2)
        close(null);
}

/* The node outlives the program that starts it, and serves others: the soft limits of that program are not its own. */
static void raise_limits(void)
{
    static const int limits[] = { RLIMIT_NOFILE, RLIMIT_FSIZE, RLIMIT_AS, RLIMIT_DATA, RLIMIT_CPU };
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        struct rlimit limit;
        if (getrlimit(limits[i], &limit))
            continue;
        limit.rlim_cur = limit.rlim_max;
        setrlimit(limits[i], &limit);
    }
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
    fputs("usage: gpud-sim-device --node NAME --profiles DIRECTORY [--profile NAME|FILE.toml] [--mode MODE] [--devices N] [--time-scale X]\n"
          "                       [--log FILE] [--faults RULES] [--report-fd N] [--foreground]\n"
          "The device process of a simulated node. Programs start it themselves when GPUD_SIM_NODE has none.\n", stderr);
    exit(2);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        { "node", required_argument, NULL, 'n' }, { "profiles", required_argument, NULL, 'd' },
        { "profile", required_argument, NULL, 'p' }, { "mode", required_argument, NULL, 'm' }, { "devices", required_argument, NULL, 'c' },
        { "time-scale", required_argument, NULL, 's' }, { "log", required_argument, NULL, 'l' },
        { "faults", required_argument, NULL, 'x' }, { "report-fd", required_argument, NULL, 'r' }, { "foreground", no_argument, NULL, 'f' }, { NULL, 0, NULL, 0 } };
    const char *name = SIM_DEFAULT_PROFILE, *directory = NULL, *mode = NULL;
    unsigned long devices = 0;
    double scale = 0;
    bool foreground = false;
    static char error[SIM_TEXT];
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;)
        switch (option) {
        case 'n': node.name = optarg; break;
        case 'd': directory = optarg; break;
        case 'p': name = optarg; break;
        case 'm': mode = optarg; break;
        case 'c': devices = strtoul(optarg, NULL, 10); break;
        case 's': scale = strtod(optarg, NULL); break;
        case 'l': node.log_path = optarg; break;
        case 'x': node.faults = optarg; break;
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
    char why[256];
    if (mode && !profile_mode(&profile, mode, why, sizeof why)) {
        snprintf(error, sizeof error, "GPUD_SIM_MODE=%.80s: %s", mode, why);
        report(error);
        return 1;
    }
    node.whole_count = devices ? (uint32_t)devices : profile.devices;
    node.device_count = node.whole_count * (profile.instance_count ? profile.instance_count : 1);
    if (node.device_count > SIM_MAX_DEVICES) {
        snprintf(error, sizeof error, "%u devices of %u MIG instances each are more than the %d that a simulated node can have", node.whole_count,
                 profile.instance_count, SIM_MAX_DEVICES);
        report(error);
        return 1;
    }
    profile.info.time_scale = scale > 0 ? scale : profile.info.time_scale;
    if (!foreground)
        detach();
    raise_limits();
    int signal_fd = signals();
    prctl(PR_SET_TIMERSLACK, 1ul, 0ul, 0ul, 0ul);
    int claimed = node_claim(&node);
    if (claimed) {
        snprintf(error, sizeof error, "cannot listen for node %s: %s", node.name, strerror(claimed < 0 ? -claimed : EADDRINUSE));
        report(claimed > 0 && report_fd >= 0 ? "taken" : error);
        return claimed < 0;
    }
    if (node_open(&node, signal_fd, error, sizeof error)) {
        report(error);
        return 1;
    }
    report("ok");
    node_serve(&node);
    node_close(&node);
    return 0;
}
