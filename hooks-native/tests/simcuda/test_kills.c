/* test_kills.c: pairs of processes that make, give, take and use all kinds of shared memory and events, and are killed at random
 * instants. Afterwards the device has all its memory again, to the byte, and its process as many files as before.
 * Arguments: the seed (printed), and how many kills; $GPUD_TEST_KILLS is the default of the latter. */
#include <time.h>

#include "node_process.h"
#include "tried.h"
#include "two.h"

enum { SLOTS = 12 };
enum kind { NOTHING, PLAIN, PHYSICAL, OPENED, POOLED, IMPORTED };
struct slot { enum kind kind; CUdeviceptr at; size_t bytes; CUmemGenericAllocationHandle handle; };

/* What one process tells the other; a descriptor may come along. */
enum word { A_RANGE, A_HANDLE, AN_EVENT, A_POOL, A_POINTER };
struct message { enum word word; char data[64]; };

static unsigned seed;
static unsigned chance(unsigned n) { return (unsigned)rand_r(&seed) % n; }

static struct slot slots[SLOTS];
static CUmodule module;
static CUstream stream;
static CUmemoryPool own_pool, other_pool;
static CUevent own_event, other_event;
static bool pool_told;

#define TRY(call) tried(call, CUDA_SUCCESS, #call, __LINE__)

static bool map_new(struct slot *s)
{
    if (!TRY(cuMemAddressReserve(&s->at, s->bytes, 0, 0, 0)))
        return false;
    if (TRY(cuMemMap(s->at, s->bytes, 0, s->handle, 0)) && TRY(grant(s->at, s->bytes, 0, ACCESS_READWRITE)))
        return true;
    cuMemAddressFree(s->at, s->bytes);
    return false;
}

static void drop(struct slot *s)
{
    switch (s->kind) {
    case PLAIN: TRY(cuMemFree_v2(s->at)); break;
    case OPENED: TRY(cuIpcCloseMemHandle(s->at)); break;
    case POOLED: case IMPORTED: TRY(cuMemFreeAsync(s->at, stream)); break;
    case PHYSICAL:
        TRY(cuStreamSynchronize(stream));
        TRY(cuMemUnmap(s->at, s->bytes));
        TRY(cuMemAddressFree(s->at, s->bytes));
        TRY(cuMemRelease(s->handle));
        break;
    case NOTHING: break;
    }
    s->kind = NOTHING;
}

static void make(struct slot *s)
{
    CUmemAllocationProp prop = on_device(0);
    *s = (struct slot){.bytes = (1 + chance(4)) * UNIT};
    switch (chance(3)) {
    case 0:
        s->bytes = chance(2) ? s->bytes : 64 + chance(5000);
        s->kind = TRY(cuMemAlloc_v2(&s->at, s->bytes)) ? PLAIN : NOTHING;
        break;
    case 1:
        s->kind = TRY(cuMemAllocFromPoolAsync(&s->at, s->bytes - chance(3000), own_pool, stream)) ? POOLED : NOTHING;
        break;
    default:
        if (!TRY(cuMemCreate(&s->handle, s->bytes, &prop, 0)))
            return;
        if (map_new(s))
            s->kind = PHYSICAL;
        else
            TRY(cuMemRelease(s->handle));
    }
}

static void say(int socket, const struct message *m, int fd) { let_go(socket, m, sizeof *m, fd); }

static void give(int socket, const struct slot *s)
{
    struct message m = {.word = A_HANDLE};
    int fd = -1;
    switch (s->kind) {
    case PLAIN:
        if (TRY(cuIpcGetMemHandle((CUipcMemHandle *)m.data, s->at)))
            say(socket, &m, -1);
        break;
    case PHYSICAL:
        m.word = A_RANGE;
        memcpy(m.data, &s->bytes, sizeof s->bytes);
        if (TRY(cuMemExportToShareableHandle(&fd, s->handle, HANDLE_FD, 0)))
            say(socket, &m, fd);
        break;
    case POOLED:
        if (!pool_told) {
            m.word = A_POOL;
            pool_told = TRY(cuMemPoolExportToShareableHandle(&fd, own_pool, HANDLE_FD, 0));
            say(socket, &m, fd);
        }
        m.word = A_POINTER;
        if (TRY(cuMemPoolExportPointer((CUmemPoolPtrExportData *)m.data, s->at)))
            say(socket, &m, -1);
        break;
    default: break;
    }
}

static void accept_one(const struct message *m, int fd, struct slot *s)
{
    CUipcMemHandle handle;
    CUipcEventHandle event;
    *s = (struct slot){0};
    switch (m->word) {
    case A_HANDLE:
        memcpy(&handle, m->data, sizeof handle);
        s->kind = TRY(cuIpcOpenMemHandle_v2(&s->at, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)) ? OPENED : NOTHING;
        break;
    case A_RANGE:
        memcpy(&s->bytes, m->data, sizeof s->bytes);
        if (!TRY(cuMemImportFromShareableHandle(&s->handle, (void *)(intptr_t)fd, HANDLE_FD)))
            break;
        if (map_new(s))
            s->kind = PHYSICAL;
        else
            TRY(cuMemRelease(s->handle));
        break;
    case AN_EVENT:
        memcpy(&event, m->data, sizeof event);
        if (other_event)
            TRY(cuEventDestroy_v2(other_event));
        if (!TRY(cuIpcOpenEventHandle(&other_event, event)))
            other_event = NULL;
        break;
    case A_POOL:
        if (!other_pool && !TRY(cuMemPoolImportFromShareableHandle(&other_pool, (void *)(intptr_t)fd, HANDLE_FD, 0)))
            other_pool = NULL;
        break;
    case A_POINTER:
        if (other_pool && TRY(cuMemPoolImportPointer(&s->at, other_pool, (CUmemPoolPtrExportData *)(uintptr_t)m->data)))
            s->kind = IMPORTED;
    }
}

static void receive(int socket, struct slot *s)
{
    struct message m;
    int fd;
    if (take(socket, &m, sizeof m, &fd, MSG_DONTWAIT) != sizeof m)
        return;
    drop(s);
    accept_one(&m, fd, s);
    if (fd >= 0)
        close(fd);
}

static void victim(int socket)
{
    CUmemPoolProps props = {.allocType = ALLOCATION_PINNED, .handleTypes = HANDLE_FD, .location = {LOCATION_DEVICE, 0}};
    struct message m = {.word = AN_EVENT};
    start();
    module = load();
    OK(cuStreamCreate(&stream, 1));
    OK(cuMemPoolCreate(&own_pool, &props));
    OK(cuEventCreate(&own_event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
    OK(cuIpcGetEventHandle((CUipcEventHandle *)m.data, own_event));
    say(socket, &m, -1);
    for (;;) {
        struct slot *s = &slots[chance(SLOTS)];
        switch (chance(7)) {
        case 0: drop(s); break;
        case 1:
            drop(s);
            make(s);
            break;
        case 2: give(socket, s); break;
        case 3: case 4: receive(socket, s); break;
        case 5:
            if (s->kind != NOTHING)
                times(module, chance(8) ? "times" : "shape_late", s->at, 1, 1, stream);
            break;
        default:
            if (chance(2))
                TRY(cuEventRecord(chance(2) || !other_event ? own_event : other_event, stream));
            else if (other_event)
                TRY(cuStreamWaitEvent(stream, other_event, 0));
            if (!chance(6))
                TRY(cuEventSynchronize(own_event));
        }
        if (check_failures)
            _exit(4);
    }
}

/* Holds the node, and says on demand whether all is back. */
static void watcher(int socket)
{
    start();
    size_t before = left();
    int pid = device_process(), files = files_of(pid);
    CHECK(pid && files > 2, "no device process");
    nudge(socket);
    for (char c; recv(socket, &c, 1, 0) == 1;) {
        for (int i = 0; i < 60000 && (left() != before || files_of(pid) != files); i++)
            usleep(1000);
        CHECK(left() == before, "%zd bytes are lost", (ssize_t)(before - left()));
        CHECK(files_of(pid) == files, "%d files are open, and were %d", files_of(pid), files);
        nudge(socket);
    }
    exit(check_failures != 0);
}

/* One pair, killed one after the other. False: one of them ended by itself. */
static bool pair(void)
{
    int sockets[2], status;
    pid_t pids[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets))
        return false;
    for (int i = 0; i < 2; i++) {
        unsigned own = (unsigned)rand_r(&seed);
        pids[i] = fork();
        if (!pids[i]) {
            seed = own;
            check_failures = 0;
            close(sockets[!i]);
            victim(sockets[i]);
        }
    }
    close(sockets[0]);
    close(sockets[1]);
    bool good = true;
    for (int i = 0; i < 2; i++) {
        struct timespec some = {.tv_nsec = (long)chance(i ? 30 : 120) * 1000000 + (long)chance(1000000)};
        nanosleep(&some, NULL);         /* the instant of the kill: the subject of the test */
        kill(pids[i], SIGKILL);
        waitpid(pids[i], &status, 0);
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) {
            fprintf(stderr, "a victim ended with %x\n", (unsigned)status);
            good = false;
        }
    }
    return good;
}

int main(int argc, char **argv)
{
    const char *kills = getenv("GPUD_TEST_KILLS");
    seed = argc > 1 ? (unsigned)atoi(argv[1]) : (unsigned)time(NULL);
    int count = argc > 2 ? atoi(argv[2]) : kills ? atoi(kills) : 120, sockets[2], status;
    printf("seed %u\n", seed);
    fflush(stdout);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets))
        return 1;
    pid_t watching = fork();
    if (!watching) {
        close(sockets[0]);
        watcher(sockets[1]);
    }
    close(sockets[1]);
    await(sockets[0]);
    for (int i = 0; i < count; i += 2) {
        CHECK(pair(), "a victim ended by itself");
        if (i % 20 >= 18 || i + 2 >= count) {
            nudge(sockets[0]);
            await(sockets[0]);
        }
    }
    close(sockets[0]);
    waitpid(watching, &status, 0);
    CHECK(!status, "the watcher: %x", (unsigned)status);
    return check_summary("kills");
}
