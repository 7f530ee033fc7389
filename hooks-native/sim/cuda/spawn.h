/* spawn.h: runs a program and collects what it says; see spawn.c. */
#ifndef SIM_CUDA_SPAWN_H
#define SIM_CUDA_SPAWN_H

#include <stddef.h>

/* Runs argv[0] (a path, or looked up in PATH) with nothing open but stdin (the descriptor `in`), stdout and stderr (to us), and
 * waits for it at most `seconds`. `output` receives what it said, cut to fit. The result: exit status, 128 + signal, or a negative errno
 * (-ETIMEDOUT: killed by us). */
int spawn_run(char *const argv[], char *const envp[], int in, char *output, size_t room, int seconds);

#endif
