/* mipmap.c: mipmapped arrays: one allocation, and an array for each level of it. */
#include "array.h"
#include "capture.h"

void mipmap_forget(struct mipmap *mipmap) {
    for (unsigned i = 0; i < mipmap->count; i++)
        handle_free(mipmap->levels[i]);
    handle_free(mipmap);
}

/* The extents of a level: halves, but layers stay. */
static CUDA_ARRAY3D_DESCRIPTOR level_of(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned level) {
    CUDA_ARRAY3D_DESCRIPTOR out = *d;
    bool layers = d->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
    out.Width = d->Width >> level ? d->Width >> level : 1;
    out.Height = d->Height ? (d->Height >> level ? d->Height >> level : 1) : 0;
    if (d->Depth && !layers)
        out.Depth = d->Depth >> level ? d->Depth >> level : 1;
    return out;
}

/* 1 + the logarithm of the largest extent. */
static unsigned most_levels(const CUDA_ARRAY3D_DESCRIPTOR *d) {
    bool layers = d->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
    size_t largest = d->Width > d->Height ? d->Width : d->Height;
    largest = !layers && d->Depth > largest ? d->Depth : largest;
    unsigned levels = 1;
    while (largest >>= 1)
        levels++;
    return levels;
}

/* The handles of a mipmapped array's levels; `bytes` receives what they take together. */
static bool make_levels(struct mipmap *mipmap, const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned element, unsigned count, size_t *bytes) {
    *bytes = 0;
    for (; mipmap->count < count; mipmap->count++) {
        struct array *level = handle_new(H_ARRAY);
        if (!level)
            return false;
        CUDA_ARRAY3D_DESCRIPTOR own = level_of(d, mipmap->count);
        array_shape(level, &own, element);
        level->ctx = mipmap->ctx;
        level->mipmap = mipmap;
        level->storage = (char *)(uintptr_t)*bytes;     /* within the whole, until that has a place */
        *bytes += (array_bytes(level) + HEAP_ALIGN - 1) / HEAP_ALIGN * HEAP_ALIGN;
        mipmap->levels[mipmap->count] = level;
    }
    return true;
}

ENTRY(cuMipmappedArrayCreate, CUmipmappedArray *out, const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned levels) {
    struct ctx *ctx;
    unsigned element;
    size_t bytes;
    CUresult result = capture_allows(&ctx);
    if (!result)
        result = out && d ? array_check(d, &element) : CUDA_ERROR_INVALID_VALUE;
    if (result)
        return result;
    unsigned most = most_levels(d);
    levels = levels < 1 ? 1 : levels > most ? most : levels;
    struct mipmap *mipmap = handle_new(H_MIPMAP);
    if (!mipmap)
        return CUDA_ERROR_OUT_OF_MEMORY;
    mipmap->ctx = ctx;
    result = make_levels(mipmap, d, element, levels, &bytes) ? array_new(ctx, d, element, bytes, &mipmap->whole) : CUDA_ERROR_OUT_OF_MEMORY;
    if (result) {
        mipmap_forget(mipmap);
        return result;
    }
    mipmap->whole->mipmap = mipmap;
    for (unsigned i = 0; i < levels; i++)
        mipmap->levels[i]->storage = mipmap->whole->storage + (uintptr_t)mipmap->levels[i]->storage;
    *out = (CUmipmappedArray)mipmap;
    return CUDA_SUCCESS;
}

static CUresult mipmap_of(CUmipmappedArray handle, struct mipmap **out) {
    CUresult result = sim_ready();
    if (result)
        return result;
    if (!handle_ok(H_MIPMAP, handle))
        return CUDA_ERROR_INVALID_HANDLE;
    *out = (struct mipmap *)handle;
    return ctx_check((*out)->ctx);
}

ENTRY(cuMipmappedArrayGetLevel, CUarray *out, CUmipmappedArray handle, unsigned level) {
    struct mipmap *mipmap;
    CUresult result = mipmap_of(handle, &mipmap);
    if (!result && (!out || level >= mipmap->count))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *out = (CUarray)mipmap->levels[level];
    return result;
}

ENTRY(cuMipmappedArrayDestroy, CUmipmappedArray handle) {
    struct mipmap *mipmap;
    CUresult result = mipmap_of(handle, &mipmap);
    if (!result)
        result = array_destroy(mipmap->whole);
    if (!result)
        mipmap_forget(mipmap);
    return result;
}
