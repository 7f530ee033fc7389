/* node_process.h: the device process of the test's node, seen from outside. */
#ifndef SIM_TEST_NODE_PROCESS_H
#define SIM_TEST_NODE_PROCESS_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Its pid; 0: there is none. */
static inline int device_process(void)
{
    DIR *proc = opendir("/proc");
    int found = 0;
    for (struct dirent *entry; proc && !found && (entry = readdir(proc));) {
        char path[300], line[512] = "";
        snprintf(path, sizeof path, "/proc/%s/cmdline", entry->d_name);
        FILE *file = atoi(entry->d_name) ? fopen(path, "re") : NULL;
        size_t n = file ? fread(line, 1, sizeof line - 1, file) : 0;
        if (file)
            fclose(file);
        for (size_t i = 0; i + 1 < n; i++)
            line[i] = line[i] ? line[i] : ' ';
        if (strstr(line, "gpud-sim-device ") && strstr(line, getenv("GPUD_SIM_NODE")))
            found = atoi(entry->d_name);
    }
    if (proc)
        closedir(proc);
    return found;
}

static inline int files_of(int pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    DIR *directory = opendir(path);
    int count = 0;
    while (directory && readdir(directory))
        count++;
    if (directory)
        closedir(directory);
    return count;
}

#endif
