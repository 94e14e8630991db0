/*
 * build_sums.h - what the samples of one context have in common, from running sums.
 *
 * u is a sample's logits as a vector over its candidates (0 elsewhere), divided by its length. With S = Σu over n samples:
 *
 *     mean pairwise cosine   (|S|² − n) / (n (n − 1))
 *     of one with the rest   (u·S − u·u) / (n − 1)        their mean is the same number
 *
 * Sums are whole numbers (2⁻³² for u and probabilities, 2⁻²⁴ for logits), so that they do not depend on the order in which
 * samples come, nor on how they were split. The share of the samples that agree needs samples again: up to
 * WANE__SUMS_KEPT of them are kept, those with the least hashes.
 */
#ifndef WANE_TABLE_BUILD_SUMS_H
#define WANE_TABLE_BUILD_SUMS_H

#include "table/build_sample.h"

#define WANE__SUMS_KEPT 1024

struct wane__sum {
    int32_t token;
    uint32_t drawn; /* samples that drew it                                            */
    uint32_t first; /* samples whose best candidate it is                              */
    bool listed;    /* some sample has it among its candidates                         */
    int64_t unit;   /* Σ u                                                             */
    int64_t above;  /* Σ logit − the sample's last listed one, where it is listed      */
    int64_t mass;   /* Σ probability                                                   */
};

struct wane__sums;

int wane__sums_new(struct wane__sums **sums, wane_error *error);
void wane__sums_free(struct wane__sums *sums);
void wane__sums_clear(struct wane__sums *sums);
/* WANE_ENOMEM when the tokens seen need more room than there is. */
int wane__sums_add(struct wane__sums *sums, const struct wane__sample *sample, wane_error *error);
uint32_t wane__sums_count(const struct wane__sums *sums);

/* What came of it. */
struct wane__summary {
    uint32_t seen;
    double stability; /* mean pairwise cosine; 0 for one sample, which has no pair */
    double share; /* of the samples whose mean cosine with the others is at least `least`; 0 for one sample */
    int top_count;
    struct wane__candidate
        top[WANE__SLMT_DEPTH];        /* the best by mean logit; a sample that does not list a token counts
                                                     with the last logit that it lists */
    uint32_t drawn[WANE__SLMT_DEPTH]; /* samples that drew it */
    uint32_t first;                   /* samples whose best candidate is top[0] */
    double mass;                      /* mean share of the probability that `top` carries */
    int32_t next;                     /* the token drawn most, the smaller one among equals */
    uint32_t next_drawn;
};
void wane__sums_finish(struct wane__sums *sums, double least, int depth, struct wane__summary *summary);

#endif
