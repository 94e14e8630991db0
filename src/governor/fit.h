/*
 * fit.h - how well a signal tells right tokens from wrong ones, which thresholds follow, and what they are worth on other text.
 *
 * Numbers in, numbers out: nothing here knows a model, a file or a layer. Tokens are dependent on their neighbours, so that every
 * interval comes from drawing whole blocks of tokens, not tokens. What is chosen is chosen on one part of the blocks (LEARN), and what is
 * said of it comes from the other one (HELD).
 */
#ifndef WANE_GOVERNOR_FIT_H
#define WANE_GOVERNOR_FIT_H

#include "wane.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WANE__FIT_LEARN = 0, WANE__FIT_HELD, WANE__FIT_ALL };
enum { WANE__FIT_WRONG = 0, WANE__FIT_RIGHT, WANE__FIT_UNLABELLED };

/* Tokens in their order. Nothing here is owned. */
struct wane__fit_text {
    size_t count;
    const uint8_t *label; /* WANE__FIT_WRONG, …                                           */
    const uint8_t *first; /* 1: the token before it is not its neighbour                  */
    const int32_t *block; /* of each token, 0 … blocks - 1                                */
    const uint8_t *part;  /* of each block: WANE__FIT_LEARN or WANE__FIT_HELD             */
    int blocks;
};

/* How often each block was drawn in each replicate: as many of each part as there are of it. */
struct wane__fit_draws {
    int replicates, blocks;
    uint16_t *times; /* replicates × blocks */
};
/* False: no memory. */
bool wane__fit_draw(const struct wane__fit_text *text, int replicates, uint64_t seed,
                    struct wane__fit_draws *draws);
void wane__fit_draws_free(struct wane__fit_draws *draws);

/* An estimate with its 95 % interval: percentiles of the replicates. NAN where there is nothing to tell apart. */
struct wane__fit_share {
    double value, low, high;
};

/* How often a right token has the higher value, ties counted half (Mann and Whitney). */
struct wane__fit_auc {
    struct wane__fit_share auc;
    size_t right, wrong; /* that it was taken over                  */
    size_t missing;      /* labelled tokens whose value is not a finite number: left out */
};
/*
 * The values are sorted once; a replicate weighs the sorted ones anew. `draws` NULL: no interval. False: no memory.
 */
bool wane__fit_auc(const struct wane__fit_text *text, const float *value, int part,
                   const struct wane__fit_draws *draws, struct wane__fit_auc *out);

/* AUC of sign · a less that of sign · b, in replicates that both share. False: no memory. */
bool wane__fit_auc_difference(const struct wane__fit_text *text, const float *a, int sign_a, const float *b,
                              int sign_b, int part, const struct wane__fit_draws *draws,
                              struct wane__fit_share *out);

/* ------------------------------------------------------------------ the curve */

/* accuracy(x) = floor + (ceiling - floor) / (1 + exp(-(x - middle) / width)), width > 0: more of x is never worse. */
struct wane__fit_curve {
    double floor, ceiling, middle, width;
    double knee, foot; /* middle ± ln(2 + √3) · width: where it bends most, |p''| being greatest (p''' = 0) */
};
/*
 * By least squares over bins of equal count of sign · value, on one part. False: no memory, or all values are the same.
 */
bool wane__fit_curve(const struct wane__fit_text *text, const float *value, int sign, int part,
                     struct wane__fit_curve *curve);
double wane__fit_accuracy(const struct wane__fit_curve *curve, double x);

/* A bin of tokens with neighbouring values of sign · value. */
struct wane__fit_bin {
    double from, to, mean;      /* of the values              */
    double accuracy, low, high; /* Wilson's 95 % interval     */
    size_t count;
};
/* Bins of equal count, at most `most`; returns how many, -1: no memory. Values that are the same stay in one bin. */
int wane__fit_bins(const struct wane__fit_text *text, const float *value, int sign, int part,
                   struct wane__fit_bin *bin, int most);

/* ------------------------------------------------------------------- the states */

/* What the state machine sees in a token by itself, without the lock that it holds. */
struct wane__fit_rule {
    const float *value;  /* the signal                                                              */
    const float *spread; /* NULL: none                                                              */
    int sign;
    double peak, low;        /* of sign · value                                                     */
    double spread_threshold; /* LOCKED only below it; 0: whatever it is                             */
    double jerk_threshold;   /* PROTECT where |third difference of value| is beyond; 0: never       */
};
/* WANE_STATE_… */
int wane__fit_state(const struct wane__fit_text *text, const struct wane__fit_rule *rule, size_t at);
/* value[at] - 3·value[at-1] + 3·value[at-2] - value[at-3]; NAN at the beginning of a stretch. */
double wane__fit_jerk(const struct wane__fit_text *text, const float *value, size_t at);

/*
 * Thresholds of a signal, all of them from LEARN; spread and jerk are kept only where HELD confirms them. The rule's value, spread and
 * sign are given. False: no memory.
 */
bool wane__fit_thresholds(const struct wane__fit_text *text, const struct wane__fit_curve *curve,
                          const struct wane__fit_draws *draws, struct wane__fit_rule *rule);

/* What a rule's states say on HELD of whether a token is right. */
struct wane__fit_score {
    size_t tokens[WANE_STATES], right[WANE_STATES]; /* on HELD                             */
    double
        temperature; /* mean over LEARN's tokens of the temperatures that their states name; NAN: none does */
    /*
     * Bits that the state saves in telling right from wrong, a token: log2 of what LEARN's tokens in this state promise for the outcome, less
     * log2 of what all of LEARN's do (both with one right and one wrong token added).
     */
    struct wane__fit_share bits;
    struct wane__fit_share gap; /* accuracy of LOCKED less that of EXPLORE; NAN where one of them is empty */
};
/* `temperature`: of each state, 0 where it names none. `gain` (may be NULL): of each token, for wane__fit_difference. */
bool wane__fit_score(const struct wane__fit_text *text, const struct wane__fit_rule *rule,
                     const struct wane__fit_draws *draws, const double temperature[WANE_STATES],
                     struct wane__fit_score *out, double *gain);
/* Mean over HELD's labelled tokens of a - b, in replicates that both share. False: no memory. */
bool wane__fit_difference(const struct wane__fit_text *text, const double *a, const double *b,
                          const struct wane__fit_draws *draws, struct wane__fit_share *out);

#endif
