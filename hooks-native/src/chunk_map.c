/* chunk_map.c: where the memory of a chunk is seen: at its own addresses, and where the program has mapped a handle of its own (its views);
 * and by which devices. */
#include "chunk.h"

#include "page.h"
#include "real.h"

static uint32_t peers[GPUD_POOL_DEVICES];       /* bit per ordinal that may use its memory */
static uint32_t named[GPUD_POOL_DEVICES];       /* … or might once */

/* The memory at addresses: the chunk's own, or a view's. */
CUresult gpud_chunk_map(const struct gpud_chunk *chunk, uint64_t at, uint64_t bytes, uint32_t *pieces)
{
    CUresult result = CUDA_SUCCESS;

    if (chunk->piece == NULL)
        return real.cuMemMap(at, bytes, 0, chunk->handle, 0);
    while (result == CUDA_SUCCESS && *pieces < bytes / GPUD_CHUNK_UNIT) {
        result = real.cuMemMap(at + *pieces * GPUD_CHUNK_UNIT, GPUD_CHUNK_UNIT, 0, chunk->piece[*pieces], 0);
        *pieces += result == CUDA_SUCCESS;
    }
    return result;
}

CUresult gpud_chunk_unmap(const struct gpud_chunk *chunk, uint64_t at, uint64_t bytes, bool mapped, uint32_t *pieces)
{
    CUresult result = CUDA_SUCCESS;

    if (chunk->piece == NULL)
        return mapped ? real.cuMemUnmap(at, bytes) : CUDA_SUCCESS;
    /* The last first: what is mapped is whole from the beginning, and can be mapped on. */
    while (result == CUDA_SUCCESS && *pieces > 0) {
        result = real.cuMemUnmap(at + (*pieces - 1) * GPUD_CHUNK_UNIT, GPUD_CHUNK_UNIT);
        *pieces -= result == CUDA_SUCCESS;
    }
    return result;
}

static CUresult set_rights(struct gpud_view *view)
{
    CUmemAccessDesc list[GPUD_MAX_DEVICES];
    size_t count = 0;

    for (int ordinal = 0; ordinal < GPUD_MAX_DEVICES; ordinal++) {
        if (view->access[ordinal] != 0)     /* fresh mappings have none */
            list[count++] = (CUmemAccessDesc){ { CU_MEM_LOCATION_TYPE_DEVICE, ordinal }, view->access[ordinal] };
    }
    CUresult result = count != 0 ? real.cuMemSetAccess(view->at, view->bytes, list, count) : CUDA_SUCCESS;
    view->reachable = result == CUDA_SUCCESS;
    return result;
}

CUresult gpud_view_back(struct gpud_view *view)
{
    CUresult result = CUDA_SUCCESS;

    if (!view->chunk->has_handle)
        return result;
    if (!view->mapped) {
        result = gpud_chunk_map(view->chunk, view->at, view->bytes, &view->mapped_pieces);
        view->mapped = result == CUDA_SUCCESS;
    }
    if (result == CUDA_SUCCESS && !view->reachable)
        result = set_rights(view);
    return result;
}

CUresult gpud_view_strip(struct gpud_view *view)
{
    CUresult result = gpud_chunk_unmap(view->chunk, view->at, view->bytes, view->mapped, &view->mapped_pieces);

    if (result == CUDA_SUCCESS) {
        view->mapped = view->reachable = false;
    } else if (view->mapped && view->chunk->piece != NULL) {
        view->mapped = view->reachable = false;     /* in part, maybe */
        gpud_view_back(view);
    }
    return result;
}

CUresult gpud_views_back(const struct gpud_chunk *chunk)
{
    CUresult result = CUDA_SUCCESS;

    for (struct gpud_view *view = chunk->origin->views; view != NULL && result == CUDA_SUCCESS; view = view->next)
        result = gpud_view_back(view);
    return result;
}

/* All or none. */
CUresult gpud_views_strip(const struct gpud_chunk *chunk)
{
    CUresult result = CUDA_SUCCESS;

    for (struct gpud_view *view = chunk->origin->views; view != NULL && result == CUDA_SUCCESS; view = view->next)
        result = gpud_view_strip(view);
    if (result != CUDA_SUCCESS && gpud_views_back(chunk) != CUDA_SUCCESS)
        gpud_add(&gpud_activity()->errors, 1);
    return result;
}

CUresult gpud_chunk_access(struct gpud_chunk *chunk)
{
    CUmemAccessDesc list[GPUD_POOL_DEVICES];
    size_t count = 0;

    for (uint32_t ordinal = 0; ordinal < GPUD_POOL_DEVICES; ordinal++) {
        uint32_t bit = chunk->origin == NULL ? 1u << ordinal : 0;      /* views have rights of their own */
        bool may = ordinal == chunk->ordinal || peers[chunk->ordinal] & bit;
        if (may || named[chunk->ordinal] & bit)
            list[count++] = (CUmemAccessDesc){ { CU_MEM_LOCATION_TYPE_DEVICE, (int)ordinal }, may ? CU_MEM_ACCESS_READWRITE : 0 };
    }
    CUresult result = real.cuMemSetAccess(chunk->at, chunk->bytes, list, count);
    chunk->reachable = result == CUDA_SUCCESS;
    return result;
}

CUresult gpud_chunk_reach(struct gpud_chunk *chunk)
{
    CUresult result = CUDA_SUCCESS;

    if (!chunk->mapped) {
        result = gpud_chunk_map(chunk, chunk->at, chunk->bytes, &chunk->mapped_pieces);
        chunk->mapped = result == CUDA_SUCCESS;
    }
    if (result == CUDA_SUCCESS && !chunk->reachable)
        result = gpud_chunk_access(chunk);
    return result;
}

void gpud_chunk_peer(uint32_t ordinal, uint32_t peer, bool may)
{
    named[ordinal] |= 1u << peer;
    peers[ordinal] = may ? peers[ordinal] | 1u << peer : peers[ordinal] & ~(1u << peer);
}

void gpud_chunk_peers_forget(void)
{
    for (uint32_t ordinal = 0; ordinal < GPUD_POOL_DEVICES; ordinal++)
        peers[ordinal] = named[ordinal] = 0;
}
