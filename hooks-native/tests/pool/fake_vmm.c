/* fake_vmm.c: see fake_vmm.h. */
#define _GNU_SOURCE
#include "fake_vmm.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define HANDLES 4096
#define RANGES 4096
#define OPS 4096
#define IS_BUSY(stream) ((uintptr_t)(stream) > 2 && (stream)->number < 0)    /* the two default ones never are */

struct CUctx_st { int device; uint32_t life; bool dead; };       /* life: how often it has begun anew */
struct CUevent_st { uint64_t at; CUstream stream; bool dead; CUevent next; };   /* at: place in the order of all work */

unsigned int check_count, check_failures;
struct gpud_real real;
double (*gpud_real_time_scale)(void);
int gpud_live = 1;
__thread int gpud_inside;
uint64_t vmm_capacity, vmm_calls, vmm_violations;
CUresult vmm_refuse_register;
struct vmm_live vmm_live;
void (*vmm_at_wait)(void);

static struct handle { int fd; uint64_t bytes; uint32_t mappings; bool live; CUmemAllocationProp prop; } handles[HANDLES];
static struct range { uint64_t at, bytes, handle; bool live, mapped; int rights[2]; } ranges[RANGES], maps[RANGES];
static struct op { void *to; const void *from; uint64_t bytes, order; CUstream stream; } ops[OPS];
static uint32_t op_count;
static uint64_t order, fail_at, fail_from;
static CUresult fail_code;
static bool fail_on, has_failed;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct CUctx_st contexts[2][2] = { { { .device = 0 }, { .device = 0 } }, { { .device = 1 }, { .device = 1 } } };
static struct CUstream_st streams[8];
static __thread CUcontext stack[8];
static __thread int depth;

int check_summary(const char *what)
{
    printf("%s: %u checks, %u failed\n", what, check_count, check_failures);
    return check_failures != 0 || check_count == 0;
}

static void violation(const char *what)
{
    __atomic_fetch_add(&vmm_violations, 1, __ATOMIC_RELAXED);
    fprintf(stderr, "wrong use of the driver: %s\n", what);
}

/* Each driver call passes here: 0, or how it fails. */
static CUresult called(void)
{
    uint64_t n = __atomic_add_fetch(&vmm_calls, 1, __ATOMIC_RELAXED) - fail_from;
    if (fail_code == 0 || n < fail_at || (n > fail_at && !fail_on))
        return CUDA_SUCCESS;
    has_failed = true;
    return fail_code;
}
#define CALLED()                    \
    do {                            \
        CUresult told_ = called();  \
        if (told_ != 0)             \
            return told_;           \
    } while (0)

void vmm_fail(uint64_t n, CUresult code, bool on)
{
    fail_from = vmm_calls;
    fail_at = n;
    fail_code = code;
    fail_on = on;
    has_failed = false;
}

bool vmm_failed(void)
{
    return has_failed;
}

static struct range *range_at(struct range *in, uint64_t at, bool exact)
{
    for (int i = 0; i < RANGES; i++) {
        if (in[i].live && (exact ? in[i].at == at : at - in[i].at < in[i].bytes))
            return &in[i];
    }
    return NULL;
}

static struct range *free_range(struct range *in)
{
    for (int i = 0; i < RANGES; i++) {
        if (!in[i].live)
            return &in[i];
    }
    abort();
}

bool vmm_is_mapped(uint64_t at)
{
    pthread_mutex_lock(&lock);
    const struct range *map = range_at(maps, at, false);
    bool is = map != NULL && map->mapped;
    pthread_mutex_unlock(&lock);
    return is;
}

static CUresult reserve(CUdeviceptr *at, size_t bytes, size_t alignment, CUdeviceptr near, unsigned long long flags)
{
    (void)near, (void)flags;
    CALLED();
    char *raw = mmap(NULL, bytes + alignment, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (raw == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    uint64_t start = ((uintptr_t)raw + alignment - 1) / alignment * alignment;
    if (start > (uintptr_t)raw)
        munmap(raw, start - (uintptr_t)raw);
    munmap((void *)(start + bytes), (uintptr_t)raw + alignment - start);
    pthread_mutex_lock(&lock);
    *free_range(ranges) = (struct range){ .at = start, .bytes = bytes, .live = true };
    vmm_live.reservations++;
    pthread_mutex_unlock(&lock);
    *at = start;
    return CUDA_SUCCESS;
}

static CUresult unreserve(CUdeviceptr at, size_t bytes)
{
    CALLED();
    pthread_mutex_lock(&lock);
    struct range *range = range_at(ranges, at, true);
    bool right = range != NULL && range->bytes == bytes;
    for (uint64_t i = 0; right && i < bytes; i += 2 * MIB)
        right = range_at(maps, at + i, false) == NULL;
    if (right) {
        range->live = false;
        vmm_live.reservations--;
        munmap((void *)(uintptr_t)at, bytes);
    } else {
        violation("addresses freed that are not, or in use");
    }
    pthread_mutex_unlock(&lock);
    return right ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult create(CUmemGenericAllocationHandle *out, size_t bytes, const CUmemAllocationProp *prop, unsigned long long flags)
{
    (void)flags;
    CALLED();
    if (prop->type != 1 || prop->location.type != 1 || bytes % (2 * MIB))
        violation("cuMemCreate of what there is not");
    pthread_mutex_lock(&lock);
    uint64_t i = 1;
    while (handles[i].live)
        i++;
    bool fits = vmm_live.handle_bytes + bytes <= vmm_capacity;
    if (fits) {
        handles[i] = (struct handle){ memfd_create("device", MFD_CLOEXEC), bytes, 0, true, *prop };
        if (ftruncate(handles[i].fd, (off_t)bytes) != 0)
            abort();
        vmm_live.handles++;
        vmm_live.creates++;
        vmm_live.handle_bytes += bytes;
        *out = i;
    }
    pthread_mutex_unlock(&lock);
    return fits ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult get_info(size_t *left, size_t *total)
{
    CALLED();
    pthread_mutex_lock(&lock);
    *left = vmm_live.handle_bytes < vmm_capacity ? vmm_capacity - vmm_live.handle_bytes : 0;
    *total = vmm_capacity;
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

static CUresult release(CUmemGenericAllocationHandle handle)
{
    CALLED();
    pthread_mutex_lock(&lock);
    bool right = handle < HANDLES && handles[handle].live && handles[handle].mappings == 0;
    if (right) {
        close(handles[handle].fd);
        handles[handle].live = false;
        vmm_live.handles--;
        vmm_live.handle_bytes -= handles[handle].bytes;
    } else {
        violation("release of a handle that is not, or is mapped");
    }
    pthread_mutex_unlock(&lock);
    return right ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult map(CUdeviceptr at, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    (void)flags;
    CALLED();
    pthread_mutex_lock(&lock);
    const struct range *around = range_at(ranges, at, false);
    if (around != NULL && at + bytes > around->at + around->bytes) {    /* what a program may ask for */
        pthread_mutex_unlock(&lock);
        return CUDA_ERROR_INVALID_VALUE;
    }
    bool right = offset == 0 && handle < HANDLES && handles[handle].live && handles[handle].bytes >= bytes && around != NULL &&
                 range_at(maps, at, false) == NULL;
    if (right) {
        handles[handle].mappings++;
        vmm_live.mapped_bytes += bytes;
        *free_range(maps) = (struct range){ .at = at, .bytes = bytes, .handle = handle, .live = true };
    } else {
        violation("cuMemMap over something, or of another size");
    }
    pthread_mutex_unlock(&lock);
    return right ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static void give_rights(struct range *mapped, const CUmemAccessDesc *list, size_t count)
{
    int all = 0;

    for (size_t i = 0; i < count; i++)
        mapped->rights[list[i].location.id] = list[i].flags;
    all = mapped->rights[0] | mapped->rights[1];
    mapped->mapped = all == 3;
    if (mmap((void *)(uintptr_t)mapped->at, mapped->bytes, all == 3 ? PROT_READ | PROT_WRITE : all == 1 ? PROT_READ : PROT_NONE,
             MAP_SHARED | MAP_FIXED, handles[mapped->handle].fd, 0) == MAP_FAILED)
        abort();
}

int vmm_rights(uint64_t at, int device)
{
    pthread_mutex_lock(&lock);
    const struct range *mapped = range_at(maps, at, false);
    int rights = mapped != NULL ? mapped->rights[device] : -1;
    pthread_mutex_unlock(&lock);
    return rights;
}

static CUresult properties(CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle)
{
    CALLED();
    *prop = handles[handle].prop;
    return handle < HANDLES && handles[handle].live ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult export_handle(void *out, CUmemGenericAllocationHandle handle, int type, unsigned long long flags)
{
    (void)flags;
    CALLED();
    if (handle >= HANDLES || !handles[handle].live)
        violation("export of a handle that is not");
    else if (handles[handle].prop.requestedHandleTypes & type)
        return memcpy(out, &handles[handle].fd, sizeof(int)), CUDA_SUCCESS;
    return CUDA_ERROR_INVALID_VALUE;
}

static CUresult can_access(int *can, CUdevice device, CUdevice peer)
{
    *can = device != peer;
    return CUDA_SUCCESS;
}

static CUresult get_count(int *count)
{
    *count = 2;
    return CUDA_SUCCESS;
}

static CUresult get_access(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr at)
{
    CALLED();
    *flags = (unsigned long long)vmm_rights(at, location->id);
    return CUDA_SUCCESS;
}

static CUresult set_access(CUdeviceptr at, size_t bytes, const CUmemAccessDesc *list, size_t count)
{
    CALLED();
    pthread_mutex_lock(&lock);
    bool right = count > 0;
    for (uint64_t next = at; right && next < at + bytes;) {
        struct range *mapped = range_at(maps, next, true);
        right = mapped != NULL && next + mapped->bytes <= at + bytes;
        if (right)
            give_rights(mapped, list, count);
        next += right ? mapped->bytes : 0;
    }
    if (!right)
        violation("access to what is not mapped");
    pthread_mutex_unlock(&lock);
    return right ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult unmap(CUdeviceptr at, size_t bytes)
{
    CALLED();
    pthread_mutex_lock(&lock);
    struct range *mapped = range_at(maps, at, true);
    bool right = mapped != NULL && mapped->bytes == bytes;
    for (uint32_t i = 0; right && i < op_count; i++) {
        if ((uintptr_t)ops[i].to - at < bytes || (uintptr_t)ops[i].from - at < bytes)
            violation("unmapped in the middle of a copy");
    }
    if (right) {
        mapped->live = false;
        handles[mapped->handle].mappings--;
        vmm_live.mapped_bytes -= bytes;
        mmap((void *)(uintptr_t)at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    } else {
        violation("unmapped what is not a mapping");
    }
    pthread_mutex_unlock(&lock);
    return right ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Executes what was put into the stream up to `until`. Lock held. */
static void run(CUstream stream, uint64_t until)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < op_count; i++) {
        if (ops[i].stream == stream && ops[i].order <= until)
            memcpy(ops[i].to, ops[i].from, ops[i].bytes);
        else
            ops[kept++] = ops[i];
    }
    op_count = kept;
}

static CUresult copy(void *to, const void *from, size_t bytes, CUstream stream)
{
    CALLED();
    pthread_mutex_lock(&lock);
    if (depth == 0 || stream == NULL || op_count == OPS || (stream->context != NULL && stream->life != stream->context->life))
        violation("a copy without a context or stream");
    else
        ops[op_count++] = (struct op){ to, from, bytes, ++order, stream };
    vmm_live.copies++;
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

static CUresult copy_out(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return copy(to, (const void *)(uintptr_t)from, bytes, stream);
}

static CUresult copy_in(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    return copy((void *)(uintptr_t)to, from, bytes, stream);
}

/* Those that nobody has destroyed: they go with their context, which ends with the test. */
static CUevent all_events;
static CUstream all_streams;

static CUresult event_create(CUevent *event, unsigned int flags)
{
    (void)flags;
    CALLED();
    *event = calloc(1, sizeof **event);
    pthread_mutex_lock(&lock);
    (*event)->next = all_events;
    all_events = *event;
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

static CUresult event_destroy(CUevent event)
{
    CALLED();
    pthread_mutex_lock(&lock);
    CUevent *at = &all_events;
    while (*at != event)
        at = &(*at)->next;
    *at = event->next;
    pthread_mutex_unlock(&lock);
    free(event);
    return CUDA_SUCCESS;
}

static CUresult event_record(CUevent event, CUstream stream)
{
    CALLED();
    pthread_mutex_lock(&lock);
    event->at = ++order;
    event->stream = stream;
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

static CUresult event_synchronise(CUevent event)
{
    if (vmm_at_wait != NULL)
        vmm_at_wait();
    CALLED();
    pthread_mutex_lock(&lock);
    run(event->stream, event->at);
    if (IS_BUSY(event->stream))
        event->stream->number = 0;
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

/* Work that a test has left in a stream: the first word of streams[].number says whether it is finished. */
static CUresult event_query(CUevent event)
{
    CALLED();
    return IS_BUSY(event->stream) ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

static CUresult stream_create(CUstream *stream, unsigned int flags)
{
    (void)flags;
    CALLED();
    *stream = calloc(1, sizeof **stream);
    pthread_mutex_lock(&lock);
    (*stream)->next = all_streams;
    (*stream)->context = depth > 0 ? stack[depth - 1] : NULL;
    (*stream)->life = depth > 0 ? stack[depth - 1]->life : 0;
    all_streams = *stream;
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

static CUresult stream_synchronise(CUstream stream)
{
    if (vmm_at_wait != NULL)
        vmm_at_wait();
    CUresult told = called();
    pthread_mutex_lock(&lock);
    if (told == CUDA_SUCCESS)
        run(stream, UINT64_MAX);
    else
        op_count = 0;       /* the device is dead: nothing runs any more */
    pthread_mutex_unlock(&lock);
    return told;
}

static CUresult stream_wait(CUstream stream, CUevent event, unsigned int flags)
{
    (void)stream, (void)event, (void)flags;
    CALLED();
    return CUDA_SUCCESS;
}

static CUresult get_current(CUcontext *context)
{
    *context = depth > 0 ? stack[depth - 1] : NULL;
    return CUDA_SUCCESS;
}

static CUresult get_device(CUdevice *device)
{
    *device = depth > 0 ? stack[depth - 1]->device : -1;
    return depth > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

static CUresult push(CUcontext context)
{
    CALLED();
    if (context->dead)
        return CUDA_ERROR_INVALID_CONTEXT;
    stack[depth++] = context;
    return CUDA_SUCCESS;
}

static CUresult pop(CUcontext *context)
{
    *context = stack[--depth];
    return CUDA_SUCCESS;
}

static CUresult synchronise(void)
{
    CALLED();
    return CUDA_SUCCESS;
}

static CUresult exchange(int *mode)
{
    static __thread int now;
    int before = now;
    now = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}

static CUresult lock_pages(void *at, size_t bytes, unsigned int flags)
{
    CALLED();
    if (bytes > GPUD_HOST_PIECE || flags != 1 || depth == 0)
        violation("registration in too large pieces");
    (void)at;
    vmm_live.registered += bytes;
    return vmm_refuse_register;
}

void vmm_end_context(bool stays)
{
    stack[0]->dead = true;
    stack[0]->life++;
    depth = stays;
    gpud_word_raise(0, 0);
}

static CUresult default_pool(CUmemoryPool *pool, CUdevice device)
{
    *pool = (CUmemoryPool)(uintptr_t)(0x100 + device);
    return CUDA_SUCCESS;
}

static CUresult is_capturing(CUstream stream, int *status)
{
    (void)stream;
    *status = 0;
    return CUDA_SUCCESS;
}

static CUresult stream_query(CUstream stream)
{
    (void)stream;
    CALLED();
    return CUDA_SUCCESS;
}

CUcontext vmm_context(int device, int which)
{
    depth = 1;
    stack[0] = &contexts[device][which];
    stack[0]->dead = false;
    gpud_context_changed(0);
    gpud_bind(&gpud_thread);
    return stack[0];
}

CUstream vmm_stream(int which)
{
    return &streams[which];
}

void vmm_host(uint64_t bytes)
{
    int fd = memfd_create("slots", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0)
        abort();
    CHECK(gpud_host_add(fd, bytes) == 0, "host slots");
}

void vmm_start(uint64_t capacity)
{
    real = (struct gpud_real){
        .cuMemAddressReserve = reserve, .cuMemAddressFree = unreserve, .cuMemCreate = create, .cuMemRelease = release, .cuMemMap = map,
        .cuMemUnmap = unmap, .cuMemSetAccess = set_access, .cuMemcpyDtoHAsync_v2 = copy_out, .cuMemcpyHtoDAsync_v2 = copy_in,
        .cuEventCreate = event_create, .cuEventDestroy_v2 = event_destroy, .cuEventRecord = event_record,
        .cuEventSynchronize = event_synchronise, .cuEventQuery = event_query, .cuStreamCreate = stream_create,
        .cuStreamSynchronize = stream_synchronise, .cuStreamWaitEvent = stream_wait, .cuCtxGetCurrent = get_current,
        .cuCtxGetDevice = get_device, .cuCtxPushCurrent_v2 = push, .cuCtxPopCurrent_v2 = pop, .cuCtxSynchronize = synchronise,
        .cuThreadExchangeStreamCaptureMode = exchange, .cuMemHostRegister_v2 = lock_pages, .cuDeviceGetDefaultMemPool = default_pool,
        .cuDeviceGetMemPool = default_pool, .cuStreamIsCapturing = is_capturing, .cuStreamQuery = stream_query,
        .cuMemGetAllocationPropertiesFromHandle = properties, .cuMemExportToShareableHandle = export_handle,
        .cuDeviceCanAccessPeer = can_access, .cuDeviceGetCount = get_count, .cuMemGetAccess = get_access, .cuMemGetInfo_v2 = get_info,
    };
    vmm_capacity = capacity;
    gpud_start();
    for (uint32_t device = 0; device < 2; device++) {
        gpud_store(&gpud_slot_of[device], device + 2);      /* the slot is not the ordinal */
        vmm_control(device + 2)->memory_flags = GPUD_MEMORY_SWAP;
    }
    gpud_store_release(&gpud_managed, 1);
    gpud_word_raise(0, 0);
    vmm_context(0, 0);
}
