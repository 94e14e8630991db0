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
/* Bounds so near to each other, in nats, need no guess between them. */
#define CLOSE 4e-3
/* On both sides of 1: for exact sums as close as double allows; for guessed ones far enough that their errors do not count. */
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

/* ln Σ e^(scale·l) over the others, l against the best logit: exactly, or as the source guesses. */
static int guess_others(struct wane__source *source, const struct best *b, double scale, double *sum) {
    int status = source->log_sum_guess != NULL
                     ? source->log_sum_guess(source, (float)scale, b->token, b->count, sum)
                     : source->log_sum(source, (float)scale, b->token, b->count, sum);
    *sum -= (double)(float)scale * (double)b->list[0].logit;
    return status;
}

/* Bounds of the same at scale 1; low == high where it is exact. */
static int bound_others(struct wane__source *source, const struct best *b, double *low, double *high) {
    int status;
    if (source->log_sum_bounds != NULL) {
        status = source->log_sum_bounds(source, 1, b->token, b->count, false, low, high);
    } else {
        status = source->log_sum(source, 1, b->token, b->count, low);
        *high = *low;
    }
    *low -= (double)b->list[0].logit;
    *high -= (double)b->list[0].logit;
    return status;
}

static double entropy_of(const struct best *b, double others, double mean) {
    double whole = b->weight + others;
    return log(whole) - (b->moment + (others > 0 ? mean * others : 0)) / whole;
}

/* The others' weighted mean logit. */
static int mean_of_others(struct wane__source *source, const struct best *b, double step, double *mean) {
    double sum[2],
        scale[2] = {(double)(float)(1 - step), (double)(float)(1 + step)}; /* as the source is asked */
    for (int i = 0; i < 2; i++) {
        int status = guess_others(source, b, scale[i], &sum[i]);
        if (status != WANE_OK) return status;
    }
    *mean = (sum[1] - sum[0]) / (scale[1] - scale[0]);
    return WANE_OK;
}

int wane__source_entropy(struct wane__source *source, struct wane__entropy *out) {
    struct best b = {.count = 0};
    double low, high, likely, mean;
    int status = take_best(source, &b);
    if (status != WANE_OK) return status;
    int others = source->vocab_size - b.count;
    out->margin = b.count > 1 ? (double)b.list[0].logit - (double)b.list[1].logit : (double)INFINITY;
    out->value = out->low = out->high = entropy_of(&b, 0, 0);
    if (others <= 0) return WANE_OK;
    status = bound_others(source, &b, &low, &high);
    if (status != WANE_OK || !(exp(high) > NOTHING * b.weight)) return status;
    bool exact = low == high;
    double most = b.last, least = fmin(high - log(others), most);
    out->low = entropy_of(&b, exp(low), most);
    out->high = entropy_of(&b, exp(high), least);
    out->value = 0.5 * (out->low + out->high);
    if (!exact && out->high - out->low < CLOSE) return WANE_OK;
    status = guess_others(source, &b, 1, &likely);
    if (status == WANE_OK) status = mean_of_others(source, &b, exact ? STEP_EXACT : STEP_BOUNDED, &mean);
    if (status != WANE_OK) return status;
    likely = fmin(fmax(likely, low), high);
    mean = fmin(fmax(mean, fmin(likely - log(others), most)), most);
    out->value = entropy_of(&b, exp(likely), mean);
    if (exact) out->low = out->high = out->value;
    return WANE_OK;
}
