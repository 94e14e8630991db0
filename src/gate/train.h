/*
 * train.h - from what votes left alone to a net whose output is calibrated log10 odds, and how good it is.
 *
 * What is learned from are tallies: how often each pattern was seen, and how often the vote left it alone. Everything is a function of
 * tallies and seed, so that the order of the traces never shows, and only additions, products and square roots take part, so that
 * the machine does not either.
 */
#ifndef WANE_GATE_TRAIN_H
#define WANE_GATE_TRAIN_H

#include "gate/lch.h"

struct wane__gate_tally {
    uint32_t pattern;
    uint32_t seen, kept;
};

struct wane__gate_lesson {
    const struct wane__gate_tally *learn; /* ascending, different patterns */
    size_t learn_count;
    const struct wane__gate_tally *check; /* when to stop, and calibration; may be empty */
    size_t check_count;
    uint64_t seed;
    wane_progress_fn progress; /* NULL: none */
    void *progress_user;
};

/* WANE_EINVAL when there is nothing to tell apart. `epochs`: that it took; may be NULL. */
int wane__gate_train(const struct wane__gate_lesson *lesson, struct wane__gate_net *net, int *epochs,
                     wane_error *error);

/* How often a kept position has higher odds than one that was not, equal ones counted half; NaN: there are not both. */
double wane__gate_auc(const struct wane__gate_net *net, const struct wane__gate_tally *tally, size_t count);
/* Mean distance of promised and seen share of kept positions, in 15 bins of equal size; NaN without positions. */
double wane__gate_ece(const struct wane__gate_net *net, const struct wane__gate_tally *tally, size_t count);
/* The share that log10 odds promise. */
double wane__gate_promise(double odds);

#endif
