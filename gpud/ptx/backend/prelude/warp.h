/* Operations of a warp: a group is complete when every live thread in its mask waits for the same operation. */

enum gp_warp_kind {
    GP_SYNCWARP = 16, GP_SHFL_UP, GP_SHFL_DOWN, GP_SHFL_BFLY, GP_SHFL_IDX, GP_VOTE_ALL, GP_VOTE_ANY, GP_VOTE_UNI, GP_VOTE_BALLOT,
    GP_MATCH_ANY, GP_MATCH_ALL, GP_REDUX_ADD, GP_REDUX_MIN, GP_REDUX_MAX, GP_REDUX_MIN_S, GP_REDUX_MAX_S, GP_REDUX_AND, GP_REDUX_OR,
    GP_REDUX_XOR, GP_ACTIVEMASK, GP_ELECT
};

/* The lane that `lane` takes its value from; `valid` is false where the source lies outside the segment. */
static uint32_t gp_shuffle_source(const struct gp_thread *t, uint32_t lane, uint8_t *valid)
{
    uint32_t segment = t->clamp >> 8 & 31, limit = t->clamp & 31, by = t->lane & 31;
    uint32_t low = lane & segment, end = low | (limit & ~segment), from = 0;
    int32_t below;
    switch (t->kind) {
    case GP_SHFL_UP:
        below = (int32_t)lane - (int32_t)by;
        *valid = below >= (int32_t)end;
        return *valid ? (uint32_t)below : lane;
    case GP_SHFL_DOWN: from = lane + by; break;
    case GP_SHFL_BFLY: from = lane ^ by; break;
    default: from = low | (by & ~segment); break;
    }
    *valid = from <= end;
    return *valid ? from : lane;
}

static uint32_t gp_redux(enum gp_warp_kind kind, uint32_t a, uint32_t b)
{
    switch (kind) {
    case GP_REDUX_ADD: return a + b;
    case GP_REDUX_MIN: return a < b ? a : b;
    case GP_REDUX_MAX: return a > b ? a : b;
    case GP_REDUX_MIN_S: return (int32_t)a < (int32_t)b ? a : b;
    case GP_REDUX_MAX_S: return (int32_t)a > (int32_t)b ? a : b;
    case GP_REDUX_AND: return a & b;
    case GP_REDUX_OR: return a | b;
    default: return a ^ b;
    }
}

/* Computes the results of a complete group and lets it go. */
static void gp_complete(struct gp_thread *const lanes[32], uint32_t group)
{
    uint32_t leader = (uint32_t)__builtin_ctz(group), yes = 0, total = 0;
    enum gp_warp_kind kind = lanes[leader]->kind;
    int same = 1;
    for (uint32_t i = leader; i < 32; i++) {
        if (!(group >> i & 1))
            continue;
        yes |= (uint32_t)(lanes[i]->value & 1) << i;
        total = i == leader ? (uint32_t)lanes[i]->value : gp_redux(kind, total, (uint32_t)lanes[i]->value);
        same &= lanes[i]->value == lanes[leader]->value;
    }
    for (uint32_t i = leader; i < 32; i++) {
        struct gp_thread *t = lanes[i];
        if (!(group >> i & 1))
            continue;
        t->valid = (uint8_t)same;
        switch (kind) {
        case GP_SHFL_UP: case GP_SHFL_DOWN: case GP_SHFL_BFLY: case GP_SHFL_IDX: {
            uint32_t from = gp_shuffle_source(t, i, &t->valid);
            t->result = group >> from & 1 ? lanes[from]->value : 0;
            break;
        }
        case GP_VOTE_ALL: t->result = yes == group; break;
        case GP_VOTE_ANY: t->result = yes != 0; break;
        case GP_VOTE_UNI: t->result = yes == 0 || yes == group; break;
        case GP_VOTE_BALLOT: t->result = yes; break;
        case GP_MATCH_ALL: t->result = same ? group : 0; break;
        case GP_MATCH_ANY:
            t->result = 0;
            for (uint32_t k = leader; k < 32; k++)
                if ((group >> k & 1) && lanes[k]->value == t->value)
                    t->result |= 1u << k;
            break;
        case GP_SYNCWARP: break;
        case GP_ACTIVEMASK: t->result = group; break;
        case GP_ELECT:
            t->result = leader;
            t->valid = i == leader;
            break;
        default: t->result = total; break;
        }
        t->wait = GP_RUN;
    }
    for (uint32_t i = leader; i < 32; i++)
        if (group >> i & 1)
            lanes[i]->kind = 0;
}

/* Completes what can be completed in one warp. Returns whether any thread may go on. */
static int gp_settle_warp(const struct gp_block *b, uint32_t first, uint32_t size)
{
    struct gp_thread *lanes[32] = {0};
    uint32_t live = 0, waiting = 0, gone = 0;
    for (uint32_t i = 0; i < size; i++) {
        lanes[i] = gp_member(b->team, first + i);
        live |= (uint32_t)(lanes[i]->wait != GP_OVER) << i;
        waiting |= (uint32_t)(lanes[i]->wait == GP_WARP) << i;
    }
    for (uint32_t i = 0; i < size; i++) {
        const struct gp_thread *t = lanes[i];
        uint32_t needed = (t->mask | 1u << i) & live, group = 0;
        if (!((waiting & ~gone) >> i & 1) || t->kind == GP_ACTIVEMASK)
            continue;
        for (uint32_t k = 0; k < size; k++)
            if (((waiting & ~gone & needed) >> k & 1) && lanes[k]->kind == t->kind && lanes[k]->mask == t->mask)
                group |= 1u << k;
        if (group == needed) {
            gp_complete(lanes, group);
            gone |= group;
        }
    }
    /* Who asks which threads are active gets those that wait at the same place, once nobody else can move. */
    for (uint32_t i = 0; !gone && i < size; i++) {
        if (!(waiting >> i & 1) || lanes[i]->kind != GP_ACTIVEMASK)
            continue;
        for (uint32_t k = i; k < size; k++)
            if ((waiting >> k & 1) && lanes[k]->kind == GP_ACTIVEMASK && lanes[k]->resume == lanes[i]->resume)
                gone |= 1u << k;
        gp_complete(lanes, gone);
    }
    return gone != 0;
}
