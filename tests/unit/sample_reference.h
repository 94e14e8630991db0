/*
 * sample_reference.h - sampling in its plainest form, for comparison: a copy of the whole row, one full sort,
 * one step after the other, sums in long double. `close` marks a cut or a draw that a last bit could decide
 * otherwise: such cases prove nothing and are passed over.
 */
#ifndef WANE_TEST_SAMPLE_REFERENCE_H
#define WANE_TEST_SAMPLE_REFERENCE_H

#include "core/rng.h"
#include "sample/sample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct reference {
    struct wane__candidate *list; /* after processors and filters, best first */
    int count;
    int chosen;
    bool close;
};

static int reference_compare(const void *left, const void *right) {
    const struct wane__candidate *a = left, *b = right;
    if (a->logit > b->logit || a->logit < b->logit) return a->logit > b->logit ? -1 : 1;
    return a->token < b->token ? -1 : a->token > b->token;
}

static inline long double reference_weight(const struct reference *r, int i, double scale) {
    return expl(((long double)r->list[i].logit - (long double)r->list[0].logit) * (long double)scale);
}

static inline void reference_process(const wane_sampling *s, float *row, int vocab, const int32_t *context,
                                     int count) {
    int from = s->penalty_window < 0 || s->penalty_window > count ? 0 : count - s->penalty_window;
    int *uses = calloc((size_t)vocab, sizeof *uses);
    for (size_t i = 0; i < s->bias_count; i++) row[s->bias[i].token] += s->bias[i].bias;
    for (int i = from; i < count; i++) uses[context[i]]++;
    bool on = s->repeat_penalty != 1 || s->presence_penalty != 0 || s->frequency_penalty != 0;
    for (int t = 0; t < vocab && on; t++) {
        if (uses[t] == 0) continue;
        row[t] = row[t] <= 0 ? row[t] * s->repeat_penalty : row[t] / s->repeat_penalty;
        row[t] -= (float)uses[t] * s->frequency_penalty + s->presence_penalty;
    }
    free(uses);
}

static inline bool reference_near(long double a, long double b) {
    return fabsl(a - b) <= 1e-9L * (fabsl(a) + fabsl(b));
}

static inline void reference_filter(const wane_sampling *s, struct reference *r) {
    if (s->top_k > 0 && s->top_k < r->count) r->count = s->top_k;
    if (s->top_p < 1) {
        long double mass = 0, sum = 0;
        for (int i = 0; i < r->count; i++) mass += reference_weight(r, i, 1);
        for (int i = 0; i < r->count; i++) {
            sum += reference_weight(r, i, 1);
            if (reference_near(sum, mass * (long double)s->top_p)) r->close = true;
            if (sum >= mass * (long double)s->top_p) {
                r->count = i + 1;
                break;
            }
        }
    }
    if (s->min_p > 0) {
        float lowest = r->list[0].logit + logf(s->min_p);
        int kept = 1;
        while (kept < r->count && r->list[kept].logit >= lowest) kept++;
        r->count = kept;
    }
}

/* `list` has room for the vocabulary. */
static inline struct reference reference_draw(const wane_sampling *s, const float *logits, int vocab,
                                              const int32_t *context, int count, double u,
                                              struct wane__candidate *list) {
    struct reference r = {.list = list};
    float *row = malloc((size_t)vocab * sizeof *row);
    memcpy(row, logits, (size_t)vocab * sizeof *row);
    reference_process(s, row, vocab, context, count);
    for (int t = 0; t < vocab; t++)
        if (row[t] > -INFINITY) list[r.count++] = (struct wane__candidate){t, row[t]};
    free(row);
    qsort(list, (size_t)r.count, sizeof *list, reference_compare);
    if (r.count == 0) return r;
    if (s->temperature <= 0) {
        r.count = 1;
        return r;
    }
    reference_filter(s, &r);
    double scale = (double)(1 / s->temperature);
    long double mass = 0, sum = 0;
    for (int i = 0; i < r.count; i++) mass += reference_weight(&r, i, scale);
    for (int i = 0; i < r.count; i++) {
        sum += reference_weight(&r, i, scale);
        if (reference_near(sum, mass * (long double)u)) r.close = true;
        r.chosen = i;
        if (sum > mass * (long double)u) break;
    }
    return r;
}

#endif
