/* test_vmm.c: virtual memory management in one process: rules and errors, access that is held, handles that live as long as they are
 * needed, and a long random sequence compared with a model. The seed is printed and can be given as the first argument.
 * Built with STEERED (tests/pool) it is the same program under a hook whose policy lets its memory leave the device: all answers are the
 * same, also while the memory is elsewhere. */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "driver_memory.h"
#ifdef STEERED
#include "../pool/steer.h"

#define AWAY 32         /* one step of so many begins with it */
#define SEQUENCES 4

static bool is_away;

static void begin(void)
{
    int fd = memfd_create("slots", MFD_CLOEXEC);
    CHECK(fd >= 0 && ftruncate(fd, 1024 * MIB) == 0, "host slots");
    steer_attach();
    CHECK(steer_host(fd, 1024 * MIB) == 0, "host slots");
}

/* The device is another's, and all memory that can leave has left. */
static void away(void)
{
    uint64_t moved;
    steer_away(1);
    int result = steer_out(~0ull, &moved);
    for (int i = 0; i < 100 && steer_counts().resident != 0; i++)
        result = steer_out(~0ull, &moved);      /* the hook's own keeper was just bringing it in */
    CHECK(result == 1 && steer_counts().resident == 0, "%d: %llu left, %llu stay", result, (unsigned long long)moved,
          (unsigned long long)steer_counts().resident);
    is_away = true;
}

static void back(void)
{
    uint64_t moved;
    if (!is_away)
        return;
    CHECK(steer_in(&moved) == 0 && steer_counts().host == 0 && steer_counts().lazy == 0, "not all came back");
    steer_away(0);
    is_away = false;
}
#else
#define AWAY 32
#define SEQUENCES 10
static void begin(void) {}
static void away(void) {}
static void back(void) {}
#endif

static CUmemGenericAllocationHandle create(size_t bytes)
{
    CUmemAllocationProp prop = on_device(0);
    CUmemGenericAllocationHandle handle = 0;
    OK(cuMemCreate(&handle, bytes, &prop, 0));
    return handle;
}

static CUdeviceptr reserve(size_t bytes)
{
    CUdeviceptr at = 0;
    OK(cuMemAddressReserve(&at, bytes, 0, 0, 0));
    return at;
}

static void test_bad_input(void)
{
    CUmemAllocationProp prop = on_device(0), bad;
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at;
    size_t unit = 0;
    OK(cuMemGetAllocationGranularity(&unit, &prop, 0));
    CHECK(unit == UNIT, "granularity %zu", unit);
    OK(cuMemGetAllocationGranularity(&unit, &prop, 1));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemGetAllocationGranularity(&unit, &prop, 2));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemGetAllocationGranularity(NULL, &prop, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemGetAllocationGranularity(&unit, NULL, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&handle, UNIT - 4096, &prop, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&handle, 0, &prop, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&handle, UNIT, &prop, 1));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&handle, UNIT, NULL, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemCreate(NULL, UNIT, &prop, 0));
    EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemCreate(&handle, (size_t)2 << 30, &prop, 0));
    bad = prop, bad.location.id = 9;
    EXPECT(CUDA_ERROR_INVALID_DEVICE, cuMemCreate(&handle, UNIT, &bad, 0));
    bad = prop, bad.location.type = 7;
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&handle, UNIT, &bad, 0));
    bad = prop, bad.type = 0;
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&handle, UNIT, &bad, 0));
    bad = prop, bad.requestedHandleTypes = HANDLE_FABRIC;
    EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuMemCreate(&handle, UNIT, &bad, 0));
    bad = prop, bad.allocFlags.gpuDirectRDMACapable = 1;
    EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuMemCreate(&handle, UNIT, &bad, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAddressReserve(&at, 0, 0, 0, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAddressReserve(&at, 100, 0, 0, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAddressReserve(&at, UNIT, 3, 0, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAddressReserve(&at, UNIT, 0, 0, 1));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAddressReserve(NULL, UNIT, 0, 0, 0));
    EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemAddressReserve(&at, (size_t)1 << 60, 0, 0, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemRelease(0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemRelease(0x12345678));
}

/* What the addresses of the mappings of test_mapping are: two units, one unit, nothing, and that one unit once more, read only. */
static void look(CUdeviceptr range, CUmemGenericAllocationHandle two)
{
    CUmemAllocationProp prop;
    CUdeviceptr base;
    size_t size;
    OK(cuMemGetAddressRange_v2(&base, &size, range + UNIT + 7));
    CHECK(base == range && size == 2 * UNIT, "%llx %zu", base, size);
    EXPECT(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange_v2(&base, &size, range + 3 * UNIT));
    CHECK(attribute_of(range + UNIT, P_START) == range && attribute_of(range + UNIT, P_SIZE) == 8 * UNIT, "the reservation");
    CHECK(attribute_of(range, P_MAPPED) == 1 && attribute_of(range + 3 * UNIT, P_MAPPED) == 0, "mapped or not");
    CHECK(attribute_of(range + 3 * UNIT, P_SIZE) == 8 * UNIT, "reserved only");
    CHECK(attribute_of(range + 3 * UNIT, P_TYPE) == 0xbad0001, "no memory has no type");
    CHECK(attribute_of(range, P_TYPE) == CU_MEMORYTYPE_DEVICE && attribute_of(range, P_ORDINAL) == 0, "device memory");
    CHECK(attribute_of(range, P_HANDLES) == HANDLE_FD && attribute_of(range, P_IPC) == 0, "how it can be shared");
    CHECK(attribute_of(range, P_MAPPING_SIZE) == 2 * UNIT && attribute_of(range + UNIT, P_MAPPING_BASE) == range, "the mapping");
    CHECK(attribute_of(range + 2 * UNIT, P_BLOCK) == attribute_of(range + 4 * UNIT, P_BLOCK), "one memory, one block");
    CHECK(attribute_of(range, P_BLOCK) != attribute_of(range + 2 * UNIT, P_BLOCK), "two memories, two blocks");
    CHECK(attribute_of(range, P_ACCESS) == ACCESS_READWRITE && attribute_of(range + 4 * UNIT, P_ACCESS) == ACCESS_READ, "access");
    CHECK(attribute_of(range, P_CONTEXT) == 0xbad0001 && attribute_of(range, P_HOST_POINTER) == 0xbad0001, "no context, no host address");

    OK(cuMemGetAllocationPropertiesFromHandle(&prop, two));
    CHECK(prop.type == ALLOCATION_PINNED && prop.location.type == LOCATION_DEVICE && !prop.location.id && prop.requestedHandleTypes == HANDLE_FD,
          "properties");
}

static void test_mapping(void)
{
    size_t before = left();
    CUdeviceptr range = reserve(8 * UNIT), aligned = 0, hinted = 0;
    CUmemGenericAllocationHandle two = create(2 * UNIT), one = create(UNIT), got;
    CUmemAllocationProp prop;
    CHECK(before - left() == 3 * UNIT, "%zu bytes were taken", before - left());
    OK(cuMemAddressReserve(&aligned, UNIT, (size_t)1 << 30, 0, 0));
    CHECK(aligned % ((size_t)1 << 30) == 0, "%llx", aligned);
    OK(cuMemAddressFree(aligned, UNIT));
    OK(cuMemAddressReserve(&hinted, UNIT, 0, aligned, 0));
    CHECK(hinted == aligned, "the hint was %llx, given was %llx", aligned, hinted);
    OK(cuMemAddressReserve(&aligned, UNIT, 0, hinted, 0));
    CHECK(aligned != hinted, "the same addresses twice");
    OK(cuMemAddressFree(aligned, UNIT));
    OK(cuMemAddressFree(hinted, UNIT));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(hinted, UNIT));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(range, 4 * UNIT));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(range + UNIT, 7 * UNIT));

    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemMap(range, UNIT, UNIT, two, 0));       /* an offset */
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemMap(range, UNIT, 0, two, 1));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemMap(range + 4096, UNIT, 0, two, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemMap(range, UNIT + 4096, 0, two, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemMap(range, 0, 0, two, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemMap(range, 3 * UNIT, 0, two, 0));      /* more than there is */
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemMap(range + 7 * UNIT, 2 * UNIT, 0, two, 0));   /* past the reservation */
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemMap(range, UNIT, 0, 0x4321, 0));
    OK(cuMemMap(range, 2 * UNIT, 0, two, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemMap(range + UNIT, UNIT, 0, one, 0));   /* occupied */
    OK(cuMemMap(range + 2 * UNIT, UNIT, 0, one, 0));
    OK(cuMemMap(range + 4 * UNIT, UNIT, 0, one, 0));                             /* the same memory twice */
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(range, 8 * UNIT));         /* still mapped */

    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2(range, &before, 8));        /* no access yet */
    EXPECT(CUDA_ERROR_INVALID_VALUE, grant(range, UNIT, 0, ACCESS_READWRITE));   /* part of a mapping */
    EXPECT(CUDA_ERROR_INVALID_VALUE, grant(range, 4 * UNIT, 0, ACCESS_READWRITE));       /* a hole */
    EXPECT(CUDA_ERROR_INVALID_VALUE, grant(range, 3 * UNIT, 0, 2));
    EXPECT(CUDA_ERROR_INVALID_DEVICE, grant(range, 3 * UNIT, 5, ACCESS_READWRITE));
    CUmemAccessDesc host = {{LOCATION_HOST, 0}, ACCESS_READWRITE};
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemSetAccess(range, UNIT * 3, &host, 1));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemSetAccess(range, UNIT * 3, NULL, 1));
    OK(grant(range, 3 * UNIT, 0, ACCESS_READWRITE));
    OK(grant(range + 4 * UNIT, UNIT, 0, ACCESS_READ));
    unsigned long long flags = 9;
    CUmemLocation here = {LOCATION_DEVICE, 0};
    OK(cuMemGetAccess(&flags, &here, range + 5));
    CHECK(flags == ACCESS_READWRITE, "%llu", flags);
    OK(cuMemGetAccess(&flags, &here, range + 4 * UNIT));
    CHECK(flags == ACCESS_READ, "%llu", flags);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemGetAccess(&flags, &here, range + 3 * UNIT));

    /* One copy over two mappings that lie side by side; and the second place of the same memory shows what the first got. */
    OK(cuMemsetD32_v2(range, 0x01020304, 3 * UNIT / 4));
    CHECK(word(range + 2 * UNIT - 4) == 0x01020304 && word(range + 3 * UNIT - 4) == 0x01020304, "memset over mappings");
    CHECK(word(range + 4 * UNIT) == 0x01020304, "one memory at two addresses");
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemsetD8_v2(range, 0, 3 * UNIT + 1));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemsetD8_v2(range + 4 * UNIT, 0, 1));     /* read only */

    look(range, two);
    away();
    look(range, two);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemMap(range + UNIT, UNIT, 0, one, 0));   /* occupied */
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemMap(range + 7 * UNIT, 2 * UNIT, 0, two, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(range, UNIT));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(range, 8 * UNIT));
    EXPECT(CUDA_ERROR_INVALID_VALUE, grant(range, UNIT, 0, ACCESS_READWRITE));
    EXPECT(CUDA_ERROR_INVALID_VALUE, grant(range, 3 * UNIT, 0, 2));
    EXPECT(CUDA_ERROR_INVALID_DEVICE, grant(range, 3 * UNIT, 5, ACCESS_READWRITE));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemSetAccess(range, UNIT * 3, &host, 1));
    back();
    look(range, two);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemsetD8_v2(range + 4 * UNIT, 0, 1));     /* read only as before */
    CHECK(word(range + 2 * UNIT - 4) == 0x01020304 && word(range + 4 * UNIT) == 0x01020304, "contents");

    OK(cuMemRetainAllocationHandle(&got, (void *)(uintptr_t)(range + UNIT + 17)));
    CHECK(got == two, "another handle");
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemRetainAllocationHandle(&got, (void *)(uintptr_t)(range + 3 * UNIT)));
    OK(cuMemRelease(two));
    OK(cuMemRelease(two));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemRelease(two));                         /* but the mapping holds the memory */
    CHECK(word(range) == 0x01020304, "released and mapped");
    OK(cuMemRetainAllocationHandle(&got, (void *)(uintptr_t)range));
    CHECK(got == two, "the same handle again");
    OK(cuMemRelease(got));
    OK(cuMemRelease(one));

    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(range, UNIT));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(range + 3 * UNIT, UNIT));
    OK(cuMemUnmap(range, 2 * UNIT));
    CHECK(before - left() == UNIT, "%zu bytes are taken", before - left());
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemGetAllocationPropertiesFromHandle(&prop, two));
    OK(cuMemUnmap(range + 2 * UNIT, UNIT));
    CHECK(before - left() == UNIT, "mapped elsewhere");
    OK(cuMemUnmap(range + 4 * UNIT, UNIT));
    CHECK(left() == before, "%zu bytes are lost", before - left());
    OK(cuMemAddressFree(range, 8 * UNIT));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(range));
}

/* New memory is zeroes, whoever had it before; and kernels use it as any other. */
static void test_content(CUmodule module)
{
    CUdeviceptr range = reserve(UNIT);
    CUstream stream;
    unsigned sum = 0;
    OK(cuStreamCreate(&stream, 1));
    for (int i = 0; i < 3; i++) {
        CUmemGenericAllocationHandle handle = create(UNIT);
        OK(cuMemMap(range, UNIT, 0, handle, 0));
        OK(grant(range, UNIT, 0, ACCESS_READWRITE));
        CHECK(word(range) == 0 && word(range + UNIT - 4) == 0, "not scrubbed");
        times(module, "times", range, 3, 7, stream);
        times(module, "times", range, 2, 1, stream);
        OK(cuMemcpyDtoDAsync_v2(range + UNIT - 4, range, 4, stream));
        OK(cuStreamSynchronize(stream));
        sum += word(range + UNIT - 4);
        OK(cuMemUnmap(range, UNIT));
        OK(cuMemRelease(handle));
    }
    CHECK(sum == 45, "%u", sum);
    OK(cuStreamDestroy_v2(stream));
    OK(cuMemAddressFree(range, UNIT));
}

/* Host memory as a handle: it is not the device's, and the host may use it where it is allowed to. */
static void test_host_handle(CUmodule module)
{
    size_t before = left();
    CUmemAllocationProp prop = {.type = ALLOCATION_PINNED, .location = {LOCATION_HOST_NUMA, 0}};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr range = reserve(UNIT);
    OK(cuMemCreate(&handle, UNIT, &prop, 0));
    CHECK(left() == before, "host memory was taken from the device");
    OK(cuMemMap(range, UNIT, 0, handle, 0));
    CUmemAccessDesc both[] = {{{LOCATION_DEVICE, 0}, ACCESS_READWRITE}, {{LOCATION_HOST_NUMA, 0}, ACCESS_READWRITE}};
    OK(cuMemSetAccess(range, UNIT, both, 2));
    *(unsigned *)(uintptr_t)range = 20;
    times(module, "times", range, 2, 2, NULL);
    OK(cuCtxSynchronize());
    CHECK(*(unsigned *)(uintptr_t)range == 42, "%u", *(unsigned *)(uintptr_t)range);
    CHECK(attribute_of(range, P_TYPE) == CU_MEMORYTYPE_HOST && attribute_of(range, P_HOST_POINTER) == range, "it is the host's");
    OK(cuMemUnmap(range, UNIT));
    OK(cuMemRelease(handle));
    OK(cuMemAddressFree(range, UNIT));
    prop.location = (CUmemLocation){LOCATION_HOST_NUMA, 1};
    EXPECT(CUDA_ERROR_INVALID_DEVICE, cuMemCreate(&handle, UNIT, &prop, 0));
    prop.location = (CUmemLocation){LOCATION_HOST, 0};
    prop.requestedHandleTypes = HANDLE_FD;
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&handle, UNIT, &prop, 0));
}

/* Exported and imported within one process: two handles, one memory, which lives until the descriptor is closed too. */
static void test_descriptor(void)
{
    size_t before = left();
    CUmemGenericAllocationHandle mine = create(UNIT), other;
    CUmemAllocationProp plain = on_device(0);
    int fd = -1, copy;
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemExportToShareableHandle(NULL, mine, HANDLE_FD, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemExportToShareableHandle(&fd, mine, HANDLE_FD, 1));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemExportToShareableHandle(&fd, 77, HANDLE_FD, 0));
    EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuMemExportToShareableHandle(&fd, mine, HANDLE_FABRIC, 0));
    plain.requestedHandleTypes = HANDLE_NONE;
    OK(cuMemCreate(&other, UNIT, &plain, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemExportToShareableHandle(&fd, other, HANDLE_FD, 0));
    OK(cuMemRelease(other));
    OK(cuMemExportToShareableHandle(&fd, mine, HANDLE_FD, 0));
    copy = dup(fd);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemImportFromShareableHandle(&other, (void *)(intptr_t)0, HANDLE_FD));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemImportFromShareableHandle(&other, (void *)(intptr_t)-1, HANDLE_FD));
    int pipes[2];
    if (!pipe(pipes)) {
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemImportFromShareableHandle(&other, (void *)(intptr_t)pipes[1], HANDLE_FD));
        close(pipes[0]), close(pipes[1]);
    }
    OK(cuMemRelease(mine));
    CHECK(before - left() == UNIT, "a descriptor holds the memory");
    OK(cuMemImportFromShareableHandle(&other, (void *)(intptr_t)fd, HANDLE_FD));
    close(fd);
    close(copy);
    CUdeviceptr range = reserve(UNIT);
    OK(cuMemMap(range, UNIT, 0, other, 0));
    OK(grant(range, UNIT, 0, ACCESS_READWRITE));
    put_word(range, 5);
    OK(cuMemUnmap(range, UNIT));
    OK(cuMemAddressFree(range, UNIT));
    OK(cuMemRelease(other));
    for (int i = 0; i < 60000 && left() != before; i++)
        usleep(1000);                   /* the device process hears of the closing by itself */
    CHECK(left() == before, "%zu bytes are lost", before - left());
}

/* A long random sequence, and what a model of a few lines says of it. */
enum { PLACES = 24, HANDLES = 10 };
struct model_memory { CUmemGenericAllocationHandle handle; unsigned units, references, mappings, content[3]; };
struct model_place { struct model_memory *memory; unsigned units; bool access; };       /* `units` at the first place of a mapping */

/* Are these places whole mappings side by side, without a gap? */
static bool whole(const struct model_place *places, unsigned at, unsigned units)
{
    unsigned end = at + units;
    while (at < end && at < PLACES && places[at].units)
        at += places[at].units;
    return at == end;
}

/* The mapping that a place lies in, or NULL. */
static const struct model_place *covering(const struct model_place *places, unsigned at)
{
    for (unsigned i = 0; i <= at; i++)
        if (places[i].units && at < i + places[i].units)
            return &places[i];
    return NULL;
}

static void random_sequence(unsigned seed, int steps)
{
    struct model_memory memories[HANDLES] = {0};
    struct model_place places[PLACES] = {0};
    CUdeviceptr range = reserve(PLACES * UNIT);
    size_t before = left();
    CUmemAllocationProp prop = on_device(0);
    for (int step = 0; step < steps && !check_failures; step++) {
        struct model_memory *m = &memories[rand_r(&seed) % HANDLES];
        unsigned at = (unsigned)rand_r(&seed) % PLACES, units = 1 + (unsigned)rand_r(&seed) % 3;
        bool room = at + units <= PLACES;
        for (unsigned i = 0; i < PLACES && room; i++)
            room = !places[i].units || i + places[i].units <= at || i >= at + units;
        struct model_place *p = &places[at];
        int what = rand_r(&seed) % 8;
        if (rand_r(&seed) % AWAY == 0)
            away();
        if (what == 5 || what == 7 || step % 16 == 0)
            back();
        switch (what) {
        case 0:
            if (m->references || m->mappings)
                break;
            *m = (struct model_memory){.units = units, .references = 1};
            OK(cuMemCreate(&m->handle, units * UNIT, &prop, 0));
            break;
        case 1:
            EXPECT(m->references ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE, cuMemRelease(m->handle));
            m->references -= m->references > 0;
            break;
        case 2: {
            bool good = room && m->references && units <= m->units;
            EXPECT(good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE, cuMemMap(range + at * UNIT, units * UNIT, 0, m->handle, 0));
            if (good) {
                *p = (struct model_place){m, units, false};
                m->mappings++;
            }
            break;
        }
        case 3: {
            bool good = whole(places, at, units);
            EXPECT(good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE, cuMemUnmap(range + at * UNIT, units * UNIT));
            for (unsigned i = at; good && i < at + units; i++) {
                if (places[i].units)
                    places[i].memory->mappings--;
                places[i] = (struct model_place){0};
            }
            break;
        }
        case 4: {
            bool allow = rand_r(&seed) % 4, good = whole(places, at, units);
            EXPECT(good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE,
                   grant(range + at * UNIT, units * UNIT, 0, allow ? ACCESS_READWRITE : ACCESS_NONE));
            for (unsigned i = at; good && i < at + units; i++)
                places[i].access = allow;
            break;
        }
        case 5: {
            unsigned value = (unsigned)step + 1;
            const struct model_place *c = covering(places, at);
            EXPECT(c && c->access ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2(range + at * UNIT + 64, &value, 4));
            if (c && c->access)
                c->memory->content[at - (c - places)] = value;
            break;
        }
        case 6: {
            CUmemGenericAllocationHandle got = 0;
            CUresult result = cuMemRetainAllocationHandle(&got, (void *)(uintptr_t)(range + at * UNIT));
            const struct model_place *c = covering(places, at);
            CHECK(result == (c ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE) && (!c || got == c->memory->handle), "retain");
            if (c)
                c->memory->references++;
            break;
        }
        default: {
            const struct model_place *c = covering(places, at);
            if (c && c->access)
                CHECK(word(range + at * UNIT + 64) == c->memory->content[at - (c - places)], "content of place %u", at);
        }
        }
        size_t taken = 0;
        for (int i = 0; i < HANDLES; i++)
            taken += memories[i].references || memories[i].mappings ? memories[i].units * UNIT : 0;
        if (step % 16 == 0)
            CHECK(before - left() == taken, "step %d: %zu bytes are taken, not %zu", step, before - left(), taken);
    }
    back();
    for (unsigned i = 0; i < PLACES; i++)
        if (places[i].units)
            OK(cuMemUnmap(range + i * UNIT, places[i].units * UNIT));
    for (int i = 0; i < HANDLES; i++)
        while (memories[i].references--)
            OK(cuMemRelease(memories[i].handle));
    CHECK(left() == before, "%zu bytes are lost", before - left());
    OK(cuMemAddressFree(range, PLACES * UNIT));
}

/* As an allocator's probe does: very many handles, mapped side by side in one reservation. */
static void test_many(void)
{
    enum { MANY = 400 };
    static CUmemGenericAllocationHandle handles[MANY];
    size_t before = left();
    CUdeviceptr range = reserve(MANY * UNIT);
    for (int i = 0; i < MANY; i++) {
        handles[i] = create(UNIT);
        OK(cuMemMap(range + (CUdeviceptr)i * UNIT, UNIT, 0, handles[i], 0));
    }
    OK(grant(range, MANY * UNIT, 0, ACCESS_READWRITE));
    OK(cuMemsetD32_v2(range, 7, MANY * UNIT / 4));
    CHECK(word(range + MANY * UNIT - 4) == 7, "the last word");
    away();
    back();
    CHECK(word(range + MANY * UNIT - 4) == 7, "the last word");
    OK(cuMemUnmap(range, MANY * UNIT));
    for (int i = 0; i < MANY; i++)
        OK(cuMemRelease(handles[i]));
    OK(cuMemAddressFree(range, MANY * UNIT));
    CHECK(left() == before, "%zu bytes are lost", before - left());
}

/* A kernel that reaches where it has no access ends its context, not the process. */
static void test_fault(CUmodule module)
{
    CUdeviceptr range = reserve(UNIT);
    CUmemGenericAllocationHandle handle = create(UNIT);
    OK(cuMemMap(range, UNIT, 0, handle, 0));
    OK(grant(range, UNIT, 0, ACCESS_READ));
    times(module, "times", range, 1, 1, NULL);
    EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
    OK(cuMemUnmap(range, UNIT));                /* none of this needs a context */
    OK(cuMemRelease(handle));
    OK(cuMemAddressFree(range, UNIT));
}

int main(int argc, char **argv)
{
    unsigned seed = argc > 1 ? (unsigned)atoi(argv[1]) : (unsigned)time(NULL);
    printf("seed %u\n", seed);
    fflush(stdout);
    CUdeviceptr at;
    EXPECT(CUDA_ERROR_NOT_INITIALIZED, cuMemAddressReserve(&at, UNIT, 0, 0, 0));
    start();
    begin();
    CUmodule module = load();
    test_bad_input();
    test_mapping();
    test_content(module);
    test_host_handle(module);
    test_descriptor();
    for (unsigned i = 0; i < SEQUENCES; i++)
        random_sequence(seed + i, 2000);
    test_many();
    test_fault(module);
    return check_summary("virtual memory");
}
