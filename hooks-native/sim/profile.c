/* profile.c: profiles: what a TOML file may say, and what it means. */
#include "profile.h"

#include <fnmatch.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "toml.h"

#define DEPTH 8

struct reading {
    struct profile *profile;
    const char *path;
    uint64_t seen;                      /* keys given so far */
    uint64_t seen_here;                 /* those of this file */
    char base[SIM_NAME];
    int base_line;
    char mode[PROFILE_MODE];            /* as the topmost file says */
    char mode_path[PATH_MAX];
    int mode_line;
    char *error;
    size_t error_size;
};

struct known { const char *table, *key; size_t offset, size; bool real; double unit, least, most; const char *meaning; };

#define IS_REAL(type) _Generic((type)0, double: true, default: false)
static const struct known keys[] = {
#define KEY(table, key, member, type, unit, least, most, meaning) \
    { #table, #key, offsetof(struct profile, member), sizeof(type), IS_REAL(type), unit, least, most, meaning },
#include "profile_keys.h"
#undef KEY
};
#define KEYS (sizeof keys / sizeof *keys)

__attribute__((format(printf, 3, 4))) static bool fail(struct reading *r, int line, const char *format, ...)
{
    int n = snprintf(r->error, r->error_size, "%s:%d: ", r->path, line);
    va_list args;
    va_start(args, format);
    if (n >= 0 && (size_t)n < r->error_size)
        vsnprintf(r->error + n, r->error_size - (size_t)n, format, args);
    va_end(args);
    return false;
}

static void store(struct profile *profile, const struct known *k, double number)
{
    char *at = (char *)profile + k->offset;
    double scaled = number * k->unit;
    if (k->real)
        memcpy(at, &scaled, sizeof scaled);
    else if (k->size == sizeof(uint64_t))
        *(uint64_t *)at = (uint64_t)(scaled + 0.5);
    else
        *(uint32_t *)at = (uint32_t)(scaled + 0.5);
}

static bool unknown(struct reading *r, const struct toml_item *item)
{
    char allowed[1024] = "";
    size_t n = 0;
    bool table = false;
    for (size_t i = 0; i < KEYS; i++)
        if (!strcmp(keys[i].table, item->table)) {
            table = true;
            n += (size_t)snprintf(allowed + n, n < sizeof allowed ? sizeof allowed - n : 0, "%s%s", n ? ", " : "", keys[i].key);
        }
    if (!strcmp(item->table, "device"))
        snprintf(allowed + n, n < sizeof allowed ? sizeof allowed - n : 0, ", name, mode");
    if (!item->table[0])
        return fail(r, item->line, "unknown key %s before the first table; allowed is: base", item->key);
    if (!table)
        return fail(r, item->line, "unknown table [%s]; allowed are [device], [timing], [mig], [kernels]", item->table);
    return fail(r, item->line, "unknown key %s.%s; allowed are: %s", item->table, item->key, allowed);
}

/* One number, or several with spaces between: durations in ms. */
static bool durations(struct profile_kernel *kernel, const char *text)
{
    char plain[TOML_TEXT], *at = plain;
    size_t n = 0;
    for (; *text; text++)
        if (*text != '_')
            plain[n++] = *text;
    for (plain[n] = 0; *at;) {
        char *end;
        double ms = strtod(at, &end);
        if (end == at || (*end && *end != ' ') || !(ms >= 0.001 && ms <= 1e6) || kernel->count == PROFILE_CHOICES)
            return false;
        kernel->duration_ns[kernel->count++] = (uint64_t)(ms * 1e6 + 0.5);
        at = end + strspn(end, " ");
    }
    return kernel->count;
}

static bool take_kernel(struct reading *r, const struct toml_item *item)
{
    struct profile *p = r->profile;
    if (strlen(item->key) >= SIM_NAME)
        return fail(r, item->line, "kernels: the pattern is longer than %d characters", SIM_NAME - 1);
    struct profile_kernel kernel = { .count = 0 };
    if (!durations(&kernel, item->text))
        return fail(r, item->line, "kernels.%s: must be a duration in ms from 0.001 to 1000000, or a \"string\" of 1 to %d of them, not: %s",
                    item->key, PROFILE_CHOICES, item->text);
    for (uint32_t i = 0; i < p->kernel_count; i++)
        if (!strcmp(p->kernels[i].pattern, item->key))
            return true;                /* said by the file whose base this is; twice in one file: the first counts */
    if (p->kernel_count == PROFILE_KERNELS)
        return fail(r, item->line, "kernels.%s: more than %d patterns", item->key, PROFILE_KERNELS);
    snprintf(kernel.pattern, SIM_NAME, "%.*s", SIM_NAME - 1, item->key);
    p->kernels[p->kernel_count++] = kernel;
    return true;
}

/* What it means is clear only when the whole profile is read. */
static bool take_mode(struct reading *r, const struct toml_item *item)
{
    if (!item->is_text || strlen(item->text) >= PROFILE_MODE)
        return fail(r, item->line, "mode: must be a \"string\" of at most %d characters, not: %s", PROFILE_MODE - 1, item->text);
    if (!r->mode[0]) {
        snprintf(r->mode, sizeof r->mode, "%.*s", PROFILE_MODE - 1, item->text);
        snprintf(r->mode_path, sizeof r->mode_path, "%s", r->path);
        r->mode_line = item->line;
    }
    return true;
}

static bool optional(const struct known *k)
{
    return !strcmp(k->table, "mig") || !strcmp(k->key, "time_scale") || !strcmp(k->key, "devices")
           || !strcmp(k->key, "idle_watts") || !strcmp(k->key, "power_watts");
}

static bool take(void *arg, const struct toml_item *item)
{
    struct reading *r = arg;
    if (!strcmp(item->table, "kernels"))
        return take_kernel(r, item);
    bool base = !item->table[0] && !strcmp(item->key, "base");
    if (!strcmp(item->table, "device") && !strcmp(item->key, "mode"))
        return take_mode(r, item);
    if (base || (!strcmp(item->table, "device") && !strcmp(item->key, "name"))) {
        if (!item->is_text || !item->text[0] || strlen(item->text) >= SIM_NAME)
            return fail(r, item->line, "%s: must be a \"string\" of 1 to %d characters, not: %s", item->key, SIM_NAME - 1, item->text);
        if (base) {
            snprintf(r->base, sizeof r->base, "%.*s", SIM_NAME - 1, item->text);
            r->base_line = item->line;
        } else if (!r->profile->info.name[0])
            snprintf(r->profile->info.name, SIM_NAME, "%.*s", SIM_NAME - 1, item->text);
        return true;
    }
    for (size_t i = 0; i < KEYS; i++) {
        const struct known *k = &keys[i];
        if (strcmp(k->table, item->table) || strcmp(k->key, item->key))
            continue;
        if (item->is_text || !(item->number >= k->least && item->number <= k->most))
            return fail(r, item->line, "%s.%s: must be a number from %g to %g (%s), not: %s", k->table, k->key, k->least, k->most,
                        k->meaning, item->text);
        if (r->seen_here >> i & 1)
            return fail(r, item->line, "%s.%s: given twice in this file", k->table, k->key);
        if (!(r->seen >> i & 1))
            store(r->profile, k, item->number);
        r->seen |= 1ull << i;
        r->seen_here |= 1ull << i;
        return true;
    }
    return unknown(r, item);
}

/* Where the profile `name` is. */
static void locate(const char *directory, const char *name, char path[PATH_MAX])
{
    size_t n = strlen(name);
    if (strchr(name, '/') || (n > 5 && !strcmp(name + n - 5, ".toml")))
        snprintf(path, PATH_MAX, "%s", name);
    else
        snprintf(path, PATH_MAX, "%s/%s.toml", directory, name);
}

/* A file, then its base: what the file says comes first and stays. */
int profile_read(struct profile *profile, const char *directory, const char *name, char *error, size_t error_size)
{
    _Static_assert(KEYS <= 64, "a bit for each key");
    char path[PATH_MAX], above[PATH_MAX], first[PATH_MAX], why[256];
    struct reading r = { .profile = profile, .path = path, .error = error, .error_size = error_size };
    memset(profile, 0, sizeof *profile);
    profile->devices = 1;
    profile->info.time_scale = 1;
    locate(directory, name, path);
    strcpy(first, path);
    const char *slash = strrchr(path, '/');
    snprintf(profile->name, SIM_NAME, "%.*s", SIM_NAME - 1, slash ? slash + 1 : path);
    char *dot = strrchr(profile->name, '.');
    if (dot && !strcmp(dot, ".toml"))
        *dot = 0;
    for (char *c = profile->name; *c; c++)
        if (*c < ' ' || *c >= 127 || *c == '"' || *c == '\\')
            *c = '?';                   /* it stands in the log's JSON */
    for (int depth = 0; ; depth++) {
        r.base[0] = 0;
        r.seen_here = 0;
        if (toml_read(path, take, &r, error, error_size))
            return -1;
        if (!r.base[0])
            break;
        if (depth == DEPTH)
            return fail(&r, r.base_line, "base: more than %d profiles above one another, or in a circle", DEPTH), -1;
        /* A base lies beside the file that names it. */
        snprintf(above, sizeof above, "%s", path);
        char *end = strrchr(above, '/');
        if (end)
            *end = 0;
        else
            snprintf(above, sizeof above, ".");
        char next[PATH_MAX];
        if ((size_t)snprintf(next, sizeof next, "%.3000s/%s.toml", above, r.base) >= sizeof next)
            return fail(&r, r.base_line, "base: the path is too long"), -1;
        if (access(next, R_OK))
            return fail(&r, r.base_line, "base: there is no profile %s (looked for %s)", r.base, next), -1;
        snprintf(path, sizeof path, "%s", next);
    }
    for (size_t i = 0; i < KEYS; i++)
        if (!(r.seen >> i & 1) && !optional(&keys[i])) {
            snprintf(error, error_size, "%s: %s.%s is missing (%s, %g to %g), and the profile has no base that gives it", first,
                     keys[i].table, keys[i].key, keys[i].meaning, keys[i].least, keys[i].most);
            return -1;
        }
    if (profile->info.reserved_bytes >= profile->info.total_bytes) {
        snprintf(error, error_size, "%s: device.reserved_mib leaves nothing of device.memory_gib", first);
        return -1;
    }
    if (!profile->info.name[0])
        snprintf(profile->info.name, SIM_NAME, "gpud simulated %.60s", profile->name);
    snprintf(profile->info.profile, SIM_NAME, "%.*s", SIM_NAME - 1, profile->name);
    profile->info.total_bytes &= ~0x1fffffull;      /* whole pages of 2 MiB */
    profile->timing.sm_count = profile->info.sm_count;
    profile->timing.blocks_per_sm = profile->info.blocks_per_sm;
    profile->timing.threads_per_sm = profile->info.threads_per_sm;
    profile->timing.shared_per_sm = profile->info.shared_per_sm;
    for (uint32_t i = 0; i < sizeof profile->mig_sms / sizeof *profile->mig_sms; i++)
        if (profile->mig_sms[i] > profile->info.sm_count) {
            snprintf(error, error_size, "%s: mig.sm_%ug is more than device.sm_count", first, i);
            return -1;
        }
    if (profile_mode(profile, r.mode[0] ? r.mode : "timeslice", why, sizeof why))
        return 0;
    snprintf(error, error_size, "%s:%d: device.mode: %s", r.mode_path, r.mode_line, why);
    return -1;
}

const struct profile_kernel *profile_kernel(const struct profile *profile, const char *name)
{
    for (uint32_t i = 0; i < profile->kernel_count; i++)
        if (!fnmatch(profile->kernels[i].pattern, name, 0))
            return &profile->kernels[i];
    return NULL;
}

uint64_t profile_duration(const struct profile_kernel *kernel, uint64_t launch)
{
    uint64_t mixed = launch + UINT64_C(0x9e3779b97f4a7c15);
    if (!kernel)
        return 0;
    mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
    return kernel->duration_ns[(mixed ^ mixed >> 31) % kernel->count];
}
