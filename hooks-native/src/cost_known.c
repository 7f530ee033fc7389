/* cost_known.c: the estimate of one cost. The mean of clean samples, for what is paid is a sum; it follows changes. Where nobody was
 * ever alone, a kernel much shorter than a time slice either ran within its own slice, and then its interval is its cost, or one slice of
 * each of the others lies in the interval: how long that is is seen from the shortest such intervals, and taken off. A kernel of a slice or more always
 * has such slices in it, as many as there are clients: interval ÷ clients. */
#include "cost_known.h"

#include "cost.h"
#include "sys.h"

#define ENOUGH 8                    /* clean samples, if they agree */
#define ENOUGH_SHARED 32            /* samples of any kind */
#define MEMORY 64                   /* the mean is of about so many samples */
#define MEMORY_VARIED 1024          /* … where they differ: what is paid is right only if enough of them are in it */
#define ERROR_SQUARED 0.0009        /* (3 %)²: what the mean's standard error should be */
#define VARIED_SQUARED 0.04         /* (20 %)²: samples differ */
#define STEADY_SQUARED 0.0016       /* (4 %)²: samples agree */
#define ASIDE 0.12                  /* of the mean: much */
#define ASIDE_MOST 6                /* so many in a row: it is another cost now */
#define SLICE_NS 1e6                /* somebody else's time slice is hardly shorter */
#define SLICE_GROWS 1.002           /* the shortest seen may have been too short: it is forgotten slowly */
#define UNCLEAN_NS (5 * GPUD_SECOND)

static bool varied(const struct gpud_known *of)
{
    return of->spread > VARIED_SQUARED * of->mean * of->mean;
}

/* Has the cost changed for good? Only one that hardly varied can be told to: what varies has samples that are off all the time. */
static bool changed(struct gpud_known *of, double ns)
{
    double off = ns - of->mean;
    int32_t side = off > ASIDE * of->mean ? 1 : off < -ASIDE * of->mean ? -1 : 0;

    if (of->aside * side <= 0)
        of->aside = 0;
    if (of->aside == 0 && (varied(of) || of->clean < ENOUGH))
        return false;
    of->aside += side;
    return of->aside >= ASIDE_MOST || of->aside <= -ASIDE_MOST;
}

static void restart(struct gpud_known *of)
{
    of->clean = of->busy_count = of->shared = of->whole_count = of->shared_busy = 0;
    of->spread = of->busy_spread = 0;
    of->aside = 0;
    of->exact = 0;
}

/* One more in a mean of at most `memory`, and in its mean squared deviation. Returns how many are in it now. */
static uint32_t follow(double *mean, double *spread, uint32_t count, uint32_t memory, double ns)
{
    count = count < memory ? count + 1 : memory;
    double off = count == 1 ? 0 : ns - *mean;
    *mean = count == 1 ? ns : *mean + off / count;
    *spread += (off * (ns - *mean) - *spread) / count;
    return count;
}

void gpud_known_clean(struct gpud_known *of, double ns, enum gpud_exact exact, uint64_t now)
{
    of->clean_ns = now;
    if (exact < of->exact)
        return;
    if (exact > of->exact || changed(of, ns))
        restart(of);
    of->exact = exact;
    of->life++;
    if (!of->warm && of->clean > 0) {   /* what is got ready for a first launch is not its cost */
        restart(of);
        of->exact = exact;
        of->warm = 1;
    }
    of->clean = follow(&of->mean, &of->spread, of->clean, varied(of) ? MEMORY_VARIED : MEMORY, ns);
    if (exact == GPUD_EXACT)
        of->busy_count = follow(&of->busy, &of->busy_spread, of->busy_count, MEMORY, ns);
    of->shared = of->whole_count = of->shared_busy = 0;
}

/* A quarter of the last intervals is shorter. Hardly one of those was cut, unless all are. */
static double quartile(const struct gpud_known *of)
{
    uint32_t sorted[GPUD_KNOWN_RECENT], count = of->shared < GPUD_KNOWN_RECENT ? of->shared : GPUD_KNOWN_RECENT;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = i;
        for (; at > 0 && sorted[at - 1] > of->recent[i]; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = of->recent[i];
    }
    return count > 0 ? sorted[count / 4] : 0;
}

/* The interval without the others' slices in it; below 0: not to be told. */
static double without_slices(const struct gpud_known *of, double ns, uint32_t others, double *slice_ns)
{
    double usual = quartile(of), each = (ns - usual) / (others > 0 ? others : 1);

    if (ns < usual + SLICE_NS)
        return ns;
    if (of->shared < GPUD_KNOWN_RECENT / 2)
        return *slice_ns > 0 ? ns - *slice_ns * others : -1;
    if (usual < SLICE_NS / 2)       /* the shortest such interval belongs to one of its shortest runs */
        *slice_ns = !(*slice_ns > 0) || each < *slice_ns ? each : *slice_ns * SLICE_GROWS;
    double rest = *slice_ns > 0 ? ns - *slice_ns * (others > 0 ? others : 1) : -1;
    return *slice_ns > 0 && rest < usual / 2 ? usual / 2 : rest;
}

void gpud_known_shared(struct gpud_known *of, double ns, bool busy, uint32_t others, double *slice_ns)
{
    /* In an empty stream the first event is reached at once, and the launch may still wait for the others' slices. */
    if (of->shared_busy && !busy)
        return;
    if (busy && !of->shared_busy)
        of->shared = of->whole_count = 0;
    of->shared_busy = busy;
    of->recent[of->shared % GPUD_KNOWN_RECENT] = ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX;
    of->shared++;
    of->warm = of->shared >= ENOUGH ? 1 : of->warm;
    uint32_t n = of->shared < MEMORY_VARIED ? of->shared : MEMORY_VARIED;
    of->divided += (ns / (others + 1) - of->divided) / n;
    double rest = without_slices(of, ns, others, slice_ns);
    if (rest >= 0) {
        of->whole_count++;
        n = of->whole_count < MEMORY_VARIED ? of->whole_count : MEMORY_VARIED;
        of->whole += (rest - of->whole) / n;
    }
}

void gpud_known_begin(struct gpud_known *of, uint32_t device)
{
    restart(of);
    of->clean_ns = 0;
    of->mean = 0;
    of->life = 0;
    of->warm = 0;
    of->device = device;
    gpud_store(&of->unsure_launches, 0);
    gpud_store(&of->unsure_ns, 0);
    gpud_store(&of->attachment, 0);
    gpud_store(&of->tried_ns, 0);
}

void gpud_known_doubt(struct gpud_known *of)
{
    restart(of);
    of->life = 0;
}

bool gpud_known_nothing(const struct gpud_known *of)
{
    return of->clean == 0 && of->shared == 0 && !(of->mean > 0);
}

bool gpud_known_unsure(const struct gpud_known *of)
{
    return of->clean < ENOUGH && of->clean + of->shared < ENOUGH_SHARED;
}

bool gpud_known_young(const struct gpud_known *of)
{
    if (of->clean < ENOUGH)
        return gpud_known_unsure(of);
    /* What differs may be the measuring, where more than the launch is in it: more samples make that no better. */
    return of->exact == GPUD_EXACT && of->life < MEMORY_VARIED && of->spread > ERROR_SQUARED * of->mean * of->mean * of->clean;
}

bool gpud_known_steady(const struct gpud_known *of)
{
    return of->busy_count >= ENOUGH / 2 && !varied(of) && of->busy_spread < STEADY_SQUARED * of->busy * of->busy;
}

double gpud_known_estimate(const struct gpud_known *of, uint64_t now)
{
    if (of->shared == 0)
        return of->mean;
    double shared = quartile(of) < SLICE_NS && of->whole_count > 0 ? of->whole : of->divided;
    if (of->clean == 0)
        return shared;
    /* What was measured alone holds, unless all that has come since says that it is not half right any more. */
    bool old = of->shared >= ENOUGH_SHARED && of->clean_ns + UNCLEAN_NS < now;
    return old && (shared > 2 * of->mean || shared < of->mean / 2) ? shared : of->mean;
}
