/* cases.h: cases of the session tests, each in a process of its own. */
#ifndef GPUD_TEST_CASES_H
#define GPUD_TEST_CASES_H

#include "daemon.h"

struct session_case {
    const char *name;
    void (*run)(void);
};

extern struct player player;
extern CUstream stream;
extern uint32_t launches, stop;
extern int stderr_pipe;
extern char said[4096];         /* what came out on stderr */

void *launch_on(void *unused);  /* a thread that launches into `stream` until `stop`, and counts in `launches` */
bool is_held(void);
void set_gate(uint32_t gate);   /* in the player's control page, as the daemon does it */
bool says(const char *text);
void pause_ms(int ms);
uint64_t counted(void);         /* launches in the activity page, device 0 */
uint32_t open_descriptors(bool inherited);  /* from 3 on; inherited: those that survive an exec */

/* Runs all cases, or the one that argv[1] names; one that only missed bounds is tried again. The exit status of main(). */
int run_cases(const char *what, const struct session_case *cases, uint32_t count, char **argv);

#endif
