/* array.c: arrays: what may be asked for, and where it lies. */
#include <stdlib.h>

#include "array.h"
#include "capture.h"
#include "missing.h"

/* Bytes of one channel of a format; 0: not a format that is simulated. `fixed`: how many channels it has, 0: any. */
static unsigned channel_bytes(int format, unsigned *fixed) {
    *fixed = 0;
    switch (format) {
    case 0x01: case 0x08: return 1;                     /* UNSIGNED_INT8, SIGNED_INT8 */
    case 0x02: case 0x09: case 0x10: return 2;          /* the 16-bit integers, HALF */
    case 0x03: case 0x0a: case 0x20: return 4;          /* the 32-bit integers, FLOAT */
    case 0x50: *fixed = 1; return 4;                    /* UNORM_INT_101010_2: its four channels are one word */
    default: break;
    }
    if (format < 0xc0 || format > 0xcb)
        return 0;
    static const unsigned channels[] = {1, 2, 4};       /* UNORM_INT8X1 … SNORM_INT16X4 */
    *fixed = channels[(format - 0xc0) % 3];
    return (format - 0xc0) / 3 % 2 ? 2 : 1;
}

/* The limits of a kind of array: width, height, depth or layers. */
static bool within(const CUDA_ARRAY3D_DESCRIPTOR *d) {
    const size_t w = d->Width, h = d->Height, n = d->Depth;
    bool layered = d->Flags & CUDA_ARRAY3D_LAYERED, cube = d->Flags & CUDA_ARRAY3D_CUBEMAP;
    if (!w)
        return false;
    if (cube)
        return w <= 32768 && w == h && (layered ? n && n % 6 == 0 && n <= 2046 : n == 6);
    if (d->Flags & CUDA_ARRAY3D_TEXTURE_GATHER)
        return !n && h && w <= 32768 && h <= 32768;
    if (layered)
        return w <= 32768 && h <= 32768 && n && n <= 2048;
    if (n)
        return h && w <= 16384 && h <= 16384 && n <= 16384;
    return h ? w <= 131072 && h <= 65536 : w <= 131072;
}

CUresult array_check(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned *element) {
    const unsigned simulated = CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST | CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_TEXTURE_GATHER
                               | CUDA_ARRAY3D_COLOR_ATTACHMENT;
    const unsigned known = simulated | CUDA_ARRAY3D_DEPTH_TEXTURE | CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING
                           | CUDA_ARRAY3D_VIDEO_ENCODE_DECODE;
    unsigned fixed, bytes = channel_bytes(d->Format, &fixed);
    if (d->Flags & ~known || !within(d))
        return CUDA_ERROR_INVALID_VALUE;
    if (d->Flags & ~simulated)
        return MISSING(ARRAY_KIND);
    if (!bytes && ((d->Format >= 0x91 && d->Format <= 0xb5) || d->Format == 0xb0))
        return MISSING(ARRAY_FORMAT);
    bool channels = d->NumChannels == 1 || d->NumChannels == 2 || d->NumChannels == 4;
    if (!bytes || !channels || (fixed && d->Format != 0x50 && d->NumChannels != fixed))
        return CUDA_ERROR_INVALID_VALUE;
    *element = bytes * (fixed ? fixed : d->NumChannels);
    return CUDA_SUCCESS;
}

void array_shape(struct array *array, const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned element) {
    array->descriptor = *d;
    array->row = d->Width * element;
    array->rows = d->Height ? d->Height : 1;
    array->planes = d->Depth ? d->Depth : 1;
}

size_t array_bytes(const struct array *array) { return array->row * array->rows * array->planes; }

static void hide(struct block *block, void *data) { *(bool *)data = block->hidden = true; }

CUresult array_new(struct ctx *ctx, const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned element, size_t bytes, struct array **out) {
    struct array *array = handle_new(H_ARRAY);
    if (!array)
        return CUDA_ERROR_OUT_OF_MEMORY;
    array->ctx = ctx;
    array_shape(array, d, element);
    bool hidden;
    CUresult result = heap_alloc(ctx->device->plain, ctx, bytes ? bytes : array_bytes(array), NULL, &array->storage);
    if (result) {
        handle_free(array);
        return result;
    }
    heap_change(array->storage, hide, &hidden);
    pthread_mutex_lock(&ctx->lock);
    array->next = ctx->arrays;
    array->link = &ctx->arrays;
    if (array->next)
        array->next->link = &array->next;
    ctx->arrays = array;
    pthread_mutex_unlock(&ctx->lock);
    *out = array;
    return CUDA_SUCCESS;
}

static void forget(struct array *array) {
    pthread_mutex_lock(&array->ctx->lock);
    *array->link = array->next;
    if (array->next)
        array->next->link = array->link;
    pthread_mutex_unlock(&array->ctx->lock);
    handle_free(array);
}

void arrays_release(struct ctx *ctx) {
    while (ctx->arrays) {
        if (ctx->arrays->mipmap)
            mipmap_forget(ctx->arrays->mipmap);
        forget(ctx->arrays);
    }
}

CUresult array_of(CUarray handle, struct array **out) {
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!handle_ok(H_ARRAY, handle))
        return CUDA_ERROR_INVALID_HANDLE;
    *out = (struct array *)handle;
    return ctx_check((*out)->ctx);
}

static CUresult create(CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *d) {
    struct ctx *ctx;
    struct array *array;
    unsigned element;
    CUresult result = capture_allows(&ctx);
    if (!result)
        result = out && d ? array_check(d, &element) : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = array_new(ctx, d, element, 0, &array);
    if (!result)
        *out = (CUarray)array;
    return result;
}

ENTRY(cuArray3DCreate_v2, CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *descriptor) { return create(out, descriptor); }

ENTRY(cuArrayCreate_v2, CUarray *out, const CUDA_ARRAY_DESCRIPTOR *d) {
    if (!d)
        return create(out, NULL);
    CUDA_ARRAY3D_DESCRIPTOR three = {d->Width, d->Height, 0, d->Format, d->NumChannels, 0};
    return create(out, &three);
}

CUresult array_destroy(struct array *array) {
    CUresult result = capture_unsafe();
    if (!result)
        result = ctx_synchronise(array->ctx);
    if (result)
        return result;
    heap_free(array->storage);
    forget(array);
    return CUDA_SUCCESS;
}

ENTRY(cuArrayDestroy, CUarray handle) {
    struct array *array;
    CUresult result = array_of(handle, &array);
    if (result)
        return result;
    return array->mipmap ? CUDA_ERROR_INVALID_HANDLE : array_destroy(array);
}

ENTRY(cuArray3DGetDescriptor_v2, CUDA_ARRAY3D_DESCRIPTOR *out, CUarray handle) {
    struct array *array;
    CUresult result = array_of(handle, &array);
    if (!result && !out)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *out = array->descriptor;
    return result;
}

ENTRY(cuArrayGetDescriptor_v2, CUDA_ARRAY_DESCRIPTOR *out, CUarray handle) {
    struct array *array;
    CUresult result = array_of(handle, &array);
    if (!result && !out)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *out = (CUDA_ARRAY_DESCRIPTOR){array->descriptor.Width, array->descriptor.Height, array->descriptor.Format,
                                       array->descriptor.NumChannels};
    return result;
}
