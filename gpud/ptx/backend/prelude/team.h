/* Threads that wait for each other: every thread is a state that runs until it must wait, and is resumed later. */

#define GP_RUN 0
#define GP_BARRIER 1
#define GP_WARP 2
#define GP_OVER 3

#define GP_RED_POPC 1
#define GP_RED_AND 2
#define GP_RED_OR 3

struct gp_team {
    uint8_t *states;            /* one after another, `stride` bytes each, a struct gp_thread first */
    uint64_t stride;
    uint32_t alive;             /* threads that have not ended */
    struct {
        uint32_t arrived, expected;
    } barriers[16];
};

static inline struct gp_thread *gp_member(const struct gp_team *team, uint32_t index)
{
    return (struct gp_thread *)(team->states + index * team->stride);
}

/* Counts a thread in at its barrier. Returns nonzero for a barrier that does not exist. */
static int gp_arrive(const struct gp_block *b, const struct gp_thread *t)
{
    if (t->barrier >= 16)
        return 1;
    b->team->barriers[t->barrier].arrived++;
    b->team->barriers[t->barrier].expected = t->expected;
    return 0;
}

/* Lets the threads at barrier `id` go, with the reduction of their values where they asked for one. */
static void gp_let_go(const struct gp_block *b, uint32_t id)
{
    struct gp_team *team = b->team;
    uint64_t sum = 0, count = 0;
    for (uint32_t i = 0; i < b->threads; i++) {
        struct gp_thread *t = gp_member(team, i);
        if (t->wait == GP_BARRIER && t->barrier == id && t->kind) {
            sum += t->value;
            count++;
        }
    }
    for (uint32_t i = 0; i < b->threads; i++) {
        struct gp_thread *t = gp_member(team, i);
        if (t->wait != GP_BARRIER || t->barrier != id)
            continue;
        t->result = t->kind == GP_RED_POPC ? sum : t->kind == GP_RED_AND ? sum == count : sum != 0;
        t->kind = 0;
        t->wait = GP_RUN;
    }
    team->barriers[id].arrived = 0;
}

/* Opens every barrier that has all its threads. Returns how many. */
static int gp_open_barriers(const struct gp_block *b)
{
    struct gp_team *team = b->team;
    int opened = 0;
    for (uint32_t id = 0; id < 16; id++) {
        uint32_t arrived = team->barriers[id].arrived;
        uint32_t needed = team->barriers[id].expected ? team->barriers[id].expected : team->alive;
        if (arrived && arrived >= needed) {
            gp_let_go(b, id);
            opened++;
        }
    }
    return opened;
}

static int gp_settle_warp(const struct gp_block *b, uint32_t first, uint32_t size);

/* Runs the threads of one warp as far as they go. Returns GP_DONE or GP_TRAP. */
static inline __attribute__((always_inline)) int gp_run_warp(const struct gp_block *b, uint32_t first, uint32_t size,
    int (*body)(const struct gp_block *, struct gp_thread *))
{
    struct gp_team *team = b->team;
    for (uint32_t lane = 0; lane < size; lane++) {
        struct gp_thread *t = gp_member(team, first + lane);
        if (t->wait != GP_RUN)
            continue;
        int state = body(b, t);
        if (state == GP_TRAP)
            return GP_TRAP;
        if (state != GP_WAIT) {
            t->wait = GP_OVER;
            team->alive--;
        } else if (t->wait == GP_BARRIER && gp_arrive(b, t)) {
            return GP_TRAP;
        }
    }
    return GP_DONE;
}

/* Runs one block to its end. */
static inline __attribute__((always_inline)) int gp_run_block(const struct gp_block *b, int warps,
    int (*body)(const struct gp_block *, struct gp_thread *))
{
    struct gp_team *team = b->team;
    team->alive = b->threads;
    memset(team->barriers, 0, sizeof team->barriers);
    for (uint32_t i = 0; i < b->threads; i++) {
        struct gp_thread *t = gp_member(team, i);
        t->resume = 0;
        t->wait = GP_RUN;
        t->kind = 0;
    }
    for (;;) {
        for (uint32_t first = 0; first < b->threads; first += 32) {
            uint32_t size = b->threads - first < 32 ? b->threads - first : 32;
            do {
                if (gp_run_warp(b, first, size, body) == GP_TRAP)
                    return GPUD_KERNEL_TRAP;
            } while (warps && gp_settle_warp(b, first, size));
        }
        if (team->alive == 0)
            return GPUD_KERNEL_OK;
        if (!gp_open_barriers(b))
            return GPUD_KERNEL_BARRIER;
    }
}

/* Runs blocks whose threads wait for each other. `stride` is the size of one thread's state. */
static inline __attribute__((always_inline)) int gp_run_teams(const struct gpud_launch *launch, const void *params, uint64_t first,
    uint64_t count, uint64_t static_bytes, uint64_t stride, int warps, int (*body)(const struct gp_block *, struct gp_thread *))
{
    struct gp_block b;
    struct gp_team team = {.stride = stride};
    int status = gp_open(&b, launch, params, static_bytes);
    if (status != GPUD_KERNEL_OK)
        return status;
    team.states = aligned_alloc(64, (b.threads * stride + 63) & ~UINT64_C(63));
    b.team = &team;
    if (!team.states)
        status = GPUD_KERNEL_NO_MEMORY;
    else
        memset(team.states, 0, b.threads * stride);
    for (uint32_t i = 0; status == GPUD_KERNEL_OK && i < b.threads; i++) {
        struct gp_thread *t = gp_member(&team, i);
        t->index = i;
        t->tid[0] = i % launch->block[0];
        t->tid[1] = i / launch->block[0] % launch->block[1];
        t->tid[2] = i / launch->block[0] / launch->block[1];
    }
    for (uint64_t n = 0; status == GPUD_KERNEL_OK && n < count; n++) {
        gp_place(&b, first + n);
        status = gp_run_block(&b, warps, body);
    }
    free(team.states);
    free(b.shared);
    return status;
}
