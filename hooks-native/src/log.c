/* log.c: lines on stderr. */
#include "log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum gpud_level gpud_log_level = GPUD_LOG_WARNING;
static uint32_t said;
static dev_t stderr_device;
static ino_t stderr_inode;
static bool stderr_known;

void gpud_log_start(void)
{
    struct stat info;
    stderr_known = fstat(STDERR_FILENO, &info) == 0;
    if (stderr_known) {
        stderr_device = info.st_dev;
        stderr_inode = info.st_ino;
    }
}

void gpud_log_forget(void)
{
    said = 0;
}

/* A program that became a daemon may have given descriptor 2 to a file of its own: nothing of ours may end up there. */
static bool stderr_is_unchanged(void)
{
    struct stat info;
    return stderr_known && fstat(STDERR_FILENO, &info) == 0 && info.st_dev == stderr_device && info.st_ino == stderr_inode;
}

void gpud_log(enum gpud_level level, enum gpud_once once, const char *format, ...)
{
    int saved = errno;
    char line[512];

    bool wanted = level <= gpud_log_level && stderr_is_unchanged();
    errno = saved;
    if (!wanted)
        return;
    if (once != GPUD_ONCE_NOT && __atomic_fetch_or(&said, 1u << once, __ATOMIC_RELAXED) & 1u << once)
        return;
    int head = snprintf(line, sizeof line, "gpud: ");
    va_list arguments;
    va_start(arguments, format);
    int body = vsnprintf(line + head, sizeof line - (size_t)head - 1, format, arguments);
    va_end(arguments);
    size_t length = (size_t)head + (body < 0 ? 0 : (size_t)body);
    if (length > sizeof line - 2)
        length = sizeof line - 2;
    for (size_t i = 0; i < length; i++) {       /* some of it may come from the daemon: one line stays one line */
        if ((unsigned char)line[i] < ' ')
            line[i] = ' ';
    }
    line[length++] = '\n';
    ssize_t ignored = write(STDERR_FILENO, line, length);
    (void)ignored;
    errno = saved;
}
