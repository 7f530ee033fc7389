/* log.h: lines on stderr, "gpud: …". Never on the launch path. */
#ifndef GPUD_LOG_H
#define GPUD_LOG_H

#pragma GCC visibility push(hidden)

enum gpud_level { GPUD_LOG_ERROR, GPUD_LOG_WARNING, GPUD_LOG_INFO, GPUD_LOG_DEBUG };

/* Kinds of lines; each is written once in a process. GPUD_ONCE_NOT: as often as it happens. */
enum gpud_once {
    GPUD_ONCE_NOT,
    GPUD_ONCE_NO_DAEMON,
    GPUD_ONCE_SILENT,
    GPUD_ONCE_REFUSED,
    GPUD_ONCE_DETACHED,
    GPUD_ONCE_NONSENSE,
    GPUD_ONCE_PAGES,
    GPUD_ONCE_NO_FILES,
    GPUD_ONCE_NO_THREAD,
    GPUD_ONCE_BARRIER,
    GPUD_ONCE_LOST,
    GPUD_ONCE_BACK,
    GPUD_ONCE_UNMANAGED,
    GPUD_ONCE_IN_LINE,
    GPUD_ONCE_UNPINNED,
    GPUD_ONCE_CORRUPT,
    GPUD_ONCE_NO_SLOTS,
    GPUD_ONCE_CUT,
};

extern enum gpud_level gpud_log_level;

/* Writes one line, if the level is wanted and stderr still is what it was when the hook started. */
void gpud_log(enum gpud_level level, enum gpud_once once, const char *format, ...) __attribute__((format(printf, 3, 4)));
void gpud_log_start(void);
void gpud_log_forget(void);     /* forked child: each kind may be said again */

#pragma GCC visibility pop
#endif
