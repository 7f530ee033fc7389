/* chunk.c: see chunk.h. Handles come from the driver and go back to it; between, they are recycled inside this process, which is one
 * tenant's: no byte of another tenant is ever seen through one. That fresh ones hold nothing of others is the driver's business. */
#include "chunk.h"

#include <stdlib.h>
#include "page.h"
#include "real.h"

#define SPARE_LIMIT (2 * GPUD_CHUNK_LARGEST)    /* kept for recycling, per device */
#define SPARE_ENTRIES 64
#define RELEASE_TRIES 2

pthread_mutex_t gpud_pool_lock = PTHREAD_MUTEX_INITIALIZER;
uint64_t gpud_chunk_bytes[GPUD_POOL_DEVICES][GPUD_CHUNK_STATES];
uint64_t gpud_chunk_spare[GPUD_POOL_DEVICES];
uint64_t gpud_chunk_lost;

static const uint64_t classes[GPUD_CHUNK_CLASSES] = { 2 * GPUD_MIB, 32 * GPUD_MIB, 64 * GPUD_MIB };
static struct spare {
    CUmemGenericAllocationHandle handle[SPARE_ENTRIES];
    uint32_t count;
} spares[GPUD_POOL_DEVICES][GPUD_CHUNK_CLASSES];

bool gpud_chunk_able(void)
{
    return real.cuMemAddressReserve != NULL && real.cuMemAddressFree != NULL && real.cuMemMap != NULL && real.cuMemUnmap != NULL &&
           real.cuMemSetAccess != NULL && real.cuMemCreate != NULL && real.cuMemRelease != NULL && real.cuStreamCreate != NULL;
}

static uint32_t class_of(uint64_t bytes)
{
    uint32_t i = GPUD_CHUNK_CLASSES - 1;
    while (i > 0 && classes[i] > bytes)
        i--;
    return i;
}

uint64_t gpud_chunk_class(uint64_t bytes)
{
    return classes[class_of(bytes)];
}

void gpud_chunk_set(struct gpud_chunk *chunk, enum gpud_chunk_state state)
{
    uint64_t *of = gpud_chunk_bytes[chunk->ordinal];
    gpud_store(&of[chunk->state], of[chunk->state] - chunk->bytes);
    gpud_store(&of[state], of[state] + chunk->bytes);
    chunk->state = (uint8_t)state;
}

static void spare_changes(uint32_t ordinal, uint64_t by)
{
    gpud_store(&gpud_chunk_spare[ordinal], gpud_chunk_spare[ordinal] + by);
}

/* Back to the driver. One that it does not take is lost: counted, and never used again. */
static void release(uint64_t bytes, CUmemGenericAllocationHandle handle)
{
    for (int i = 0; i < RELEASE_TRIES; i++) {
        if (real.cuMemRelease(handle) == CUDA_SUCCESS)
            return;
    }
    gpud_store(&gpud_chunk_lost, gpud_chunk_lost + bytes);
    gpud_add(&gpud_activity()->errors, 1);
}

static void give_pieces(struct gpud_chunk *chunk, uint64_t count)
{
    while (count-- > 0)
        release(GPUD_CHUNK_UNIT, chunk->piece[count]);
    free(chunk->piece);
    chunk->piece = NULL;
}

static void give(struct gpud_chunk *chunk, bool keep)
{
    if (chunk->piece != NULL) {
        give_pieces(chunk, chunk->bytes / GPUD_CHUNK_UNIT);
        return;
    }
    if (chunk->origin != NULL) {    /* of another kind, and of any size */
        release(chunk->bytes, chunk->handle);
        return;
    }
    struct spare *spare = &spares[chunk->ordinal][class_of(chunk->bytes)];
    if (keep && spare->count < SPARE_ENTRIES && gpud_chunk_spare[chunk->ordinal] + chunk->bytes <= SPARE_LIMIT) {
        spare->handle[spare->count++] = chunk->handle;
        spare_changes(chunk->ordinal, chunk->bytes);
    } else {
        release(chunk->bytes, chunk->handle);
    }
}

static CUresult create(const struct gpud_chunk *chunk, uint64_t bytes, CUmemGenericAllocationHandle *handle)
{
    CUmemAllocationProp plain = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .location = { CU_MEM_LOCATION_TYPE_DEVICE, (int)chunk->ordinal } };
    const CUmemAllocationProp *prop = chunk->origin != NULL ? &chunk->origin->prop : &plain;
    CUresult result = real.cuMemCreate(handle, bytes, prop, 0);
    if (result == CUDA_ERROR_OUT_OF_MEMORY && gpud_chunk_make_room(chunk->ordinal, bytes) > 0)
        result = real.cuMemCreate(handle, bytes, prop, 0);
    return result;
}

/* To try a large one in pieces takes long, and all that is left of the device meanwhile, also from others: only where the driver has as much. */
static bool may_be_there(const struct gpud_chunk *chunk)
{
    CUdevice ordinal = -1;
    size_t left = 0, total;

    if (chunk->bytes <= GPUD_CHUNK_LARGEST || real.cuMemGetInfo_v2 == NULL || real.cuCtxGetDevice == NULL)
        return true;
    bool known = real.cuCtxGetDevice(&ordinal) == CUDA_SUCCESS && ordinal == (CUdevice)chunk->ordinal &&
                 real.cuMemGetInfo_v2(&left, &total) == CUDA_SUCCESS;
    return !known || left >= chunk->bytes;
}

/* Memory may be there, and not in one piece. */
static CUresult create_pieces(struct gpud_chunk *chunk)
{
    uint64_t count = chunk->bytes / GPUD_CHUNK_UNIT;
    CUresult result = CUDA_SUCCESS;

    chunk->piece = malloc(count * sizeof chunk->piece[0]);
    if (chunk->piece == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (uint64_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
        result = create(chunk, GPUD_CHUNK_UNIT, &chunk->piece[i]);
        if (result != CUDA_SUCCESS)
            give_pieces(chunk, i);
    }
    return result;
}

static CUresult take(struct gpud_chunk *chunk)
{
    struct spare *spare = &spares[chunk->ordinal][class_of(chunk->bytes)];
    CUresult result = CUDA_SUCCESS;

    chunk->mapped_pieces = 0;
    if (chunk->origin == NULL && spare->count > 0) {
        chunk->handle = spare->handle[--spare->count];
        spare_changes(chunk->ordinal, -chunk->bytes);
    } else {
        result = create(chunk, chunk->bytes, &chunk->handle);
        if (result == CUDA_ERROR_OUT_OF_MEMORY && chunk->bytes > GPUD_CHUNK_UNIT && may_be_there(chunk))
            result = create_pieces(chunk);
    }
    chunk->has_handle = result == CUDA_SUCCESS;
    return result;
}

CUresult gpud_chunk_back(struct gpud_chunk *chunk)
{
    CUresult result = chunk->has_handle ? CUDA_SUCCESS : take(chunk);

    if (result == CUDA_SUCCESS)
        result = chunk->origin == NULL ? gpud_chunk_reach(chunk) : gpud_views_back(chunk);
    if (result != CUDA_SUCCESS)
        gpud_chunk_strip(chunk, true);      /* what cannot be taken back now is as good at the next try */
    return result;
}

CUresult gpud_chunk_strip(struct gpud_chunk *chunk, bool keep)
{
    CUresult result = chunk->origin != NULL ? gpud_views_strip(chunk) : CUDA_SUCCESS;

    if (result != CUDA_SUCCESS)
        return result;
    result = gpud_chunk_unmap(chunk, chunk->at, chunk->bytes, chunk->mapped, &chunk->mapped_pieces);
    if (result != CUDA_SUCCESS) {
        if (chunk->mapped && chunk->piece != NULL) {    /* in part, maybe: as mapped as before again */
            chunk->mapped = gpud_chunk_map(chunk, chunk->at, chunk->bytes, &chunk->mapped_pieces) == CUDA_SUCCESS;
            chunk->reachable = chunk->mapped && gpud_chunk_access(chunk) == CUDA_SUCCESS;
        }
        if (chunk->origin != NULL && gpud_views_back(chunk) != CUDA_SUCCESS)
            gpud_add(&gpud_activity()->errors, 1);
        return result;
    }
    chunk->mapped = chunk->reachable = false;
    if (chunk->has_handle)
        give(chunk, keep);
    chunk->has_handle = false;
    return CUDA_SUCCESS;
}

bool gpud_chunk_pin(struct gpud_chunk *chunk)
{
    if (chunk->state != GPUD_CHUNK_RESIDENT_DIRTY && chunk->state != GPUD_CHUNK_PINNED)
        return false;
    chunk->pins++;
    gpud_chunk_set(chunk, GPUD_CHUNK_PINNED);
    return true;
}

void gpud_chunk_unpin(struct gpud_chunk *chunk)
{
    if (chunk->pins > 0 && --chunk->pins == 0)
        gpud_chunk_set(chunk, GPUD_CHUNK_RESIDENT_DIRTY);
}

uint64_t gpud_chunk_trim(uint32_t ordinal, uint64_t bytes)
{
    uint64_t given = 0;

    for (uint32_t i = GPUD_CHUNK_CLASSES; i-- > 0;) {
        struct spare *spare = &spares[ordinal][i];
        while (spare->count > 0 && given < bytes) {
            spare_changes(ordinal, -classes[i]);
            given += classes[i];
            release(classes[i], spare->handle[--spare->count]);
        }
    }
    return given;
}

void gpud_chunk_forget(void)
{
    gpud_pool_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    gpud_chunk_lost = 0;
    gpud_chunk_peers_forget();
    for (uint32_t ordinal = 0; ordinal < GPUD_POOL_DEVICES; ordinal++) {
        gpud_chunk_spare[ordinal] = 0;
        for (uint32_t i = 0; i < GPUD_CHUNK_CLASSES; i++)
            spares[ordinal][i].count = 0;
        for (uint32_t i = 0; i < GPUD_CHUNK_STATES; i++)
            gpud_chunk_bytes[ordinal][i] = 0;
    }
}
