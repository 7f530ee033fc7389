/* window_state.h: what window.c, window_group.c, window_aim.c and window_life.c share. */
#ifndef GPUD_WINDOW_STATE_H
#define GPUD_WINDOW_STATE_H

#include "window.h"

#pragma GCC visibility push(hidden)

#define GPUD_WINDOW_GROUPS 64
#define GPUD_WINDOW_GRANTS GPUD_MAX_SLOTS

/* Launches on one stream that one event stands for. */
struct gpud_group {
    CUevent event;              /* kept for the next group at this place */
    CUcontext event_context;    /* … and whose it is */
    CUcontext context;
    CUstream stream;
    uint32_t thread;            /* names CU_STREAM_PER_THREAD */
    uint32_t launches;
    uint64_t ns;
    uint64_t began_ns;          /* host time before the first of them */
    uint64_t closed_ns;         /* after the last */
    uint64_t recorded_ns;       /* 0: no event yet */
};

/* What a thread may launch, or has launched, without having said so. */
struct gpud_allowed {
    uint32_t thread;            /* 0: unused */
    uint32_t launches;
    uint64_t ns;
    uint32_t taken;             /* launches of it that are in a group already, though it is not closed */
    uint32_t attachment;
    const struct gpud_slot *slot;   /* counts them; NULL: a shared one, which does not */
    uint64_t left;              /* its count when it was granted */
    uint64_t seen;              /* … when it was looked at last */
    uint64_t seen_ns;           /* when that changed last */
    uint64_t granted_ns;
    CUcontext context;
    CUstream stream;
};

struct gpud_window {
    pthread_mutex_t lock;
    struct gpud_window_limit limit;     /* of the newest grant */
    uint64_t cost_ns;                   /* … and what it was for */
    uint32_t count;             /* groups[0 … count), oldest first; those with an event and those without */
    uint32_t launches;          /* in groups */
    uint64_t ns;
    uint32_t open_launches;     /* in groups without an event */
    uint64_t open_ns;
    uint32_t allowed_count;     /* allowed[0 … allowed_count) may be in use */
    uint32_t granted;           /* launches in allowed[] */
    uint64_t granted_ns;
    uint64_t revoked_ns;        /* when grants were called back last */
    /* window_aim.c */
    double expected;            /* what a group takes ÷ its weight; 0: not known */
    uint32_t early;             /* finished before the first question, times in a row */
    uint32_t checks, check_after;   /* groups since it was asked whether all is finished; and after how many that is next */
    uint64_t checked_ns;
    uint32_t dry;               /* … and it was, times in a row */
    uint32_t asked;             /* questions about the oldest group, so far in vain */
    double late;                /* how late the last one was asked about by intent, ÷ its weight */
    uint64_t unfinished_ns;     /* when the oldest group was last seen unfinished; 0: not yet asked */
    uint64_t waited_ns;         /* a thread was held until this moment for the question; 0: none was */
    uint64_t finished_ns;       /* when the one before it was finished, as far as can be told */
    struct gpud_group groups[GPUD_WINDOW_GROUPS];
    struct gpud_allowed allowed[GPUD_WINDOW_GRANTS];
};
/* Threads that launch at once meet here every few launches, and for less time than a sleep takes. */
#define GPUD_WINDOW_LOCK PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP
extern struct gpud_window gpud_windows[GPUD_MAX_DEVICES];

/* window.c */
void gpud_window_publish(uint32_t device);

/* window_group.c; window locked. */
uint32_t gpud_group_size(const struct gpud_window_limit *limit, uint64_t cost_ns);  /* launches that are worth an event */
/* Launches that were made by this grant are in flight. */
void gpud_group_add(uint32_t device, const struct gpud_allowed *by, CUstream stream, uint32_t launches, uint64_t ns, uint64_t now);
/* Gives groups without an event one: those that the calling thread can name (`own`: of its current context only, nothing is made
 * current). */
void gpud_group_record_open(uint32_t device, bool own);
enum gpud_recorded { GPUD_RECORDED, GPUD_RECORD_LATER, GPUD_RECORD_NEVER };
enum gpud_recorded gpud_group_record(uint32_t device, struct gpud_group *group, bool own);
void gpud_group_remove(struct gpud_window *window, uint32_t index);
/* Asks the driver: takes one finished group out, if there is one. */
void gpud_group_ask(uint32_t device, uint64_t now);

/* window_aim.c; window locked. */
struct gpud_group *gpud_aim_head(struct gpud_window *window);   /* the oldest group with an event, or NULL */
uint64_t gpud_aim(struct gpud_window *window, uint64_t now);           /* when to ask about it */
uint64_t gpud_aim_wake(struct gpud_window *window, uint64_t now);      /* … and until when whoever will ask may sleep */
/* It is finished: learns from that, before it is removed. */
void gpud_aim_finished(struct gpud_window *window, const struct gpud_group *head, uint64_t now);
/* It is finished too, found by a question that was late for the one before it: says little of how long it took. */
void gpud_aim_passed(struct gpud_window *window, const struct gpud_group *head, uint64_t now);
/* Was nothing at all left to run when a group was found finished? Then that was late. */
bool gpud_aim_wants_check(struct gpud_window *window, uint64_t now);
void gpud_aim_checked(struct gpud_window *window, bool dry, uint64_t now);

/* window_life.c; window locked: takes back what sleeping threads were granted and did not use. */
void gpud_window_revoke(uint32_t device, uint64_t now);
/* What has been made of the grant goes into a group; `keep` of its launches stay granted, the rest is free. */
void gpud_window_settle_grant(uint32_t device, struct gpud_allowed *allowed, uint32_t keep, uint64_t now);

#pragma GCC visibility pop
#endif
