/* names.c: the last identifier of an Itanium-mangled name, also as numba mangles (tags after the name, no nesting of types). */
#include "names.h"

#include <ctype.h>
#include <string.h>

/* One <length><identifier> at `at`: its end; NULL when there is none. */
static const char *identifier(const char *at, const char **start, size_t *length)
{
    size_t n = 0;
    if (!isdigit((unsigned char)*at))
        return NULL;
    while (isdigit((unsigned char)*at)) {
        n = n * 10 + (size_t)(*at++ - '0');
        if (n > 4096)
            return NULL;
    }
    if (!n || strlen(at) < n)
        return NULL;
    *start = at;
    *length = n;
    return at + n;
}

/* Behind the template arguments that begin at `at` (an 'I'): NULL when they do not end. */
static const char *skip_arguments(const char *at)
{
    int depth = 0;
    while (*at) {
        const char *start;
        size_t length;
        const char *end = identifier(at, &start, &length);
        if (end) {
            at = end;
            continue;
        }
        if (*at == 'L') {               /* a literal: its type, then digits up to E; they are no identifiers */
            const char *close = strchr(at, 'E');
            if (!close)
                return NULL;
            at = close + 1;
            continue;
        }
        if (strchr("INXJF", *at))
            depth++;
        if (*at == 'E' && --depth == 0)
            return at + 1;
        at++;
    }
    return NULL;
}

void names_plain(const char *mangled, char *out, size_t size)
{
    const char *best = mangled;         /* char may be signed: bytes above 127 are below ' ' then */
    size_t length = strlen(mangled);
    if (!strncmp(mangled, "_Z", 2)) {
        const char *at = mangled + 2;
        int nested = *at == 'N';
        at += nested;
        at += nested ? strspn(at, "rVKRO") : (size_t)(*at == 'L');
        for (;;) {
            const char *start;
            size_t n;
            const char *end;
            if (*at == 'B' && (end = identifier(at + 1, &start, &n))) {
                at = end;               /* a tag */
                continue;
            }
            if (nested && at[0] == 'S' && strchr("taibdos", at[1]) && at[1]) {
                at += 2;                /* std:: and its kin */
                continue;
            }
            if (nested && *at == 'I' && (end = skip_arguments(at))) {
                at = end;               /* arguments of an enclosing template */
                continue;
            }
            if (nested && *at == 'L')
                at++;                   /* internal linkage */
            end = identifier(at, &start, &n);
            if (!end)
                break;
            best = start;
            length = n;
            at = end;
            if (!nested && *at != 'B')
                break;
        }
    }
    if (length >= size)
        length = size - 1;
    for (size_t i = 0; i < length; i++)
        out[i] = best[i] < ' ' || best[i] >= 127 || best[i] == '"' || best[i] == '\\' ? '?' : best[i];
    out[length] = 0;
}
