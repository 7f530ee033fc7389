/* link.h: the way from a client process (the simulated libcuda and libnvidia-ml) to the device process.
 *
 * One link per process. The device process owns the schedule, the capacity and the memory memfds; this side writes
 * commands into a ring of its own and reads completions from memory that only the device process writes. Kernels and
 * copies are *computed* in the client, in the order of submission; *when* they are done is the device process's word.
 *
 * All functions are thread-safe unless said otherwise. Results: 0 or a negative errno (-ENOMEM: no capacity; -ENODEV: no
 * device or the device fell off; -EPIPE: the device process is gone). */
#ifndef GPUD_SIM_LINK_H
#define GPUD_SIM_LINK_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_NAME 96
#define SIM_MAX_DEVICES 8
#define SIM_FAULTS 2048u                /* bytes of the rules of faults for all processes of a node, with the zero byte */

struct sim_device_info {
    char name[SIM_NAME];            /* "gpud simulated A100-SXM4-40GB" */
    char profile[SIM_NAME];         /* "a100-40gb" */
    uint8_t uuid[16];               /* the same for all processes of the node, differs between nodes */
    uint64_t total_bytes;
    uint64_t reserved_bytes;        /* taken by the driver itself */
    uint64_t context_bytes;         /* capacity one context costs */
    uint32_t sm_count;
    uint32_t blocks_per_sm;
    uint32_t threads_per_sm;
    uint32_t shared_per_block;
    uint32_t shared_per_block_optin;
    uint32_t shared_per_sm;
    uint32_t clock_khz;
    uint32_t memory_clock_khz;
    uint32_t bus_width_bits;
    uint32_t l2_bytes;
    uint32_t compute_major, compute_minor;
    uint32_t driver_version;        /* 13000 */
    uint32_t pci_bus;
    double   time_scale;            /* wall time = model time × time_scale */
    uint32_t parent;                /* the whole device that it is on; itself where it is no MIG instance */
    uint32_t mig_slices;            /* compute slices of a MIG instance; 0: a whole device */
    uint32_t mig_index;             /* among the instances of its device */
    char     mig_name[32];          /* "3g.20gb" */
    uint32_t idle_mw, power_mw;     /* of power: when nothing runs, and at most; 0: not known */
};

enum sim_kind { SIM_KERNEL = 1, SIM_COPY_H2D, SIM_COPY_D2H, SIM_COPY_D2D, SIM_MEMSET, SIM_RECORD, SIM_WAIT };

struct sim_command {
    uint32_t kind;                  /* enum sim_kind */
    uint32_t name_id;               /* KERNEL: sim_name() of the unmangled name */
    uint64_t blocks;                /* KERNEL: blocks in the grid (64 bits: the product may exceed 2^32) */
    uint32_t threads_per_block;
    uint32_t shared_bytes;
    uint64_t bytes;                 /* COPY_*, MEMSET. A MEMSET of 0 bytes is a host function: it takes nothing of the
                                     * device and holds its queue until sim_computed says that it has run */
    uint32_t event;                 /* RECORD, WAIT: event id */
    uint32_t reserved;
    uint64_t ticket;                /* WAIT: the ticket of the record to wait for (0: nothing recorded, passes) */
};

/* What has happened, as the device process says it. Times are model nanoseconds of the device since the node began. */
struct sim_done { uint64_t ticket; uint64_t model_ns; };

struct sim_link;

/* Connects to the device process of node $GPUD_SIM_NODE, starts it when there is none (profile $GPUD_SIM_PROFILE, count
 * $GPUD_SIM_DEVICES, $GPUD_SIM_TIME_SCALE, device log $GPUD_SIM_LOG). Idempotent; after fork() the child must call it anew and
 * gets a link of its own. `error` receives a sentence when the result is negative (a profile with an error: file, line, key). */
int sim_link_open(struct sim_link **link, char *error, size_t error_size);
void sim_link_close(struct sim_link *link);         /* frees all this process held */
uint32_t sim_device_count(const struct sim_link *link);
const struct sim_device_info *sim_device(const struct sim_link *link, uint32_t device);
/* What programs run on are devices, each a whole one or a MIG instance of one. The whole ones, as a monitor sees them: */
uint32_t sim_whole_count(const struct sim_link *link);
const struct sim_device_info *sim_whole(const struct sim_link *link, uint32_t index);
uint64_t sim_model_now(const struct sim_link *link, uint32_t device);

/* Memory. The device's memfd, offset = device address − SIM base; ranges are multiples of 512 bytes, zeroed when handed to
 * another process. Memory is freed at once; the caller frees stream-ordered memory when the stream has come there. */
int sim_memory_fd(const struct sim_link *link, uint32_t device);
int sim_memory_alloc(struct sim_link *link, uint32_t device, uint64_t bytes, uint64_t align, uint64_t *offset);
int sim_memory_free(struct sim_link *link, uint32_t device, uint64_t offset);
int sim_memory_info(struct sim_link *link, uint32_t device, uint64_t *free_bytes, uint64_t *total_bytes);

/* Contexts are what time slicing switches between. Creating one takes context_bytes of capacity. */
int sim_context_create(struct sim_link *link, uint32_t device, uint32_t *context);
int sim_context_destroy(struct sim_link *link, uint32_t context);

/* Queues: one per stream; commands of a queue run in order. Lower priority number = more urgent, as in CUDA. */
int sim_queue_create(struct sim_link *link, uint32_t context, int priority, uint32_t *queue);
int sim_queue_destroy(struct sim_link *link, uint32_t queue);  /* what was submitted still runs */
uint32_t sim_name(struct sim_link *link, const char *kernel_name);  /* interned; demangles */

/* Appends a command; returns its ticket (> 0, increasing within a queue) or 0 when the device is gone. Costs 1–3 µs; blocks
 * only when the ring (≥ 4096 commands) is full. */
uint64_t sim_submit(struct sim_link *link, uint32_t queue, const struct sim_command *command);
/* This process has computed everything of the queue up to `ticket`. A kernel, copy or memset that is not computed by its
 * modelled end is held until it is, and counted as an overrun. RECORD and WAIT need not be reported. */
void sim_computed(struct sim_link *link, uint32_t queue, uint64_t ticket);

/* Around a host function, on the thread that calls it: waits until its turn has come (`ticket`, 0: at once); says that it has
 * returned, instead of sim_computed(). Its modelled time is 0, or what the function slept or worked. */
int sim_call_begin(struct sim_link *link, uint32_t queue, uint64_t ticket);
void sim_call_end(struct sim_link *link, uint32_t queue, uint64_t ticket);
/* The program has asked whether something is done, and it was not: it may go on asking, so time must not wait for it. */
void sim_asked(struct sim_link *link);
/* The program has asked, and it was: what this thread submits now comes after that. */
void sim_saw(struct sim_link *link, uint64_t model_ns);
/* This thread has waited long for something of the simulator's that is not the device (the compiler): it is where the clock is. */
void sim_passed(struct sim_link *link);
/* Between these the simulator works, not the program: the model does not count the time. */
void sim_own_begin(struct sim_link *link);
void sim_own_end(struct sim_link *link);
/* Locks a mutex that the simulator's own threads share with the program's: waiting for it is not the program's time. */
void sim_lock(struct sim_link *link, pthread_mutex_t *mutex);

/* Completion. sim_reached never blocks. sim_wait sleeps until it is so. */
bool sim_reached(const struct sim_link *link, uint32_t queue, uint64_t ticket);
int sim_wait(struct sim_link *link, uint32_t queue, uint64_t ticket);
/* The same for the simulator itself, on a thread of its own: the program does not wait, and what it does next is waited for. */
int sim_watch(struct sim_link *link, uint32_t queue, uint64_t ticket);
struct sim_done sim_queue_done(const struct sim_link *link, uint32_t queue);

int sim_event_create(struct sim_link *link, uint32_t device, uint32_t *event);
int sim_event_destroy(struct sim_link *link, uint32_t event);
struct sim_done sim_event_done(const struct sim_link *link, uint32_t event);    /* ticket of the newest completed record */
int sim_event_wait(struct sim_link *link, uint32_t event, uint64_t ticket);

/* Sharing with other processes (link_share.c). What is opened or imported is held by this process too, until sim_memory_free. */
int sim_memory_range(struct sim_link *link, uint32_t device, uint64_t offset, uint64_t *id, uint64_t *bytes);  /* names it for others */
int sim_memory_open(struct sim_link *link, uint32_t device, uint64_t offset, uint64_t id, uint64_t *bytes);    /* −ENOENT: it is gone */
/* A descriptor that stands for the range and holds it while a copy of it is open anywhere; or a negative errno. */
int sim_memory_export(struct sim_link *link, uint32_t device, uint64_t offset);
int sim_memory_import(struct sim_link *link, int fd, uint32_t *device, uint64_t *offset, uint64_t *bytes);      /* −ENOENT: it is none */
/* The same for a pool, which has no memory of its own here: `number` names it in the node; 0 asks for a new one. */
int sim_pool_export(struct sim_link *link, uint32_t device, uint64_t *number);
int sim_pool_import(struct sim_link *link, int fd, uint32_t *device, uint64_t *number);
/* Interprocess events. Their records are numbered in the node, and these numbers take the place of tickets in RECORD (not given),
 * WAIT, sim_event_done and sim_event_wait. */
int sim_event_create_shared(struct sim_link *link, uint32_t device, uint32_t *event, uint64_t *number);
int sim_event_open(struct sim_link *link, uint64_t number, uint32_t *event);                                   /* −ENOENT: it is gone */
uint64_t sim_event_newest(const struct sim_link *link, uint32_t event);         /* number of the newest record of any process; 0: none */
/* After a RECORD was submitted: once this returns, every process sees it. */
int sim_event_recorded(struct sim_link *link, uint32_t event);

/* Faults on demand (link_fault.c). */
const char *sim_faults(const struct sim_link *link);            /* rules for all processes of the node; may be "" */
uint64_t sim_fault_use(struct sim_link *link, uint32_t rule);   /* counts a use of one of them over all processes; 0: no node */
void sim_fault_happened(struct sim_link *link, const char *call, const char *what);     /* for the device log */
int sim_lose(struct sim_link *link, uint32_t device);           /* the device falls off the bus, for ever and for all */
bool sim_lost(const struct sim_link *link, uint32_t device);    /* it has; its memory, contexts and events are gone */
/* A fault has ended the context: what its queues hold is dropped, and whoever waits for it is woken. */
int sim_context_stop(struct sim_link *link, uint32_t context);

/* NVML's view. */
struct sim_process { uint32_t pid; uint32_t gpu_percent, memory_percent, reserved; uint64_t used_bytes; };     /* percent: of the last model second */
/* Since the node began, in model ns; `at`: the model time of this. */
struct sim_usage { uint64_t at_ns, busy_ns, copy_busy_ns; };
int sim_usage(struct sim_link *link, uint32_t device, struct sim_usage *usage);
int sim_processes(struct sim_link *link, uint32_t device, struct sim_process *list, uint32_t room, uint32_t *count);
int sim_utilisation(struct sim_link *link, uint32_t device, uint32_t *gpu_percent, uint32_t *memory_percent); /* over the last model second */

#endif
