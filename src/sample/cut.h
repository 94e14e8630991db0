/*
 * cut.h - what the best few candidates already decide: a draw whose outcome no unknown candidate can change.
 *
 * A draw needs to know two sums, the mass that top-p takes its share of and the mass of what is left after the cuts.
 * Of a prefix of the sorted candidates both are known between bounds: what lies behind it is no better than its last
 * one. The random number often falls so far from every border between two tokens that bounds are enough; then the rest
 * is never fetched, and no sum is taken. Undecided is an answer, too: then the caller must know more.
 */
#ifndef WANE_SAMPLE_CUT_H
#define WANE_SAMPLE_CUT_H

#include "sample/exp.h"
#include "sample/sample.h"

/* A sum that is known, or known to lie between two bounds; against the best candidate's weight. */
struct wane__mass {
    double low, high;
};

/* Of list[index], against the best, list[0]; `scale` is the temperature's inverse. */
static inline double wane__weigh(const struct wane__candidate *list, int index, double scale) {
    return wane__exp_weight(((double)list[index].logit - (double)list[0].logit) * scale);
}

struct wane__cut {
    int top_k; /* 0: off */
    double top_p;
    float lowest;             /* logits below it are cut by min-p; -INFINITY: off */
    double scale;             /* the temperature's inverse */
    double u;                 /* the random number, in [0, 1) */
    bool open;                /* nothing cuts: the whole vocabulary takes part */
    struct wane__mass whole;  /* of the vocabulary at temperature 1; 0 … INFINITY when not known */
    struct wane__mass scaled; /* the same at the temperature */
};

/*
 * Does the sorted prefix decide the draw? All candidates behind it have at most its last logit. On true, `chosen` is
 * the index that the exact sums give, and `support` a prefix that no cut shortens.
 */
bool wane__cut_decides(const struct wane__cut *cut, const struct wane__candidate *list, int count,
                       int *chosen, int *support);

#endif
