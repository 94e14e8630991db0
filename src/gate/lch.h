/*
 * lch.h - the check head: from the best five candidates of a row to log10 odds that a vote over answers would leave its token alone.
 *
 *     probabilities ─► 4 gaps ─► 4 bins of 32 ─► pattern, 20 bits ─┬─► LUT: seen before ────────────┐
 *                                                                  └─► net: 128 → 64 (ReLU) → 1 ────┴─► odds
 *
 * A softmax at temperature 1 over the best 50 candidates after bias and penalties gives the probabilities: few enough for a
 * certified head, and for a trace of 64 candidates. Because the inputs are bins, the net is a function of the pattern alone; the
 * LUT holds its values for patterns that were seen in training, bit for bit.
 */
#ifndef WANE_GATE_LCH_H
#define WANE_GATE_LCH_H

#include "sample/sample.h"

enum {
    WANE__GATE_BEST = 5, /* candidates that are looked at */
    WANE__GATE_GAPS = 4,
    WANE__GATE_BINS = 32,
    WANE__GATE_HIDDEN = 64,
    WANE__GATE_OVER = 50,         /* candidates that the probabilities are taken over */
    WANE__GATE_PATTERNS = 1 << 20 /* 32^4 */
};

/*
 * Bins are octaves: bin 31 is a gap from 1/2 on, bin 30 from 1/4, …, bin 1 from 2^-31; bin 0 holds what is smaller. (Half octaves told
 * votes apart no better, and a LUT of as many tokens knew a third fewer of the next ones.) NaN and what is below zero count as 0.
 */
uint32_t wane__gate_bin(double gap);
/* The least gap of a bin; 0 for bin 0. */
double wane__gate_edge(uint32_t bin);
/* Of gap `which`, 0 … 3: between candidate which + 1 and the next. */
static inline uint32_t wane__gate_bin_of(uint32_t pattern, int which) {
    return pattern >> 5 * (WANE__GATE_GAPS - 1 - which) & 31;
}

/* What a row looks like. */
struct wane__gate_view {
    uint32_t pattern;
    double share[WANE__GATE_BEST]; /* probabilities; 0 where there is no such candidate */
};

/*
 * Look at `count` candidates, best first, of which the first 50 count; `scale` is the temperature's inverse. `all`: there are no more. Else, with
 * fewer than 50: true only when the pattern is the same whatever the others are; shares are then too large by what they have.
 * True with 50 or more.
 */
bool wane__gate_look(const struct wane__candidate *list, int count, bool all, double scale,
                     struct wane__gate_view *view);

struct wane__gate_net {
    float in[WANE__GATE_GAPS * WANE__GATE_BINS][WANE__GATE_HIDDEN];
    float bias[WANE__GATE_HIDDEN];
    float out[WANE__GATE_HIDDEN];
    float out_bias;
};

/* log10 odds. The same bits on every machine: floats, added in one order. */
float wane__gate_run(const struct wane__gate_net *net, uint32_t pattern);

/* Odds of seen patterns: open addressing, half empty at least. Start from {0}. */
struct wane__gate_lut {
    struct wane__gate_slot {
        uint32_t pattern; /* WANE__GATE_PATTERNS: free */
        float odds;
    } * slot;
    uint32_t shift; /* of the hash; 32 - log2 of the slots */
    uint32_t count;
};

/* Fill with the net's values for `count` different patterns. */
int wane__gate_lut_make(struct wane__gate_lut *lut, const struct wane__gate_net *net, const uint32_t *pattern,
                        size_t count, wane_error *error);
void wane__gate_lut_free(struct wane__gate_lut *lut);
/* False: not seen. */
bool wane__gate_lut_find(const struct wane__gate_lut *lut, uint32_t pattern, float *odds);

#endif
