/* file_limit.h: files in memory that are larger than this process may make files (ulimit -f): an error here, not the signal that ends
 * programs. Between begin and end, a write or ftruncate beyond the limit answers EFBIG. */
#ifndef SIM_CUDA_FILE_LIMIT_H
#define SIM_CUDA_FILE_LIMIT_H

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

static inline void file_limit_begin(sigset_t *before) {
    sigset_t too_large;
    sigemptyset(&too_large);
    sigaddset(&too_large, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &too_large, before);
}

/* `failed`: the last call did, with errno, which is kept. */
static inline void file_limit_end(const sigset_t *before, bool failed) {
    int error = errno;
    sigset_t too_large;
    sigemptyset(&too_large);
    sigaddset(&too_large, SIGXFSZ);
    if (failed && error == EFBIG && !sigismember(before, SIGXFSZ))
        sigtimedwait(&too_large, NULL, &(struct timespec){0});
    pthread_sigmask(SIG_SETMASK, before, NULL);
    errno = error;
}

#endif
