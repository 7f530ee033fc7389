/* inject.c: lets the faults of $GPUD_SIM_FAULTS happen: this process's own rules, and those that hold for all processes of the node
 * (the device process has their text and counts their uses). */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "inject.h"
#include "sim.h"

int inject_armed = 1;                   /* until cuInit has found that there are no rules */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct inject_rule rules[INJECT_RULES * 2];
static _Atomic uint32_t count;          /* rules are only ever added */
static bool garbage;
static struct sim_link *node;           /* whose rules are read; a forked child's is dead and answers nothing */
static char error[512];

static void read_own(void) {
    const char *text = getenv("GPUD_SIM_FAULTS");
    uint32_t own = 0, of_all = 0;
    if (!text)
        return;
    /* Those for all come back from the node, but what is wrong with them is said here. */
    garbage = !inject_parse(text, false, rules, &own, error, sizeof error) ||
              !inject_parse(text, true, rules + INJECT_RULES, &of_all, error, sizeof error);
    if (garbage)
        sim_say("%s", error);
    else
        count = own;
}

/* The rules of the node; needs the link, and opens it. */
static void read_node(void) {
    struct sim_link *link;
    char ignored[512];                  /* what keeps it from opening is said by cuInit */
    pthread_mutex_lock(&lock);
    if (!node && !garbage && !sim_link_open(&link, ignored, sizeof ignored)) {
        uint32_t of_all = 0, own = count;
        node = link;
        if (!inject_parse(sim_faults(link), true, rules + own, &of_all, error, sizeof error)) {
            garbage = true;
            sim_say("node: %s", error);
        } else {
            count = own + of_all;
        }
    }
    pthread_mutex_unlock(&lock);
}

void inject_forked(void) { pthread_mutex_init(&lock, NULL); }

CUresult inject_open(void) {
    pthread_once(&once, read_own);
    read_node();
    if (!count && !garbage && node)
        inject_armed = 0;
    return garbage ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* A number from 0 to 1 that depends on seed and use alone. */
static double draw(uint64_t seed, uint64_t use) {
    uint64_t x = (seed ^ 0x6a09e667f3bcc909u) * 0x9e3779b97f4a7c15u + use * 0xbf58476d1ce4e5b9u;
    for (int round = 0; round < 2; round++) {
        x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
        x = (x ^ x >> 27) * 0x94d049bb133111ebu;
        x ^= x >> 31;
    }
    return (double)(x >> 11) / 9007199254740992.0;
}

static bool fires(const struct inject_rule *rule, uint64_t use) {
    switch (rule->when) {
    case INJECT_AT: return use == rule->n;
    case INJECT_FROM: return use >= rule->n;
    case INJECT_EVERY: return use % rule->n == 0;
    case INJECT_RANDOM: return draw(rule->seed, use) < rule->chance;
    default: return true;
    }
}

/* What a kernel's fault leaves behind for ever; an injected one does so too. */
static bool sticks(int code) {
    return code == CUDA_ERROR_UNKNOWN || code == CUDA_ERROR_ILLEGAL_ADDRESS || code == 702 || code == 710 || (code >= 714 && code <= 719) ||
           code == 214 || code == 220;
}

static void stall(uint64_t ns) {
    struct timespec left = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    while (nanosleep(&left, &left))
        ;
}

/* One rule fires. Non-zero: the answer of the call. */
static CUresult act(struct inject_rule *rule, const char *symbol, uint64_t use) {
    static const char *const words[] = {"fail", "stall", "hang", "kill", "lose"};
    struct ctx *ctx = sim_ready() ? NULL : ctx_top();
    bool usable = ctx && handle_ok(H_CONTEXT, ctx);
    char text[96];
    snprintf(text, sizeof text, "%s%s%s", words[rule->action], rule->action == INJECT_FAIL ? " " : "",
             rule->action == INJECT_FAIL ? inject_code(rule->code) : "");
    if (!atomic_exchange(&rule->said, true))
        sim_say("GPUD_SIM_FAULTS: %s at use %llu of %s%s", text, (unsigned long long)use, symbol, rule->all ? " on this node" : "");
    if (node)
        sim_fault_happened(node, symbol, text);
    switch (rule->action) {
    case INJECT_STALL: stall(rule->stall_ns); break;
    case INJECT_HANG: for (;;) pause();
    case INJECT_KILL: kill(getpid(), SIGKILL); break;
    case INJECT_LOSE:
        if (node)
            sim_lose(node, rule->device >= 0 ? (uint32_t)rule->device : usable ? ctx->device->node_index : 0);
        break;
    case INJECT_FAIL:
        if (usable && sticks(rule->code))
            ctx_fail(ctx, rule->code);
        return rule->code;
    }
    return CUDA_SUCCESS;
}

CUresult inject_call(uint32_t number) {
    pthread_once(&once, read_own);
    if (!strcmp(inject_symbol(number), "cuInit")) {
        read_node();
        if (garbage)
            return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult result = CUDA_SUCCESS;
    for (uint32_t i = 0, end = count; i < end; i++) {
        struct inject_rule *rule = &rules[i];
        if (!(rule->calls[number / 64] >> number % 64 & 1))
            continue;
        uint64_t use = rule->all ? sim_fault_use(node, rule->number) : atomic_fetch_add(&rule->uses, 1) + 1;
        if (!result && use && fires(rule, use))
            result = act(rule, inject_symbol(number), use);
    }
    return result;
}
