/*
 * gate_rig.h - gates whose odds are known: a straight line over the bin of the first gap. Files of them for a model.
 */
#ifndef WANE_TESTS_GATE_RIG_H
#define WANE_TESTS_GATE_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/memory.h"
#include "core/rng.h"
#include "gate/gate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* odds = at_zero + slope · bin of the first gap */
static inline void gate_line(struct wane__gate_net *net, float at_zero, float slope) {
    memset(net, 0, sizeof *net);
    for (int bin = 0; bin < WANE__GATE_BINS; bin++) net->in[bin][0] = (float)bin;
    net->out[0] = slope;
    net->out_bias = at_zero;
}

/* Weights of any sign. */
static inline void gate_random(struct wane__gate_net *net, uint64_t seed) {
    float *weight = (float *)net;
    for (size_t i = 0; i < sizeof *net / sizeof *weight; i++)
        weight[i] = (float)(wane__random_unit(seed, i) - 0.5);
}

static inline struct wane__gate_made gate_made(const char *model, const char *tokenizer) {
    struct wane__gate_made made = {.vocab_size = 384,
                                   .seed = 7,
                                   .votes = 10,
                                   .positions = 100,
                                   .kept = 90,
                                   .tokens = 1000,
                                   .auc = 0.9,
                                   .ece = 0.01,
                                   .coverage = 0.99,
                                   .note = "made up"};
    snprintf(made.model, sizeof made.model, "%s", model);
    snprintf(made.tokenizer, sizeof made.tokenizer, "%s", tokenizer);
    return made;
}

static inline int gate_ascending(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Different patterns, ascending; returns how many came of `count` tries. */
static inline size_t gate_patterns(uint32_t *pattern, size_t count, uint64_t seed) {
    size_t n = 0;
    for (size_t i = 0; i < count; i++)
        pattern[i] = (uint32_t)(wane__random_bits(seed, i) % WANE__GATE_PATTERNS);
    qsort(pattern, count, sizeof *pattern, gate_ascending);
    for (size_t i = 0; i < count; i++)
        if (n == 0 || pattern[i] != pattern[n - 1]) pattern[n++] = pattern[i];
    return n;
}

static inline struct wane__gate *gate_of(const struct wane__gate_made *made, const struct wane__gate_net *net,
                                         const uint32_t *pattern, size_t count) {
    struct wane__gate *gate = NULL;
    wane_error error = {0};
    if (wane__gate_new(made, net, pattern, count, &gate, &error) != WANE_OK) fail_msg("%s", error.text);
    return gate;
}

#endif
