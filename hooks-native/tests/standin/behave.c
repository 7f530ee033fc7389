/* behave.c: contexts, streams, events and memory of the stand-in, as far as the hook's tests look at them. */
#include "behave.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define DEPTH 16

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int at_once = 1;
static int initialised;
static __thread CUcontext stack[DEPTH];
static __thread int depth;
struct standin_launch standin_last;

static int environment(const char *name, int otherwise)
{
    const char *value = getenv(name);
    return value ? atoi(value) : otherwise;
}

CUresult standin_initialise(void)
{
    if (!__atomic_exchange_n(&initialised, 1, __ATOMIC_RELAXED) && environment("STANDIN_UNFINISHED", 0))
        at_once = 0;
    return CUDA_SUCCESS;
}

void standin_launched(enum standin_row row)
{
    static int reenter = -1;

    if (reenter < 0)
        reenter = environment("STANDIN_REENTER", 0);
    if (!reenter || row != ROW_cuLaunchKernel)
        return;
    /* By the program's handle: RTLD_DEFAULT, asked from a library linked with -Bsymbolic, begins with that library. */
    CUresult (*launch)(CUgraphExec, CUstream) =
        (CUresult (*)(CUgraphExec, CUstream))dlsym(dlopen(NULL, RTLD_LAZY), "cuGraphLaunch");
    if (launch)
        launch(NULL, NULL);
}

CUresult standin_finished(void)
{
    return __atomic_load_n(&at_once, __ATOMIC_ACQUIRE) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult standin_wait(void)
{
    if (standin_finished() == CUDA_SUCCESS)
        return CUDA_SUCCESS;
    pthread_mutex_lock(&mutex);
    while (standin_finished() != CUDA_SUCCESS)
        pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
    return CUDA_SUCCESS;
}

static void finish(int yes)
{
    pthread_mutex_lock(&mutex);
    __atomic_store_n(&at_once, yes, __ATOMIC_RELEASE);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
}

CUcontext standin_current(void)
{
    return depth ? stack[depth - 1] : NULL;
}

CUresult standin_push(CUcontext context)
{
    if (!context || depth == DEPTH)
        return CUDA_ERROR_INVALID_CONTEXT;
    stack[depth++] = context;
    return CUDA_SUCCESS;
}

CUresult standin_pop(CUcontext *context)
{
    if (!depth)
        return CUDA_ERROR_INVALID_CONTEXT;
    depth--;
    if (context)
        *context = stack[depth];
    return CUDA_SUCCESS;
}

CUresult standin_set(CUcontext context)
{
    if (depth)
        depth--;
    return context ? standin_push(context) : CUDA_SUCCESS;
}

CUresult standin_devices(int *count)
{
    if (!initialised)
        return CUDA_ERROR_NOT_INITIALIZED;
    *count = environment("STANDIN_DEVICES", 1);
    return CUDA_SUCCESS;
}

static CUcontext primary(CUdevice device)
{
    static struct CUctx_st contexts[8] = { { 0 }, { 1 }, { 2 }, { 3 }, { 4 }, { 5 }, { 6 }, { 7 } };
    return &contexts[device];
}

static CUresult valid_device(CUdevice device)
{
    int count = 0;
    CUresult result = standin_devices(&count);

    if (result)
        return result;
    return device >= 0 && device < count && device < 8 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult standin_context(CUcontext *context, CUdevice device)
{
    CUresult result = valid_device(device);

    if (result)
        return result;
    *context = calloc(1, sizeof **context);
    (*context)->device = device;
    return standin_push(*context);
}

CUresult standin_device(CUdevice *device)
{
    if (!depth)
        return CUDA_ERROR_INVALID_CONTEXT;
    *device = standin_current()->device;
    return CUDA_SUCCESS;
}

CUresult standin_uuid(CUuuid *uuid, CUdevice device)
{
    CUresult result = valid_device(device);

    if (result)
        return result;
    memset(uuid->bytes, 0, sizeof uuid->bytes);
    memcpy(uuid->bytes, "stand-in", 8);
    uuid->bytes[15] = (char)(device + environment("STANDIN_FIRST", 0));
    return CUDA_SUCCESS;
}

CUresult standin_event(CUevent *event)
{
    *event = calloc(1, sizeof **event);
    return *event ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static int special(CUstream stream)
{
    return stream == NULL || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
}

CUresult standin_capture(CUstream stream, int on)
{
    if (special(stream))
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (stream->capturing == on)
        return 401;     /* CUDA_ERROR_ILLEGAL_STATE */
    stream->capturing = on;
    return CUDA_SUCCESS;
}

CUresult standin_capturing(CUstream stream, CUstreamCaptureStatus *status)
{
    *status = !special(stream) && stream->capturing;
    return CUDA_SUCCESS;
}

CUresult standin_allocate(CUdeviceptr *at, size_t bytes)
{
    static CUdeviceptr free_from = 0x700000000000;

    if (!bytes)
        return CUDA_ERROR_INVALID_VALUE;
    *at = __atomic_fetch_add(&free_from, (bytes + 511) & ~(size_t)511, __ATOMIC_RELAXED);
    return CUDA_SUCCESS;
}

/* The few entries without a prototype in the table that programs cannot do without. */
CUresult standin_passed(enum standin_row row, uintptr_t a, uintptr_t b, uintptr_t c)
{
    CUstream stream;

    (void)c;
    switch (row) {
    case ROW_cuDevicePrimaryCtxRetain:
        if (valid_device((CUdevice)b))
            return valid_device((CUdevice)b);
        *(CUcontext *)a = primary((CUdevice)b);
        return CUDA_SUCCESS;
    case ROW_cuStreamCreate:
    case ROW_cuStreamCreateWithPriority:
        stream = calloc(1, sizeof *stream);
        if (!stream)
            return CUDA_ERROR_OUT_OF_MEMORY;
        stream->context = standin_current();
        *(CUstream *)a = stream;
        return CUDA_SUCCESS;
    case ROW_cuMemGetInfo_v2:
        *(size_t *)a = (size_t)15 << 30;
        *(size_t *)b = (size_t)16 << 30;
        return CUDA_SUCCESS;
    default:
        return CUDA_SUCCESS;
    }
}

static const struct standin_entry *find(const char *name)
{
    for (int row = 0; row < ROWS; row++)
        if (!strcmp(standin_table[row].name, name))
            return &standin_table[row];
    return NULL;
}

static uint64_t calls(const char *name)
{
    const struct standin_entry *entry = find(name);
    return entry ? __atomic_load_n(&standin_counts[entry - standin_table], __ATOMIC_RELAXED) : UINT64_MAX;
}

static void answer(const char *name, CUresult result)
{
    const struct standin_entry *entry = find(name);
    if (entry)
        __atomic_store_n(&standin_answers[entry - standin_table], result, __ATOMIC_RELAXED);
}

static void *entry_of(const char *name)
{
    const struct standin_entry *entry = find(name);
    return entry ? entry->function : NULL;
}

EXPORT struct standin_control *standin_get_control(void);
EXPORT struct standin_control *standin_get_control(void)
{
    static struct standin_control control = { calls, answer, finish, entry_of, &standin_last };
    return &control;
}
