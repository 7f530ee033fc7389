/* pool_span.c: see pool_span.h. Spans lie in an array sorted by address: looked up by every free and query, changed by few. */
#include "pool_span.h"

#include <stdlib.h>
#include <string.h>
#include "alloc.h"
#include "host_slots.h"
#include "page.h"
#include "real.h"

#define IDLE_LIMIT (2 * GPUD_CHUNK_LARGEST)     /* free spans kept per device */

static struct gpud_span **spans;
static uint32_t span_count, span_room;
static uint64_t ids;
uint64_t gpud_span_idle[GPUD_POOL_DEVICES];
uint64_t gpud_span_clock;

/* The first span that ends behind the address. */
static uint32_t index_of(uint64_t address)
{
    uint32_t low = 0, high = span_count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (spans[middle]->at + spans[middle]->bytes <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct gpud_span *gpud_span_at(uint64_t address)
{
    uint32_t index = index_of(address);
    struct gpud_span *span = index < span_count && spans[index]->at <= address ? spans[index] : NULL;
    return span != NULL && span->use != GPUD_SPAN_FREE && !span->gone ? span : NULL;
}

struct gpud_span *gpud_span_nth(uint32_t index)
{
    return index < span_count ? spans[index] : NULL;
}

uint32_t gpud_span_count(void)
{
    return gpud_load(&span_count);
}

static bool make_room(void)
{
    if (span_count < span_room)
        return true;
    uint32_t room = span_room == 0 ? 64 : span_room * 2;
    struct gpud_span **grown = realloc(spans, room * sizeof *grown);
    if (grown == NULL)
        return false;
    spans = grown;
    span_room = room;
    return true;
}

static void insert(struct gpud_span *span)
{
    uint32_t index = index_of(span->at);
    memmove(spans + index + 1, spans + index, (span_count - index) * sizeof *spans);
    spans[index] = span;
    gpud_store(&span_count, span_count + 1);
}

static void take_out(const struct gpud_span *span)
{
    uint32_t index = index_of(span->at);
    gpud_store(&span_count, span_count - 1);
    memmove(spans + index, spans + index + 1, (span_count - index) * sizeof *spans);
}

/* Chunks of the classes that fit, the largest first. */
static uint32_t cut(struct gpud_span *span, uint64_t bytes)
{
    uint32_t count = 0;

    for (uint64_t left = bytes; left > 0; count++) {
        uint64_t size = gpud_chunk_class(left);
        if (span != NULL)
            span->chunk[count] = (struct gpud_chunk){ .at = span->at + bytes - left, .bytes = size, .host = GPUD_NO_HOST,
                                                      .ordinal = span->ordinal };
        left -= size;
    }
    return count;
}

/* Takes it apart: handles, addresses, itself. What the driver does not give up stays reserved, and is counted as lost. */
static void destroy(struct gpud_span *span, bool keep)
{
    bool whole = true;

    for (uint32_t i = 0; i < span->count; i++) {
        struct gpud_chunk *chunk = &span->chunk[i];
        bool again = keep && chunk->pins == 0;      /* memory that somebody outside has is never recycled */
        if (gpud_chunk_strip(chunk, again) != CUDA_SUCCESS && gpud_chunk_strip(chunk, again) != CUDA_SUCCESS) {
            gpud_store(&gpud_chunk_lost, gpud_chunk_lost + chunk->bytes);
            whole = false;
        }
        if (chunk->number != 0)
            gpud_handle_left(chunk->number, chunk->bytes, chunk->ordinal);
        gpud_chunk_set(chunk, GPUD_CHUNK_LAZY);
        gpud_store(&gpud_chunk_bytes[chunk->ordinal][GPUD_CHUNK_LAZY], gpud_chunk_bytes[chunk->ordinal][GPUD_CHUNK_LAZY] - chunk->bytes);
        if (chunk->host != GPUD_NO_HOST)
            gpud_host_give(chunk->host);
    }
    if (span->use == GPUD_SPAN_HANDLE)
        free(span->chunk[0].origin);
    take_out(span);
    if (!whole || (real.cuMemAddressFree(span->at, span->bytes) != CUDA_SUCCESS &&
                   real.cuMemAddressFree(span->at, span->bytes) != CUDA_SUCCESS))
        gpud_add(&gpud_activity()->errors, 1);
    free(span);
}

static void begin(struct gpud_span *span, CUcontext context, uint64_t user, enum gpud_span_use use)
{
    span->context = context;
    span->user = user;
    span->use = (uint8_t)use;
    span->touched = ++gpud_span_clock;
    span->id = UINT64_C(1) << 62 | ++ids << 12;
    span->ordered = span->freeing = false;
    span->slab = NULL;
}

/* A free one of exactly this size. */
static struct gpud_span *reuse(uint32_t ordinal, uint64_t bytes)
{
    for (uint32_t i = 0; gpud_span_idle[ordinal] >= bytes && i < span_count; i++) {
        if (spans[i]->use == GPUD_SPAN_FREE && spans[i]->ordinal == ordinal && spans[i]->bytes == bytes) {
            gpud_store(&gpud_span_idle[ordinal], gpud_span_idle[ordinal] - bytes);
            return spans[i];
        }
    }
    return NULL;
}

/* Addresses, with room for so many chunks. */
static CUresult make(uint32_t ordinal, uint64_t bytes, uint32_t count, struct gpud_span **out)
{
    if (bytes / GPUD_CHUNK_UNIT > UINT32_MAX || !make_room())
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct gpud_span *span = calloc(1, sizeof *span + count * sizeof span->chunk[0]);
    CUdeviceptr at = 0;
    CUresult result = span == NULL ? CUDA_ERROR_OUT_OF_MEMORY : real.cuMemAddressReserve(&at, bytes, GPUD_CHUNK_UNIT, 0, 0);
    if (result != CUDA_SUCCESS) {
        free(span);
        return result;
    }
    span->at = at;
    span->bytes = bytes;
    span->ordinal = ordinal;
    span->count = count;
    *out = span;
    return CUDA_SUCCESS;
}

/* Its chunks are known: among the others, and `backed` with memory. On failure it is gone. */
static CUresult enter(struct gpud_span *span, CUcontext context, uint64_t user, enum gpud_span_use use, bool backed)
{
    uint64_t *lazy = &gpud_chunk_bytes[span->ordinal][GPUD_CHUNK_LAZY];
    CUresult result = CUDA_SUCCESS;

    begin(span, context, user, use);
    insert(span);
    gpud_store(lazy, *lazy + span->bytes);
    for (uint32_t i = 0; i < span->count && backed && result == CUDA_SUCCESS; i++) {
        result = gpud_chunk_back(&span->chunk[i]);
        if (result == CUDA_SUCCESS)
            gpud_chunk_set(&span->chunk[i], GPUD_CHUNK_RESIDENT_DIRTY);
    }
    if (result != CUDA_SUCCESS)
        destroy(span, true);
    return result;
}

CUresult gpud_span_new(uint32_t ordinal, CUcontext context, uint64_t user, enum gpud_span_use use, bool backed, struct gpud_span **out)
{
    if (user > UINT64_MAX - GPUD_CHUNK_UNIT)
        return CUDA_ERROR_OUT_OF_MEMORY;
    uint64_t bytes = (user + GPUD_CHUNK_UNIT - 1) / GPUD_CHUNK_UNIT * GPUD_CHUNK_UNIT;
    struct gpud_span *span = backed ? reuse(ordinal, bytes) : NULL;
    CUresult result = CUDA_SUCCESS;
    if (span == NULL) {
        result = make(ordinal, bytes, cut(NULL, bytes), &span);
        if (result == CUDA_SUCCESS) {
            cut(span, bytes);
            result = enter(span, context, user, use, backed);
        }
    } else {
        begin(span, context, user, use);
    }
    if (result == CUDA_SUCCESS)
        *out = span;
    return result;
}

CUresult gpud_span_of_handle(uint32_t ordinal, uint64_t bytes, struct gpud_origin *origin, bool backed, struct gpud_span **out)
{
    struct gpud_span *span;
    CUresult result = make(ordinal, bytes, 1, &span);

    if (result != CUDA_SUCCESS) {
        free(origin);
        return result;
    }
    span->chunk[0] = (struct gpud_chunk){ .at = span->at, .bytes = bytes, .host = GPUD_NO_HOST, .ordinal = ordinal, .origin = origin };
    result = enter(span, NULL, bytes, GPUD_SPAN_HANDLE, backed);
    if (result == CUDA_SUCCESS)
        *out = span;
    return result;
}

static bool all_resident(const struct gpud_span *span)
{
    for (uint32_t i = 0; i < span->count; i++) {
        if (span->chunk[i].state != GPUD_CHUNK_RESIDENT_DIRTY)
            return false;
    }
    return true;
}

void gpud_span_drop(struct gpud_span *span, bool keep)
{
    if (span->moving > 0) {
        span->gone = true;
        return;
    }
    if (!keep || span->gone || !all_resident(span) || gpud_span_idle[span->ordinal] + span->bytes > IDLE_LIMIT) {
        destroy(span, keep);
        return;
    }
    begin(span, NULL, 0, GPUD_SPAN_FREE);
    gpud_store(&gpud_span_idle[span->ordinal], gpud_span_idle[span->ordinal] + span->bytes);
}

uint64_t gpud_span_trim(uint32_t ordinal, uint64_t bytes)
{
    uint64_t given = gpud_chunk_trim(ordinal, bytes);

    for (uint32_t i = span_count; i-- > 0 && given < bytes;) {
        struct gpud_span *span = spans[i];
        if (span->use != GPUD_SPAN_FREE || span->ordinal != ordinal || span->moving > 0)
            continue;
        given += span->bytes;
        gpud_store(&gpud_span_idle[ordinal], gpud_span_idle[ordinal] - span->bytes);
        destroy(span, false);
    }
    return given;
}

uint64_t gpud_chunk_make_room(uint32_t ordinal, uint64_t bytes)
{
    (void)bytes;        /* what is idle is of other sizes, and a device without memory has none to lose by fragments: all of it goes */
    return gpud_span_trim(ordinal, UINT64_MAX);
}

void gpud_span_forget(void)
{
    spans = NULL;
    span_count = span_room = 0;
    for (uint32_t ordinal = 0; ordinal < GPUD_POOL_DEVICES; ordinal++)
        gpud_span_idle[ordinal] = 0;
}
