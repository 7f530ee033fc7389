/* asleep.c: does a program sleep? One that waits for a processor does not: it may submit something as soon as it has one. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device.h"

#define MOST_TASKS 256      /* of a program with more, it is not found out */

/* The state letter of a task, as proc(5) has it; 0: it is gone, or does not tell. */
static char state_of(int tasks, const char *id)
{
    char path[32], text[512];
    snprintf(path, sizeof path, "%.20s/stat", id);
    int fd = openat(tasks, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t got = read(fd, text, sizeof text - 1);
    close(fd);
    text[got > 0 ? got : 0] = 0;
    const char *name_end = strrchr(text, ')');      /* a name may hold anything else */
    return name_end && name_end[1] == ' ' ? name_end[2] : 0;
}

bool client_asleep(const struct client *client)
{
    char path[48];
    snprintf(path, sizeof path, "/proc/%d/task", (int)client->pid);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *tasks = fd >= 0 ? fdopendir(fd) : NULL;
    if (!tasks) {
        if (fd >= 0)
            close(fd);
        return false;
    }
    bool asleep = true;
    unsigned count = 0;
    for (struct dirent *task; asleep && (task = readdir(tasks));) {
        if (task->d_name[0] == '.')
            continue;
        char state = state_of(dirfd(tasks), task->d_name);
        asleep = ++count <= MOST_TASKS && (state == 'S' || state == 'T' || state == 't' || state == 'Z' || state == 'X');
    }
    closedir(tasks);
    return asleep && count > 0;
}
