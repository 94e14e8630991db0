/*
 * entropy.c - entropy from a few exact candidates and sums over the rest.
 *
 * With S the weight of the best tokens, T that of all others, Z = S + T, and E the others' mean logit, weighted,
 *
 *     H = ln Z - (Σ best l·e^l + E·T) / Z
 *
 * H falls with E, which is at most the last of the best logits, and at least ln(T / n), where all n others are alike; at either end H
 * grows with T. So two bounds of T give two of H. In between, E is the slope at 1 of ln Σ e^(s·l) over s: taken from two sums a little
 * on both sides, which for a dense row is E to eight digits.
 *
 * Owns no state. Refuses to ask for an exact sum where the source knows bounds: that would be the dense head.
 */
#include "sample/entropy.h"

#include "sample/exp.h"

#include <math.h>

/* As many as a draw mostly fetches anyway. */
enum { BEST = 16 };
/* Others with less weight together than this share are as if they were not there: H moves by less than 1e-6 in any vocabulary. */
#define NOTHING 1e-8
/* On both sides of 1: for exact sums as close as double allows; for bounded ones far enough that their errors do not count. */
#define STEP_EXACT   1e-4
#define STEP_BOUNDED 0.05

/* The best ones' part; sums against the best logit. */
struct best {
    struct wane__candidate list[BEST];
    int32_t token[BEST]; /* ascending, to be left out */
    int count;
    double weight, moment; /* Σ e^l, Σ l·e^l */
    double last;           /* the lowest logit of them */
};

static int take_best(struct wane__source *source, struct best *b) {
    int status = source->best(source, BEST, NULL, 0, b->list, &b->count);
    if (status != WANE_OK) return status;
    while (b->count > 0 && !(b->list[b->count - 1].logit > -INFINITY)) b->count--;
    if (b->count == 0 || !(b->list[0].logit < INFINITY)) return WANE_EENGINE;
    for (int i = 0; i < b->count; i++) {
        double l = (double)b->list[i].logit - (double)b->list[0].logit;
        b->weight += wane__exp_weight(l);
        b->moment += l * wane__exp_weight(l);
        b->last = l;
        int at = i;
        for (; at > 0 && b->token[at - 1] > b->list[i].token; at--) b->token[at] = b->token[at - 1];
        b->token[at] = b->list[i].token;
    }
    return WANE_OK;
}

/* ln Σ e^(scale·l) over the others, l against the best logit; low == high where it is exact. */
static int sum_others(struct wane__source *source, const struct best *b, double scale, double *low,
                      double *high) {
    int status;
    if (source->log_sum_bounds != NULL) {
        status = source->log_sum_bounds(source, (float)scale, b->token, b->count, false, low, high);
    } else {
        status = source->log_sum(source, (float)scale, b->token, b->count, low);
        *high = *low;
    }
    double best = (double)(float)scale * (double)b->list[0].logit;
    *low -= best;
    *high -= best;
    return status;
}

static double entropy_of(const struct best *b, double others, double mean) {
    double whole = b->weight + others;
    return log(whole) - (b->moment + (others > 0 ? mean * others : 0)) / whole;
}

/* The middle of two bounds of a sum, as a logarithm. */
static double middle(double low, double high) {
    return high + log(0.5 * (1 + exp(low - high)));
}

/* The others' weighted mean logit. */
static int mean_of_others(struct wane__source *source, const struct best *b, double step, double *mean) {
    double low[2], high[2], scale[2] = {1 - step, 1 + step};
    for (int i = 0; i < 2; i++) {
        scale[i] = (double)(float)scale[i]; /* as the source is asked */
        int status = sum_others(source, b, scale[i], &low[i], &high[i]);
        if (status != WANE_OK) return status;
    }
    *mean = (middle(low[1], high[1]) - middle(low[0], high[0])) / (scale[1] - scale[0]);
    return WANE_OK;
}

int wane__source_entropy(struct wane__source *source, struct wane__entropy *out) {
    struct best b = {.count = 0};
    double low, high, mean;
    int status = take_best(source, &b);
    if (status != WANE_OK) return status;
    int others = source->vocab_size - b.count;
    out->margin = b.count > 1 ? (double)b.list[0].logit - (double)b.list[1].logit : (double)INFINITY;
    out->value = out->low = out->high = entropy_of(&b, 0, 0);
    if (others <= 0) return WANE_OK;
    status = sum_others(source, &b, 1, &low, &high);
    if (status != WANE_OK || !(exp(high) > NOTHING * b.weight)) return status;
    bool exact = low == high;
    double most = b.last, least = fmin(high - log(others), most);
    out->low = entropy_of(&b, exp(low), most);
    out->high = entropy_of(&b, exp(high), least);
    status = mean_of_others(source, &b, exact ? STEP_EXACT : STEP_BOUNDED, &mean);
    if (status != WANE_OK) return status;
    mean = fmin(fmax(mean, least), most);
    out->value = entropy_of(&b, exp(middle(low, high)), mean);
    if (exact) out->low = out->high = out->value;
    return WANE_OK;
}
