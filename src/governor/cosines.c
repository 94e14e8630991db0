/*
 * cosines.c - the kernels in plain C, the choice among all of them at run time, and what is made of moments.
 */
#include "governor/cosines.h"

#include <math.h>
#include <string.h>

#define TARGET
#include "governor/powers_template.h"

static void dots(const int16_t *blocks, int count, int pairs, const int16_t *query, int32_t *out) {
    for (int b = 0; b < count; b++, out += WANE__KEYS_BLOCK) {
        int32_t sum[WANE__KEYS_BLOCK] = {0};
        for (int p = 0; p < pairs; p++, blocks += 2 * WANE__KEYS_BLOCK)
            for (int i = 0; i < WANE__KEYS_BLOCK; i++)
                sum[i] += blocks[2 * i] * query[2 * p] + blocks[2 * i + 1] * query[2 * p + 1];
        for (int i = 0; i < WANE__KEYS_BLOCK; i++) out[i] = sum[i];
    }
}

const struct wane__cosine_kernels wane__cosines_plain = {"plain", dots, powers};

const struct wane__cosine_kernels *wane__cosine_kernels_at(int index) {
    if (index == 0) return &wane__cosines_plain;
#if defined(__x86_64__) && defined(__GNUC__)
    if (index == 1 && __builtin_cpu_supports("avx2")) return &wane__cosines_avx2;
#endif
    return NULL;
}

const struct wane__cosine_kernels *wane__cosine_kernels(void) {
    const struct wane__cosine_kernels *best = &wane__cosines_plain;
    for (int i = 1; wane__cosine_kernels_at(i) != NULL; i++) best = wane__cosine_kernels_at(i);
    return best;
}

void wane__powers_add(struct wane__powers *to, const struct wane__powers *more) {
    if (more->count <= 0) return;
    if (to->count <= 0) {
        *to = *more;
        return;
    }
    double a = to->count, b = more->count, n = a + b, d = more->mean - to->mean, r = d / n;
    double m4 = to->m4 + more->m4 + d * r * r * r * a * b * (a * a - a * b + b * b) +
                6 * r * r * (a * a * more->m2 + b * b * to->m2) + 4 * r * (a * more->m3 - b * to->m3);
    double m3 = to->m3 + more->m3 + d * r * r * a * b * (a - b) + 3 * r * (a * more->m2 - b * to->m2);
    *to = (struct wane__powers){n, to->mean + r * b, to->m2 + more->m2 + d * r * a * b, m3, m4};
}

double wane__powers_kurtosis(const struct wane__powers *p) {
    /* Equal to what the numbers themselves can tell apart: a deviation below 1e-7 is rounding. */
    if (!(p->m2 > p->count * 1e-14)) return NAN;
    return p->m4 * p->count / (p->m2 * p->m2);
}

double wane__powers_spread(const struct wane__powers *p) {
    return p->count > 0 ? sqrt(p->m2 > 0 ? p->m2 / p->count : 0) : NAN;
}
