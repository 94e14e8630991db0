/*
 * figures.h - what says how good a classifier is: the interval of a share, and the area under the curve of a receiver (ROC): of all pairs of one that is right and one that is wrong, the share in which
 * the right one has the higher score; equal scores count half (Hanley and McNeil 1982).
 *
 *     for each score, ascending: wane__area_add(&a, rights, wrongs); behind the last one of equal scores: wane__area_part(&a)
 */
#ifndef WANE_CORE_FIGURES_H
#define WANE_CORE_FIGURES_H

#include <math.h>

/* Wilson's bounds of `right` out of `all`, z standard deviations to each side; NAN for none. */
static inline void wane__share_bounds(double right, double all, double z, double *low, double *high) {
    *low = *high = (double)NAN;
    if (!(all > 0)) return;
    double p = right / all, denominator = 1 + z * z / all;
    double middle = (p + z * z / (2 * all)) / denominator;
    double half = z * sqrt(p * (1 - p) / all + z * z / (4 * all * all)) / denominator;
    *low = middle - half > 0 ? middle - half : 0;
    *high = middle + half < 1 ? middle + half : 1;
}

/* The same as an interval of 95 %. */
static inline void wane__share_interval(double right, double all, double *low, double *high) {
    wane__share_bounds(right, all, 1.959963984540054, low, high);
}

/* All zero at first. Counts are weights: whole numbers stay exact up to 2^53. */
struct wane__area {
    double won, rights, wrongs; /* of scores that are done */
    double right, wrong;        /* of the score under way */
};

static inline void wane__area_add(struct wane__area *a, double rights, double wrongs) {
    a->right += rights;
    a->wrong += wrongs;
}

static inline void wane__area_part(struct wane__area *a) {
    a->won += a->right * (a->wrongs + 0.5 * a->wrong);
    a->rights += a->right;
    a->wrongs += a->wrong;
    a->right = a->wrong = 0;
}

/* NAN where all are of one kind. */
static inline double wane__area_of(const struct wane__area *a) {
    return a->rights > 0 && a->wrongs > 0 ? a->won / (a->rights * a->wrongs) : (double)NAN;
}

#endif
