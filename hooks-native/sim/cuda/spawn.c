/* spawn.c: a child process that the application does not notice. Its SIGCHLD handler is not called, and a wait for any
 * child neither returns ours nor steals it: we clone a middle process without an exit signal (such a child is invisible to an
 * ordinary wait), and that one forks the program, waits for it and passes its exit status on. */

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "spawn.h"

/* The rest of this file up to spawn_run runs between clone and exec: system calls only. */

static void run_program(char *const argv[], char *const envp[], int in, int out) {
    if (dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0)
        _exit(126);
    syscall(SYS_close_range, 3u, ~0u, 0u);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execvpe(argv[0], argv, envp);
    _exit(127);
}

static void run_middle(char *const argv[], char *const envp[], int in, int out) {
    struct sigaction fallback = {.sa_handler = SIG_DFL};        /* an ignored SIGCHLD would lose the status */
    sigaction(SIGCHLD, &fallback, NULL);
    setpgid(0, 0);                                              /* one id to end both */
    long child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0)
        run_program(argv, envp, in, out);
    if (child < 0)
        _exit(126);
    close(out);
    int status;
    while (waitpid((pid_t)child, &status, 0) < 0)
        if (errno != EINTR)
            _exit(126);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

static long now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Reads until everybody has closed the pipe. False: the time is over. */
static bool collect(int fd, char *output, size_t room, long deadline) {
    size_t used = 0;
    char waste[512];
    for (;;) {
        long left = deadline - now_ms();
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        if (left <= 0 || (poll(&wait, 1, (int)left) < 0 && errno != EINTR))
            return false;
        if (!wait.revents)
            continue;
        bool full = used + 1 >= room;
        ssize_t got = read(fd, full ? waste : output + used, full ? sizeof waste : room - used - 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        if (!full)
            used += (size_t)got;
    }
    while (used && (output[used - 1] == '\n' || output[used - 1] == ' '))
        used--;
    output[used] = 0;
    return true;
}

int spawn_run(char *const argv[], char *const envp[], int in, char *output, size_t room, int seconds) {
    int pipes[2];
    output[0] = 0;
    if (pipe2(pipes, O_CLOEXEC))
        return -errno;
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);     /* no handler of the application runs in the copies of it */
    long middle = syscall(SYS_clone, 0, 0, 0, 0, 0);
    if (middle == 0)
        run_middle(argv, envp, in, pipes[1]);
    int failed = middle < 0 ? errno : 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    close(pipes[1]);
    if (failed) {
        close(pipes[0]);
        return -failed;
    }
    bool in_time = collect(pipes[0], output, room, now_ms() + seconds * 1000L);
    close(pipes[0]);
    if (!in_time) {
        kill((pid_t)-middle, SIGKILL);
        kill((pid_t)middle, SIGKILL);
    }
    int status = 0;
    while (waitpid((pid_t)middle, &status, __WALL) < 0)
        if (errno != EINTR)
            return -errno;
    if (!in_time)
        return -ETIMEDOUT;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
