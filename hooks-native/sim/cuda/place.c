/* place.c: finds the interpreter and the package from where this library lies (…/gpud/_native/sim/libcuda.so.1), and a directory for
 * compiled kernels. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "place.h"
#include "sha256.h"
#include "sim.h"

static struct place found;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static bool format(char out[PATH_MAX], const char *a, const char *b) {
    int n = snprintf(out, PATH_MAX, "%s%s", a, b);
    return n >= 0 && n < PATH_MAX;
}

static bool has_compiler(const char *root) {
    char path[PATH_MAX];
    return format(path, root, "/gpud/ptx/__init__.py") && !access(path, R_OK);
}

/* The nearest directory above this library that holds the package. */
static void find_root(void) {
    Dl_info info;
    char path[PATH_MAX];
    if (dladdr((void *)(uintptr_t)&find_root, &info) && info.dli_fname && realpath(info.dli_fname, path)) {
        for (char *slash = strrchr(path, '/'); slash && slash != path; slash = strrchr(path, '/')) {
            *slash = 0;
            if (has_compiler(path)) {
                format(found.root, path, "");
                return;
            }
        }
    }
#ifdef SIM_SOURCE_ROOT                  /* a build for tests, not installed */
    if (has_compiler(SIM_SOURCE_ROOT))
        format(found.root, SIM_SOURCE_ROOT, "");
#endif
}

/* $GPUD_SIM_PYTHON, else bin/python3 of the environment whose site-packages hold the package, or of the checkout's, else python3
 * of the PATH. */
static void find_python(void) {
    const char *chosen = getenv("GPUD_SIM_PYTHON");
    if (chosen && *chosen && format(found.python, chosen, ""))
        return;
    char prefix[PATH_MAX];
    format(prefix, found.root, "");
    char *tail = strstr(prefix, "/lib/python");
    if (!tail)
        tail = strstr(prefix, "/lib64/python");
    if (tail) {
        *tail = 0;
        if (format(found.python, prefix, "/bin/python3") && !access(found.python, X_OK))
            return;
    }
    if (found.root[0] && format(found.python, found.root, "/.venv/bin/python3") && !access(found.python, X_OK))
        return;                         /* a checkout: what `make build` made */
    format(found.python, "python3", "");
}

/* Adds name, size and time of every file below `directory` to the hash. */
static void hash_directory(struct sha256 *sha, const char *directory, int depth) {
    struct dirent **list;
    int count = scandir(directory, &list, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        char path[PATH_MAX], line[PATH_MAX + 64];
        struct stat info;
        const char *name = list[i]->d_name;
        int n = snprintf(path, sizeof path, "%s/%s", directory, name);
        if (name[0] != '.' && strcmp(name, "__pycache__") && n > 0 && n < (int)sizeof path && !stat(path, &info)) {
            if (S_ISDIR(info.st_mode) && depth < 4) {
                hash_directory(sha, path, depth + 1);
            } else {
                n = snprintf(line, sizeof line, "%s %lld %lld.%09ld\n", name, (long long)info.st_size, (long long)info.st_mtim.tv_sec,
                             info.st_mtim.tv_nsec);
                sha256_add(sha, line, (size_t)n);
            }
        }
        free(list[i]);
    }
    if (count >= 0)
        free(list);
}

/* Adds what the processor can do: the code is made for it, and a home may be shared between machines. */
static void hash_processor(struct sha256 *sha) {
    FILE *file = fopen("/proc/cpuinfo", "re");
    char line[8192];
    while (file && fgets(line, sizeof line, file)) {
        if (!strncmp(line, "flags", 5) || !strncmp(line, "Features", 8)) {
            sha256_add(sha, line, strlen(line));
            break;
        }
    }
    if (file)
        fclose(file);
}

static void hash_compiler(void) {
    struct sha256 sha;
    char path[PATH_MAX];
    sha256_start(&sha);
    const int abi = GPUD_KERNEL_ABI;
    sha256_add(&sha, &abi, sizeof abi);
    sha256_add(&sha, found.python, strlen(found.python));
    const char *compiler = getenv("CC");
    if (compiler)
        sha256_add(&sha, compiler, strlen(compiler));
    hash_processor(&sha);
    if (found.root[0] && format(path, found.root, "/gpud/ptx"))
        hash_directory(&sha, path, 0);
    sha256_hex(&sha, found.compiler);
}

/* Makes a directory and those above it that miss, for the user alone. True when it is there and ours to write. */
static bool make_directory(const char *path) {
    char copy[PATH_MAX];
    if (!path[0] || !format(copy, path, ""))
        return false;
    for (char *p = copy + 1; *p; p++) {
        if (*p != '/')
            continue;
        *p = 0;
        mkdir(copy, 0700);
        *p = '/';
    }
    struct stat info;
    if (mkdir(copy, 0700) && errno != EEXIST)
        return false;
    /* Shared objects are loaded from here, so nobody else may be able to write them. */
    return !stat(copy, &info) && S_ISDIR(info.st_mode) && info.st_uid == geteuid() && !(info.st_mode & 022) && !access(copy, W_OK | X_OK);
}

static void find_cache(void) {
    const char *chosen = getenv("GPUD_SIM_CACHE"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME"), *tmp = getenv("TMPDIR");
    if (chosen && *chosen) {
        if (format(found.cache, chosen, "") && make_directory(found.cache))
            return;
        sim_say("GPUD_SIM_CACHE: %s cannot be used: it must be a directory that belongs to you and that only you can write; using another", chosen);
    }
    if (xdg && xdg[0] == '/' && format(found.cache, xdg, "/gpud/ptx") && make_directory(found.cache))
        return;
    if (home && home[0] == '/' && format(found.cache, home, "/.cache/gpud/ptx") && make_directory(found.cache))
        return;
    if (!tmp || tmp[0] != '/')
        tmp = "/tmp";
    char name[64];
    snprintf(name, sizeof name, "/gpud-ptx-%u", (unsigned)geteuid());
    if (format(found.cache, tmp, name) && make_directory(found.cache))
        return;
    found.cache[0] = 0;
}

static void find(void) {
    find_root();
    find_python();
    hash_compiler();
    find_cache();
}

const struct place *place(void) {
    pthread_once(&once, find);
    return &found;
}
