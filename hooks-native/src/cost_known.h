/* cost_known.h: what is known of the cost of one function and size class, from its samples. Numbers only; cost.c keeps the table. */
#ifndef GPUD_COST_KNOWN_H
#define GPUD_COST_KNOWN_H

#include <stdbool.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

#define GPUD_KNOWN_RECENT 16

struct gpud_known {
    uint64_t sampled_ns;    /* when the last sample of any kind came */
    uint64_t clean_ns;      /* when the last clean one came */
    double mean;            /* of clean samples, ns; after a doubt: what it was, until the first new one */
    double spread;          /* their mean squared deviation */
    double busy;            /* mean of the clean samples with nothing but the launch between the events */
    double busy_spread;
    double divided;         /* of samples that are not clean: mean of interval ÷ clients at work */
    double whole;           /* … and mean of the intervals less the other clients' slices in them */
    uint32_t recent[GPUD_KNOWN_RECENT];     /* … and the last few, ns */
    uint32_t clean;         /* samples in `mean`, at most its memory */
    uint32_t life;          /* clean samples since it was begun or doubted */
    uint32_t busy_count;
    uint32_t shared;        /* samples that are not clean, since the last clean one or doubt */
    uint32_t whole_count;
    uint32_t shared_busy;   /* 1: those that count were measured with nothing but the launch between the events */
    int32_t aside;          /* clean samples in a row that were off the mean by much, on this side */
    uint32_t exact;         /* enum gpud_exact of the samples in `mean`; less exact ones are not wanted any more */
    uint32_t warm;          /* 1: the first sample has been replaced */
    uint32_t device;
    /* Read and written without lock: */
    uint32_t charge;        /* what a launch is charged with, young or not; 0: nothing known */
    uint32_t unsure_launches;    /* launches charged while it was unsure, */
    uint64_t unsure_ns;     /* and with how much */
    uint32_t attachment;    /* … in these pages */
    uint64_t tried_ns;      /* when one of its launches was sampled for its own sake last */
};

void gpud_known_begin(struct gpud_known *of, uint32_t device);      /* nothing is known */

/* What a sample holds beside the launch: what is not known; what is known about, and taken off; nothing. */
enum gpud_exact { GPUD_INEXACT, GPUD_CORRECTED, GPUD_EXACT };
void gpud_known_clean(struct gpud_known *of, double ns, enum gpud_exact exact, uint64_t now);
/* `slice_ns`: how long the others have the device in between, as far as is known on this device; what this sample says of it is learned. */
void gpud_known_shared(struct gpud_known *of, double ns, bool busy, uint32_t others, double *slice_ns);
void gpud_known_doubt(struct gpud_known *of);       /* it may be another function now */
bool gpud_known_nothing(const struct gpud_known *of);
bool gpud_known_young(const struct gpud_known *of);     /* every launch is worth a sample */
bool gpud_known_unsure(const struct gpud_known *of);    /* the estimate is of too few samples */
bool gpud_known_steady(const struct gpud_known *of);        /* its cost hardly varies, and `busy` says how much it is */
double gpud_known_estimate(const struct gpud_known *of, uint64_t now);

#pragma GCC visibility pop
#endif
