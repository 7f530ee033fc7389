/* fake.c: see fake.h. */
#define _GNU_SOURCE
#include "fake.h"

#include <sched.h>
#include <string.h>
#include "clock.h"
#include "entry.h"

#define CALL_NS 500             /* of a clock of the test's own */
#define LAUNCH_NS 2000

struct CUctx_st { int device; };
struct CUstream_st { uint64_t ready_ns; bool capturing, destroyed; };
struct CUevent_st { uint64_t ready_ns; bool destroyed; };

#if defined(__SANITIZE_THREAD__)
/* Laying a page over another is a write for it; and the fork tests go on in a child. */
__attribute__((visibility("default"))) const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
    return "race:map_over\nrace:map_dummy\n";
}
__attribute__((visibility("default"))) const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "die_after_fork=0";
}
#endif

struct gpud_real real;
double (*gpud_real_time_scale)(void);

bool gpud_first_call(void)
{
    gpud_start();
    gpud_live = 1;
    return true;
}
int gpud_live = 1;
__thread int gpud_inside;
uint32_t fake_violations, fake_queries, fake_primary_owners, fake_event_calls;
uint64_t fake_latency_ns, fake_slice_ns;
CUresult fake_fail_create, fake_fail_record, fake_fail_elapsed;

#define RUNS 65536
#define SPINS (UINT64_C(1) << 63)   /* in a time: launched then, ends when released */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct fake_run runs[RUNS];
static uint32_t run_count;
static uint64_t device_ready_ns[8];
static uint64_t released_ns;        /* spinning kernels launched before this are finished */
static struct CUstream_st legacy;
static __thread struct CUstream_st own_default;
static struct CUctx_st contexts[8] = { { 0 }, { 1 }, { 2 }, { 3 }, { 4 }, { 5 }, { 6 }, { 7 } };
static __thread CUcontext stack[8];
static __thread int depth;

static void violation(const char *what)
{
    __atomic_fetch_add(&fake_violations, 1, __ATOMIC_RELAXED);
    fprintf(stderr, "wrong use of the driver: %s\n", what);
}

static CUstream resolve(CUstream stream)
{
    if (stream == NULL || stream == CU_STREAM_LEGACY)
        return &legacy;
    return stream == CU_STREAM_PER_THREAD ? &own_default : stream;
}

static CUresult finished_at(uint64_t ready_ns)
{
    if (ready_ns & SPINS)
        return gpud_load(&released_ns) > (ready_ns & ~SPINS) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
    return ready_ns <= gpud_now() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

static CUresult get_current(CUcontext *context)
{
    *context = depth > 0 ? stack[depth - 1] : NULL;
    return CUDA_SUCCESS;
}

static CUresult get_device(CUdevice *device)
{
    if (depth == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    *device = stack[depth - 1]->device;
    return CUDA_SUCCESS;
}

static CUresult push(CUcontext context)
{
    stack[depth++] = context;
    return CUDA_SUCCESS;
}

static CUresult pop(CUcontext *context)
{
    *context = stack[--depth];
    return CUDA_SUCCESS;
}

static CUresult stream_query(CUstream stream)
{
    sched_yield();      /* a driver takes its time, and others come in between */
    clock_pass(CALL_NS);
    pthread_mutex_lock(&lock);
    CUstream real_stream = resolve(stream);
    fake_queries++;
    if (real_stream->destroyed)
        violation("query of a destroyed stream");
    if (real_stream->capturing)
        violation("query of a capturing stream");
    CUresult result = finished_at(real_stream->ready_ns);
    pthread_mutex_unlock(&lock);
    return result;
}

static CUresult event_create(CUevent *event, unsigned int flags)
{
    static struct CUevent_st events[4096];
    static uint32_t used;

    (void)flags;
    gpud_add(&fake_event_calls, 1);
    if (fake_fail_create)
        return fake_fail_create;
    uint32_t index = gpud_add(&used, 1);
    *event = index < 4096 ? &events[index] : NULL;
    return *event != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static CUresult event_record(CUevent event, CUstream stream)
{
    gpud_add(&fake_event_calls, 1);
    clock_pass(CALL_NS);
    if (fake_fail_record)
        return fake_fail_record;
    pthread_mutex_lock(&lock);
    CUstream into = resolve(stream);
    if (event->destroyed || into->destroyed)
        violation("record with a destroyed handle");
    if (into->capturing)
        violation("record into a capture");
    event->ready_ns = into->ready_ns & SPINS ? into->ready_ns : later(gpud_now(), into->ready_ns);
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

static CUresult event_query(CUevent event)
{
    gpud_add(&fake_event_calls, 1);
    clock_pass(CALL_NS);
    pthread_mutex_lock(&lock);
    if (event->destroyed)
        violation("query of a destroyed event");
    CUresult result = finished_at(event->ready_ns);
    pthread_mutex_unlock(&lock);
    return result;
}

static CUresult event_elapsed(float *ms, CUevent from, CUevent to)
{
    gpud_add(&fake_event_calls, 1);
    if (fake_fail_elapsed)
        return fake_fail_elapsed;
    pthread_mutex_lock(&lock);
    if (from->destroyed || to->destroyed)
        violation("time of a destroyed event");
    CUresult result = finished_at(from->ready_ns) == CUDA_SUCCESS ? finished_at(to->ready_ns) : CUDA_ERROR_NOT_READY;
    if ((from->ready_ns | to->ready_ns) & SPINS)
        result = result ? result : CUDA_ERROR_INVALID_HANDLE;      /* when it ended is not kept */
    if (result == CUDA_SUCCESS)
        *ms = (float)(((double)to->ready_ns - (double)from->ready_ns) / 1e6);
    pthread_mutex_unlock(&lock);
    return result;
}

static CUresult event_destroy(CUevent event)
{
    pthread_mutex_lock(&lock);
    if (event->destroyed)
        violation("event destroyed twice");
    event->destroyed = true;
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

static CUresult is_capturing(CUstream stream, CUstreamCaptureStatus *status)
{
    pthread_mutex_lock(&lock);
    *status = resolve(stream)->capturing;
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

static CUresult exchange(CUstreamCaptureMode *mode)
{
    (void)mode;
    return CUDA_SUCCESS;
}

static CUresult primary_state(CUdevice device, unsigned int *flags, int *active)
{
    (void)device;
    *flags = 0;
    *active = fake_primary_owners > 0;
    return CUDA_SUCCESS;
}

static CUresult device_count(int *count)
{
    *count = 2;
    return CUDA_SUCCESS;
}

static CUresult device_get(CUdevice *device, int ordinal)
{
    *device = ordinal;
    return CUDA_SUCCESS;
}

static CUresult device_uuid(CUuuid *uuid, CUdevice device)
{
    memset(uuid, 0, sizeof *uuid);
    uuid->bytes[15] = (char)(device + 1);
    return CUDA_SUCCESS;
}

static CUresult device_memory(size_t *bytes, CUdevice device)
{
    (void)device;
    *bytes = (size_t)16 << 30;
    return CUDA_SUCCESS;
}

__attribute__((constructor)) static void fill(void)
{
    real.cuCtxGetCurrent = get_current;
    real.cuCtxGetDevice = get_device;
    real.cuCtxPushCurrent_v2 = push;
    real.cuCtxPopCurrent_v2 = pop;
    real.cuStreamQuery = stream_query;
    real.cuEventCreate = event_create;
    real.cuEventRecord = event_record;
    real.cuEventQuery = event_query;
    real.cuEventElapsedTime = event_elapsed;
    real.cuEventDestroy_v2 = event_destroy;
    real.cuStreamIsCapturing = is_capturing;
    real.cuThreadExchangeStreamCaptureMode = exchange;
    real.cuDevicePrimaryCtxGetState = primary_state;
    real.cuDeviceGetCount = device_count;
    real.cuDeviceGet = device_get;
    real.cuDeviceGetUuid_v2 = device_uuid;
    real.cuDeviceTotalMem_v2 = device_memory;
}

CUcontext fake_context(int device)
{
    depth = 0;
    push(&contexts[device]);
    gpud_context_changed(0);
    return &contexts[device];
}

CUstream fake_stream(void)
{
    static struct CUstream_st streams[4096];    /* never reused, so that later uses are seen */
    static uint32_t used;

    return &streams[gpud_add(&used, 1) % 4096];
}

void fake_stream_destroy(CUstream stream)
{
    gpud_stream_gone(stream);
    pthread_mutex_lock(&lock);
    stream->destroyed = true;
    pthread_mutex_unlock(&lock);
}

/* When `duration_ns` of work that begins at `began` ends, if another client's slices lie in between. */
static uint64_t end_of(uint64_t began, uint64_t duration_ns, uint64_t *started)
{
    uint64_t slice = fake_slice_ns, at = began;

    if (slice == 0)
        return began + duration_ns;
    if (at / slice % 2 == 1)
        at += slice - at % slice;
    *started = at;
    while (duration_ns > slice - at % slice) {
        duration_ns -= slice - at % slice;
        at += slice - at % slice + slice;
    }
    return at + duration_ns;
}

void fake_kernel(CUstream stream, int per_thread, uint64_t duration_ns)
{
    clock_pass(LAUNCH_NS);
    pthread_mutex_lock(&lock);
    CUstream into = resolve(per_thread && stream == NULL ? CU_STREAM_PER_THREAD : stream);
    int device = depth > 0 ? stack[depth - 1]->device : 0;
    if (!into->capturing) {
        uint64_t now = gpud_now(), ready = into->ready_ns & SPINS ? 0 : into->ready_ns;
        uint64_t began = later(now + fake_latency_ns, later(device_ready_ns[device], ready));
        uint64_t ended = duration_ns == FAKE_SPINS ? now | SPINS : end_of(began, duration_ns, &began);
        into->ready_ns = ended;
        if (!(ended & SPINS))
            device_ready_ns[device] = ended;
        if (run_count < RUNS)
            runs[run_count++] = (struct fake_run){ now, began, ended };
    }
    pthread_mutex_unlock(&lock);
}

CUresult fake_launch(CUstream stream, int per_thread, uint64_t duration_ns)
{
    return fake_launch_of(fake_function(duration_ns), 1, stream, per_thread, duration_ns);
}

const void *fake_function(uint64_t duration_ns)
{
    return (const void *)(uintptr_t)(0x1000 + (duration_ns & 0xffffffffff) * 16);
}

CUresult fake_launch_of(const void *function, uint64_t blocks, CUstream stream, int per_thread, uint64_t duration_ns)
{
    struct gpud_pass pass = gpud_enter(stream, per_thread, function, blocks);

    fake_kernel(stream, per_thread, duration_ns);
    gpud_leave(&pass, stream, per_thread, CUDA_SUCCESS);
    return CUDA_SUCCESS;
}

void fake_wait_quietly(CUstream stream)
{
    for (;;) {
        pthread_mutex_lock(&lock);
        uint64_t ready = resolve(stream)->ready_ns;
        pthread_mutex_unlock(&lock);
        if (finished_at(ready) == CUDA_SUCCESS)
            return;
        struct timespec nap = { .tv_nsec = 20000 };
        nanosleep(&nap, NULL);
    }
}

uint64_t fake_ready(CUstream stream)
{
    pthread_mutex_lock(&lock);
    uint64_t ready = resolve(stream)->ready_ns;
    pthread_mutex_unlock(&lock);
    return ready;
}

void fake_synchronise(CUstream stream, int per_thread)
{
    fake_wait_quietly(per_thread && stream == NULL ? CU_STREAM_PER_THREAD : stream);
    gpud_proved(GPUD_PROOF_STREAM, stream, per_thread, CUDA_SUCCESS);
}

void fake_synchronise_context(void)
{
    int device = stack[depth - 1]->device;
    uint64_t ready;

    do {
        nanosleep(&(struct timespec){ .tv_nsec = 20000 }, NULL);
        pthread_mutex_lock(&lock);
        ready = device_ready_ns[device];
        pthread_mutex_unlock(&lock);
    } while (ready > gpud_now());
    gpud_proved(GPUD_PROOF_CONTEXT, NULL, 0, CUDA_SUCCESS);
}

CUresult fake_query(CUstream stream)
{
    CUresult result = stream_query(stream);
    gpud_proved(GPUD_PROOF_STREAM, stream, 0, result);
    return result;
}

CUevent fake_event(void)
{
    CUevent event = NULL;
    event_create(&event, 0);
    return event;
}

void fake_record(CUevent event, CUstream stream)
{
    event_record(event, stream);
    gpud_event_recorded(event, stream, 0);
}

CUresult fake_event_query(CUevent event)
{
    CUresult result = event_query(event);
    gpud_proved(GPUD_PROOF_EVENT, event, 0, result);
    return result;
}

void fake_begin_capture(CUstream stream)
{
    gpud_capture_began(stream);
    pthread_mutex_lock(&lock);
    stream->capturing = true;
    pthread_mutex_unlock(&lock);
}

void fake_end_capture(CUstream stream)
{
    pthread_mutex_lock(&lock);
    stream->capturing = false;
    pthread_mutex_unlock(&lock);
    gpud_capture_ended(stream);
}

void fake_release(void)
{
    gpud_store(&released_ns, gpud_now());
}

uint32_t fake_runs(struct fake_run *into, uint32_t room)
{
    pthread_mutex_lock(&lock);
    uint32_t count = run_count < room ? run_count : room;
    if (into != NULL)
        memcpy(into, runs, count * sizeof *into);
    pthread_mutex_unlock(&lock);
    return count;
}

void fake_forget_runs(void)
{
    pthread_mutex_lock(&lock);
    run_count = 0;
    pthread_mutex_unlock(&lock);
}

struct gpud_control_page *local_control(void)
{
    return (struct gpud_control_page *)(void *)gpud_region.control;
}

void local_publish(void)
{
    for (uint32_t device = 0; device < GPUD_MAX_DEVICES; device++)
        gpud_add_total(&local_control()->device[device].generation, 1);
}

void local_wake(void)
{
    for (uint32_t device = 0; device < GPUD_MAX_DEVICES; device++) {
        gpud_add_total(&local_control()->device[device].wake, 1);
        gpud_futex_wake(&local_control()->device[device].wake, true);
    }
}

void local_attach(uint32_t devices)
{
    gpud_start();
    for (uint32_t device = 0; device < GPUD_MAX_DEVICES; device++) {
        gpud_store(&gpud_slot_of[device], device < devices ? device : UINT32_MAX);
        local_control()->device[device].pass_launches = 1;
        local_control()->device[device].max_pause_ns = UINT64_MAX;
        local_control()->device[device].resume_after_ns = GPUD_MILLISECOND;
        local_control()->device[device].rank = 1;
    }
    local_control()->lease_until_ns = gpud_now() + 3600 * GPUD_SECOND;
    local_publish();
    gpud_store_release(&gpud_managed, 1);
    gpud_word_raise(0, 0);
}

struct gpud_presence_page *local_peer(uint32_t present, uint32_t rank)
{
    struct gpud_control_device *knobs = &local_control()->device[0];
    struct gpud_presence_page *page = (struct gpud_presence_page *)(void *)gpud_region.peer[present];

    page->header.generation = 1000 + present;
    knobs->peers[knobs->peer_count++] = (struct gpud_peer){ .rank = rank, .generation = 1000 + present, .present = present };
    gpud_word_raise(0, 0);
    local_publish();
    return page;
}

bool is_active(uint32_t device)
{
    return GPUD_EDGE_ACTIVE(gpud_load_acquire(gpud_edge_word(&gpud_presence()->device[device])));
}
