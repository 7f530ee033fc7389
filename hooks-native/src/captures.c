/* captures.c: which stream captures are open. While one is, nobody of ours asks a stream, which would end it. A capture ends with its stream,
 * too, and with the stream's context. */
#define _GNU_SOURCE
#include "captures.h"

#include "contexts.h"
#include "presence.h"
#include "real.h"

#define OPEN 64                 /* more at one time are only counted: they end by their own end alone */

uint32_t gpud_captures;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct open {
    CUstream stream;
    CUcontext context;
    uint32_t thread;            /* that began it */
} captured[OPEN];
static uint32_t count;

static uint32_t self(void)
{
    return (uint32_t)syscall(SYS_gettid);
}

static void one_less(void)
{
    if (gpud_sub_total(&gpud_captures, 1) != 1)
        return;
    gpud_word_raise(0, GPUD_WORD_CAPTURE);
    if (gpud_load_total(&gpud_captures) != 0)       /* another began meanwhile */
        gpud_word_raise(GPUD_WORD_CAPTURE, 0);
    else
        gpud_keeper_wake();     /* it may have put something off */
}

void gpud_capture_began(CUstream stream)
{
    CUcontext context = NULL;

    if (real.cuCtxGetCurrent == NULL || real.cuCtxGetCurrent(&context) != CUDA_SUCCESS)
        context = NULL;
    if (real.cuStreamGetCtx != NULL && (uintptr_t)stream > (uintptr_t)CU_STREAM_PER_THREAD && real.cuStreamGetCtx(stream, &context) != CUDA_SUCCESS)
        context = NULL;
    pthread_mutex_lock(&lock);
    if (count < OPEN)
        captured[count++] = (struct open){ stream, context, self() };
    gpud_add_total(&gpud_captures, 1);
    pthread_mutex_unlock(&lock);
    gpud_word_raise(GPUD_WORD_CAPTURE, 0);
    gpud_wait_for_askers();
    gpud_wait_for_contexts();
}

void gpud_capture_ended(CUstream stream)
{
    bool per_thread = stream == CU_STREAM_PER_THREAD;
    uint32_t thread = per_thread ? self() : 0, i = 0;

    pthread_mutex_lock(&lock);
    while (i < count && (captured[i].stream != stream || (per_thread && captured[i].thread != thread)))
        i++;
    bool known = i < count, counted = gpud_load_total(&gpud_captures) > count;
    if (known)
        captured[i] = captured[--count];
    if (known || counted)
        one_less();
    pthread_mutex_unlock(&lock);
}

bool gpud_capture_is_own(void)
{
    uint32_t thread = self();
    bool own = false;

    if (gpud_load_total(&gpud_captures) == 0)
        return false;
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < count; i++)
        own |= captured[i].thread == thread;
    pthread_mutex_unlock(&lock);
    return own;
}

void gpud_captures_gone(CUstream stream, CUcontext context)
{
    if (stream == NULL && context == NULL)
        return;
    pthread_mutex_lock(&lock);
    for (uint32_t i = count; i-- > 0;) {
        if (stream != NULL ? captured[i].stream != stream : captured[i].context != context)
            continue;
        captured[i] = captured[--count];
        one_less();
    }
    pthread_mutex_unlock(&lock);
}

void gpud_captures_forget(void)
{
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    count = gpud_captures = 0;
}
