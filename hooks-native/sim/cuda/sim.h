/* sim.h: the objects of the simulated libcuda and the state of the process. Who may touch what is said at each structure. */
#ifndef SIM_CUDA_SIM_H
#define SIM_CUDA_SIM_H

#include <pthread.h>
#include <stdatomic.h>

#include "../../include/gpud_kernel.h"
#include "../link.h"
#include "api.h"

#define SIM_DRIVER_VERSION 13000
#define SIM_LOWEST_PRIORITY 0
#define SIM_HIGHEST_PRIORITY (-5)

enum handle_type { H_CONTEXT, H_STREAM, H_EVENT, H_MODULE, H_FUNCTION, H_LIBRARY, H_KERNEL, H_LINK, H_POOL, H_GRAPH, H_NODE, H_EXEC,
                   H_USER_OBJECT, H_PHYSICAL, H_ARRAY, H_MIPMAP, H_TYPES };

/* Every object that a handle names starts with this. */
struct handle { _Atomic uint32_t alive; uint32_t type; struct handle *next_free; uint64_t id; };

/* handles.c. Handles live in reserved arenas, so that any value can be checked without touching foreign memory. */
void *handle_new(enum handle_type type);                        /* zeroed, NULL: no host memory */
void handle_free(void *handle);
bool handle_ok(enum handle_type type, const void *handle);

struct heap;
struct image;

struct device {
    int ordinal;                    /* in this process */
    uint32_t node_index;            /* on the node: what the link calls it; differs under CUDA_VISIBLE_DEVICES */
    struct sim_device_info info;
    char *base;                     /* start of the reserved address range; device address = base + offset in the memfd */
    uint64_t span;                  /* its length */
    int memory_fd;
    struct segment **units;         /* which segment owns each 2 MiB of the range; under heap_lock */
    pthread_mutex_t heap_lock;
    struct heap *heaps;             /* all of them; under heap_lock */
    struct heap *plain, *managed, *imports;             /* cuMemAlloc, cuMemAllocManaged, cuIpcOpenMemHandle */
    struct pool *default_pool, *current_pool, *pools;   /* under heap_lock */
    struct ctx *primary;            /* made at first use, kept */
    pthread_mutex_t primary_lock;
    unsigned primary_count, primary_flags;
};

struct ctx {
    struct handle handle;
    struct device *device;
    uint32_t sim_context;
    unsigned flags, api_version;
    bool primary;
    _Atomic bool active;            /* a reset primary context is not */
    _Atomic int error;              /* sticky: what a kernel did; every later call answers it */
    _Atomic int fault;              /* what a kernel has done while it was computed: the error once it is due */
    uint32_t fault_queue;           /* where that kernel is; written before `fault` */
    uint64_t fault_ticket;
    _Atomic uint32_t uncomputed;    /* works of it that the computing thread has */
    unsigned attached;              /* cuCtxAttach */
    pthread_mutex_t lock;           /* the lists below */
    struct ctx *next, **link;       /* all contexts of the process; contexts_lock */
    struct stream *streams;
    struct stream *legacy;
    struct event *events;
    struct module *modules;
    _Atomic uint64_t legacy_last;   /* ticket of the newest work of the legacy stream */
    size_t limits[16];
    int cache_config, shared_config;
    struct ctx_peer *peers;         /* contexts whose memory it may use; peer.c */
    struct array *arrays;           /* array.h */
};

#define STREAM_FOLLOWS 8
/* Work of another stream that was waited for: all of the queue up to the ticket. */
struct stream_follow { uint32_t queue; uint64_t ticket; };

struct stream {
    struct handle handle;
    struct ctx *ctx;
    struct stream *next, **link;    /* ctx->streams */
    uint32_t queue;
    int priority;
    unsigned flags;
    bool legacy, per_thread;
    _Atomic uint64_t last;          /* ticket of the newest command; written under the submit lock */
    uint64_t legacy_seen;           /* legacy ticket this stream already waits for; submit lock */
    bool dirty;                     /* has work that the legacy stream has not waited for; submit lock */
    uint32_t mark;                  /* internal event for waits between streams; submit lock */
    uint64_t mark_ticket;           /* its newest record */
    struct capture *capture;        /* what this stream is being captured into; submit lock */
    struct nodes *capture_set;      /* what its next node there will wait for; made at first use */
    struct stream *next_captured;   /* capture->streams */
    char (*attributes)[64];         /* that were set; stream_attributes.c */
    uint32_t attributes_set;
    struct stream_follow follows[STREAM_FOLLOWS];       /* the newest waits; submit lock */
    unsigned follow_next;
};

struct event {
    struct handle handle;
    struct ctx *ctx;
    struct event *next, **link;     /* ctx->events */
    unsigned flags;
    uint32_t sim_event;             /* 0: never recorded; submit lock */
    uint32_t queue;                 /* of the newest record; 0: perhaps one of another process */
    _Atomic uint64_t ticket;        /* of the newest record by this process */
    uint64_t number;                /* interprocess: its number in the node */
    bool imported;
    uint64_t capture_id;            /* recorded in this capture; 0: in none */
    struct nodes *capture_set;      /* what the stream had then; made at first use */
};

struct function {
    struct handle handle;
    struct module *module;
    const struct gpud_kernel_desc *desc;
    uint32_t name_id;
    int attributes[CU_FUNC_ATTRIBUTES];
    unsigned block[3], legacy_shared, legacy_size;      /* cuFuncSetBlockShape, cuFuncSetSharedSize, cuParamSetSize */
    unsigned char *legacy_params;
};

struct module {
    struct handle handle;
    struct ctx *ctx;
    struct module *next, **link;    /* ctx->modules */
    struct image *image;
    struct library *library;        /* made for this library, or NULL */
    struct function **functions;    /* one a kernel of the image */
    void **globals;                 /* address of each variable */
    char *storage;                  /* the allocation that holds them */
};

struct kernel {
    struct handle handle;
    struct library *library;
    uint32_t index;
    int attributes[CU_FUNC_ATTRIBUTES];
};

struct library {
    struct handle handle;
    struct image *image;
    struct kernel **kernels;
    pthread_mutex_t lock;           /* making modules */
};

struct pool {
    struct handle handle;
    struct pool *next;              /* device->pools */
    struct device *device;
    struct heap *heap;
    bool builtin;
    int reuse[4];
    int handle_types;               /* by which it can be exported */
    uint64_t shared;                /* its number in the node once it is exported or imported; under heap_lock */
    bool imported;                  /* allocates nothing itself */
};

/* The process. `alive` lies on a page that fork() wipes. */
struct sim {
    struct sim_link *link;
    int device_count;
    struct device device[SIM_MAX_DEVICES];
    pthread_mutex_t submit;         /* order of submission = order of computing */
    _Atomic uint64_t ids;
};
extern struct sim sim;

/* state.c */
CUresult sim_ready(void);                                       /* initialised, not in a child of fork(), nor in a host function */
/* This thread is in a host function of the program, which may not call the driver. */
extern __thread bool sim_calling __attribute__((tls_model("initial-exec")));
CUresult sim_current(struct ctx **ctx);                         /* the current context, usable and without a sticky error */
CUresult sim_device_of(CUdevice device, struct device **out);
struct device *device_of_node(uint32_t node_index);             /* NULL: this process may not see it */
CUresult sim_result(int negative_errno);                        /* what the link said, as the API says it */
void sim_say(const char *format, ...) __attribute__((format(printf, 1, 2)));    /* one line on stderr */

/* context.c */
struct ctx *ctx_top(void);
bool ctx_flags_ok(unsigned flags);                              /* those of cuCtxCreate and its relatives */
CUresult ctx_check(struct ctx *ctx);                            /* alive, active, no sticky error */
CUresult ctx_new(struct device *device, unsigned flags, unsigned api, bool primary, struct ctx **out);
CUresult ctx_open(struct ctx *ctx);                             /* the part of ctx_new that a reset primary context repeats */
void ctx_teardown(struct ctx *ctx);                             /* waits, then frees all it holds; the handle stays */
CUresult ctx_synchronise(struct ctx *ctx);
void contexts_each(void (*visit)(struct ctx *ctx, void *data), void *data);    /* every active context of the process */
void ctx_fail(struct ctx *ctx, int error);                      /* makes an error sticky; the first one stays */
CUresult ctx_error(struct ctx *ctx);                            /* the sticky error, which may be due only now */
void ctx_fault(struct ctx *ctx, int error, uint32_t queue, uint64_t ticket);    /* sticky as soon as that work is done; one thread */
void ctx_fault_due(struct ctx *ctx, uint32_t sim_context);      /* that work is done: ends what waits behind it, if the context is alive */

/* stream.c */
CUresult stream_of(CUstream handle, struct stream **out);       /* any handle; the special ones by S() */
CUresult stream_new(struct ctx *ctx, unsigned flags, int priority, struct stream **out);
void stream_destroy(struct stream *stream);                     /* its work still runs */
CUresult stream_synchronise(struct stream *stream);
void streams_drain(struct ctx *ctx);                            /* waits for the destroyed streams of a context */
void streams_reap(void);                                        /* lets go of the queues of destroyed streams that have drained */

/* event.c */
CUresult event_record(struct event *event, struct stream *stream);      /* submit lock held */
void event_retire(uint32_t sim_event, uint64_t ticket);         /* destroys it once that record is done; submit lock held */
uint64_t event_newest(const struct event *event);              /* what a wait for it names: ticket, or number of an interprocess one */
bool event_reached(const struct event *event);                 /* its newest record is done (or there is none) */
void event_destroy(struct event *event);

/* module.c */
CUresult module_load(struct ctx *ctx, struct image *image, struct library *library, struct module **out);  /* takes over the image */
void module_unload(struct module *module);
CUresult function_of(CUfunction handle, struct function **out); /* a CUfunction or a CUkernel */
CUresult function_attribute(const struct gpud_kernel_desc *desc, const struct image *image, const int *set, int attribute, int *value);
CUresult function_set_attribute(const struct device *device, const struct gpud_kernel_desc *desc, int *set, int attribute, int value);
void function_defaults(const struct device *device, const struct gpud_kernel_desc *desc, int *attributes);
CUresult library_module(struct library *library, struct ctx *ctx, struct module **out);    /* makes it at first use */
void library_change(const struct kernel *kernel, const struct device *device, int attribute);   /* to the functions made of it */

/* occupancy.c: resident blocks a multiprocessor */
unsigned occupancy_blocks(const struct device *device, const struct gpud_kernel_desc *desc, unsigned threads, size_t dynamic_shared);

/* host.c: page-locked memory */
bool host_find(const void *address, void **start, size_t *bytes, unsigned *flags);

#endif
