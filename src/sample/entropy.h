/*
 * entropy.h - how sure a row is of its token: the entropy of softmax(logits), and how far the best token is ahead of the second.
 *
 * Of the raw row, at temperature 1: no processor, no filter. Exact where the source's sums are; from a certified row an estimate between
 * two bounds, without a dense product: the best tokens are exact, of the others the sum is bounded, and how they share it is not known but for
 * its limits.
 */
#ifndef WANE_SAMPLE_ENTROPY_H
#define WANE_SAMPLE_ENTROPY_H

#include "sample/sample.h"

struct wane__entropy {
    double value;     /* nats */
    double low, high; /* it is between these, with the source's failure probability */
    double margin;    /* logit of the best less that of the second; INFINITY: there is no second; exact */
};

/*
 * Allocates nothing; changes no answer of the source. An error of the source's is returned as it is, and so is WANE_EENGINE for a row
 * that cannot be drawn from.
 */
int wane__source_entropy(struct wane__source *source, struct wane__entropy *out);

#endif
