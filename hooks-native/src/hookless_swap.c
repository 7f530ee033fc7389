/* hookless_swap.c: see hookless_swap.h. */
#include "hookless_swap.h"

#include "gpud.h"
#include "lock.h"
#include "state.h"

#define EXPORT __attribute__((visibility("default")))

enum { IDLE, TRIES, ASKED, RUNS, MOVED, FAILED, WAS_OUT };

static uint32_t state;          /* futex word; between ASKED and the end the program's thread has it, else the keeper */
static uint32_t has_function, is_out;

EXPORT int gpud_hook_swaps(int out);
EXPORT int gpud_hook_swap_wait(void);
EXPORT int gpud_hook_swap_done(int moved);

/* The program has a function for it; `out`: that has run, and the memory has yet to come in. */
int gpud_hook_swaps(int out)
{
    gpud_store_total(&is_out, out != 0);
    gpud_store_total(&has_function, 1);
    return GPUD_OK;
}

/* Blocks until the memory is to leave. By one thread, which answers with gpud_hook_swap_done. */
int gpud_hook_swap_wait(void)
{
    uint32_t asked = ASKED;

    while (!__atomic_compare_exchange_n(&state, &asked, RUNS, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
        gpud_futex_wait(&state, asked, gpud_now() + GPUD_SECOND, false);
        asked = ASKED;
    }
    return GPUD_OK;
}

/* 1: it has left; 2: it was out already; 0: it has not. */
int gpud_hook_swap_done(int moved)
{
    uint32_t runs = RUNS, end = moved == 0 ? FAILED : moved == 1 ? MOVED : WAS_OUT;

    if (!__atomic_compare_exchange_n(&state, &runs, end, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        return GPUD_ERROR_NOT_HELD;
    gpud_add_total(&gpud_lock_news, 1);         /* who wants a turn on a device that it has looks again */
    gpud_futex_wake(&gpud_lock_news, false);
    gpud_keeper_call();
    return GPUD_OK;
}

uint32_t gpud_hookless_flags(void)
{
    return gpud_load_total(&has_function) == 0 ? 0 : gpud_load_total(&is_out) ? GPUD_LOCK_SWAPS | GPUD_LOCK_OUT : GPUD_LOCK_SWAPS;
}

bool gpud_hookless_moves(void)
{
    uint32_t now = gpud_load_total(&state);
    return now == TRIES || now == ASKED || now == RUNS;
}

static bool has_turn(void)
{
    for (uint32_t device = 0; device < GPUD_MAX_DEVICES; device++) {
        if (gpud_lock_holds(device) != 0)
            return true;
    }
    return false;
}

enum gpud_hookless_answer gpud_hookless_swap(void)
{
    uint32_t now = gpud_load_total(&state);

    if (!gpud_load_total(&has_function))
        return GPUD_HOOKLESS_FAILED;
    if (now == IDLE) {
        gpud_store_total(&state, TRIES);        /* before the look: a turn that begins sees it, or is seen here */
        now = has_turn() ? IDLE : ASKED;        /* its release wakes the keeper */
        gpud_store_total(&state, now);
        gpud_futex_wake(&state, false);
        if (now == IDLE) {
            gpud_add_total(&gpud_lock_news, 1);
            gpud_futex_wake(&gpud_lock_news, false);
        }
    }
    switch (now) {
    case MOVED:
        return GPUD_HOOKLESS_MOVED;
    case WAS_OUT:
        return GPUD_HOOKLESS_WAS_OUT;
    case FAILED:
        return GPUD_HOOKLESS_FAILED;
    default:
        return GPUD_HOOKLESS_NOT_YET;
    }
}

void gpud_hookless_swapped(void)
{
    uint32_t now = gpud_load_total(&state);

    if (now >= MOVED)
        gpud_store_total(&state, IDLE);
}

void gpud_hookless_swap_forget(void)
{
    state = IDLE;
    has_function = is_out = 0;
}
