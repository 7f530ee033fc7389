/* space.h: virtual memory management: reserved addresses, and physical memory mapped at them. Everything here is under space_lock. */
#ifndef SIM_CUDA_SPACE_H
#define SIM_CUDA_SPACE_H

#include "heap.h"

#define SPACE_UNIT HEAP_UNIT            /* granularity of mappings */

/* A generic allocation handle and what it stands for. It lives while it is held by the program or mapped. */
struct physical {
    struct handle handle;
    struct device *device;              /* NULL: host memory */
    uint64_t offset, bytes;             /* in the device's memory, or in the file of its own */
    uint64_t id;
    int fd;                             /* of the device's memory, or the file */
    unsigned references, mappings;      /* the program's, and ours */
    CUmemAllocationProp prop;
};

struct mapping {
    char *start;
    uint64_t bytes, id;
    struct physical *physical;
    unsigned char access[SIM_MAX_DEVICES], host;        /* CUmemAccess_flags */
    bool sync;                          /* CU_POINTER_ATTRIBUTE_SYNC_MEMOPS */
    int protection;                     /* of the pages now; see view.c */
};

struct area {
    char *start, *raw;                  /* raw: what was really reserved */
    uint64_t bytes, raw_bytes;
    struct mapping *mappings;           /* by address */
    size_t count, room;
};

extern pthread_mutex_t space_lock;

/* space.c */
CUresult space_reserve(uint64_t bytes, uint64_t align, void *hint, char **out);
CUresult space_unreserve(const char *start, uint64_t bytes);
struct area *space_area(const void *address);                   /* the reservation an address lies in, or NULL */
struct mapping *space_mapping(const struct area *area, const void *address);    /* what is mapped there, or NULL */
/* The mappings that are exactly these addresses without a gap: the first, and how many. NULL: they are not. */
struct mapping *space_run(const char *start, uint64_t bytes, size_t *count);
CUresult space_map(struct area *area, char *start, uint64_t bytes, struct physical *physical);
void space_unmap(struct mapping *first, size_t count);
int space_protection(const struct mapping *mapping);            /* what its access flags come to for the process */
CUresult space_protect(struct mapping *mapping, int protection);
void space_each(void (*visit)(struct mapping *mapping, void *data), void *data);

/* physical.c */
struct physical *physical_of(CUmemGenericAllocationHandle handle);      /* held by the program, or NULL */
void physical_drop(struct physical *physical);                  /* frees it when nobody has it any more */

#endif
