/* link_start.c: finding the node's device process, or starting it. Many programs may try at once: bind() decides who wins. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "link_state.h"
#include "start.h"

#define DEADLINE_MS 10000

static long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Where gpud-sim-device and profiles/ are: $GPUD_NATIVE_DIR/sim, else beside this code, else one directory above. */
static int find_directory(char directory[PATH_MAX], char *error, size_t error_size)
{
    const char *native = getenv("GPUD_NATIVE_DIR");
    char file[PATH_MAX + 32];
    Dl_info info;
    if (native && native[0])
        snprintf(directory, PATH_MAX, "%s/sim", native);
    else if (!dladdr((void *)(uintptr_t)link_connect, &info) || !info.dli_fname || !realpath(info.dli_fname, directory))
        snprintf(directory, PATH_MAX, ".");
    else
        *strrchr(directory, '/') = 0;
    snprintf(file, sizeof file, "%s/gpud-sim-device", directory);
    if (!access(file, X_OK))
        return 0;
    char *slash = native && native[0] ? NULL : strrchr(directory, '/');
    if (slash) {
        char above[PATH_MAX];
        snprintf(above, sizeof above, "%.*s", (int)(slash - directory), directory);
        snprintf(file, sizeof file, "%s/gpud-sim-device", above);
        if (!access(file, X_OK)) {
            strcpy(directory, above);
            return 0;
        }
    }
    snprintf(error, error_size, "there is no gpud-sim-device in %s; set GPUD_NATIVE_DIR to the directory that holds sim/", directory);
    return -ENOENT;
}

/* Starts a device process and reads its verdict: 0 (it or another one is there), or a negative errno and a sentence. */
static int start(const struct sim_hello *hello, const char *node, char *error, size_t error_size)
{
    char directory[PATH_MAX], program[PATH_MAX + 32], profiles[PATH_MAX + 32], devices[16], scale[40], line[SIM_TEXT];
    int result = find_directory(directory, error, error_size), pipes[2];
    if (result)
        return result;
    snprintf(program, sizeof program, "%s/gpud-sim-device", directory);
    snprintf(profiles, sizeof profiles, "%s/profiles", directory);
    const char *argv[22] = { program, "--node", node, "--profiles", profiles, "--report-fd", "3" };
    int n = 7;
    if (hello->profile[0]) {
        argv[n++] = "--profile";
        argv[n++] = hello->profile;
    }
    if (hello->mode[0]) {
        argv[n++] = "--mode";
        argv[n++] = hello->mode;
    }
    if (hello->devices) {
        snprintf(devices, sizeof devices, "%u", hello->devices);
        argv[n++] = "--devices";
        argv[n++] = devices;
    }
    if (hello->time_scale > 0) {
        snprintf(scale, sizeof scale, "%.17g", hello->time_scale);
        argv[n++] = "--time-scale";
        argv[n++] = scale;
    }
    if (hello->log[0]) {
        argv[n++] = "--log";
        argv[n++] = hello->log;
    }
    if (hello->faults[0]) {
        argv[n++] = "--faults";
        argv[n++] = hello->faults;
    }
    /* Nothing of our environment but what sanitizers need: above all no LD_PRELOAD. */
    char *environment[4] = { NULL };
    int e = 0;
    extern char **environ;
    for (char **at = environ; at && *at && e < 3; at++)
        if (!strncmp(*at, "ASAN_OPTIONS=", 13) || !strncmp(*at, "UBSAN_OPTIONS=", 14) || !strncmp(*at, "TSAN_OPTIONS=", 13))
            environment[e++] = *at;
    if (pipe2(pipes, O_CLOEXEC)) {
        result = -errno;
        snprintf(error, error_size, "cannot start the device process: %s", strerror(-result));
        return result;
    }
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    sigemptyset(&none);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    /* dup2 onto itself clears close-on-exec here as well. */
    posix_spawn_file_actions_adddup2(&actions, pipes[1], 3);
    pid_t pid = -1;
    result = -posix_spawn(&pid, program, &actions, &attributes, (char *const *)(uintptr_t)argv, environment);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    close(pipes[1]);
    size_t got = 0;
    if (result)
        snprintf(error, error_size, "cannot start %s: %s", program, strerror(-result));
    else {
        struct pollfd ready = { .fd = pipes[0], .events = POLLIN };
        long deadline = now_ms() + DEADLINE_MS;
        for (ssize_t r = 1; r > 0 && got < sizeof line - 1;) {
            long left = deadline - now_ms();
            if (left <= 0 || (poll(&ready, 1, (int)left) < 0 && errno != EINTR))
                break;
            r = ready.revents ? read(pipes[0], line + got, sizeof line - 1 - got) : 1;
            if (r < 0 && (errno == EINTR || errno == EAGAIN))
                r = 1;
            else if (r > 0) {
                got += (size_t)r;
                if (!line[got - 1])     /* a fork of this process may keep the pipe open */
                    break;
            }
        }
        line[got] = 0;
        /* It detaches at once, so this child is dead or about to be; somebody else may have waited for it. */
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
        if (!got) {
            snprintf(error, error_size, "%s ended without a word", program);
            result = -EPIPE;
        } else if (strcmp(line, "ok") && strcmp(line, "taken")) {
            snprintf(error, error_size, "%s", line);
            result = -EINVAL;
        }
    }
    close(pipes[0]);
    return result;
}

/* The rules of $GPUD_SIM_FAULTS that begin with `all`, as they are: the device process keeps them, libcuda reads them. */
static int read_faults(char out[SIM_FAULTS], char *error, size_t error_size)
{
    const char *text = getenv("GPUD_SIM_FAULTS");
    size_t used = 0;
    out[0] = 0;
    for (const char *rule = text; rule && *rule; rule += strcspn(rule, ";"), rule += *rule == ';') {
        rule += strspn(rule, ", \t\n");
        size_t n = strcspn(rule, ";");
        if (strncmp(rule, "all", 3) || !strchr(", \t\n", rule[3]))
            continue;
        if (used + n + 2 > SIM_FAULTS) {
            snprintf(error, error_size, "GPUD_SIM_FAULTS: its rules for all processes have more than %u bytes", SIM_FAULTS - 2);
            return -EINVAL;
        }
        used += (size_t)snprintf(out + used, SIM_FAULTS - used, "%.*s;", (int)n, rule);
    }
    return 0;
}

static int read_environment(struct sim_hello *hello, const char **node, char *error, size_t error_size)
{
    const char *profile = getenv("GPUD_SIM_PROFILE"), *devices = getenv("GPUD_SIM_DEVICES");
    const char *scale = getenv("GPUD_SIM_TIME_SCALE"), *log = getenv("GPUD_SIM_LOG");
    const char *mode = getenv("GPUD_SIM_MODE");
    char *end;
    *node = getenv("GPUD_SIM_NODE");
    *node = *node && **node ? *node : "default";
    memset(hello, 0, sizeof *hello);
    hello->version = SIM_PROTO_VERSION;
    hello->pid = (uint32_t)getpid();
    if (!sim_node_name_ok(*node)) {
        snprintf(error, error_size, "GPUD_SIM_NODE=%.80s: a node's name is 1 to %u letters, digits, dots, dashes or underscores", *node,
                 SIM_NODE_NAME - 1);
        return -EINVAL;
    }
    if (mode && snprintf(hello->mode, sizeof hello->mode, "%s", mode) >= (int)sizeof hello->mode) {
        snprintf(error, error_size, "GPUD_SIM_MODE=%.80s: must be timeslice, mps, or mig: and a list of instances such as mig:3g,3g", mode);
        return -EINVAL;
    }
    if (devices && *devices) {
        long count = strtol(devices, &end, 10);
        if (*end || count < 1 || count > SIM_MAX_DEVICES) {
            snprintf(error, error_size, "GPUD_SIM_DEVICES=%.80s: must be a whole number from 1 to %d", devices, SIM_MAX_DEVICES);
            return -EINVAL;
        }
        hello->devices = (uint32_t)count;
    }
    if (read_faults(hello->faults, error, error_size))
        return -EINVAL;
    if (scale && *scale) {
        hello->time_scale = strtod(scale, &end);
        if (*end || !(hello->time_scale >= 0.001 && hello->time_scale <= 1000)) {
            snprintf(error, error_size, "GPUD_SIM_TIME_SCALE=%.80s: must be a number from 0.001 to 1000", scale);
            return -EINVAL;
        }
    }
    /* The device process lives in /: paths are made absolute here. */
    char here[PATH_MAX];
    if (!getcwd(here, sizeof here))
        here[0] = 0;
    bool is_path = profile && (strchr(profile, '/') || (strlen(profile) > 5 && !strcmp(profile + strlen(profile) - 5, ".toml")));
    size_t room = sizeof hello->profile;
    int n = !profile ? 0 : is_path && profile[0] != '/' ? snprintf(hello->profile, room, "%s/%s", here, profile)
                                                         : snprintf(hello->profile, room, "%s", profile);
    int l = !log || !*log ? 0 : log[0] != '/' ? snprintf(hello->log, sizeof hello->log, "%s/%s", here, log)
                                              : snprintf(hello->log, sizeof hello->log, "%s", log);
    if (n >= (int)room || l >= (int)sizeof hello->log) {
        snprintf(error, error_size, "%s: the path is too long", n >= (int)room ? "GPUD_SIM_PROFILE" : "GPUD_SIM_LOG");
        return -ENAMETOOLONG;
    }
    return 0;
}

int link_connect(struct sim_hello *hello, char *error, size_t error_size)
{
    const char *node;
    int result = read_environment(hello, &node, error, error_size);
    if (result)
        return result;
    struct sockaddr_un address;
    socklen_t size = sim_address(&address, node);
    for (long deadline = now_ms() + DEADLINE_MS; now_ms() < deadline;) {
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        if (fd < 0) {
            result = -errno;
            snprintf(error, error_size, "cannot reach the device process of node %s: %s%s", node, strerror(-result),
                     result == -EMFILE ? " (ulimit -n)" : "");
            return result;
        }
        struct timeval patience = { .tv_sec = DEADLINE_MS / 1000 };
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
        if (!connect(fd, (struct sockaddr *)&address, size)) {
            struct ucred peer;
            socklen_t length = sizeof peer;
            if (!getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) && peer.uid == geteuid())
                return fd;
            close(fd);
            snprintf(error, error_size, "node %s is served by user %u, not by you; use another GPUD_SIM_NODE", node, (unsigned)peer.uid);
            return -EPERM;
        }
        int failed = errno;
        close(fd);
        if (failed != ECONNREFUSED && failed != EINTR && failed != EAGAIN) {
            snprintf(error, error_size, "cannot connect to the device process of node %s: %s", node, strerror(failed));
            return -failed;
        }
        if (failed == ECONNREFUSED) {
            result = start(hello, node, error, error_size);
            if (result)
                return result;
            poll(NULL, 0, 1);           /* another one may have bound its address, and listens in a moment */
        }
    }
    snprintf(error, error_size, "the device process of node %s does not answer for %d s", node, DEADLINE_MS / 1000);
    return -ETIMEDOUT;
}
