/* inject_rules.c: the text of $GPUD_SIM_FAULTS: RULE; RULE; …
 *   RULE    [all] CALL, CALL, … : ACTION [WHEN]
 *   CALL    a name of the driver API, with * and ?; without a suffix it means all versions of the call
 *   ACTION  fail CODE | stall TIME | hang | kill | lose [DEVICE]
 *   WHEN    at N | from N | every N | random CHANCE seed N; without: at every use */
#include <errno.h>
#include <fnmatch.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "inject.h"

static const struct { const char *name, *symbol; } symbols[] = {
#define SYMBOL(name, symbol, version, twin) {#name, #symbol},
#include "symbols.h"
#undef SYMBOL
};
enum { SYMBOLS = sizeof symbols / sizeof *symbols };
_Static_assert(SYMBOLS <= INJECT_SYMBOLS, "a bit for each symbol");

static const struct { int code; const char *name; } codes[] = {
#define RESULT(number, name, text) {number, #name},
#include "errors.h"
#undef RESULT
};
enum { CODES = sizeof codes / sizeof *codes };

const char *inject_symbol(uint32_t number) { return number < SYMBOLS ? symbols[number].symbol : "?"; }

const char *inject_code(int code) {
    for (int i = 0; i < CODES; i++)
        if (codes[i].code == code)
            return codes[i].name;
    return "";
}

struct reading { char *error; size_t error_size; const char *rule; uint32_t number; char *save; };

__attribute__((format(printf, 2, 3))) static bool fail(struct reading *r, const char *format, ...) {
    int head = snprintf(r->error, r->error_size, "GPUD_SIM_FAULTS: rule %u, \"%.200s\": ", r->number + 1, r->rule);
    va_list list;
    va_start(list, format);
    if (head >= 0 && (size_t)head < r->error_size)
        vsnprintf(r->error + head, r->error_size - (size_t)head, format, list);
    va_end(list);
    return false;
}

static char *word(struct reading *r) { return strtok_r(NULL, " \t\n", &r->save); }

/* A whole number from `least`. */
static bool number(struct reading *r, const char *what, uint64_t least, uint64_t *out) {
    const char *text = word(r);
    char *end = NULL;
    errno = 0;
    if (text)
        *out = strtoull(text, &end, 10);
    if (!text || text[0] == '-' || *end || end == text || *out < least || errno)
        return fail(r, "%s needs a whole number from %llu, not \"%s\"", what, (unsigned long long)least, text ? text : "");
    return true;
}

/* `cuMemAlloc` means cuMemAlloc_v2 too; a symbol's own name means that one alone, unless it is the plain name. */
static bool add_calls(struct reading *r, struct inject_rule *rule, const char *pattern) {
    bool found = false;
    for (uint32_t i = 0; i < SYMBOLS; i++) {
        if (fnmatch(pattern, symbols[i].name, 0) && fnmatch(pattern, symbols[i].symbol, 0))
            continue;
        rule->calls[i / 64] |= 1ull << i % 64;
        found = true;
    }
    return found || fail(r, "no call of the driver API is named \"%s\"", pattern);
}

static bool read_code(struct reading *r, int *code) {
    const char *text = word(r), *name = text;
    char *end = NULL;
    if (text && !strncasecmp(name, "CUDA_", 5))
        name += 5;
    long wanted = text ? strtol(text, &end, 10) : 0;
    for (int i = 1; text && i < CODES; i++) {
        const char *known = codes[i].name;
        if ((!*end && codes[i].code == wanted) || !strcasecmp(known, name) || !strcasecmp(known + strlen("ERROR_"), name)) {
            *code = codes[i].code;
            return true;
        }
    }
    return fail(r, "fail needs an error of the driver API, as 2 or OUT_OF_MEMORY, not \"%s\"", text ? text : "");
}

static bool read_time(struct reading *r, uint64_t *ns) {
    static const struct { const char *unit; double ns; } units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
    const char *text = word(r);
    char *end = NULL;
    double value = text ? strtod(text, &end) : -1;
    for (size_t i = 0; text && end != text && i < sizeof units / sizeof *units; i++)
        if (!strcmp(end, units[i].unit) && value >= 0 && value * units[i].ns <= 86400e9) {
            *ns = (uint64_t)(value * units[i].ns);
            return true;
        }
    return fail(r, "stall needs a time up to 86400s, as 20ms, not \"%s\"", text ? text : "");
}

static bool read_when(struct reading *r, struct inject_rule *rule, const char *text) {
    static const struct { const char *word; enum inject_when when; } counted[] = {
        {"at", INJECT_AT}, {"from", INJECT_FROM}, {"every", INJECT_EVERY}};
    if (!text)
        return true;
    for (size_t i = 0; i < sizeof counted / sizeof *counted; i++)
        if (!strcmp(text, counted[i].word)) {
            rule->when = counted[i].when;
            return number(r, text, 1, &rule->n);
        }
    if (strcmp(text, "random"))
        return fail(r, "\"%s\" is not one of: at N, from N, every N, random CHANCE seed N", text);
    const char *chance = word(r);
    char *end = NULL;
    rule->when = INJECT_RANDOM;
    rule->chance = chance ? strtod(chance, &end) : -1;
    if (!chance || *end || !(rule->chance > 0 && rule->chance <= 1))
        return fail(r, "random needs a chance above 0 and up to 1, not \"%s\"", chance ? chance : "");
    const char *seed = word(r);
    if (!seed || strcmp(seed, "seed"))
        return fail(r, "random needs a seed, so that it can be repeated: random %s seed 1", chance);
    return number(r, "seed", 0, &rule->seed);
}

static bool read_action(struct reading *r, struct inject_rule *rule, char *text) {
    const char *action = strtok_r(text, " \t\n", &r->save), *next = NULL;
    bool good = true;
    if (!action)
        return fail(r, "what shall happen? One of: fail CODE, stall TIME, hang, kill, lose [DEVICE]");
    if (!strcmp(action, "fail")) {
        rule->action = INJECT_FAIL;
        good = read_code(r, &rule->code);
    } else if (!strcmp(action, "stall")) {
        rule->action = INJECT_STALL;
        good = read_time(r, &rule->stall_ns);
    } else if (!strcmp(action, "hang"))
        rule->action = INJECT_HANG;
    else if (!strcmp(action, "kill"))
        rule->action = INJECT_KILL;
    else if (!strcmp(action, "lose")) {
        rule->action = INJECT_LOSE;
        rule->device = -1;
        next = word(r);
        if (next && next[0] >= '0' && next[0] <= '7' && !next[1]) {
            rule->device = next[0] - '0';
            next = NULL;
        }
    } else
        return fail(r, "\"%s\" is not one of: fail CODE, stall TIME, hang, kill, lose [DEVICE]", action);
    if (!good || !read_when(r, rule, next ? next : word(r)))
        return false;
    const char *rest = word(r);
    return !rest || fail(r, "\"%s\" is too much", rest);
}

static bool read_rule(struct reading *r, struct inject_rule *rule, char *text) {
    char *colon = strchr(text, ':');
    if (!colon)
        return fail(r, "no colon between the calls and what shall happen to them");
    *colon = 0;
    char *save = NULL;
    bool any = false;
    for (char *name = strtok_r(text, ", \t\n", &save); name; name = strtok_r(NULL, ", \t\n", &save)) {
        if (!any && !rule->all && !strcmp(name, "all")) {
            rule->all = true;
            continue;
        }
        any = true;
        if (!add_calls(r, rule, name))
            return false;
    }
    return any ? read_action(r, rule, colon + 1) : fail(r, "which calls? Name some, or cu*");
}

bool inject_parse(const char *text, bool all, struct inject_rule *rules, uint32_t *count, char *error, size_t error_size) {
    struct reading r = {.error = error, .error_size = error_size};
    char *copy = strdup(text), *save = NULL;
    bool good = copy != NULL || fail(&r, "no memory");
    uint32_t kept = 0;
    for (char *rule = good ? strtok_r(copy, ";", &save) : NULL; rule && good; rule = strtok_r(NULL, ";", &save)) {
        rule += strspn(rule, " \t\n");
        if (!*rule)
            continue;
        char plain[256];
        snprintf(plain, sizeof plain, "%s", rule);
        r.rule = plain;
        struct inject_rule made = {.number = kept};
        good = read_rule(&r, &made, rule);
        r.number++;
        if (!good || made.all != all)
            continue;
        kept++;
        if (*count == INJECT_RULES)
            good = fail(&r, "more than %u rules", INJECT_RULES);
        else
            memcpy(&rules[(*count)++], &made, sizeof made);
    }
    free(copy);
    return good;
}
