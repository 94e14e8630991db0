/*
 * basis.h - coordinates in which few bits say much: a linear map of hidden rows, its counterpart for the
 * head's rows, and the random rotation of each group of coordinates.
 *
 *     (P w)·(T g) = w·g     P = T⁻ᵀ
 *
 * Balanced: T makes the covariance of hidden rows and the second moments of the head's rows one and the same
 * diagonal matrix, in descending order. An error of equal size in every coordinate then costs least, and the
 * first coordinates, which deserve more bits, carry most of the energy.
 */
#ifndef WANE_HEAD_BASIS_H
#define WANE_HEAD_BASIS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * T and P (both d × d, row-major) from the hidden rows' covariance, taken from `rows` of them, and the head's
 * second moments. `hidden` is shrunk towards a multiple of the identity, the more the fewer rows there were.
 * False when there is no memory or the matrices are not finite.
 */
bool wane__basis_balance(int d, const float *hidden, int64_t rows, const double *weights, float *t, float *p);

/*
 * Eigenvectors of a symmetric matrix: a (n × n, destroyed) becomes one vector a row, values descending.
 * `work` holds n² + 3n numbers. False if it does not converge (NaN among the numbers).
 */
bool wane__basis_eigen(double *a, int n, double *values, double *work);

/* Coordinates of a group are rotated in blocks of so many, and mixed between blocks. */
enum { WANE__ROTATION_BLOCK = 64 };

/* A group's rotation: `n` coordinates, a multiple of the block. */
struct wane__rotation {
    int n;
    int32_t *order; /* 2 × n: a permutation before the second and the third round */
    float *sign;    /* 3 × n */
};
/* Fixed by `seed`; false when there is no memory. */
bool wane__rotation_init(struct wane__rotation *rotation, int n, uint64_t seed);
void wane__rotation_free(struct wane__rotation *rotation);
/* Rotate x in place; scratch: n floats. Orthogonal: lengths and products stay. */
void wane__rotate(const struct wane__rotation *rotation, float *x, float *scratch);

#endif
