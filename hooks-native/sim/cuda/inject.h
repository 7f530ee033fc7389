/* inject.h: faults on demand, $GPUD_SIM_FAULTS. Which calls of the driver API fail, stall or end the process, and when. All calls
 * pass inject_call() while inject_armed is not 0 (entry_*.S); docs/simulator.md has the syntax. */
#ifndef SIM_CUDA_INJECT_H
#define SIM_CUDA_INJECT_H

#include <stdatomic.h>

#include "api.h"

#define INJECT_RULES 32u
#define INJECT_SYMBOLS 1024u            /* more than there are */

enum inject_action { INJECT_FAIL, INJECT_STALL, INJECT_HANG, INJECT_KILL, INJECT_LOSE };
enum inject_when { INJECT_EACH, INJECT_AT, INJECT_FROM, INJECT_EVERY, INJECT_RANDOM };

struct inject_rule {
    uint64_t calls[INJECT_SYMBOLS / 64];        /* bit n: symbol number n of symbols.h */
    bool all;                           /* of the node: its uses are counted there, over all processes */
    uint32_t number;                    /* place among the rules of its text, from 0 */
    enum inject_action action;
    int code;                           /* FAIL */
    int device;                         /* LOSE: index on the node; −1: the calling thread's */
    uint64_t stall_ns;
    enum inject_when when;
    uint64_t n, seed;
    double chance;
    _Atomic uint64_t uses;              /* so far, of this process */
    _Atomic bool said;
};

/* inject_rules.c. Adds the rules of `text` to the list: those that begin with `all`, or the others. False: `error` says which rule
 * and what is wrong with it. `rules` has room for INJECT_RULES. */
bool inject_parse(const char *text, bool all, struct inject_rule *rules, uint32_t *count, char *error, size_t error_size);
const char *inject_symbol(uint32_t number);
const char *inject_code(int code);      /* its name without CUDA_, or "" */

/* inject.c */
extern int inject_armed;                /* read by entry_*.S */
CUresult inject_call(uint32_t number);  /* 0: go on */
/* The node is there (cuInit): takes over its rules. INVALID_VALUE: there is garbage among them, and it was said. */
CUresult inject_open(void);
void inject_forked(void);               /* in a forked child */

#endif
