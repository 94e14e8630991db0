/*
 * multiply.h - products of many rows with one matrix, for building a sketch. The same bits on every processor:
 * each number is summed in order of the inner index, and nothing is fused.
 */
#ifndef WANE_HEAD_MULTIPLY_H
#define WANE_HEAD_MULTIPLY_H

#include <stddef.h>

enum { WANE__PANEL = 16 };

/* Bytes / 4 of a matrix of `columns` (a multiple of 16) × `inner`, cut into panels of 16 columns. */
static inline size_t wane__panels_size(int columns, int inner) {
    return (size_t)columns * (size_t)inner;
}
/* out[r][c] = Σ_i a[r][i] · panel[c / 16][i][c % 16]; `rows` rows of a and out, `stride` floats apart. */
void wane__multiply(const float *a, size_t a_stride, int rows, const float *panels, int columns, int inner,
                    float *out, size_t out_stride);

#endif
