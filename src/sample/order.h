/*
 * order.h - the one order of candidates, best first: the larger logit, then the smaller id.
 *
 * It is total on distinct tokens, so that every way of sorting gives the same list. Logits hold no NaN here.
 */
#ifndef WANE_SAMPLE_ORDER_H
#define WANE_SAMPLE_ORDER_H

#include "sample/sample.h"

#include <string.h>

static inline bool wane__better(struct wane__candidate a, struct wane__candidate b) {
    return a.logit > b.logit || (a.logit >= b.logit && a.token < b.token);
}

/* A number that ascends as the logit descends; -0 counts as 0, as it does in a comparison. */
static inline uint32_t wane__rank_key(float logit) {
    float plain = logit + 0.0f;
    uint32_t bits;
    memcpy(&bits, &plain, sizeof bits);
    return bits & 0x80000000u ? bits : bits ^ 0x7fffffffu;
}

/* Sort best first, in place, without allocation, in time linear in `count`. */
void wane__sort_candidates(struct wane__candidate *candidates, int count);

#endif
