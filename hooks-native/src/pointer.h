/* pointer.h: what cuPointerGetAttribute says of an address of ours, where the driver does not know what the program has there. */
#ifndef GPUD_POINTER_H
#define GPUD_POINTER_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda_api.h"

/* What is known of it. */
struct gpud_pointer {
    CUdeviceptr at;
    uint64_t id, start, bytes;                  /* of the allocation or reservation */
    uint64_t mapping, mapping_bytes;
    CUcontext context;
    bool in_context, ordered;                   /* it belongs to `context`; it is of the device's default pool */
    uint32_t ordinal;
    unsigned int access, handle_types;
};

/* `data` is not NULL. */
CUresult gpud_pointer_attribute(void *data, int attribute, const struct gpud_pointer *pointer);
/* Any of these may be NULL. What an attribute is not known for is 0. */
CUresult gpud_pointer_attributes(unsigned int count, const int *attributes, void **data, const struct gpud_pointer *pointer);

#endif
