/* config.c: the environment. */
#define _GNU_SOURCE
#include "config.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include "log.h"

static void read_level(void)
{
    static const char *const names[] = { "error", "warning", "info", "debug" };
    const char *wanted = getenv("GPUD_LOG");

    gpud_log_level = GPUD_LOG_WARNING;
    if (wanted == NULL || *wanted == 0)
        return;
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(wanted, names[i]) == 0) {
            gpud_log_level = (enum gpud_level)i;
            return;
        }
    }
    gpud_log(GPUD_LOG_WARNING, GPUD_ONCE_NOT, "GPUD_LOG is \"%.40s\", which is not a level: warning is used; "
             "set it to error, warning, info or debug", wanted);
}

static bool is_dir_of(const char *path, uid_t owner)
{
    struct stat info;
    return lstat(path, &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == owner;
}

/* Anybody can make a directory of that name in /tmp; only one that is ours alone is trusted. */
static bool is_private_or_absent(const char *path)
{
    struct stat info;
    if (lstat(path, &info) != 0)
        return true;
    return S_ISDIR(info.st_mode) && info.st_uid == geteuid() && (info.st_mode & 077) == 0;
}

/* The runtime directory into `path`; false (with a line) if there is none to be trusted. `anybody`: where it is not there yet, anybody
 * can make it. */
static bool find_directory(char *path, size_t size, bool *anybody)
{
    const char *own = secure_getenv("GPUD_RUNTIME_DIR"), *xdg = secure_getenv("XDG_RUNTIME_DIR");
    unsigned long uid = geteuid();
    char user[64];

    if (own != NULL && own[0] == '/') {
        snprintf(path, size, "%s", own);
        return true;
    }
    if (own != NULL && own[0] != 0)
        gpud_log(GPUD_LOG_WARNING, GPUD_ONCE_NOT, "GPUD_RUNTIME_DIR is \"%.80s\", which is not an absolute path: the default is "
                 "used; set it to the directory that `gpud serve` uses", own);
    if (xdg != NULL && xdg[0] == '/') {
        snprintf(path, size, "%s/gpud", xdg);
        return true;
    }
    if (uid == 0) {
        snprintf(path, size, "/run/gpud");
        return true;
    }
    snprintf(user, sizeof user, "/run/user/%lu", uid);
    if (is_dir_of(user, (uid_t)uid)) {
        snprintf(path, size, "%s/gpud", user);
        return true;
    }
    snprintf(path, size, "/tmp/gpud-%lu", uid);
    *anybody = true;
    if (is_private_or_absent(path))
        return true;
    gpud_log(GPUD_LOG_WARNING, GPUD_ONCE_NOT, "%s is not a directory that only you can use: this program runs without gpud; "
             "remove it, or set GPUD_RUNTIME_DIR", path);
    return false;
}

void gpud_config_read(struct gpud_config *config)
{
    char directory[4096];

    memset(config, 0, sizeof *config);
    config->socket.sun_family = AF_UNIX;
    read_level();
    if (!find_directory(directory, sizeof directory, &config->own_daemon_only))
        return;
    size_t length = strlen(directory) + sizeof "/hook.sock" - 1;
    if (length > sizeof config->socket.sun_path - 1) {
        gpud_log(GPUD_LOG_WARNING, GPUD_ONCE_NOT, "the socket path %.60s…/hook.sock has %zu bytes, and a socket's path may have "
                 "107: this program runs without gpud; set GPUD_RUNTIME_DIR to a shorter directory", directory, length);
        return;
    }
    snprintf(config->socket.sun_path, sizeof config->socket.sun_path, "%.97s/hook.sock", directory);
    config->usable = true;
}
