/* pointer.c: answers for cuPointerGetAttribute and cuPointerGetAttributes. See pointer.h. */
#include "pointer.h"

#include <string.h>

#include "pool.h"
#include "real.h"

enum { A_CONTEXT = 1, A_MEMORY_TYPE, A_DEVICE_POINTER, A_HOST_POINTER, A_P2P_TOKENS, A_SYNC_MEMOPS, A_BUFFER_ID, A_IS_MANAGED,
       A_DEVICE_ORDINAL, A_LEGACY_IPC, A_RANGE_START, A_RANGE_SIZE, A_MAPPED, A_HANDLE_TYPES, A_RDMA, A_ACCESS_FLAGS, A_MEMPOOL,
       A_MAPPING_SIZE, A_MAPPING_BASE, A_BLOCK_ID, A_DECOMPRESS };
#define MEMORYTYPE_DEVICE 2

#define PUT(type, value)                    \
    do {                                    \
        type put_ = (type)(value);          \
        memcpy(data, &put_, sizeof put_);   \
        return CUDA_SUCCESS;                \
    } while (0)

CUresult gpud_pointer_attribute(void *data, int attribute, const struct gpud_pointer *pointer)
{
    switch (attribute) {
    case A_CONTEXT:
        if (!pointer->in_context)
            return CUDA_ERROR_INVALID_VALUE;    /* memory of pools and of handles belongs to no context */
        PUT(CUcontext, pointer->context);
    case A_MEMORY_TYPE: PUT(unsigned int, MEMORYTYPE_DEVICE);
    case A_DEVICE_POINTER: PUT(CUdeviceptr, pointer->at);
    case A_SYNC_MEMOPS:     /* where it is set the memory stays, and the driver knows it */
        if (real.cuPointerGetAttribute != NULL && real.cuPointerGetAttribute(data, attribute, pointer->at) == CUDA_SUCCESS)
            return CUDA_SUCCESS;
        PUT(unsigned char, 0);
    case A_BUFFER_ID: case A_BLOCK_ID: PUT(unsigned long long, pointer->id);
    case A_IS_MANAGED: case A_LEGACY_IPC: case A_RDMA: case A_DECOMPRESS: PUT(unsigned char, 0);
    case A_DEVICE_ORDINAL: PUT(int, pointer->ordinal);
    case A_RANGE_START: PUT(CUdeviceptr, pointer->start);
    case A_RANGE_SIZE: PUT(size_t, pointer->bytes);
    case A_MAPPED: PUT(unsigned char, 1);
    case A_HANDLE_TYPES: PUT(unsigned long long, pointer->handle_types);
    case A_ACCESS_FLAGS: PUT(unsigned int, pointer->access);
    case A_MEMPOOL: PUT(CUmemoryPool, pointer->ordered ? gpud_pool_default(pointer->ordinal) : NULL);
    case A_MAPPING_SIZE: PUT(size_t, pointer->mapping_bytes);
    case A_MAPPING_BASE: PUT(CUdeviceptr, pointer->mapping);
    default: return CUDA_ERROR_INVALID_VALUE;   /* host pointers, tokens for RDMA */
    }
}

/* How many bytes an attribute has, to give 0 for what it is not known for. */
static size_t width(int attribute)
{
    return attribute == A_P2P_TOKENS ? 16 : 8;
}

CUresult gpud_pointer_attributes(unsigned int count, const int *attributes, void **data, const struct gpud_pointer *pointer)
{
    if (count == 0 || attributes == NULL || data == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned int i = 0; i < count; i++) {
        if (data[i] == NULL || attributes[i] < A_CONTEXT || attributes[i] > A_DECOMPRESS)
            return CUDA_ERROR_INVALID_VALUE;
        if (gpud_pointer_attribute(data[i], attributes[i], pointer) != CUDA_SUCCESS)
            memset(data[i], 0, width(attributes[i]));
    }
    return CUDA_SUCCESS;
}
