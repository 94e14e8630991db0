/*
 * basis.c - the balanced basis and the rotations inside its groups. Owns no state; works in double where a
 * matrix is inverted, in float where a row passes through.
 *
 * Balancing (as in model reduction): C = L Lᵀ the hidden rows' covariance, M the head's second moments,
 * Lᵀ M L = U S² Uᵀ. Then T = S^½ Uᵀ L⁻¹ gives T C Tᵀ = S and P M Pᵀ = S with P = S^-½ Uᵀ Lᵀ.
 *
 * Eigenvectors: Householder's reduction to three diagonals, then implicit QL with Wilkinson's shift. All inner
 * loops run along rows, so that they vectorise.
 *
 * A rotation is three rounds of signs and a Hadamard transform of 64 coordinates, with a permutation between
 * them: what a random rotation does to a vector of weights, at the cost of a few additions a coordinate.
 */
#include "head/basis.h"

#include "core/memory.h"
#include "core/rng.h"

#include <math.h>
#include <string.h>

/* ---------------------------------------------------------------- eigenvectors */

static double dot(const double *a, const double *b, int n) {
    double s[8] = {0};
    int i = 0;
    for (; i + 8 <= n; i += 8)
        for (int j = 0; j < 8; j++) s[j] += a[i + j] * b[i + j];
    for (; i < n; i++) s[0] += a[i] * b[i];
    return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
}

/* y += factor · x */
static void add_scaled(double *restrict y, const double *restrict x, double factor, int n) {
    for (int i = 0; i < n; i++) y[i] += factor * x[i];
}

/* a → diagonal and off-diagonal (off[i] beside rows i and i + 1); `vectors` keeps the reflections. */
static void reduce(double *a, int n, double *diagonal, double *off, double *vectors, double *p) {
    for (int k = 0; k + 2 < n; k++) {
        double *v = vectors + (size_t)k * (size_t)n, *row = a + (size_t)k * (size_t)n;
        int m = n - k - 1;
        memcpy(v + k + 1, row + k + 1, (size_t)m * sizeof *v);
        double norm = sqrt(dot(v + k + 1, v + k + 1, m));
        double alpha = v[k + 1] > 0 ? -norm : norm;
        off[k] = alpha;
        double size = norm * norm - alpha * v[k + 1];
        v[k] = size > 0 ? 1 / size : 0; /* β, with v not normalised */
        v[k + 1] -= alpha;
        if (!(size > 0)) continue;
        for (int i = k + 1; i < n; i++) p[i] = v[k] * dot(a + (size_t)i * (size_t)n + k + 1, v + k + 1, m);
        add_scaled(p + k + 1, v + k + 1, -0.5 * v[k] * dot(p + k + 1, v + k + 1, m), m);
        for (int i = k + 1; i < n; i++) {
            double *to = a + (size_t)i * (size_t)n + k + 1;
            add_scaled(to, p + k + 1, -v[i], m);
            add_scaled(to, v + k + 1, -p[i], m);
        }
    }
    for (int i = 0; i < n; i++) diagonal[i] = a[(size_t)i * (size_t)n + (size_t)i];
    if (n > 1) off[n - 2] = a[(size_t)(n - 2) * (size_t)n + (size_t)n - 1];
    off[n - 1] = 0;
}

/* z = the transposed product of the reflections. */
static void gather(double *z, int n, const double *vectors, double *t) {
    memset(z, 0, (size_t)n * (size_t)n * sizeof *z);
    for (int i = 0; i < n; i++) z[(size_t)i * (size_t)n + (size_t)i] = 1;
    for (int k = n - 3; k >= 0; k--) {
        const double *v = vectors + (size_t)k * (size_t)n;
        int m = n - k - 1;
        memset(t, 0, (size_t)n * sizeof *t);
        for (int i = k + 1; i < n; i++) add_scaled(t + k + 1, z + (size_t)i * (size_t)n + k + 1, v[i], m);
        for (int i = k + 1; i < n; i++)
            add_scaled(z + (size_t)i * (size_t)n + k + 1, t + k + 1, -v[k] * v[i], m);
    }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++) {
            double *a = z + (size_t)i * (size_t)n + j, *b = z + (size_t)j * (size_t)n + i, keep = *a;
            *a = *b;
            *b = keep;
        }
}

static void turn(double *restrict a, double *restrict b, double c, double s, int n) {
    for (int k = 0; k < n; k++) {
        double f = b[k];
        b[k] = s * a[k] + c * f;
        a[k] = c * a[k] - s * f;
    }
}

/* One sweep of QL from m up to l. */
static void sweep(double *d, double *e, double *z, int n, int l, int m) {
    double g = (d[l + 1] - d[l]) / (2 * e[l]), r = hypot(g, 1), s = 1, c = 1, p = 0;
    g = d[m] - d[l] + e[l] / (g + copysign(r, g));
    for (int i = m - 1; i >= l; i--) {
        double f = s * e[i], b = c * e[i];
        e[i + 1] = r = hypot(f, g);
        if (!(r > 0)) {
            d[i + 1] -= p;
            e[m] = 0;
            return;
        }
        s = f / r;
        c = g / r;
        g = d[i + 1] - p;
        r = (d[i] - g) * s + 2 * c * b;
        p = s * r;
        d[i + 1] = g + p;
        g = c * r - b;
        turn(z + (size_t)i * (size_t)n, z + (size_t)(i + 1) * (size_t)n, c, s, n);
    }
    d[l] -= p;
    e[l] = g;
    e[m] = 0;
}

static bool diagonalise(double *d, double *e, double *z, int n) {
    for (int l = 0; l < n; l++) {
        for (int tries = 0;; tries++) {
            int m = l;
            while (m < n - 1 && fabs(e[m]) > 1e-15 * (fabs(d[m]) + fabs(d[m + 1]))) m++;
            if (m == l) break;
            if (tries == 100) return false;
            sweep(d, e, z, n, l, m);
        }
        if (!isfinite(d[l])) return false;
    }
    return true;
}

bool wane__basis_eigen(double *a, int n, double *values, double *work) {
    double *off = work + (size_t)n * (size_t)n, *p = off + n;
    reduce(a, n, values, off, work, p);
    gather(a, n, work, p);
    if (!diagonalise(values, off, a, n)) return false;
    for (int i = 0; i < n; i++) { /* descending, by selection: n exchanges of rows at most */
        int most = i;
        for (int j = i + 1; j < n; j++)
            if (values[j] > values[most]) most = j;
        if (most == i) continue;
        double keep = values[i];
        values[i] = values[most];
        values[most] = keep;
        double *x = a + (size_t)i * (size_t)n, *y = a + (size_t)most * (size_t)n;
        memcpy(work, x, (size_t)n * sizeof *x);
        memcpy(x, y, (size_t)n * sizeof *x);
        memcpy(y, work, (size_t)n * sizeof *x);
    }
    return true;
}

/* -------------------------------------------------------------------- balance */

/* c = a · b, n × n */
static void multiply(double *restrict c, const double *a, const double *b, int n) {
    memset(c, 0, (size_t)n * (size_t)n * sizeof *c);
    for (int from = 0; from < n; from += 64) { /* a strip of b stays in the cache */
        int to = from + 64 < n ? from + 64 : n;
        for (int i = 0; i < n; i++)
            for (int k = from; k < to; k++)
                add_scaled(c + (size_t)i * (size_t)n, b + (size_t)k * (size_t)n,
                           a[(size_t)i * (size_t)n + (size_t)k], n);
    }
}

/* a = L Lᵀ in place, the upper half zeroed. */
static bool cholesky(double *a, int n) {
    for (int i = 0; i < n; i++) {
        double *row = a + (size_t)i * (size_t)n;
        for (int j = 0; j <= i; j++) {
            const double *other = a + (size_t)j * (size_t)n;
            double s = row[j] - dot(row, other, j);
            if (j < i)
                row[j] = s / other[j];
            else if (s > 0)
                row[j] = sqrt(s);
            else
                return false; /* NaN too */
        }
        memset(row + i + 1, 0, (size_t)(n - i - 1) * sizeof *row);
    }
    return true;
}

static void transpose(double *to, const double *from, int n) {
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            to[(size_t)j * (size_t)n + (size_t)i] = from[(size_t)i * (size_t)n + (size_t)j];
}

/*
 * How much of the identity is mixed in. An eigenvalue of a sample covariance is off by about √(d / rows);
 * small ones, which count most here, by more. The share was looked at with 8,000 rows of three models.
 */
static double shrinkage(int d, int64_t rows) {
    double share = 0.5 * (double)d / (double)(rows > 0 ? rows : 1);
    return share < 0.02 ? 0.02 : share > 0.5 ? 0.5 : share;
}

/* L of the shrunk covariance. */
static bool factor_hidden(int d, const float *hidden, int64_t rows, double *l) {
    double trace = 0, mix = shrinkage(d, rows);
    size_t n = (size_t)d;
    for (size_t i = 0; i < n; i++) trace += (double)hidden[i * n + i];
    double level = trace / (double)d;
    if (!(level > 0) || !isfinite(level)) return false;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            l[i * n + j] = (1 - mix) * 0.5 * ((double)hidden[i * n + j] + (double)hidden[j * n + i]) / level +
                           (i == j ? mix : 0);
    return cholesky(l, d);
}

/* From eigenvectors (rows of u) and L: row j of P is u_j Lᵀ / √s_j, row j of T is √s_j u_j L⁻¹. */
static void fill_maps(int d, const double *u, const double *values, const double *l, float *t, float *p,
                      double *row) {
    size_t n = (size_t)d;
    double least = 1e-4 * sqrt(values[0] > 0 ? values[0] : 1);
    for (size_t j = 0; j < n; j++) {
        double s = values[j] > 0 ? sqrt(values[j]) : 0, root = sqrt(s > least ? s : least);
        const double *vector = u + j * n;
        for (size_t i = 0; i < n; i++) p[j * n + i] = (float)(dot(vector, l + i * n, d) / root);
        memcpy(row, vector, n * sizeof *row);
        for (size_t i = n; i-- > 0;) { /* x L = u, from the last column back */
            row[i] /= l[i * n + i];
            add_scaled(row, l + i * n, -row[i], (int)i);
        }
        for (size_t i = 0; i < n; i++) t[j * n + i] = (float)(row[i] * root);
    }
}

bool wane__basis_balance(int d, const float *hidden, int64_t rows, const double *weights, float *t,
                         float *p) {
    size_t n = (size_t)d, square = n * n;
    double *block = wane__alloc((3 * square + 4 * n) * sizeof *block);
    if (block == NULL) return false;
    double *l = block, *a = l + square, *work = a + square, *values = work + square + 3 * n;
    bool fine = factor_hidden(d, hidden, rows, l);
    if (fine) {
        multiply(a, weights, l, d);
        transpose(work, l, d);
        double *product = wane__alloc(square * sizeof *product);
        fine = product != NULL;
        if (fine) {
            multiply(product, work, a, d);
            memcpy(a, product, square * sizeof *a);
        }
        wane__free(product);
    }
    fine = fine && wane__basis_eigen(a, d, values, work);
    if (fine) fill_maps(d, a, values, l, t, p, work);
    wane__free(block);
    return fine;
}

/* ------------------------------------------------------------------- rotation */

bool wane__rotation_init(struct wane__rotation *rotation, int n, uint64_t seed) {
    *rotation = (struct wane__rotation){.n = n};
    rotation->order = wane__alloc(2 * (size_t)n * sizeof *rotation->order);
    rotation->sign = wane__alloc(3 * (size_t)n * sizeof *rotation->sign);
    if (rotation->order == NULL || rotation->sign == NULL) {
        wane__rotation_free(rotation);
        return false;
    }
    uint64_t at = 0;
    for (int i = 0; i < 3 * n; i++) rotation->sign[i] = wane__random_bits(seed, at++) & 1 ? 0.125f : -0.125f;
    for (int round = 0; round < 2; round++) {
        int32_t *order = rotation->order + (size_t)round * (size_t)n;
        for (int i = 0; i < n; i++) order[i] = i;
        for (int i = n - 1; i > 0; i--) {
            int j = (int)(wane__random_unit(seed, at++) * (i + 1));
            int32_t keep = order[i];
            order[i] = order[j];
            order[j] = keep;
        }
    }
    return true;
}

void wane__rotation_free(struct wane__rotation *rotation) {
    wane__free(rotation->order);
    wane__free(rotation->sign);
    *rotation = (struct wane__rotation){0};
}

/* One step of the transform between halves that are `stride` apart, over a block. */
static inline void butterfly(float *restrict x, int stride) {
    for (int i = 0; i < WANE__ROTATION_BLOCK; i += 2 * stride)
        for (int j = i; j < i + stride; j++) {
            float a = x[j], b = x[j + stride];
            x[j] = a + b;
            x[j + stride] = a - b;
        }
}

/* Signs carry the transform's 1/√64. */
static void round_of(float *x, const float *sign, int n) {
    for (int i = 0; i < n; i++) x[i] *= sign[i];
    for (int i = 0; i < n; i += WANE__ROTATION_BLOCK) {
        butterfly(x + i, 1);
        butterfly(x + i, 2);
        butterfly(x + i, 4);
        butterfly(x + i, 8);
        butterfly(x + i, 16);
        butterfly(x + i, 32);
    }
}

void wane__rotate(const struct wane__rotation *rotation, float *x, float *scratch) {
    int n = rotation->n;
    round_of(x, rotation->sign, n);
    for (int round = 0; round < 2; round++) {
        const int32_t *order = rotation->order + (size_t)round * (size_t)n;
        memcpy(scratch, x, (size_t)n * sizeof *x);
        for (int i = 0; i < n; i++) x[i] = scratch[order[i]];
        round_of(x, rotation->sign + (size_t)(round + 1) * (size_t)n, n);
    }
}
