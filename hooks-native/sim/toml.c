/* toml.c: reads the part of TOML that profiles use, line by line. */
#include "toml.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct reader {
    const char *path;
    int line;
    const char *at;                     /* in the current line */
    char *error;
    size_t error_size;
};

__attribute__((format(printf, 2, 3))) static int fail(struct reader *r, const char *format, ...)
{
    int n = snprintf(r->error, r->error_size, "%s:%d: ", r->path, r->line);
    va_list args;
    va_start(args, format);
    if (n >= 0 && (size_t)n < r->error_size)
        vsnprintf(r->error + n, r->error_size - (size_t)n, format, args);
    va_end(args);
    return -1;
}

static void blanks(struct reader *r)
{
    while (*r->at == ' ' || *r->at == '\t')
        r->at++;
}

/* Nothing but a comment may follow. */
static int line_end(struct reader *r)
{
    blanks(r);
    if (*r->at && *r->at != '#')
        return fail(r, "unexpected text after the value: %.40s", r->at);
    return 0;
}

/* A string in double quotes (with \" and \\) or single quotes (as it is). */
static int quoted(struct reader *r, char out[TOML_TEXT])
{
    char quote = *r->at++;
    size_t n = 0;
    for (; *r->at && *r->at != quote; r->at++) {
        char c = *r->at;
        if (quote == '"' && c == '\\') {
            c = *++r->at;
            if (c != '"' && c != '\\')
                return fail(r, "escape \\%c is not supported (only \\\" and \\\\)", c ? c : ' ');
        }
        if (n + 1 >= TOML_TEXT)
            return fail(r, "string is longer than %d characters", TOML_TEXT - 1);
        out[n++] = c;
    }
    out[n] = 0;
    if (*r->at != quote)
        return fail(r, "string has no closing %c", quote);
    r->at++;
    return 0;
}

static int key(struct reader *r, char out[TOML_TEXT])
{
    if (*r->at == '"' || *r->at == '\'')
        return quoted(r, out);
    size_t n = 0;
    while ((isalnum((unsigned char)*r->at) || *r->at == '_' || *r->at == '-') && n + 1 < TOML_TEXT)
        out[n++] = *r->at++;
    out[n] = 0;
    return n ? 0 : fail(r, "a key was expected here: %.40s", r->at);
}

static int value(struct reader *r, struct toml_item *item)
{
    if (*r->at == '"' || *r->at == '\'') {
        item->is_text = true;
        return quoted(r, item->text);
    }
    size_t n = 0;
    char digits[TOML_TEXT];
    size_t d = 0;
    for (; *r->at && !strchr(" \t#", *r->at) && n + 1 < TOML_TEXT; r->at++) {
        item->text[n++] = *r->at;
        if (*r->at != '_')
            digits[d++] = *r->at;
    }
    item->text[n] = digits[d] = 0;
    char *end;
    item->number = strtod(digits, &end);
    if (!d || *end || !(isdigit((unsigned char)digits[0]) || strchr("+-.", digits[0])))
        return fail(r, "%s: a number or a \"string\" was expected, not: %s", item->key, n ? item->text : "nothing");
    return 0;
}

static int one_line(struct reader *r, struct toml_item *item)
{
    if (*r->at == '[') {
        r->at++;
        blanks(r);
        if (key(r, item->table))
            return -1;
        blanks(r);
        if (*r->at != ']')
            return fail(r, "[%s has no closing ]", item->table);
        r->at++;
        item->key[0] = 0;
        return line_end(r);
    }
    if (key(r, item->key))
        return -1;
    blanks(r);
    if (*r->at != '=')
        return fail(r, "%s: = was expected after the key", item->key);
    r->at++;
    blanks(r);
    item->is_text = false;
    return value(r, item) || line_end(r) ? -1 : 0;
}

/* A plain file: who opened a pipe would wait for whoever writes to it. NULL and errno. */
static FILE *open_plain(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return NULL;
    struct stat st;
    int error = fstat(fd, &st) ? errno : S_ISREG(st.st_mode) ? 0 : S_ISDIR(st.st_mode) ? EISDIR : EINVAL;
    FILE *file = error ? NULL : fdopen(fd, "r");
    if (file)
        return file;
    error = error ? error : errno;
    close(fd);
    errno = error;
    return NULL;
}

int toml_read(const char *path, bool (*take)(void *arg, const struct toml_item *item), void *arg, char *error, size_t error_size)
{
    struct reader r = { .path = path, .error = error, .error_size = error_size };
    FILE *file = open_plain(path);
    if (!file) {
        snprintf(error, error_size, "%s: %s", path, errno == EINVAL ? "not a plain file" : strerror(errno));
        return -1;
    }
    struct toml_item item = { .line = 0 };
    char line[1024];
    int result = 0;
    while (!result && fgets(line, sizeof line, file)) {
        size_t n = strlen(line);
        r.line = item.line = r.line + 1;
        if (n == sizeof line - 1 && line[n - 1] != '\n') {
            result = fail(&r, "line is longer than %zu characters", sizeof line - 2);
            break;
        }
        while (n && strchr("\r\n", line[n - 1]))
            line[--n] = 0;
        r.at = line;
        blanks(&r);
        if (!*r.at || *r.at == '#')
            continue;
        result = one_line(&r, &item);
        if (!result && item.key[0] && !take(arg, &item))
            result = 1;
    }
    if (!result && ferror(file)) {
        snprintf(error, error_size, "%s: %s", path, strerror(errno));
        result = -1;
    }
    fclose(file);
    return result;
}
