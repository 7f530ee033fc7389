/* compile.c: PTX to a shared object by the package's compiler (python -m gpud.ptx), filed by the hash of text and compiler. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "image.h"
#include "place.h"
#include "sha256.h"
#include "spawn.h"

#define SECONDS 300
#define VARIABLES 64

extern char **environ;

/* What of the environment the compiler gets: nothing that changes how Python or the loader behaves. */
static bool wanted(const char *variable) {
    static const char *const names[] = {"PATH=", "HOME=", "TMPDIR=", "LANG=", "LC_ALL=", "CC=", "XDG_CACHE_HOME=", "CCACHE_DIR="};
    if (!strncmp(variable, "GPUD_", 5))
        return true;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strncmp(variable, names[i], strlen(names[i])))
            return true;
    return false;
}

static bool write_file(const char *path, const char *text, size_t size) {
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    while (size) {
        ssize_t wrote = write(fd, text, size);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            break;
        text += wrote;
        size -= (size_t)wrote;
    }
    return !close(fd) && !size;
}

/* Replaces the name of our copy, which is gone by the time somebody reads this, by a word. */
static void rename_file(char *message, const char *name) {
    static const char word[] = "<ptx>";
    size_t length = strlen(name);
    for (char *at = strstr(message, name); at; at = strstr(at, name)) {
        memmove(at + sizeof word - 1, at + length, strlen(at + length) + 1);
        memcpy(at, word, sizeof word - 1);
    }
}

/* Runs the compiler on one file. */
static CUresult run_compiler(const struct place *where, char *in, char *out, char *message, size_t room) {
    char pythonpath[PATH_MAX + 16], *env[VARIABLES + 2];
    int count = 0;
    for (char **variable = environ; *variable && count < VARIABLES; variable++)
        if (wanted(*variable))
            env[count++] = *variable;
    if (where->root[0]) {
        snprintf(pythonpath, sizeof pythonpath, "PYTHONPATH=%s", where->root);
        env[count++] = pythonpath;
    }
    env[count] = NULL;
    char *argv[] = {(char *)where->python, "-P", "-s", "-m", "gpud.ptx", in, "-o", out, NULL};
    int status = spawn_run(argv, env, message, room, SECONDS);
    if (!status)
        return CUDA_SUCCESS;
    size_t used = strlen(message);
    switch (status) {
    case 1:
        rename_file(message, in);
        return CUDA_ERROR_INVALID_PTX;  /* the message names line and instruction */
    case 2: case 3: case 4:             /* files, no C compiler, a fault of ours: it has said so */
        return CUDA_ERROR_JIT_COMPILER_NOT_FOUND;
    case 127:
    case -ENOENT:
        snprintf(message, room, "cannot run %s to compile PTX; set GPUD_SIM_PYTHON to the interpreter that gpud is installed in", where->python);
        return CUDA_ERROR_JIT_COMPILER_NOT_FOUND;
    case -ETIMEDOUT:
        snprintf(message, room, "the PTX compiler took longer than %d s and was ended", SECONDS);
        return CUDA_ERROR_JIT_COMPILER_NOT_FOUND;
    default:
        if (status < 0)
            snprintf(message, room, "cannot start the PTX compiler %s: %s", where->python, strerror(-status));
        else
            snprintf(message + used, room - used, "%sthe PTX compiler ended with status %d", used ? "\n" : "", status);
        return CUDA_ERROR_JIT_COMPILER_NOT_FOUND;
    }
}

CUresult compile_ptx(const char *text, size_t size, char **path, char *message, size_t room) {
    const struct place *where = place();
    if (!where->cache[0]) {
        snprintf(message, room, "no directory for compiled kernels can be made; set GPUD_SIM_CACHE to one that you can write");
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    struct sha256 sha;
    char name[65], out[PATH_MAX + 128], work_in[PATH_MAX + 160], work_out[PATH_MAX + 160];
    sha256_start(&sha);
    sha256_add(&sha, where->compiler, strlen(where->compiler));
    sha256_add(&sha, text, size);
    sha256_hex(&sha, name);
    snprintf(out, sizeof out, "%s/%s.so", where->cache, name);
    *path = strdup(out);
    if (!*path)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct stat info;
    if (!stat(out, &info) && info.st_uid == geteuid())
        return CUDA_SUCCESS;
    /* Under a name of our own, then renamed: other processes see either nothing or all of it. */
    static _Atomic unsigned serial;
    unsigned mine = atomic_fetch_add(&serial, 1);
    snprintf(work_in, sizeof work_in, "%s/%s.%d.%u.ptx", where->cache, name, (int)getpid(), mine);
    snprintf(work_out, sizeof work_out, "%s/%s.%d.%u.tmp.so", where->cache, name, (int)getpid(), mine);
    CUresult result = CUDA_ERROR_OPERATING_SYSTEM;
    if (!write_file(work_in, text, size))
        snprintf(message, room, "cannot write %s: %s", work_in, strerror(errno));
    else
        result = run_compiler(where, work_in, work_out, message, room);
    if (!result && rename(work_out, out)) {
        snprintf(message, room, "the PTX compiler left no %s: %s", work_out, strerror(errno));
        result = CUDA_ERROR_OPERATING_SYSTEM;
    }
    unlink(work_in);
    unlink(work_out);
    if (result) {
        free(*path);
        *path = NULL;
    }
    return result;
}
