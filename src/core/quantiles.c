/* quantiles.c - times in steps of an eighth of an octave, in two windows by turns; refuses locks, memory and logarithms. */
#include "core/quantiles.h"

#include <math.h>
#include <stdint.h>

static uint64_t window_at(double now) {
    return (uint64_t)(now / WANE__QUANTILES_WINDOW) + 1;
}

/* Mantissas are in [0.5, 1): sixteenths of the octave above are eighths of this one. */
static int bin_of(double seconds) {
    int exponent = 0;
    double mantissa = frexp(seconds, &exponent);
    if (!(seconds > 0) || exponent <= WANE__QUANTILES_LEAST) return 0;
    if (exponent > WANE__QUANTILES_MOST) return WANE__QUANTILES_BINS - 1;
    return (exponent - 1 - WANE__QUANTILES_LEAST) * WANE__QUANTILES_STEPS +
           (int)((mantissa - 0.5) * (2 * WANE__QUANTILES_STEPS));
}

static double top_of(int bin) {
    int octave = WANE__QUANTILES_LEAST + bin / WANE__QUANTILES_STEPS, step = bin % WANE__QUANTILES_STEPS;
    return ldexp(1 + (double)(step + 1) / WANE__QUANTILES_STEPS, octave);
}

void wane__quantiles_add(struct wane__quantiles *q, double now, double seconds) {
    if (!(seconds >= 0) || !isfinite(seconds) || !(now >= 0)) return;
    uint64_t window = window_at(now);
    int row = (int)(window % 2);
    if (atomic_load_explicit(&q->window[row], memory_order_relaxed) != window) {
        /* Who reads meanwhile sees a part of the old window, once in five minutes. */
        for (int i = 0; i < WANE__QUANTILES_BINS; i++)
            atomic_store_explicit(&q->bin[row][i], 0, memory_order_relaxed);
        atomic_store_explicit(&q->window[row], window, memory_order_relaxed);
    }
    atomic_fetch_add_explicit(&q->bin[row][bin_of(seconds)], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&q->count, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&q->nanoseconds, (unsigned long long)(seconds * 1e9), memory_order_relaxed);
}

double wane__quantiles_get(const struct wane__quantiles *q, double now, double share) {
    uint64_t all = 0, seen = 0, bins[WANE__QUANTILES_BINS] = {0}, window = window_at(now);
    for (int row = 0; row < 2; row++) {
        uint64_t of = atomic_load_explicit(&q->window[row], memory_order_relaxed);
        if (of != window && of + 1 != window) continue;
        for (int i = 0; i < WANE__QUANTILES_BINS; i++)
            bins[i] += atomic_load_explicit(&q->bin[row][i], memory_order_relaxed);
    }
    for (int i = 0; i < WANE__QUANTILES_BINS; i++) all += bins[i];
    if (all == 0) return 0;
    double wanted = share * (double)all;
    for (int i = 0; i < WANE__QUANTILES_BINS; i++) {
        seen += bins[i];
        if (seen > 0 && (double)seen >= wanted) return top_of(i);
    }
    return top_of(WANE__QUANTILES_BINS - 1);
}
