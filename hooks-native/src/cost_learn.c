/* cost_learn.c: what samples say of costs, and what holds for a device as a whole: the way to it, and the factor. */
#include "cost_state.h"

#include "sample.h"

#define GUESS_NS 20000                  /* a launch of which nothing is known, where nothing at all is */
#define GUESS_MOST_NS (100 * GPUD_MILLISECOND)
#define RECENT 16                       /* the prior follows about so many samples */
#define UNCLEAN_NS (5 * GPUD_SECOND)    /* without a clean sample for so long, the device's costs are called estimated */
/* The factor is what stretches took ÷ what was charged for them, over the last MEMORY_NS of GPU time. */
#define MEMORY_NS 1e9
#define LEAST_VARIANCE 0.01             /* of one launch, (10 %)²: what is not known of it */
#define VARIES 0.04                     /* (20 %)² */
#define GAP_MOST_NS 50e3                /* no launch takes longer to come to an idle device */
#define ASIDE 0.15                      /* so far off the factor, */
#define ASIDE_MOST 4                    /* so many stretches in a row, and no luck: it is another factor now */
#define STEP 0.005                      /* a smaller change is not worth going through the table */

static double recent_ns, recent_blocks, recent_graph_ns;    /* of recent samples */
static uint64_t guess_block_ps, guess_graph_ns;             /* the prior that follows; 0: none */

static struct {
    double raw_ns, took_ns;             /* charged without factor, and taken, over recent stretches */
    double luck_ns2;                    /* what the sum of their launches may be off by, squared */
    int32_t aside;                      /* stretches in a row that were far off, on this side */
    double aside_raw_ns, aside_took_ns, aside_luck_ns2;     /* … and their sums */
    uint32_t factor_ppm;                /* as applied; 0: never set, 1 */
    double pair_ns;                     /* smallest empty pair; 0: not known */
    double gap_ns;                      /* what a launch into an empty stream takes beside its cost; 0: not known */
    double variance;                    /* of launches of one kind, relative: mean over recent samples */
    double uncertain;                   /* … and of the mean of those that were sampled */
    uint32_t varies;
    double slice_ns;                    /* what another client's turn on the device takes; 0: not known */
    uint64_t clean_ns;                  /* when a clean sample came last, or the first of any kind */
    uint32_t estimated;
} devices[GPUD_MAX_DEVICES];

double gpud_cost_factor(uint32_t device)
{
    uint32_t ppm = gpud_load(&devices[device].factor_ppm);
    return ppm != 0 ? ppm * 1e-6 : 1;
}

uint64_t gpud_cost_guess(uint64_t blocks)
{
    uint64_t ns = gpud_load(&guess_graph_ns);

    if (blocks != 0 && __builtin_mul_overflow(gpud_load(&guess_block_ps), blocks, &ns))
        return GUESS_MOST_NS;
    ns = blocks != 0 ? ns / 1000 : ns;
    return ns == 0 ? GUESS_NS : ns < GUESS_MOST_NS ? ns : GUESS_MOST_NS;
}

static void follow(double *mean, double value)
{
    *mean += (value - *mean) / (*mean > 0 ? RECENT : 1);
}

static void note_prior(uint64_t blocks, double ns)
{
    if (blocks == 0) {
        follow(&recent_graph_ns, ns);
        gpud_store(&guess_graph_ns, (uint64_t)recent_graph_ns);
        return;
    }
    follow(&recent_ns, ns);
    follow(&recent_blocks, (double)blocks);
    gpud_store(&guess_block_ps, (uint64_t)(recent_ns * 1000 / recent_blocks));
}

/* What lies between the two events beside the launch itself, as far as it is known. In an empty stream the device waits
 * for the launch after the first event; how long is told by kernels that are measured both ways. */
static double overhead(uint32_t device, const struct gpud_known *of, const struct gpud_measure *measure, enum gpud_exact *exact)
{
    *exact = GPUD_EXACT;
    if (measure->busy)
        return 0;
    double gap = (double)measure->ns - of->busy;
    if (measure->clean && gpud_known_steady(of) && gap > 0 && gap < GAP_MOST_NS * gpud_sample_scale())
        follow(&devices[device].gap_ns, gap);
    *exact = devices[device].gap_ns > 0 ? GPUD_CORRECTED : GPUD_INEXACT;
    return devices[device].gap_ns > 0 ? devices[device].gap_ns : devices[device].pair_ns;
}

static void note_variance(uint32_t device, const struct gpud_known *of)
{
    double variance = of->mean > 0 ? of->spread / (of->mean * of->mean) : 0;

    devices[device].variance += (variance - devices[device].variance) / RECENT;
    devices[device].uncertain += (variance / (of->clean + 1) - devices[device].uncertain) / RECENT;
    gpud_store(&devices[device].varies, devices[device].variance > VARIES);
}

static void note_trust(uint32_t device, bool clean, uint64_t now)
{
    if (clean || devices[device].clean_ns == 0)
        devices[device].clean_ns = now;
    devices[device].estimated = now - devices[device].clean_ns > UNCLEAN_NS;
    gpud_store(&gpud_activity()->device[device].estimated, devices[device].estimated);
}

void gpud_cost_learn(uint32_t device, uint64_t key, uint64_t blocks, const struct gpud_measure *measure, uint64_t now)
{
    if (key == 0 || pthread_mutex_trylock(&gpud_cost_lock) != 0)
        return;
    gpud_store(&gpud_cost_time, now);
    struct gpud_known *of = gpud_cost_place(key, device);
    if (of != NULL) {
        enum gpud_exact exact;
        double ns = (double)measure->ns - overhead(device, of, measure, &exact);
        ns = ns > 0 ? ns : 0;
        of->device = device;
        if (measure->clean) {
            gpud_known_clean(of, ns, exact, now);
            note_prior(blocks, ns);
            note_variance(device, of);
        } else {
            gpud_known_shared(of, ns, measure->busy, measure->others, &devices[device].slice_ns);
        }
        gpud_store(&of->sampled_ns, now);
        gpud_cost_charge(of);
    }
    note_trust(device, measure->clean, now);
    pthread_mutex_unlock(&gpud_cost_lock);
}

void gpud_cost_empty_pair(uint32_t device, uint64_t ns)
{
    if (pthread_mutex_trylock(&gpud_cost_lock) != 0)
        return;
    if (devices[device].pair_ns <= 0 || (double)ns < devices[device].pair_ns)
        devices[device].pair_ns = (double)ns;
    pthread_mutex_unlock(&gpud_cost_lock);
}

/* Took ÷ charged. What stretches say is off by the luck of their launches, what was charged by that of the samples it rests on: either
 * counts as much as it is certain. Unless they differ by more than luck: then launches are not what their samples say. */
static double factor_of_sums(uint32_t device)
{
    double raw = devices[device].raw_ns, off = devices[device].took_ns / raw - 1, luck = devices[device].luck_ns2 / (raw * raw);
    double wrong = off * off - 4 * luck > devices[device].uncertain ? off * off - 4 * luck : devices[device].uncertain;

    return 1 + off * wrong / (wrong + luck);
}

/* Where the way of working has changed, what was before counts no more. */
static void look_aside(uint32_t device, double raw_ns, double took_ns, double luck_ns2)
{
    double before = devices[device].raw_ns > 0 ? devices[device].took_ns / devices[device].raw_ns : took_ns / raw_ns;
    double off = took_ns / raw_ns / before - 1, most = 4 * luck_ns2 / (raw_ns * raw_ns);
    int32_t side = off * off < ASIDE * ASIDE || off * off < most ? 0 : off > 0 ? 1 : -1;

    if (side == 0 || devices[device].aside * side <= 0)
        devices[device].aside_raw_ns = devices[device].aside_took_ns = devices[device].aside_luck_ns2 = devices[device].aside = 0;
    if (side == 0)
        return;
    devices[device].aside += side;
    devices[device].aside_raw_ns += raw_ns;
    devices[device].aside_took_ns += took_ns;
    devices[device].aside_luck_ns2 += luck_ns2;
    double together = devices[device].aside_took_ns - devices[device].aside_raw_ns * before;
    if (devices[device].aside * side < ASIDE_MOST || together * together < 16 * devices[device].aside_luck_ns2)
        return;
    devices[device].raw_ns = devices[device].aside_raw_ns - raw_ns;     /* this one is added like any other */
    devices[device].took_ns = devices[device].aside_took_ns - took_ns;
    devices[device].luck_ns2 = devices[device].aside_luck_ns2 - luck_ns2;
    devices[device].aside = 0;
}

bool gpud_cost_varies(uint32_t device)
{
    return gpud_load(&devices[device].varies);
}

void gpud_cost_correct(uint32_t device, uint64_t launches, uint64_t charged_ns, double charged_factor, uint64_t took_ns)
{
    if (charged_ns == 0 || launches == 0 || pthread_mutex_trylock(&gpud_cost_lock) != 0)
        return;
    double before = gpud_cost_factor(device), raw_ns = (double)charged_ns / charged_factor;
    double luck_ns2 = raw_ns * raw_ns * (devices[device].variance + LEAST_VARIANCE) / (double)launches;

    look_aside(device, raw_ns, (double)took_ns, luck_ns2);
    devices[device].raw_ns += raw_ns;
    devices[device].took_ns += (double)took_ns;
    devices[device].luck_ns2 += luck_ns2;
    double factor = factor_of_sums(device);
    factor = factor < 0.25 ? 0.25 : factor > 4 ? 4 : factor;
    if (devices[device].raw_ns > MEMORY_NS) {
        devices[device].raw_ns /= 2;
        devices[device].took_ns /= 2;
        devices[device].luck_ns2 /= 2;
    }
    if (factor > before * (1 + STEP) || factor < before * (1 - STEP)) {
        uint32_t ppm = (uint32_t)(factor * 1e6 + 0.5);
        gpud_store(&devices[device].factor_ppm, ppm);
        gpud_cost_charge_all();
        gpud_store(&gpud_activity()->device[device].factor_ppm, ppm);
    }
    pthread_mutex_unlock(&gpud_cost_lock);
}

void gpud_cost_publish(void)
{
    for (uint32_t device = 0; device < GPUD_MAX_DEVICES; device++) {
        gpud_store(&gpud_activity()->device[device].factor_ppm, (uint32_t)(gpud_cost_factor(device) * 1e6 + 0.5));
        gpud_store(&gpud_activity()->device[device].estimated, devices[device].estimated);
    }
}
