/* cost.c: the table of costs, and what is charged by it. */
#include "cost_state.h"

#include "spent.h"
#include "state.h"

#define STALE_NS GPUD_SECOND            /* an entry without a sample for so long makes room for another */
#define CROWDED 16                      /* where there is no room, one launch in so many is worth a sample */
#define GUESSED_NS (10 * GPUD_MILLISECOND)  /* so often a launch is worth a sample that was never measured alone */
#define FAR 12                          /* size classes, four to each power of two */
#define GUESS_MOST_NS GPUD_SECOND
#define SETTLED 3                       /* clean samples, after which what was charged before them is set right */

struct gpud_cost_set gpud_costs[GPUD_COST_SETS];
struct gpud_known gpud_costs_known[GPUD_COST_SETS][GPUD_COST_WAYS];
uint64_t gpud_cost_time;
pthread_mutex_t gpud_cost_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t unsure_count;           /* launches charged by guess or by too few samples */
static uint64_t young_count;            /* … of functions whose estimate still moves */
static uint32_t used;                   /* 1: something is in the table */

static struct gpud_cost *way_of(const struct gpud_known *of)
{
    size_t index = (size_t)(of - &gpud_costs_known[0][0]);
    return &gpud_costs[index / GPUD_COST_WAYS].way[index % GPUD_COST_WAYS];
}

static struct gpud_known *find(uint64_t key)
{
    const struct gpud_cost_set *set = gpud_cost_set_of(key);

    for (int i = 0; i < GPUD_COST_WAYS; i++) {
        if (gpud_load(&set->way[i].key) == key)
            return &gpud_costs_known[set - gpud_costs][i];
    }
    return NULL;
}

/* A way that may be given to another key: free, or without a sample for long. NULL: none. */
static struct gpud_known *room_for(uint64_t key)
{
    const struct gpud_cost_set *set = gpud_cost_set_of(key);
    struct gpud_known *of = gpud_costs_known[set - gpud_costs], *oldest = of;

    for (int i = 0; i < GPUD_COST_WAYS; i++) {
        if (gpud_load(&set->way[i].key) == 0)
            return &of[i];
        if (gpud_load(&of[i].sampled_ns) < gpud_load(&oldest->sampled_ns))
            oldest = &of[i];
    }
    return gpud_load(&oldest->sampled_ns) + STALE_NS <= gpud_load(&gpud_cost_time) ? oldest : NULL;
}

struct gpud_known *gpud_cost_place(uint64_t key, uint32_t device)
{
    struct gpud_known *of = find(key);

    if (of != NULL || (of = room_for(key)) == NULL)
        return of;
    gpud_store(&used, 1);
    gpud_store_release(&way_of(of)->key, 0);
    gpud_store(&way_of(of)->ns, 0);
    gpud_store(&way_of(of)->flags, GPUD_COST_YOUNG | GPUD_COST_GUESS | GPUD_COST_UNSURE);
    gpud_store(&of->charge, 0);
    gpud_store(&of->sampled_ns, gpud_load(&gpud_cost_time));
    gpud_known_begin(of, device);
    gpud_store_release(&way_of(of)->key, key);
    return of;
}

/* What was charged before it was known what to charge is set right: programs launch far ahead of the device, so that much may be
 * charged until the first sample is read. */
static void settle(struct gpud_known *of, uint32_t charge)
{
    uint32_t launches = gpud_load(&of->unsure_launches);
    uint64_t charged = gpud_load(&of->unsure_ns), right = (uint64_t)launches * charge;

    if (launches == 0 || (gpud_known_unsure(of) && of->clean < SETTLED) || !of->warm)
        return;
    if (gpud_load(&of->attachment) == gpud_load_acquire(&gpud_attachment))
        gpud_spend(of->device, right - charged);
    gpud_add(&of->unsure_ns, right - charged);
    if (!gpud_known_young(of)) {        /* until it is known as well as it will be, more samples say better what was right */
        gpud_add(&of->unsure_ns, -right);
        gpud_add(&of->unsure_launches, -launches);
    }
}

void gpud_cost_charge(struct gpud_known *of)
{
    struct gpud_cost *way = way_of(of);
    double ns = gpud_known_estimate(of, gpud_load(&gpud_cost_time)) * gpud_cost_factor(of->device);
    uint32_t whole = ns >= UINT32_MAX ? UINT32_MAX : ns < GPUD_COST_LEAST_NS ? GPUD_COST_LEAST_NS : (uint32_t)ns;
    bool young = gpud_known_young(of);

    gpud_store(&of->charge, gpud_known_nothing(of) ? 0 : whole);
    gpud_store(&way->ns, young ? 0 : whole);
    gpud_store(&way->flags, (young ? GPUD_COST_YOUNG : 0) | (of->clean == 0 ? GPUD_COST_GUESS : 0) |
                            (gpud_known_unsure(of) ? GPUD_COST_UNSURE : 0));
    if (!gpud_known_nothing(of))
        settle(of, whole);
}

/* The entry of a key, made where there is none yet. NULL: no room, or another thread is at it. */
static struct gpud_known *place_without_lock(uint64_t key, uint32_t device)
{
    struct gpud_known *of = find(key);

    if (of != NULL || key == 0 || room_for(key) == NULL || pthread_mutex_trylock(&gpud_cost_lock) != 0)
        return of;
    of = gpud_cost_place(key, device);
    pthread_mutex_unlock(&gpud_cost_lock);
    return of;
}

static void note_unsure(struct gpud_known *of, uint32_t ns)
{
    uint32_t attachment = gpud_load_acquire(&gpud_attachment);

    if (gpud_load(&of->attachment) != attachment) {     /* charged into pages of before, or nothing was charged yet */
        gpud_store(&of->unsure_launches, 0);
        gpud_store(&of->unsure_ns, 0);
        gpud_store(&of->attachment, attachment);
    }
    gpud_add(&of->unsure_ns, ns);
    gpud_add(&of->unsure_launches, 1);
}

/* It was never measured alone, and not at all for a while: maybe it would be now. */
static bool is_worth_another(const struct gpud_known *of, uint32_t flags)
{
    return flags & GPUD_COST_GUESS && gpud_load(&of->tried_ns) + GUESSED_NS <= gpud_now();
}

/* Nothing was measured of this size. Of another one, not far off? Then in proportion. 0: no. */
static double from_others(uint64_t key)
{
    uint32_t class = key & 255;

    for (uint32_t far = 1; far <= FAR; far++) {
        for (int side = -1; side <= 1; side += 2) {
            uint32_t other = side < 0 ? class - far : class + far;      /* round from 0 comes out above 255 */
            const struct gpud_known *of = other <= 255 && class != 0 && other != 0 ? find((key & ~UINT64_C(255)) | other) : NULL;
            uint32_t ns = of != NULL ? gpud_load(&of->charge) : 0;
            if (ns == 0)
                continue;
            double blocks = (double)(4 + (class & 3)) / (double)(4 + (other & 3));  /* of the middle of one class ÷ of the other */
            for (uint32_t power = class >> 2; power < other >> 2; power++)
                blocks /= 2;
            for (uint32_t power = other >> 2; power < class >> 2; power++)
                blocks *= 2;
            return ns * blocks;
        }
    }
    return 0;
}

/* What a launch is charged with of which nothing was measured. Where GPU time in flight is limited, nothing else may be in flight beside
 * what may take any time: then it is all of the limit. Once it is measured, what was charged is set right. */
static uint32_t guess(uint32_t device, uint64_t key, uint64_t blocks)
{
    const struct gpud_control_device *knobs = &gpud_control()->device[device];
    double ns = from_others(key);

    if (!(ns > 0)) {
        double limit = gpud_load(&knobs->gate) & GPUD_GATE_WINDOW ? (double)gpud_load(&knobs->max_inflight_ns) : 0;
        ns = (double)gpud_cost_guess(blocks) * gpud_cost_factor(device);
        ns = ns < limit ? limit : ns;
    }
    return ns < GPUD_COST_LEAST_NS ? GPUD_COST_LEAST_NS : ns > GUESS_MOST_NS ? GUESS_MOST_NS : (uint32_t)ns;
}

uint32_t gpud_cost_now(uint32_t device, const void *function, uint64_t blocks, bool *young)
{
    static uint32_t crowd;
    uint64_t key = gpud_cost_key(function, blocks);
    struct gpud_known *of = place_without_lock(key, device);
    uint32_t ns = of != NULL ? gpud_load(&of->charge) : 0, flags = of != NULL ? gpud_load(&way_of(of)->flags) : 0;

    if (ns == 0)
        ns = guess(device, key, blocks);
    *young = of != NULL ? flags & GPUD_COST_YOUNG : gpud_add(&crowd, 1) % CROWDED == 0;
    if (of == NULL || flags & GPUD_COST_UNSURE)
        gpud_add(&unsure_count, 1);
    if (of != NULL && flags & GPUD_COST_UNSURE)
        note_unsure(of, ns);
    if (*young)
        gpud_add(&young_count, 1);
    else if (of != NULL)
        *young = is_worth_another(of, flags);
    return ns;
}

bool gpud_cost_take_sample(const void *function, uint64_t blocks)
{
    struct gpud_known *of = find(gpud_cost_key(function, blocks));
    uint32_t flags = of != NULL ? gpud_load(&way_of(of)->flags) : GPUD_COST_YOUNG;
    bool worth = flags & GPUD_COST_YOUNG || is_worth_another(of, flags);

    if (worth && of != NULL)
        gpud_store(&of->tried_ns, gpud_now());
    return worth;
}

uint64_t gpud_cost_young(void)
{
    return gpud_load(&young_count);
}

uint64_t gpud_cost_unsure(void)
{
    return gpud_load(&unsure_count);
}

/* Calls `change` for all entries of the handle (NULL: all there are). Lock held. */
static void each(const void *handle, void (*change)(struct gpud_known *of))
{
    for (uint32_t set = 0; set < GPUD_COST_SETS; set++) {
        for (uint32_t i = 0; i < GPUD_COST_WAYS; i++) {
            uint64_t key = gpud_load(&gpud_costs[set].way[i].key);
            if (key != 0 && (handle == NULL || key >> 8 == (uint64_t)(uintptr_t)handle << 8 >> 8))
                change(&gpud_costs_known[set][i]);
        }
    }
}

void gpud_cost_charge_all(void)
{
    each(NULL, gpud_cost_charge);
}

static void drop(struct gpud_known *of)
{
    gpud_store_release(&way_of(of)->key, 0);
    gpud_store(&of->charge, 0);
}

static void doubt(struct gpud_known *of)
{
    gpud_known_doubt(of);
    gpud_cost_charge(of);
}

static void change_all(const void *handle, void (*change)(struct gpud_known *of))
{
    if (!gpud_load(&used))
        return;
    pthread_mutex_lock(&gpud_cost_lock);
    each(handle, change);
    pthread_mutex_unlock(&gpud_cost_lock);
}

void gpud_cost_forget(const void *handle)
{
    if (handle != NULL)
        change_all(handle, drop);
}

void gpud_cost_doubt(const void *handle)
{
    change_all(handle, doubt);
}

void gpud_cost_fork(void)
{
    gpud_cost_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}
