/* victims.h: a process that does all kinds of work at once on a simulated device, until it is killed. */
#ifndef SIM_TEST_VICTIMS_H
#define SIM_TEST_VICTIMS_H

#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "mailbox.h"
#include "tried.h"

CUresult cuMemsetD8Async(CUdeviceptr, unsigned char, size_t, CUstream);

enum { THREADS = 2, STREAMS = 3, SLOTS = 5 };
enum kind { NOTHING, PLAIN, PHYSICAL, OPENED, POOLED, MANAGED };
struct slot { enum kind kind; CUdeviceptr at; size_t bytes; CUmemGenericAllocationHandle handle; };

struct worker {
    unsigned seed;
    CUcontext ctx, own;
    CUstream streams[STREAMS];
    CUevent events[2];
    struct slot slots[SLOTS];
};

static CUcontext primary;
static CUmodule loaded;
static CUfunction quick, slow;
static CUmemoryPool pool;

static unsigned chance(unsigned *seed, unsigned n) { return (unsigned)rand_r(seed) % n; }

/* A context of its own may just have been destroyed: then it has none. */
#define TRY(call) tried(call, CUDA_ERROR_INVALID_CONTEXT, #call, __LINE__)

static CUstream any(struct worker *w) { return w->streams[chance(&w->seed, STREAMS)]; }

/* Not the context: the other thread may be capturing in it. */
static void settle(struct worker *w)
{
    for (int i = 0; i < STREAMS; i++)
        TRY(cuStreamSynchronize(w->streams[i]));
}

static void drop(struct worker *w, struct slot *s)
{
    switch (s->kind) {
    case PLAIN: case MANAGED: TRY(cuMemFree_v2(s->at)); break;
    case OPENED:
        settle(w);
        TRY(cuIpcCloseMemHandle(s->at));
        break;
    case POOLED:
        settle(w);
        TRY(cuMemFreeAsync(s->at, any(w)));
        break;
    case PHYSICAL:
        settle(w);
        TRY(cuMemUnmap(s->at, s->bytes));
        TRY(cuMemAddressFree(s->at, s->bytes));
        TRY(cuMemRelease(s->handle));
        break;
    case NOTHING: break;
    }
    s->kind = NOTHING;
}

static void map_handle(struct slot *s)
{
    if (!TRY(cuMemAddressReserve(&s->at, s->bytes, 0, 0, 0))) {
        TRY(cuMemRelease(s->handle));
        return;
    }
    if (TRY(cuMemMap(s->at, s->bytes, 0, s->handle, 0))) {
        if (TRY(grant(s->at, s->bytes, 0, ACCESS_READWRITE))) {
            s->kind = PHYSICAL;
            return;
        }
        cuMemUnmap(s->at, s->bytes);
    }
    cuMemAddressFree(s->at, s->bytes);
    cuMemRelease(s->handle);
}

static void make(struct worker *w, struct slot *s)
{
    CUmemAllocationProp prop = on_device(0);
    *s = (struct slot){.bytes = (1 + chance(&w->seed, 2)) * UNIT};
    switch (chance(&w->seed, 4)) {
    case 0: s->kind = TRY(cuMemAlloc_v2(&s->at, s->bytes)) ? PLAIN : NOTHING; break;
    case 1:
        s->kind = TRY(cuMemAllocFromPoolAsync(&s->at, s->bytes, pool, w->streams[0])) ? POOLED : NOTHING;
        TRY(cuStreamSynchronize(w->streams[0]));
        break;
    case 2: s->kind = TRY(cuMemAllocManaged(&s->at, s->bytes, CU_MEM_ATTACH_GLOBAL)) ? MANAGED : NOTHING; break;
    default:
        if (TRY(cuMemCreate(&s->handle, s->bytes, &prop, 0)))
            map_handle(s);
    }
}

static void give(struct worker *w, const struct slot *s)
{
    struct message m = {.word = A_HANDLE};
    int fd = -1;
    if (s->kind == PLAIN && TRY(cuIpcGetMemHandle((CUipcMemHandle *)m.data, s->at)))
        post(&m, -1);
    if (s->kind == PHYSICAL && TRY(cuMemExportToShareableHandle(&fd, s->handle, HANDLE_FD, 0))) {
        m.word = A_RANGE;
        memcpy(m.data, &s->bytes, sizeof s->bytes);
        post(&m, fd);
    }
    if (s->kind == NOTHING && TRY(cuIpcGetEventHandle((CUipcEventHandle *)m.data, w->events[0]))) {
        m.word = AN_EVENT;
        post(&m, -1);
    }
}

static void receive(struct worker *w, struct slot *s)
{
    struct message m;
    CUevent event;
    int fd;
    if (!collect(&m, &fd))
        return;
    if (m.word == AN_EVENT) {
        if (TRY(cuIpcOpenEventHandle(&event, *(CUipcEventHandle *)(void *)m.data))) {
            TRY(cuStreamWaitEvent(any(w), event, 0));
            if (chance(&w->seed, 2))
                TRY(cuEventRecord(event, any(w)));
            TRY(cuEventDestroy_v2(event));
        }
        return;
    }
    drop(w, s);
    *s = (struct slot){0};
    if (m.word == A_HANDLE) {
        s->kind = TRY(cuIpcOpenMemHandle_v2(&s->at, *(CUipcMemHandle *)(void *)m.data, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)) ? OPENED : NOTHING;
    } else {
        memcpy(&s->bytes, m.data, sizeof s->bytes);
        if (TRY(cuMemImportFromShareableHandle(&s->handle, (void *)(intptr_t)fd, HANDLE_FD)))
            map_handle(s);
    }
    if (fd >= 0)
        close(fd);
}

static void called(void *data)
{
    struct timespec some = {.tv_nsec = (long)(uintptr_t)data * 100000};
    nanosleep(&some, NULL);             /* a host function that takes a while */
}

static void a_launch(struct worker *w, const struct slot *s, CUstream stream)
{
    unsigned factor = 3, add = 1;
    void *params[] = {(void *)(uintptr_t)&s->at, &factor, &add};
    if (s->kind != NOTHING)
        TRY(cuLaunchKernel(chance(&w->seed, 6) ? quick : slow, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

static void a_copy(struct worker *w, const struct slot *s)
{
    static char host[1 << 20];
    size_t bytes = 1 + chance(&w->seed, sizeof host);
    if (s->kind == NOTHING)
        return;
    switch (chance(&w->seed, 4)) {
    case 0: TRY(cuMemcpyHtoD_v2(s->at, host, bytes)); break;
    case 1: TRY(cuMemcpyDtoHAsync_v2(host, s->at, bytes, any(w))); break;
    case 2: TRY(cuMemcpyDtoDAsync_v2(s->at + UNIT / 2, s->at, bytes / 2, any(w))); break;
    default: TRY(cuMemsetD8Async(s->at, 7, bytes, any(w)));
    }
}

/* Captured, instantiated, launched; or left in the middle. */
static void a_graph(struct worker *w, const struct slot *s)
{
    CUgraph graph = NULL;
    CUgraphExec exec;
    CUstream stream = any(w);
    if (!TRY(cuStreamBeginCapture_v2(stream, 2)))
        return;
    a_launch(w, s, stream);
    TRY(cuLaunchHostFunc(stream, called, (void *)(uintptr_t)chance(&w->seed, 5)));
    a_launch(w, s, stream);
    if (!TRY(cuStreamEndCapture(stream, &graph)) || !graph)
        return;
    if (TRY(cuGraphInstantiateWithFlags(&exec, graph, 0))) {
        for (unsigned n = chance(&w->seed, 4); n; n--)
            TRY(cuGraphLaunch(exec, stream));
        TRY(cuGraphExecDestroy(exec));
    }
    TRY(cuGraphDestroy(graph));
}

/* A child in the middle of everything: it ends, or runs another program. What it has of the driver is dead. */
static void a_fork(struct worker *w)
{
    unsigned how = chance(&w->seed, 3);
    pid_t child = fork();
    if (!child) {
        if (cuMemFree_v2(0) != CUDA_ERROR_NOT_INITIALIZED || cuCtxSynchronize() != CUDA_ERROR_NOT_INITIALIZED)
            _exit(7);
        if (how)
            execl("/bin/true", "true", NULL);
        _exit(0);
    }
    int status = 0;
    if (child > 0 && waitpid(child, &status, 0) == child && status && !WIFSIGNALED(status)) {   /* its faults are ours */
        fprintf(stderr, "a forked child ended with %x\n", (unsigned)status);
        _exit(3);
    }
}

static void step(struct worker *w)
{
    struct slot *s = &w->slots[chance(&w->seed, SLOTS)];
    switch (chance(&w->seed, 16)) {
    case 0: drop(w, s); break;
    case 1: case 2:
        drop(w, s);
        make(w, s);
        break;
    case 3: give(w, s); break;
    case 4: case 5: receive(w, s); break;
    case 6: case 7: a_copy(w, s); break;
    case 8: a_graph(w, s); break;
    case 9: TRY(cuLaunchHostFunc(any(w), called, (void *)(uintptr_t)chance(&w->seed, 20))); break;
    case 10: TRY(cuEventRecord(w->events[chance(&w->seed, 2)], any(w))); break;
    case 11: TRY(cuStreamWaitEvent(any(w), w->events[chance(&w->seed, 2)], 0)); break;
    case 12:
        if (chance(&w->seed, 8) == 0 && TRY(cuCtxCreate_v2(&w->own, 0, 0)))
            TRY(cuCtxDestroy_v2(w->own));
        break;
    case 13:
        if (!chance(&w->seed, 6))
            a_fork(w);
        break;
    default: a_launch(w, s, any(w));
    }
}

static void *work(void *argument)
{
    struct worker *w = argument;
    TRY(cuCtxSetCurrent(primary));
    for (int i = 0; i < STREAMS; i++)
        TRY(cuStreamCreateWithPriority(&w->streams[i], 1, -(int)chance(&w->seed, 3)));
    TRY(cuEventCreate(&w->events[0], CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
    TRY(cuEventCreate(&w->events[1], 0));
    for (;;)
        step(w);
    return NULL;
}

static void victim(unsigned seed)
{
    static struct worker workers[THREADS];
    CUmemPoolProps props = {.allocType = ALLOCATION_PINNED, .handleTypes = HANDLE_FD, .location = {LOCATION_DEVICE, 0}};
    pthread_t threads[THREADS];
    check_failures = 0;
    if (!chance(&seed, 3)) {            /* one in three has faults of its own beside */
        char rules[256];
        snprintf(rules, sizeof rules, "cu*: kill random 0.003 seed %u; cuLaunchKernel: stall 3ms every 20; cuMemAlloc: fail OUT_OF_MEMORY every 5;"
                 "cuStreamSynchronize: hang at 30", chance(&seed, 1000));
        setenv("GPUD_SIM_FAULTS", rules, 1);
        if (!freopen("/dev/null", "w", stderr))         /* they are said */
            _exit(5);
    }
    if (!TRY(cuInit(0)) || !TRY(cuDevicePrimaryCtxRetain(&primary, 0)))
        for (;;)
            pause();                    /* no room for a context: waits for the end */
    TRY(cuCtxSetCurrent(primary));
    loaded = load();
    quick = function(loaded, "times");
    slow = function(loaded, "slow_times");
    TRY(cuMemPoolCreate(&pool, &props));
    for (int i = 0; i < THREADS; i++) {
        workers[i].seed = seed + (unsigned)i;
        pthread_create(&threads[i], NULL, work, &workers[i]);
    }
    for (;;)
        pause();
}

#endif
