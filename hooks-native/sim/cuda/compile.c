/* compile.c: PTX to a shared object by the package's compiler (python -m gpud.ptx), filed by the hash of text and compiler. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file_limit.h"
#include "image.h"
#include "place.h"
#include "sha256.h"
#include "spawn.h"

#define SECONDS 300
#define VARIABLES 64
#define IN_NAME "/dev/stdin"

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

static int write_text(const char *text, size_t size) {
    int fd = memfd_create("ptx", MFD_CLOEXEC);
    for (size_t done = 0; fd >= 0 && done < size;) {
        ssize_t wrote = pwrite(fd, text + done, size - done, (off_t)done);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0) {
            int error = errno;
            close(fd);
            errno = error;
            return -1;
        }
        done += (size_t)wrote;
    }
    return fd;
}

/* A file without a name that holds the text, or -1. */
static int text_file(const char *text, size_t size) {
    sigset_t before;
    file_limit_begin(&before);
    int fd = write_text(text, size);
    file_limit_end(&before, fd < 0);
    return fd;
}

/* The compiler reads from its standard input; nobody wants to know that. */
static void rename_file(char *message) {
    static const char name[] = IN_NAME, word[] = "<ptx>";
    size_t length = sizeof name - 1;
    for (char *at = strstr(message, name); at; at = strstr(at, name)) {
        memmove(at + sizeof word - 1, at + length, strlen(at + length) + 1);
        memcpy(at, word, sizeof word - 1);
    }
}

/* Runs the compiler. It makes `out` whole or not at all, so nothing is left behind if this process dies meanwhile. */
static CUresult run_compiler(const struct place *where, int in, char *out, char *message, size_t room) {
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
    char *argv[] = {(char *)where->python, "-P", "-s", "-m", "gpud.ptx", IN_NAME, "-o", out, NULL};
    int status = spawn_run(argv, env, in, message, room, SECONDS);
    sim_passed(sim.link);
    if (!status)
        return CUDA_SUCCESS;
    size_t used = strlen(message);
    if (strstr(message, "unknown option -P")) {
        snprintf(message, room, "%s is older than Python 3.11; set GPUD_SIM_PYTHON to the interpreter that gpud is installed in", where->python);
        return CUDA_ERROR_JIT_COMPILER_NOT_FOUND;
    }
    switch (status) {
    case 1:
        if (strstr(message, "No module named") || strstr(message, "Traceback")) {
            snprintf(message + used, room - used, "\n%s cannot run the PTX compiler; set GPUD_SIM_PYTHON to the interpreter that gpud is installed in",
                     where->python);
            return CUDA_ERROR_JIT_COMPILER_NOT_FOUND;
        }
        rename_file(message);
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
    char name[65], out[PATH_MAX + 128];
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
    CUresult result = CUDA_ERROR_OPERATING_SYSTEM;
    int in = text_file(text, size);
    if (in < 0) {
        snprintf(message, room, "cannot keep the PTX in memory: %s%s", strerror(errno),
                 errno == EFBIG ? "; raise the limit on file sizes (ulimit -f)" : "");
    } else {
        result = run_compiler(where, in, out, message, room);
        close(in);
    }
    if (!result && stat(out, &info)) {
        snprintf(message, room, "the PTX compiler left no %s: %s", out, strerror(errno));
        result = CUDA_ERROR_OPERATING_SYSTEM;
    }
    if (result) {
        free(*path);
        *path = NULL;
    }
    return result;
}
