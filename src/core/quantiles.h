/*
 * quantiles.h - quantiles of short times over the last five to ten minutes, in a fixed piece of memory: one thread adds, any thread reads.
 *
 *     2^-24 s … 2^6 s │ 8 steps an octave │ two windows of five minutes, by turns: the one that runs and the one before
 *
 * A quantile is the upper end of its step: at most an eighth too high, never too low. Reading changes nothing, so that two who
 * read see the same. Sum and count are since the start, and never fall.
 */
#ifndef WANE_CORE_QUANTILES_H
#define WANE_CORE_QUANTILES_H

#include <stdatomic.h>

#define WANE__QUANTILES_STEPS  8
#define WANE__QUANTILES_LEAST  (-24) /* log2 of the shortest time told apart */
#define WANE__QUANTILES_MOST   6     /* and of the longest: about a minute   */
#define WANE__QUANTILES_BINS   ((WANE__QUANTILES_MOST - WANE__QUANTILES_LEAST) * WANE__QUANTILES_STEPS)
#define WANE__QUANTILES_WINDOW 300.0 /* seconds */

struct wane__quantiles { /* all zero at first */
    atomic_uint bin[2][WANE__QUANTILES_BINS];
    atomic_ullong window[2]; /* which window a row of bins is of, + 1; 0: none */
    atomic_ullong count, nanoseconds;
};

/* `seconds` that took something, at `now` (wane__now); what is no time, or negative, is left out. */
void wane__quantiles_add(struct wane__quantiles *quantiles, double now, double seconds);
/* The time that a share of them (0 to 1) did not exceed; 0 where the last two windows are empty. */
double wane__quantiles_get(const struct wane__quantiles *quantiles, double now, double share);

#endif
