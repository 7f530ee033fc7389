/* slab.c: see slab.h. A slab has a bit per 512 bytes (used or not), and the size of each allocation at its first unit. */
#include "slab.h"

#include <stdlib.h>

#define UNITS (GPUD_CHUNK_UNIT / GPUD_SLAB_ALIGN)
#define WORDS (UNITS / 64)
#define ORDERED 0x80000000u     /* in size[], beside the bytes */
#define FREEING 0x40000000u
#define BYTES 0x3fffffffu

struct gpud_slab {
    struct gpud_span *span;
    struct gpud_slab *next, *previous;
    uint32_t free_units;
    uint32_t rover;             /* the search begins here */
    uint64_t used[WORDS];
    uint32_t size[UNITS];       /* 0: no allocation begins here */
};

static struct gpud_slab *slabs[GPUD_POOL_DEVICES];

static uint32_t units_of(uint64_t bytes)
{
    return (uint32_t)((bytes + GPUD_SLAB_ALIGN - 1) / GPUD_SLAB_ALIGN);
}

static void set_range(struct gpud_slab *slab, uint32_t first, uint32_t count, bool used)
{
    for (uint32_t unit = first; unit < first + count;) {
        uint32_t bit = unit % 64, run = 64 - bit < first + count - unit ? 64 - bit : first + count - unit;
        uint64_t mask = (run == 64 ? UINT64_MAX : (UINT64_C(1) << run) - 1) << bit;
        slab->used[unit / 64] = used ? slab->used[unit / 64] | mask : slab->used[unit / 64] & ~mask;
        unit += run;
    }
    slab->free_units += used ? -count : count;
}

/* The first unit in [from, to) whose bit is `used`; `to` if there is none. */
static uint32_t seek(const struct gpud_slab *slab, uint32_t from, uint32_t to, bool used)
{
    while (from < to) {
        uint64_t word = (used ? slab->used[from / 64] : ~slab->used[from / 64]) >> from % 64;
        if (word != 0) {
            from += (uint32_t)__builtin_ctzll(word);
            return from < to ? from : to;
        }
        from = (from / 64 + 1) * 64;
    }
    return to;
}

/* `need` free units in a row that begin in [from, to); UNITS: none. */
static uint32_t find_run(const struct gpud_slab *slab, uint32_t from, uint32_t to, uint32_t need)
{
    for (uint32_t first = seek(slab, from, UNITS, false); first < to && first + need <= UNITS;) {
        uint32_t end = seek(slab, first, first + need, true);
        if (end == first + need)
            return first;
        first = seek(slab, end, UNITS, false);
    }
    return UNITS;
}

static bool put(struct gpud_slab *slab, uint64_t bytes, bool ordered, uint64_t *at)
{
    uint32_t need = units_of(bytes);
    uint32_t unit = slab->free_units < need ? (uint32_t)UNITS : find_run(slab, slab->rover, UNITS, need);

    if (unit == UNITS && slab->free_units >= need)
        unit = find_run(slab, 0, slab->rover, need);
    if (unit == UNITS)
        return false;
    set_range(slab, unit, need, true);
    slab->size[unit] = (uint32_t)bytes | (ordered ? ORDERED : 0);
    slab->rover = unit + need < UNITS ? unit + need : 0;
    slab->span->touched = ++gpud_span_clock;
    *at = slab->span->at + (uint64_t)unit * GPUD_SLAB_ALIGN;
    return true;
}

CUresult gpud_slab_alloc(uint32_t ordinal, CUcontext context, uint64_t bytes, bool ordered, bool backed, uint64_t *at)
{
    for (struct gpud_slab *slab = slabs[ordinal]; slab != NULL; slab = slab->next) {
        if (slab->span->context == context && slab->span->chunk[0].pins == 0 && put(slab, bytes, ordered, at))
            return CUDA_SUCCESS;
    }
    struct gpud_slab *slab = calloc(1, sizeof *slab);
    CUresult result = slab == NULL ? CUDA_ERROR_OUT_OF_MEMORY
                                   : gpud_span_new(ordinal, context, GPUD_CHUNK_UNIT, GPUD_SPAN_SLAB, backed, &slab->span);
    if (result != CUDA_SUCCESS) {
        free(slab);
        return result;
    }
    slab->span->slab = slab;
    slab->free_units = UNITS;
    slab->next = slabs[ordinal];
    if (slab->next != NULL)
        slab->next->previous = slab;
    slabs[ordinal] = slab;
    put(slab, bytes, ordered, at);
    return CUDA_SUCCESS;
}

bool gpud_slab_find(const struct gpud_span *span, uint64_t address, struct gpud_small *out)
{
    const struct gpud_slab *slab = span->slab;
    uint32_t unit = (uint32_t)((address - span->at) / GPUD_SLAB_ALIGN);

    if (!(slab->used[unit / 64] >> unit % 64 & 1))
        return false;
    while (slab->size[unit] == 0)
        unit--;
    *out = (struct gpud_small){ .at = span->at + (uint64_t)unit * GPUD_SLAB_ALIGN, .bytes = slab->size[unit] & BYTES,
                                .id = span->id | unit, .ordered = slab->size[unit] & ORDERED, .freeing = slab->size[unit] & FREEING };
    return true;
}

void gpud_slab_mark(struct gpud_span *span, uint64_t at, bool ordered, bool freeing, uint64_t bytes)
{
    span->slab->size[(at - span->at) / GPUD_SLAB_ALIGN] = (uint32_t)bytes | (ordered ? ORDERED : 0) | (freeing ? FREEING : 0);
}

uint64_t gpud_slab_ordered(const struct gpud_span *span)
{
    uint64_t bytes = 0;

    for (uint32_t unit = 0; unit < UNITS; unit++) {
        if ((span->slab->size[unit] & (ORDERED | FREEING)) == ORDERED)
            bytes += span->slab->size[unit] & BYTES;
    }
    return bytes;
}

void gpud_slab_gone(struct gpud_span *span)
{
    struct gpud_slab *slab = span->slab;

    if (slab->previous != NULL)
        slab->previous->next = slab->next;
    else
        slabs[span->ordinal] = slab->next;
    if (slab->next != NULL)
        slab->next->previous = slab->previous;
    span->slab = NULL;
    free(slab);
}

void gpud_slab_free(struct gpud_span *span, uint64_t at)
{
    struct gpud_slab *slab = span->slab;
    uint32_t unit = (uint32_t)((at - span->at) / GPUD_SLAB_ALIGN);
    uint32_t count = units_of(slab->size[unit] & BYTES);

    slab->size[unit] = 0;
    set_range(slab, unit, count, false);
    if (slab->free_units == UNITS) {
        gpud_slab_gone(span);
        gpud_span_drop(span, true);
    }
}

void gpud_slab_forget(void)
{
    for (uint32_t ordinal = 0; ordinal < GPUD_POOL_DEVICES; ordinal++)
        slabs[ordinal] = NULL;
}
