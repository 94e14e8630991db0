/*
 * lch.c - gaps, bins, the net and its LUT; see lch.h. Owns the LUT's slots; refuses to add floats in an order that a compiler may choose.
 */
#include "gate/lch.h"

#include "core/error.h"
#include "core/memory.h"
#include "sample/exp.h"

#include <math.h>

enum { LANES = 8 };

/* ------------------------------------------------------------------- gaps */

uint32_t wane__gate_bin(double gap) {
    if (!(gap > 0)) return 0;
    if (gap >= 1) return WANE__GATE_BINS - 1;
    int bin = WANE__GATE_BINS + ilogb(gap);
    return bin > 0 ? (uint32_t)bin : 0;
}

double wane__gate_edge(uint32_t bin) {
    return bin == 0 ? 0 : ldexp(1, (int)bin - WANE__GATE_BINS);
}

/* The gaps' bins when the weights' sum is `sum`. */
static uint32_t pattern_at(const double *weight, double sum) {
    uint32_t pattern = 0;
    for (int i = 0; i < WANE__GATE_GAPS; i++)
        pattern = pattern << 5 | wane__gate_bin((weight[i] - weight[i + 1]) / sum);
    return pattern;
}

/* More than sums of 50 doubles can be off. */
#define SLACK 1e-12

bool wane__gate_look(const struct wane__candidate *list, int count, bool all, double scale,
                     struct wane__gate_view *view) {
    double weight[WANE__GATE_BEST] = {0}, sum = 0, last = 0;
    if (count > WANE__GATE_OVER) count = WANE__GATE_OVER;
    for (int i = 0; i < count; i++) {
        last = wane__exp_weight(((double)list[i].logit - (double)list[0].logit) * scale);
        if (i < WANE__GATE_BEST) weight[i] = last;
        sum += last;
    }
    if (!(sum > 0)) sum = 1;
    for (int i = 0; i < WANE__GATE_BEST; i++) view->share[i] = weight[i] / sum;
    view->pattern = pattern_at(weight, sum);
    if (all || count == WANE__GATE_OVER) return true;
    if (count < WANE__GATE_BEST) return false;
    double most = (sum + (WANE__GATE_OVER - count) * last) * (1 + SLACK);
    return pattern_at(weight, sum * (1 - SLACK)) == pattern_at(weight, most);
}

/* -------------------------------------------------------------------- net */

float wane__gate_run(const struct wane__gate_net *net, uint32_t pattern) {
    const float *row[WANE__GATE_GAPS];
    float lane[LANES] = {0};
    for (int g = 0; g < WANE__GATE_GAPS; g++)
        row[g] = net->in[(uint32_t)(g * WANE__GATE_BINS) + wane__gate_bin_of(pattern, g)];
    for (int h = 0; h < WANE__GATE_HIDDEN; h += LANES) {
        for (int l = 0; l < LANES; l++) {
            float sum = net->bias[h + l];
            for (int g = 0; g < WANE__GATE_GAPS; g++) sum += row[g][h + l];
            lane[l] += net->out[h + l] * (sum > 0 ? sum : 0);
        }
    }
    float four[4];
    for (int l = 0; l < 4; l++) four[l] = lane[l] + lane[l + 4];
    return ((four[0] + four[2]) + (four[1] + four[3])) + net->out_bias;
}

/* -------------------------------------------------------------------- LUT */

static uint32_t first_slot(const struct wane__gate_lut *lut, uint32_t pattern) {
    return pattern * 0x9e3779b1u >> lut->shift;
}

int wane__gate_lut_make(struct wane__gate_lut *lut, const struct wane__gate_net *net, const uint32_t *pattern,
                        size_t count, wane_error *error) {
    uint32_t bits = 4;
    while ((size_t)1 << bits < 2 * count) bits++;
    size_t slots = (size_t)1 << bits;
    *lut = (struct wane__gate_lut){.shift = 32 - bits, .count = (uint32_t)count};
    lut->slot = wane__alloc(slots * sizeof *lut->slot);
    if (lut->slot == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for a gate's table.");
    for (size_t i = 0; i < slots; i++) lut->slot[i].pattern = WANE__GATE_PATTERNS;
    for (size_t i = 0; i < count; i++) {
        uint32_t at = first_slot(lut, pattern[i]);
        while (lut->slot[at].pattern != WANE__GATE_PATTERNS) at = (at + 1) & (uint32_t)(slots - 1);
        lut->slot[at] = (struct wane__gate_slot){pattern[i], wane__gate_run(net, pattern[i])};
    }
    return WANE_OK;
}

void wane__gate_lut_free(struct wane__gate_lut *lut) {
    wane__free(lut->slot);
    *lut = (struct wane__gate_lut){0};
}

bool wane__gate_lut_find(const struct wane__gate_lut *lut, uint32_t pattern, float *odds) {
    uint32_t mask = (uint32_t)(((uint64_t)1 << (32 - lut->shift)) - 1);
    for (uint32_t at = first_slot(lut, pattern);; at = (at + 1) & mask) {
        if (lut->slot[at].pattern == pattern) {
            *odds = lut->slot[at].odds;
            return true;
        }
        if (lut->slot[at].pattern == WANE__GATE_PATTERNS) return false;
    }
}
