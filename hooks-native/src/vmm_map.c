/* vmm_map.c: where the program has mapped its handles, in addresses that it has reserved. What the driver sees of it is only what is on the
 * device just now, so what lies where is remembered here: the driver's own handles too, which nothing may be put over. See vmm.h. */
#include "vmm.h"

#include <stdlib.h>
#include <string.h>
#include "pool_span.h"
#include "real.h"
#include "state.h"
#include "swap.h"

/* By address. */
struct lot {
    uint64_t at, bytes;
    struct gpud_view *view;     /* NULL: reserved addresses */
};
struct lots {
    struct lot *lot;
    uint32_t count, room;
};
static struct lots reservations, views;
static uint32_t ours;           /* views that are not the driver's; read without the lock too */

/* The first that ends behind the address. */
static uint32_t index_of(const struct lots *lots, uint64_t address)
{
    uint32_t low = 0, high = lots->count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (lots->lot[middle].at + lots->lot[middle].bytes <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool overlaps(const struct lots *lots, uint64_t at, uint64_t bytes)
{
    uint32_t index = index_of(lots, at);
    return index < lots->count && lots->lot[index].at < at + bytes;
}

static bool put(struct lots *lots, struct lot lot)
{
    if (lots->count == lots->room) {
        uint32_t room = lots->room == 0 ? 64 : lots->room * 2;
        struct lot *grown = realloc(lots->lot, room * sizeof *grown);
        if (grown == NULL)
            return false;
        lots->lot = grown;
        lots->room = room;
    }
    uint32_t index = index_of(lots, lot.at);
    memmove(lots->lot + index + 1, lots->lot + index, (lots->count - index) * sizeof lot);
    lots->lot[index] = lot;
    lots->count++;
    return true;
}

static void take(struct lots *lots, uint32_t index, uint32_t count)
{
    lots->count -= count;
    memmove(lots->lot + index, lots->lot + index + count, (lots->count - index) * sizeof *lots->lot);
}

void gpud_vmm_reserved(uint64_t at, uint64_t bytes)
{
    pthread_mutex_lock(&gpud_pool_lock);
    if (!put(&reservations, (struct lot){ at, bytes, NULL }))
        gpud_add(&gpud_activity()->errors, 1);
    pthread_mutex_unlock(&gpud_pool_lock);
}

bool gpud_vmm_unreserves(uint64_t at, uint64_t bytes)
{
    pthread_mutex_lock(&gpud_pool_lock);
    return gpud_vmm_within(at, bytes) != NULL;
}

void gpud_vmm_unreserved(uint64_t at, CUresult result)
{
    uint32_t index = index_of(&reservations, at);

    if (result == CUDA_SUCCESS && index < reservations.count && reservations.lot[index].at == at)
        take(&reservations, index, 1);
    pthread_mutex_unlock(&gpud_pool_lock);
}

bool gpud_vmm_reservation(uint64_t at, uint64_t *start, uint64_t *bytes)
{
    uint32_t index = index_of(&reservations, at);

    if (index == reservations.count || reservations.lot[index].at > at)
        return false;
    *start = reservations.lot[index].at;
    *bytes = reservations.lot[index].bytes;
    return true;
}

static bool is_reserved(uint64_t at, uint64_t bytes)
{
    uint64_t start, size;
    return gpud_vmm_reservation(at, &start, &size) && bytes <= start + size - at;
}

struct gpud_view *gpud_vmm_nth(uint32_t index)
{
    return views.lot[index].view;
}

struct gpud_view *gpud_vmm_view(uint64_t at)
{
    uint32_t index = index_of(&views, at);
    struct gpud_view *view = index < views.count && views.lot[index].at <= at ? views.lot[index].view : NULL;
    return view != NULL && view->chunk != NULL ? view : NULL;
}

bool gpud_vmm_run(uint64_t at, uint64_t bytes, uint32_t *first, uint32_t *count)
{
    uint64_t next = at;

    *first = index_of(&views, at);
    *count = 0;
    while (*first + *count < views.count && views.lot[*first + *count].at == next && next < at + bytes)
        next += views.lot[*first + (*count)++].bytes;
    return *count > 0 && next == at + bytes;
}

struct gpud_view *gpud_vmm_within(uint64_t at, uint64_t bytes)
{
    for (uint32_t i = index_of(&views, at); i < views.count && views.lot[i].at < at + bytes; i++) {
        if (views.lot[i].view->chunk != NULL)
            return views.lot[i].view;
    }
    return NULL;
}

bool gpud_vmm_covers(uint64_t at, uint64_t bytes)
{
    if (gpud_load(&ours) == 0)      /* a stale count: of a mapping whose call has not returned yet */
        return false;
    pthread_mutex_lock(&gpud_pool_lock);
    bool covers = gpud_vmm_within(at, bytes) != NULL;
    pthread_mutex_unlock(&gpud_pool_lock);
    return covers;
}

bool gpud_vmm_maps(uint64_t at, uint64_t bytes, CUmemGenericAllocationHandle handle)
{
    return gpud_virtual(handle) || gpud_vmm_covers(at, bytes);
}

/* `chunk` NULL: the driver's. */
static struct gpud_view *add(struct gpud_chunk *chunk, uint64_t at, uint64_t bytes)
{
    struct gpud_view *view = calloc(1, sizeof *view);

    if (view == NULL)
        return NULL;
    *view = (struct gpud_view){ .at = at, .bytes = bytes, .chunk = chunk };
    if (!put(&views, (struct lot){ at, bytes, view })) {
        free(view);
        return NULL;
    }
    if (chunk != NULL) {
        view->next = chunk->origin->views;
        chunk->origin->views = view;
        gpud_store(&ours, ours + 1);
    }
    return view;
}

static void forget(struct gpud_view *view)
{
    struct gpud_chunk *chunk = view->chunk;

    if (chunk != NULL) {
        struct gpud_view **link = &chunk->origin->views;
        while (*link != view)
            link = &(*link)->next;
        *link = view->next;
        gpud_store(&ours, ours - 1);
    }
    free(view);
    if (chunk != NULL)
        gpud_vmm_settle(chunk);
}

/* The handle is one that the program has. */
static CUresult map(struct gpud_span *span, uint64_t at, uint64_t bytes, size_t offset, unsigned long long flags)
{
    struct gpud_chunk *chunk = &span->chunk[0];

    if (bytes == 0 || bytes % GPUD_CHUNK_UNIT != 0 || at % GPUD_CHUNK_UNIT != 0 || offset != 0 || flags != 0 || bytes > chunk->bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (overlaps(&views, at, bytes) || (!chunk->has_handle && !is_reserved(at, bytes)))     /* the driver tells, where it is asked */
        return CUDA_ERROR_INVALID_VALUE;
    struct gpud_view *view = add(chunk, at, bytes);
    if (view == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = gpud_view_back(view);
    if (result != CUDA_SUCCESS) {
        gpud_view_strip(view);      /* of pieces some may be mapped */
        take(&views, index_of(&views, at), 1);
        forget(view);
    } else {
        span->touched = ++gpud_span_clock;
    }
    return result;
}

CUresult gpud_vmm_map(uint64_t at, uint64_t bytes, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    pthread_mutex_lock(&gpud_pool_lock);
    struct gpud_span *span = gpud_vmm_span(handle);
    CUresult result = span != NULL && span->chunk[0].origin->handles > 0 ? map(span, at, bytes, offset, flags) : CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_unlock(&gpud_pool_lock);
    return result;
}

void gpud_vmm_driver_mapped(uint64_t at, uint64_t bytes, CUmemGenericAllocationHandle handle)
{
    if (gpud_virtual(handle))
        return;
    pthread_mutex_lock(&gpud_pool_lock);
    if (add(NULL, at, bytes) == NULL)
        gpud_add(&gpud_activity()->errors, 1);
    pthread_mutex_unlock(&gpud_pool_lock);
}

void gpud_vmm_driver_unmapped(uint64_t at, uint64_t bytes)
{
    pthread_mutex_lock(&gpud_pool_lock);
    for (uint32_t i = index_of(&views, at); i < views.count && views.lot[i].at < at + bytes;) {
        struct gpud_view *view = views.lot[i].view;
        if (view->chunk != NULL) {
            i++;
            continue;
        }
        take(&views, i, 1);
        free(view);
    }
    pthread_mutex_unlock(&gpud_pool_lock);
}

/* All of ours, then the driver's own; on failure ours are back again. */
static CUresult strip(uint32_t first, uint32_t count)
{
    CUresult result = CUDA_SUCCESS;

    for (uint32_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
        if (gpud_vmm_nth(first + i)->chunk != NULL)
            result = gpud_view_strip(gpud_vmm_nth(first + i));
    }
    for (uint32_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
        if (gpud_vmm_nth(first + i)->chunk == NULL)
            result = real.cuMemUnmap(views.lot[first + i].at, views.lot[first + i].bytes);
    }
    for (uint32_t i = 0; i < count && result != CUDA_SUCCESS; i++) {
        if (gpud_vmm_nth(first + i)->chunk != NULL && gpud_view_back(gpud_vmm_nth(first + i)) != CUDA_SUCCESS)
            gpud_add(&gpud_activity()->errors, 1);
    }
    return result;
}

CUresult gpud_vmm_unmap(uint64_t at, uint64_t bytes)
{
    uint32_t first, count;

    pthread_mutex_lock(&gpud_pool_lock);
    CUresult result = gpud_vmm_run(at, bytes, &first, &count) ? strip(first, count) : CUDA_ERROR_INVALID_VALUE;
    while (result == CUDA_SUCCESS && count-- > 0) {
        struct gpud_view *view = gpud_vmm_nth(first);
        take(&views, first, 1);
        forget(view);
    }
    pthread_mutex_unlock(&gpud_pool_lock);
    return result;
}

CUresult gpud_vmm_retain(CUmemGenericAllocationHandle *handle, uint64_t at)
{
    pthread_mutex_lock(&gpud_pool_lock);
    const struct gpud_view *view = gpud_vmm_view(at);
    if (view != NULL) {
        view->chunk->origin->handles++;
        *handle = view->chunk->origin->value;
    }
    pthread_mutex_unlock(&gpud_pool_lock);
    return view != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

void gpud_vmm_forget(void)
{
    reservations = views = (struct lots){ 0 };
    ours = 0;
    gpud_vmm_handles_forget();
}
