/* stream_attributes.c: attributes of streams. Hints are kept and answered; the priority is that which the stream was made with. */
#include <stdlib.h>
#include <string.h>

#include "missing.h"
#include "sim.h"

enum { WINDOW = 1, SYNCHRONISATION = 3, PRIORITY = 8, DOMAIN_MAP = 9, DOMAIN = 10, ATTRIBUTES };

static bool known(int id) { return id == WINDOW || id == SYNCHRONISATION || id == PRIORITY || id == DOMAIN_MAP || id == DOMAIN; }

static CUresult stream_with(CUstream handle, int id, const void *value, struct stream **out) {
    CUresult result = stream_of(handle, out);
    return result ? result : known(id) && value ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static bool make_room(struct stream *stream) {
    if (!stream->attributes)
        stream->attributes = calloc(ATTRIBUTES, sizeof *stream->attributes);
    return stream->attributes != NULL;
}

static CUresult get(CUstream handle, int id, void *value) {
    struct stream *stream;
    CUresult result = stream_with(handle, id, value, &stream);
    if (result)
        return result;
    static const int automatic = 1;     /* CU_SYNC_POLICY_AUTO */
    memset(value, 0, sizeof *stream->attributes);
    if (id == PRIORITY)
        memcpy(value, &stream->priority, sizeof stream->priority);
    else if (stream->attributes_set >> id & 1)
        memcpy(value, stream->attributes[id], sizeof *stream->attributes);
    else if (id == SYNCHRONISATION)
        memcpy(value, &automatic, sizeof automatic);
    return CUDA_SUCCESS;
}
PTSZ(cuStreamGetAttribute, (CUstream stream, int id, void *value), get(S(stream), id, value))

static CUresult set(CUstream handle, int id, const void *value) {
    struct stream *stream;
    CUresult result = stream_with(handle, id, value, &stream);
    if (result)
        return result;
    int number;
    memcpy(&number, value, sizeof number);
    if (id == PRIORITY && number != stream->priority)
        return MISSING(STREAM_PRIORITY);
    if (id == SYNCHRONISATION && (number < 1 || number > 4))
        return CUDA_ERROR_INVALID_VALUE;
    if (!make_room(stream))
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(stream->attributes[id], value, sizeof *stream->attributes);
    stream->attributes_set |= 1u << id;
    return CUDA_SUCCESS;
}
PTSZ(cuStreamSetAttribute, (CUstream stream, int id, const void *value), set(S(stream), id, value))

static CUresult copy(CUstream dst_handle, CUstream src_handle) {
    struct stream *dst, *src;
    CUresult result = stream_of(dst_handle, &dst);
    if (!result)
        result = stream_of(src_handle, &src);
    if (result)
        return result;
    if (dst->ctx != src->ctx)
        return CUDA_ERROR_INVALID_VALUE;
    if (!src->attributes || dst == src)
        return CUDA_SUCCESS;
    if (!make_room(dst))
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(dst->attributes, src->attributes, ATTRIBUTES * sizeof *dst->attributes);
    dst->attributes_set = src->attributes_set;
    return CUDA_SUCCESS;
}
PTSZ(cuStreamCopyAttributes, (CUstream dst, CUstream src), copy(S(dst), S(src)))
