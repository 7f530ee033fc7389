/* What every kernel needs: the block and the thread it runs as, and reading bits as numbers. */
#include <stddef.h>

#define GP_DONE 0   /* a function came back */
#define GP_TRAP 1   /* equals GPUD_KERNEL_TRAP */
#define GP_WAIT 2   /* the thread gave way; resume it later */
#define GP_EXIT 3   /* the thread is over */

void *aligned_alloc(size_t align, size_t bytes);
void free(void *memory);
void *memset(void *to, int byte, size_t bytes);

struct gp_team;

struct gp_block {
    const struct gpud_launch *launch;
    const uint8_t *params;
    uint8_t *shared;
    uint64_t shared_bytes;
    uint64_t index;             /* of the block in the grid */
    uint32_t ctaid[3];
    uint32_t threads;
    struct gp_team *team;       /* NULL where threads run one after another */
};

struct gp_thread {
    uint32_t tid[3];
    uint32_t index;             /* in the block, x fastest */
    uint32_t resume;            /* the point where the thread gave way; 0: its start */
    uint32_t wait;              /* what it waits for */
    uint32_t kind;              /* of the operation it takes part in */
    uint32_t barrier, expected; /* which barrier, and for how many threads (0: all) */
    uint32_t mask, lane, clamp; /* of a warp operation */
    uint64_t value, result;
    uint8_t valid;
};

static inline float gp_f32(uint32_t bits) { float value; __builtin_memcpy(&value, &bits, 4); return value; }
static inline double gp_f64(uint64_t bits) { double value; __builtin_memcpy(&value, &bits, 8); return value; }
static inline uint32_t gp_u32(float value) { uint32_t bits; __builtin_memcpy(&bits, &value, 4); return bits; }
static inline uint64_t gp_u64(double value) { uint64_t bits; __builtin_memcpy(&bits, &value, 8); return bits; }

/* Sets the block's place from its index. */
static inline void gp_place(struct gp_block *b, uint64_t index)
{
    uint64_t x = b->launch->grid[0], y = b->launch->grid[1];
    b->index = index;
    b->ctaid[0] = (uint32_t)(index % x);
    b->ctaid[1] = (uint32_t)(index / x % y);
    b->ctaid[2] = (uint32_t)(index / x / y);
}

/* Fills `b` and takes its shared memory. `static_bytes` are the kernel's own, rounded up for what follows. Returns 0 or NO_MEMORY. */
static int gp_open(struct gp_block *b, const struct gpud_launch *launch, const void *params, uint64_t static_bytes)
{
    b->launch = launch;
    b->params = params;
    b->threads = launch->block[0] * launch->block[1] * launch->block[2];
    b->shared = NULL;
    b->shared_bytes = static_bytes + launch->dynamic_shared_bytes;
    b->team = NULL;
    if (b->shared_bytes) {
        uint64_t bytes = (b->shared_bytes + 255) & ~UINT64_C(255);
        b->shared = aligned_alloc(256, bytes);
        if (!b->shared)
            return GPUD_KERNEL_NO_MEMORY;
        memset(b->shared, 0, bytes);
    }
    return GPUD_KERNEL_OK;
}

/* Runs blocks whose threads never wait for each other: one thread after another. */
static inline __attribute__((always_inline)) int gp_run_plain(const struct gpud_launch *launch, const void *params, uint64_t first,
    uint64_t count, uint64_t static_bytes, int (*body)(const struct gp_block *, const struct gp_thread *))
{
    struct gp_block b;
    int status = gp_open(&b, launch, params, static_bytes);
    for (uint64_t n = 0; status == GPUD_KERNEL_OK && n < count; n++) {
        struct gp_thread t = {0};
        gp_place(&b, first + n);
        for (t.tid[2] = 0; t.tid[2] < launch->block[2]; t.tid[2]++)
            for (t.tid[1] = 0; t.tid[1] < launch->block[1]; t.tid[1]++)
                for (t.tid[0] = 0; t.tid[0] < launch->block[0]; t.tid[0]++, t.index++)
                    if (body(&b, &t) == GP_TRAP) {
                        status = GPUD_KERNEL_TRAP;
                        goto out;
                    }
    }
out:
    free(b.shared);
    return status;
}
