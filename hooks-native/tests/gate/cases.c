/* cases.c: see cases.h. */
#define _GNU_SOURCE
#include "cases.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define MISSED 3                /* exit status of a case that only missed bounds: it is tried again */

struct player player;
CUstream stream;
uint32_t launches, stop;
int stderr_pipe;
char said[4096];

void *launch_on(void *unused)
{
    fake_context(0);
    while (!gpud_load(&stop)) {
        fake_launch(stream, 0, 0);
        gpud_add(&launches, 1);
    }
    return unused;
}

bool is_held(void)
{
    return gpud_load_total(&gpud_holding) > 0;
}

void set_gate(uint32_t gate)
{
    gpud_store_release(&player.control->device[0].gate, gate);
    gpud_add_total(&player.control->device[0].generation, 1);
    gpud_add_total(&player.control->device[0].wake, 1);
    gpud_futex_wake(&player.control->device[0].wake, true);
}

static void collect_stderr(void)
{
    size_t used = strlen(said);
    ssize_t more = read(stderr_pipe, said + used, sizeof said - 1 - used);
    said[used + (more > 0 ? (size_t)more : 0)] = 0;
}

bool says(const char *text)
{
    collect_stderr();
    return strstr(said, text) != NULL;
}

void pause_ms(int ms)
{
    struct timespec nap = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L };
    nanosleep(&nap, NULL);
}

uint64_t counted(void)
{
    return gpud_marks(0).left;
}

uint32_t open_descriptors(bool inherited)
{
    uint32_t count = 0;
    for (int fd = 3; fd < 2000; fd++) {
        int flags = fcntl(fd, F_GETFD);
        count += flags >= 0 && (!inherited || !(flags & FD_CLOEXEC));
    }
    return count;
}

static int run_case(const struct session_case *it)
{
    int ends[2], own_stderr = dup(STDERR_FILENO);

    alarm(300);
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return 1;
    stderr_pipe = fcntl(ends[0], F_DUPFD_CLOEXEC, 500);
    close(ends[0]);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    player_directory();
    fake_context(0);
    stream = fake_stream();
    it->run();
    CHECK(fake_violations == 0, "the driver was used wrongly");
    collect_stderr();
    dup2(own_stderr, STDERR_FILENO);
    if (check_failures != 0 || check_missed != 0)
        fprintf(stderr, "%s", said);
    int failed = check_summary(it->name);
    return failed == 0 && check_missed != 0 ? MISSED : failed;
}

/* In a process of its own; its exit status. */
static int in_a_child(const struct session_case *it)
{
    int status = -1;

    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        exit(run_case(it));
    waitpid(child, &status, 0);
    return status;
}

int run_cases(const char *what, const struct session_case *cases, uint32_t count, char **argv)
{
    int failures = 0;

    for (uint32_t i = 0; i < count; i++) {
        if (argv[1] != NULL && strcmp(argv[1], cases[i].name) != 0)
            continue;
        int status = in_a_child(&cases[i]);
        for (int tries = 1; tries < CHECK_TRIES && WIFEXITED(status) && WEXITSTATUS(status) == MISSED; tries++) {
            check_rest(tries);
            status = in_a_child(&cases[i]);
        }
        if (status != 0)
            fprintf(stderr, "case \"%s\" failed (%d)\n", cases[i].name, status);
        failures += status != 0;
        check_count++;
    }
    check_failures = (unsigned int)failures;
    return check_summary(what);
}
