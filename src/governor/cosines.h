/*
 * cosines.h - dot products of one query with many keys, and the kernels that do them.
 *
 * Both are unit vectors in whole numbers of 16 bits, 32,767 standing for 1. So products are exact in 32 bits (Cauchy-Schwarz keeps
 * their sum below 2^31), all processors give the same, and a cosine is one product by a constant. What rounding costs: at most
 * √size / 32,767 (0.00025 for heads of 64, 0.0005 for 256), and 0.00002 as a standard deviation, measured.
 *
 * Keys lie in blocks of 8, turned, so that a register holds one pair of coordinates of all eight and no sum runs across lanes:
 *
 *     block   k0[0] k0[1]  k1[0] k1[1]  …  k7[0] k7[1] │ k0[2] k0[3]  k1[2] k1[3]  … │ …        size / 2 lines of 16 numbers
 */
#ifndef WANE_GOVERNOR_COSINES_H
#define WANE_GOVERNOR_COSINES_H

#include <stddef.h>
#include <stdint.h>

enum { WANE__KEYS_BLOCK = 8, WANE__KEYS_ONE = 32767 };
/* Blocks that are looked at together: their cosines stay in the nearest cache. */
enum { WANE__KEYS_CHUNK = 16 * WANE__KEYS_BLOCK };

/* Σ, Σ of squared, cubed and fourth powers' deviations from the mean: the moments of a list of numbers, or of several together. */
struct wane__powers {
    double count, mean, m2, m3, m4;
};

struct wane__cosine_kernels {
    const char *name;
    /* dots[8 · b + i] = Σ query · key i of block b; `pairs` is half a key. */
    void (*dots)(const int16_t *blocks, int count, int pairs, const int16_t *query, int32_t *dots);
    /* The moments of `count` cosines, 1 … WANE__KEYS_CHUNK, from their dots. */
    void (*powers)(const int32_t *dots, int count, struct wane__powers *powers);
};

/* The best for this processor, and number `index` (0: plain …) for tests; NULL past the last. All give the same bits. */
const struct wane__cosine_kernels *wane__cosine_kernels(void);
const struct wane__cosine_kernels *wane__cosine_kernels_at(int index);

extern const struct wane__cosine_kernels wane__cosines_plain;
#if defined(__x86_64__) && defined(__GNUC__)
extern const struct wane__cosine_kernels wane__cosines_avx2;
#endif

/*
 * The moments of both lists together, from each one's: Pébay 2008, "Formulas for robust, one-pass parallel computation of covariances
 * and arbitrary-order statistical moments" (Sandia SAND2008-6212). No difference of large sums is taken, so nothing cancels.
 */
void wane__powers_add(struct wane__powers *to, const struct wane__powers *more);
/* Pearson's kurtosis, m4 · n / m2²; NAN where all are equal. The standard deviation, of the list itself. */
double wane__powers_kurtosis(const struct wane__powers *powers);
double wane__powers_spread(const struct wane__powers *powers);

#endif
