/*
 * row.h - kernels over a row of logits: maxima and sums of exponentials, as fast as memory allows.
 *
 * One table a processor family, chosen at run time. All give the same bits: lanes and the order of summation
 * are fixed, and nothing is fused.
 */
#ifndef WANE_HEAD_ROW_H
#define WANE_HEAD_ROW_H

#include <stdbool.h>

struct wane__row_kernels {
    const char *name;
    /* Maxima of consecutive blocks of `block` floats (the last may be shorter): out[0 … ⌈count/block⌉ - 1].
     * Returns false when there is a NaN (the maxima are then of no use). -INFINITY for no floats. */
    bool (*block_max)(const float *x, int count, int block, float *out);
    /* Σ exp(scale · (x - max)) in double; max is at least every x. */
    double (*exp_sum)(const float *x, int count, double max, double scale);
};

/* The best table for this processor. */
const struct wane__row_kernels *wane__row_kernels(void);
/* Table `index` (0: plain …) for tests; NULL past the last that this processor can run. */
const struct wane__row_kernels *wane__row_kernels_at(int index);

#endif
