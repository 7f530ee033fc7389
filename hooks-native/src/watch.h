/* watch.h: words that say whether a launch under preempt may pass without asking the clock. */
#ifndef GPUD_WATCH_H
#define GPUD_WATCH_H

#include "state.h"

#pragma GCC visibility push(hidden)

/* From now on every launch of the thread takes a look. */
void gpud_unwatch(struct gpud_thread *thread);
/* A launch has just passed by itself. True: as long as the words now watched stay what they are, no peer above holds the next one. */
bool gpud_watch_anew(struct gpud_thread *thread, uint64_t now);
/* One more word that must stay what it is. */
void gpud_watch_also(struct gpud_thread *thread, const uint64_t *word, uint64_t quiet);

#pragma GCC visibility pop
#endif
